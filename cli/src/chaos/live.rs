//! `interrex chaos live`: real processes, real faults, and what they came to.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use interrex_chaos::{
    checks::{Verdict, Violation},
    live::{self, Engine, Figures, LiveError, LiveOptions, LiveRun, Scenario},
};
use serde::Serialize;

use super::exporter;
use crate::{
    exit::{Done, Exit, Failure},
    local_cluster::{etcd, ports::Block},
    output::{self, Format, OutputArgs},
};

const EXAMPLES: &str = "\
Examples:
  interrex chaos live --list
  interrex chaos live --scenario leader-kill --seconds 60
  interrex chaos live --scenario leader-kill --kills 200 -o json
  interrex chaos live --scenario rolling-restart --seed 4711 --report out

Masters, agents and clients are processes of this program on 127.0.0.1, and everything between them goes through fault \
proxies on 127.0.0.2; no root is needed. The report directory holds a page to look at (report.html), the history (history.jsonl), the log of every process, \
the ledger of what really ran, and the command that repeats the run. The same seed tries the same faults at about the same \
times: real processes have their own will.

Exit codes: 0 everything holds, 1 something is broken, 2 a fault that was to be tried never happened.";

/// Violations that are shown; the summary has all.
const SHOWN_MAX: usize = 20;

/// Options of `interrex chaos live`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct LiveArgs {
    /// What to try; --list shows all
    #[arg(long, value_name = "NAME", required_unless_present = "list")]
    scenario: Option<Scenario>,
    /// Show all scenarios
    #[arg(long)]
    list: bool,
    /// How long faults go on; before and after that the cluster works undisturbed
    #[arg(long, value_name = "N", default_value_t = 30)]
    seconds: u64,
    /// Kill so many leaders, however long that takes; with leader-kill
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    kills: Option<u32>,
    /// Which faults, when, and what is submitted; random, and said, if not given
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Where everything goes; must be new or empty. A directory of its own beside the others if not given
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Where the masters keep their records: `raft`, or `etcd`, of which one is started
    #[arg(long, value_name = "ENGINE", default_value = "raft")]
    engine: Engine,
    /// Masters
    #[arg(long, value_name = "N", default_value_t = 3)]
    masters: u16,
    /// Agents
    #[arg(long, value_name = "N", default_value_t = 4)]
    agents: u16,
    /// Submissions a second, by all clients together
    #[arg(long, value_name = "R", default_value_t = 6.0)]
    rate: f64,
    /// Spark, as pip installs it (the folder `pyspark`), for spark-job. If not given, the newest that
    /// `scripts/fetch-spark.sh` has put into `$INTERREX_SPARK_CACHE` or `~/.cache/interrex/spark`
    #[arg(long, value_name = "DIR")]
    spark_home: Option<PathBuf>,
    /// Let masters wait five times as long for each other before they elect: for a machine that is busy with other
    /// things, where elections fail for that reason alone
    #[arg(long)]
    patient: bool,
    /// Serve the faults of the run for Prometheus at this address of this machine, such as 127.0.0.1:9400; off by default
    #[arg(long, value_name = "ADDRESS")]
    metrics_addr: Option<SocketAddr>,
    #[command(flatten)]
    output: OutputArgs,
}

/// What is printed with `-o json`.
#[derive(Debug, Serialize)]
struct Printed<'a> {
    verdict: Verdict,
    scenario: &'static str,
    seed: u64,
    command: String,
    report: &'a Path,
    missing: &'a [String],
    violations: Vec<&'a Violation>,
    #[serde(flatten)]
    figures: &'a Figures,
}

/// Runs a scenario and judges what happened.
pub(super) async fn run(args: LiveArgs) -> Done {
    let Some(scenario) = args.scenario.filter(|_| !args.list) else {
        return list(args.output.output);
    };
    let seed = args
        .seed
        .unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0 >> 32);
    let dir = args.report.clone();
    let dir = dir.unwrap_or_else(|| PathBuf::from(format!("chaos-{scenario}-{seed}")));
    let dir = std::path::absolute(&dir).map_err(|e| Failure::io(&dir.display().to_string(), &e))?;
    if args.engine == Engine::Etcd {
        etcd::check_installed()?;
    }
    let program = std::env::current_exe().map_err(|e| Failure::io("finding this program", &e))?;
    let block = Block::find()?;
    let options = LiveOptions {
        scenario,
        seconds: args.seconds,
        kills: args.kills,
        seed,
        dir,
        engine: args.engine,
        masters: args.masters,
        agents: args.agents,
        rate: args.rate,
        program,
        base_port: block.base(),
        kill_points: cfg!(feature = "kill-points"),
        spark_home: (scenario == Scenario::SparkJob)
            .then(|| args.spark_home.or_else(fetched_spark))
            .flatten(),
        patient: args.patient,
    };
    if let Some(address) = args.metrics_addr {
        exporter::serve(address, scenario).await?;
    }
    let mut tell = |text: &str| output::say(text);
    let run = live::run(&options, &mut tell).await.map_err(refused)?;
    super::check::report(&options.dir, &run.facts, &run.history, &run.judgement)?;
    print(&options, &run, args.output.output)?;
    Ok(super::check::exit(run.judgement.verdict))
}

