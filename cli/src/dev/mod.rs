//! `interrex dev`: a whole cluster of real processes on this machine, in one terminal.

mod respawn;

use std::path::{Path, PathBuf};

use interrex_agent::spark::SparkHome;
use tokio::time::Instant;

use self::respawn::Respawns;
use crate::{
    connect::Connect,
    exit::{Done, Exit, Failure},
    local_cluster::{
        LocalCluster,
        child::{self, Exited},
        etcd::ETCD,
        layout::{HandedOn, Layout, Size},
        ports::{Block, Ports},
    },
    master::{EngineKind, engine_parser},
    output,
    shutdown::Shutdown,
    units::parse_memory,
};

const EXAMPLES: &str = "\
Examples:
  interrex dev
  interrex dev --masters 1 --engine sled
  interrex dev --engine etcd                        starts an etcd, too, if one is installed
  interrex dev --base-port 20000 --data-dir /tmp/try --respawn

Ports: masters 7077.. (RPC), 6066.. (REST), 8080.. (web); agents 8091.. (web and logs); an etcd 7097 and 7098. \
With --base-port P: P.., P+10.., P+20.., P+30.. and P+8.

The processes are listed in <data-dir>/cluster.json, their logs are in <data-dir>/logs. Ctrl-C stops everything; \
records stay in the data directory for the next run. When a process dies, the line that starts it again is said; \
--respawn does it at once. One that was started by hand is not stopped with the others.";

/// Options of `interrex dev`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DevArgs {
    /// Masters, 1 to 7
    #[arg(long, default_value_t = 3)]
    masters: u16,
    /// Agents, 0 to 20
    #[arg(long, default_value_t = 2)]
    agents: u16,
    /// Where the masters keep their records
    #[arg(long, value_parser = engine_parser(), default_value = "raft")]
    engine: EngineKind,
    /// Where records, work and logs go; kept between runs
    #[arg(long, default_value = ".interrex-dev", value_name = "D")]
    data_dir: PathBuf,
    /// Derive every port from this one; 0 finds a free block
    #[arg(long, value_name = "P")]
    base_port: Option<u16>,
    /// Start a process again when it has died
    #[arg(long)]
    respawn: bool,
    /// Cores that each agent offers
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    cores: u32,
    /// Memory that each agent offers
    #[arg(long, default_value = "4GiB", value_parser = checked_memory)]
    memory: String,
    /// An installation of Spark that each agent offers; may be repeated, one of each line
    #[arg(long, value_name = "[NAME=]DIR")]
    spark_home: Vec<SparkHome>,
}

fn checked_memory(text: &str) -> Result<String, String> {
    parse_memory(text).map(|_| text.to_owned())
}

/// Runs `interrex dev` until it is asked to stop.
pub(crate) async fn run(args: DevArgs, handed_on: HandedOn) -> Done {
    let mut shutdown = Shutdown::listen()?;
    let block = find_block(&args)?;
    let layout = layout(&args, block.as_ref())?.handing_on(handed_on);
    output::say(&format!(
        "starting {} masters and {} agents; logs in {}",
        args.masters,
        args.agents,
        args.data_dir.join("logs").display()
    ));
    let mut cluster = tokio::select! {
        started = LocalCluster::start(layout) => started?,
        // Dropping the half-started cluster ends its processes.
        signal = shutdown.asked() => return Err(Failure::failed(format!("{signal} while starting"))),
    };
    let watched = watch(&mut cluster, &mut shutdown, args.respawn).await;
    output::say(
        "stopping: agents, then masters, then etcd if there is one (again to stop at once)",
    );
    tokio::select! {
        () = cluster.stop() => {}
        _ = shutdown.asked() => {}
    }
    cluster.kill_all().await;
    watched?;
    output::say("stopped");
    Ok(Exit::Ok)
}

async fn watch(
    cluster: &mut LocalCluster,
    shutdown: &mut Shutdown,
    respawn: bool,
) -> Result<(), Failure> {
    introduce(cluster).await?;
    let mut respawns = Respawns::default();
    loop {
        tokio::select! {
            _ = shutdown.asked() => return Ok(()),
            exited = cluster.next_exit() => {
                report(cluster, &exited);
                if respawn {
                    let delay = respawns.schedule(&exited.id, Instant::now());
                    output::say(&format!("{} starts again in {delay:?}", exited.id));
                } else {
                    let line = cluster.shell_line(&exited.id);
                    output::say(&format!("  to start it again, in another terminal: {line}"));
                }
            }
            id = respawns.due() => match cluster.spawn(&id) {
                Ok(()) => {
                    respawns.started(&id, Instant::now());
                    let pid = cluster.pid(&id).unwrap_or_default();
                    output::say(&format!("{id} runs again, pid {pid}"));
                }
                Err(failure) => {
                    let delay = respawns.schedule(&id, Instant::now());
                    output::say(&format!("{}; trying again in {delay:?}", failure.message));
                }
            },
        }
    }
}

