//! One live run from its empty directory to its history, and what that is worth.

use std::{fs, io, time::Duration};

use serde_json::json;

use super::{
    clock::Clock,
    cluster::Cluster,
    collect, follow,
    journal::Journal,
    ledger::Ledger,
    load,
    observer::Observer,
    options::{Engine, LiveError, LiveOptions},
    places::{ETCD, Places},
    rest,
    stage::{Props, Stage},
    work::{AGENT_CORES, Site},
};
use crate::{
    checks::Judgement,
    history::{History, Op},
    report::{LogFile, RunFacts},
};

/// How long the cluster may take to be ready for the first time.
const READY_DEADLINE: Duration = Duration::from_secs(60);
/// How long clients work before anything is broken.
const WARM_UP: Duration = Duration::from_secs(1);
/// The file with the command that repeats the run.
const COMMAND_FILE: &str = "command.txt";

/// What a run has left.
#[derive(Debug)]
pub struct LiveRun {
    /// Everything that happened.
    pub history: History,
    /// What was run, for reports.
    pub facts: RunFacts,
    /// What it is worth.
    pub judgement: Judgement,
}

/// Runs a scenario. `tell` hears how far it is. To be called on the main thread's runtime: the processes die with the
/// thread that has started them.
///
/// # Errors
/// [`LiveError`] where the run cannot be made; whatever the cluster does wrong is in the history instead.
pub async fn run(
    options: &LiveOptions,
    tell: &mut (dyn FnMut(&str) + Send),
) -> Result<LiveRun, LiveError> {
    options.validate()?;
    let places = Places::new(options);
    prepare(options, &places)?;
    let journal = Journal::new(Clock::start());
    let ledger = Ledger::at(&places.ledger());
    ledger
        .create()
        .map_err(LiveError::io("the ledger's directory"))?;
    let run_id = format!("{}-{}", std::process::id(), journal.clock().began_us());
    let cluster = Cluster::new(places.clone(), options.engine, options.program.clone()).await?;
    let props = Props {
        cluster,
        observer: Observer::new(&places).map_err(LiveError::io("a client of the cluster"))?,
        journal: journal.clone(),
        seed: options.seed,
        site: Site {
            program: options.program.clone(),
            ledger: places.ledger(),
            run: run_id,
        },
        ledger,
        seconds: options.seconds,
        engine: options.engine,
        kill_points: options.kill_points,
    };
    let mut stage = Stage::new(props, tell);
    note_run(&stage, options);
    play(&mut stage, options).await?;
    let history = collect::history(&places, &journal, &stage.gone)
        .map_err(LiveError::io("putting the history together"))?;
    let facts =
        facts(options, &places).map_err(LiveError::io("looking for what processes have said"))?;
    let judgement = Judgement::of(&history, &facts.required);
    Ok(LiveRun {
        history,
        facts,
        judgement,
    })
}

/// What a report says of the run.
fn facts(options: &LiveOptions, places: &Places) -> io::Result<RunFacts> {
    let required = options.scenario.required().iter();
    let facts = RunFacts {
        name: options.scenario.name().to_owned(),
        seed: Some(options.seed),
        command: options.command(),
        required: required.map(|fault| (*fault).to_owned()).collect(),
        facts: Vec::new(),
        logs: collect::logs(places)?
            .into_iter()
            .map(|(name, path)| LogFile { name, path })
            .collect(),
    };
    let facts = facts
        .with("what it tries", options.scenario.says())
        .with("engine", options.engine)
        .with("masters", options.masters)
        .with("agents", options.agents)
        .with("submissions a second", options.rate)
        .with("version", env!("CARGO_PKG_VERSION"));
    Ok(facts)
}

fn prepare(options: &LiveOptions, places: &Places) -> Result<(), LiveError> {
    let dir = &options.dir;
    let used = fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some());
    if used {
        return Err(LiveError::Option {
            option: "--report",
            value: dir.display().to_string(),
            fix: "it is not empty: name another directory, or remove it".to_owned(),
        });
    }
    for dir in places.directories() {
        fs::create_dir_all(&dir).map_err(LiveError::io(dir.display().to_string()))?;
    }
    let path = dir.join(COMMAND_FILE);
    fs::write(&path, format!("{}\n", options.command()))
        .map_err(LiveError::io(path.display().to_string()))
}

fn note_run(stage: &Stage<'_>, options: &LiveOptions) {
    let value = json!({
        "scenario": options.scenario.name(), "seed": options.seed, "seconds": options.seconds,
        "masters": options.masters, "agents": options.agents, "engine": options.engine.name(),
        "rate": options.rate, "kills": options.kills, "command": options.command(),
        "required": options.scenario.required(), "version": env!("CARGO_PKG_VERSION"),
    });
    stage.journal.info("nemesis", Op::Run, "", value);
}

async fn play(stage: &mut Stage<'_>, options: &LiveOptions) -> Result<(), LiveError> {
    let (masters, agents) = (options.masters, options.agents);
    stage.say(&format!("starting {masters} masters and {agents} agents"));
    start_all(stage, options.engine).await?;
    load::start_submitters(stage, options.rate)?;
    load::start_app(stage)?;
    let control = stage.observer.control().clone();
    let follower = follow::follow("f1", control, stage.journal.clone());
    stage.pause(WARM_UP).await;
    stage.until = std::time::Instant::now() + Duration::from_secs(options.seconds);
    stage.say(&format!(
        "{}: {}",
        options.scenario,
        options.scenario.says()
    ));
    options.scenario.play(stage, options).await?;
    stage.say("nothing is broken any more: everything must come to rest");
    rest::heal(stage, options.engine).await?;
    rest::end_clients(stage).await;
    rest::converge(stage).await;
    rest::end_app(stage).await;
    rest::look_for_leftovers(stage).await;
    let submissions = submissions(stage)?;
    let count = submissions.len();
    stage.say(&format!(
        "asking after {count} submissions, comparing the masters' records"
    ));
    rest::ask_after_all(stage, &submissions).await;
    rest::compare_records(stage).await;
    follower.abort();
    rest::end_all(stage, options.engine).await;
    Ok(())
}

async fn start_all(stage: &mut Stage<'_>, engine: Engine) -> Result<(), LiveError> {
    let (masters, agents) = (stage.masters(), stage.agents());
    let etcd = (engine == Engine::Etcd).then(|| ETCD.to_owned());
    for node in etcd.iter().chain(&masters).chain(&agents) {
        stage.start(node)?;
    }
    for agent in &agents {
        let value = json!({"cores": AGENT_CORES, "memory_mib": 4096});
        stage.journal.info(agent, Op::Offer, "", value);
    }
    let observer = stage.observer.clone();
    let ready = stage
        .wait_until(READY_DEADLINE, async |_stage| {
            for node in &masters {
                if !observer.is_ready(node).await {
                    return Some(node.clone());
                }
            }
            let unwell = observer.agents_unwell(&agents).await;
            unwell.map(|complaint| complaint.split(' ').next().unwrap_or_default().to_owned())
        })
        .await;
    ready.map_err(|node| LiveError::NotReady {
        what: format!("{node} is not ready"),
        seconds: READY_DEADLINE.as_secs(),
        log: stage.cluster.places.log(&node).display().to_string(),
    })
}

/// Every submission that anybody has begun to make.
fn submissions(stage: &Stage<'_>) -> Result<Vec<String>, LiveError> {
    let made = collect::submissions(&stage.cluster.places)
        .map_err(LiveError::io("reading what clients have done"))?;
    Ok(made.into_iter().collect())
}