/// The newest Spark that the project's script has fetched.
fn fetched_spark() -> Option<PathBuf> {
    let cache = std::env::var_os("INTERREX_SPARK_CACHE").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(home?.join(".cache/interrex/spark")))?;
    let folders = |dir: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let mut found: Vec<PathBuf> = folders(&cache)
        .iter()
        .flat_map(|version| folders(&version.join("lib")))
        .map(|python| python.join("site-packages/pyspark"))
        .filter(|home| home.join("jars").is_dir())
        .collect();
    found.sort();
    found.pop()
}

/// A run that could not be made proves nothing.
fn refused(error: LiveError) -> Failure {
    let exit = match error {
        LiveError::Option { .. } => Exit::Usage,
        LiveError::Io { .. } | LiveError::NotReady { .. } | LiveError::NoSpark => Exit::Undecided,
    };
    Failure::new(exit, error.to_string())
}

fn list(format: Format) -> Done {
    if format == Format::Json {
        let all = Scenario::ALL.map(|scenario| {
            let required = scenario.required();
            serde_json::json!({"name": scenario.name(), "says": scenario.says(), "required": required})
        });
        output::json(&all)?;
        return Ok(Exit::Ok);
    }
    let rows =
        Scenario::ALL.map(|scenario| vec![scenario.name().to_owned(), scenario.says().to_owned()]);
    output::table(&["SCENARIO", "WHAT IT TRIES"], rows.to_vec())?;
    Ok(Exit::Ok)
}

fn print(options: &LiveOptions, run: &LiveRun, format: Format) -> Result<(), Failure> {
    let figures = Figures::of(&run.history);
    if format == Format::Json {
        return output::json(&Printed {
            verdict: run.judgement.verdict,
            scenario: options.scenario.name(),
            seed: options.seed,
            command: options.command(),
            report: &options.dir,
            missing: &run.judgement.missing,
            violations: run.judgement.violations(),
            figures: &figures,
        });
    }
    let faults = figures.faults.iter();
    let rows = faults.map(|(fault, count)| vec![fault.clone(), count.to_string()]);
    output::table(&["FAULT", "HITS"], rows.collect())?;
    output::data(&lines(&figures))?;
    let violations = run.judgement.violations();
    for violation in violations.iter().take(SHOWN_MAX) {
        let Violation {
            check, id, message, ..
        } = violation;
        let seconds = violation.seconds();
        output::data(&format!("  {check} at {seconds:.3} s: {id} {message}\n"))?;
    }
    for check in &run.judgement.checks {
        if let Some(why) = &check.undecided {
            output::data(&format!("{} is undecided: {why}\n", check.name))?;
        }
    }
    for fault in &run.judgement.missing {
        output::data(&format!("{fault} has never done anything\n"))?;
    }
    let verdict = match run.judgement.verdict {
        Verdict::Valid => format!("valid: {} properties hold", run.judgement.checks.len()),
        Verdict::Invalid => format!("invalid: {} violations", violations.len()),
        Verdict::Unknown => {
            "unknown: not everything was tried, or not everything can be told".to_owned()
        }
    };
    output::data(&format!("{verdict}\n"))?;
    output::say(&format!("repeat it: {}", options.command()));
    Ok(())
}

fn lines(figures: &Figures) -> String {
    let mut text = format!(
        "{} submissions: {} acknowledged, {} refused, {} unknown; {} lost, {} doubled, {} overlapping\n",
        figures.submitted,
        figures.acknowledged,
        figures.refused,
        figures.unknown,
        figures.lost,
        figures.doubled,
        figures.overlapping
    );
    text.push_str(&format!(
        "{} attempts started, {} done, {} orphans; {} reads; {} leaderships\n",
        figures.attempts, figures.finished, figures.orphans, figures.reads, figures.leaderships
    ));
    if let Some(times) = figures.failover {
        text.push_str(&format!(
            "{} of {} leader kills survived; failover median {:.2} s, p99 {:.2} s, worst {:.2} s\n",
            figures.kills_survived, figures.kills, times.median, times.p99, times.max
        ));
    }
    text
}