fn report(cluster: &LocalCluster, exited: &Exited) {
    let log = cluster.layout().log_file(&exited.id);
    output::say(&format!(
        "{} (pid {}) ended with {}",
        exited.id,
        exited.pid,
        exited.how()
    ));
    let killed = exited.status.is_some_and(|s| s.code().is_none());
    if !killed {
        output::say(&format!(
            "  the end of {}:\n{}",
            log.display(),
            child::tail(&log)
        ));
    }
}

fn find_block(args: &DevArgs) -> Result<Option<Block>, Failure> {
    let anew = args.base_port == Some(0) && Layout::remembered_base(&args.data_dir).is_none();
    if anew {
        Block::find().map(Some)
    } else {
        Ok(None)
    }
}

fn layout(args: &DevArgs, block: Option<&Block>) -> Result<Layout, Failure> {
    let ports = match (args.base_port, block) {
        (None, _) => Ports::DEFAULT,
        (Some(_), Some(block)) => Ports::from_base(block.base())?,
        (Some(0), None) => {
            Ports::from_base(Layout::remembered_base(&args.data_dir).unwrap_or_default())?
        }
        (Some(base), None) => Ports::from_base(base)?,
    };
    let size = Size {
        masters: args.masters,
        agents: args.agents,
        engine: args.engine,
        cores: args.cores,
        memory: args.memory.clone(),
    };
    let absolute_home = |home: &SparkHome| {
        let absolute = home.absolute();
        absolute.map_err(|e| Failure::io(&home.to_string(), &e))
    };
    let homes: Result<Vec<_>, Failure> = args.spark_home.iter().map(absolute_home).collect();
    Ok(Layout::new(absolute(&args.data_dir)?, size, ports)?.with_spark_homes(homes?))
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|e| Failure::io(&path.display().to_string(), &e))
}

/// One line a process, who leads, and lines to try.
async fn introduce(cluster: &LocalCluster) -> Result<(), Failure> {
    let layout = cluster.layout();
    let seen = Connect::to(&layout.masters_list())
        .client()?
        .cluster()
        .await?;
    let mut text = String::new();
    let mut line = |words: String| {
        text.push_str(&words);
        text.push('\n');
    };
    line(String::new());
    for m in &layout.masters {
        let pid = cluster.pid(&m.id).unwrap_or_default();
        let role = if m.id == seen.leader {
            "leader "
        } else {
            "standby"
        };
        line(format!(
            "{:<4} {role}  pid {pid:<8} rpc {}  rest http://{}  web http://{}",
            m.id, m.rpc, m.rest, m.web
        ));
    }
    for a in &layout.agents {
        let pid = cluster.pid(&a.id).unwrap_or_default();
        line(format!(
            "{:<4} agent    pid {pid:<8} web http://{}",
            a.id, a.web
        ));
    }
    if let Some(etcd) = &layout.etcd {
        let pid = cluster.pid(ETCD).unwrap_or_default();
        line(format!("{ETCD} store    pid {pid:<8} {}", etcd.url()));
    }
    let leader = cluster.pid(&seen.leader).unwrap_or_default();
    line(format!(
        "\n{} leads in epoch {}. Ready. In another terminal:\n",
        seen.leader, seen.epoch
    ));
    for try_line in lines_to_try(&layout.masters_list(), leader) {
        line(format!("  {try_line}"));
    }
    line("\nCtrl-C stops everything.".to_owned());
    output::data(&text)
}

fn lines_to_try(masters: &str, leader_pid: u32) -> Vec<String> {
    let mut lines = Vec::new();
    let program = std::env::current_exe().ok();
    if let Some(dir) = program.as_deref().and_then(Path::parent) {
        lines.push(format!("export PATH={}:$PATH", dir.display()));
    }
    lines.extend([
        format!("export INTERREX_MASTERS={masters}"),
        "interrex submit --wait -- sh -c 'echo hello from $INTERREX_DRIVER_ID'".to_owned(),
        "interrex list drivers".to_owned(),
        "interrex run --executors 4 -- sh -c 'echo executor $INTERREX_EXECUTOR_ID; sleep 3'"
            .to_owned(),
        "interrex cluster status".to_owned(),
        format!("kill -9 {leader_pid}      # the leader; then: interrex cluster status"),
    ]);
    lines
}
