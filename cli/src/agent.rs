//! `interrex agent`: options, start, orderly end.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
    time::Duration,
};

use interrex_agent::{Agent, AgentError, AgentOptions, cleanup::plan::Limits, spark::SparkHome};
use interrex_client::masters;
use interrex_proto::v1::ResourceAddresses;
use tokio_util::sync::CancellationToken;

use crate::{
    exit::{Done, Exit, Failure},
    logging, metrics,
    shutdown::Shutdown,
    token::TokenArgs,
    units::{MemoryMib, is_loopback, parse_address, parse_memory, parse_resource, parse_size},
};

const EXAMPLES: &str = "\
Examples:
  interrex agent --masters 127.0.0.1:7077 --work-dir /var/lib/interrex/work
  interrex agent --masters a:7077,b:7077,c:7077 --cores 8 --memory 32GiB --resource gpu=0,1 \\
      --web 10.0.0.9:8081 --insecure
  interrex agent --masters a:7077 --work-dir /work --work-retention 2d --work-max 50GiB --work-min-free 2GiB

SIGTERM ends all processes of the agent (SIGTERM, then SIGKILL), reports their ends and stops; a second signal \
stops at once. An agent that is killed takes its processes along. One that loses its masters keeps them, and \
keeps trying.";

/// Options of `interrex agent`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AgentArgs {
    /// The masters: `A,B,C` or `spark://A,B,C`
    #[arg(long, env = "INTERREX_MASTERS", value_name = "A,B,C")]
    masters: String,
    /// Cores to offer; all of this machine if not given
    #[arg(long, env = "INTERREX_AGENT_CORES", value_parser = clap::value_parser!(u32).range(1..))]
    cores: Option<u32>,
    /// Memory to offer; three quarters of this machine's if not given
    #[arg(long, env = "INTERREX_AGENT_MEMORY", value_parser = parse_memory)]
    memory: Option<MemoryMib>,
    /// Where logs, results and the agent's own state are kept
    #[arg(long, env = "INTERREX_AGENT_WORK_DIR", value_name = "D")]
    work_dir: PathBuf,
    /// The worker's id; made up once, and kept in the work directory, if not given
    #[arg(long, env = "INTERREX_AGENT_ID")]
    pub(crate) id: Option<String>,
    /// The name under which others reach this machine; its host name if not given
    #[arg(long, env = "INTERREX_AGENT_HOST")]
    host: Option<String>,
    /// A custom resource to offer, such as gpu=0,1; may be repeated
    #[arg(long, env = "INTERREX_AGENT_RESOURCE", value_name = "NAME=A,B")]
    #[arg(value_parser = parse_resource)]
    resource: Vec<ResourceAddresses>,
    /// An installation of Spark to offer, one of each line (3.5, 4.1 ...), which its jars say; with NAME= they are not read,
    /// and masters with --spark-probe run there what they do not know; may be repeated
    #[arg(
        long,
        env = "INTERREX_AGENT_SPARK_HOME",
        value_name = "[NAME=]DIR",
        value_delimiter = ':'
    )]
    spark_home: Vec<SparkHome>,
    /// Where logs, health and metrics are served
    #[arg(
        long,
        env = "INTERREX_AGENT_WEB",
        value_name = "ADDR",
        default_value = "127.0.0.1:8081"
    )]
    #[arg(value_parser = parse_address)]
    web: String,
    /// How long a process may take from SIGTERM to its end before SIGKILL
    #[arg(
        long,
        env = "INTERREX_AGENT_KILL_GRACE",
        value_name = "TIME",
        default_value = "10s"
    )]
    #[arg(value_parser = humantime::parse_duration)]
    kill_grace: Duration,
    /// How long the directory of something that is over is kept after its last change
    #[arg(
        long,
        env = "INTERREX_AGENT_WORK_RETENTION",
        value_name = "TIME",
        default_value = "7d"
    )]
    #[arg(value_parser = humantime::parse_duration)]
    work_retention: Duration,
    /// What all directories of drivers and executors may hold together: beyond it the oldest of those that are over go,
    /// and no new work is accepted where that is not enough; no limit if not given
    #[arg(long, env = "INTERREX_AGENT_WORK_MAX", value_name = "SIZE", value_parser = parse_memory)]
    work_max: Option<MemoryMib>,
    /// What is kept free on the disk of the work directory, in the same way; `0` for nothing
    #[arg(
        long,
        env = "INTERREX_AGENT_WORK_MIN_FREE",
        value_name = "SIZE",
        default_value = "256MiB"
    )]
    #[arg(value_parser = parse_size)]
    work_min_free: u64,
    #[command(flatten)]
    token: TokenArgs,
    /// Spark's settings, as in `spark-defaults.conf`: what they say about a worker becomes the default of the options here
    #[arg(long, env = "INTERREX_AGENT_SPARK_DEFAULTS", value_name = "FILE")]
    // Read before the command line is: config/spark_defaults.rs.
    spark_defaults: Option<PathBuf>,
    /// Serve on an address that others can reach, without encryption or passwords
    #[arg(long, env = "INTERREX_AGENT_INSECURE")]
    insecure: bool,
}

/// Runs `interrex agent` until it is asked to stop.
pub(crate) async fn run(args: AgentArgs) -> Done {
    let options = options(args)?;
    let mut shutdown = Shutdown::listen()?;
    let stop = CancellationToken::new();
    let running = Agent::start(options, stop.clone())
        .await
        .map_err(|e| refused(&e))?;
    let signal = shutdown.asked().await;
    tracing::info!(signal, "stopping: ending all processes");
    stop.cancel();
    tokio::select! {
        () = running.stopped() => {}
        signal = shutdown.asked() => {
            tracing::warn!(signal, "stopping at once");
            return Ok(Exit::Failed);
        }
    }
    Ok(Exit::Ok)
}

fn options(args: AgentArgs) -> Result<AgentOptions, Failure> {
    if !args.insecure && !is_loopback(&args.web) {
        return Err(needs_insecure("--web", &args.web));
    }
    let defaults = AgentOptions::default();
    let masters = masters::parse([&args.masters]).map_err(|e| Failure::usage(e.to_string()))?;
    let memory_mib = match args.memory {
        Some(memory) => memory.0,
        None => machine_memory_mib().unwrap_or(defaults.memory_mib),
    };
    let resources: BTreeMap<_, _> = args
        .resource
        .into_iter()
        .map(|r| (r.name, r.addresses))
        .collect();
    Ok(AgentOptions {
        masters,
        credentials: args.token.lasting()?,
        cores: args.cores.unwrap_or_else(machine_cores),
        memory_mib,
        work_dir: args.work_dir,
        id: args.id,
        host: args.host.unwrap_or_else(|| defaults.host.clone()),
        resources,
        spark_homes: args.spark_home,
        web: resolve("--web", &args.web)?,
        kill_grace: args.kill_grace,
        work: Limits {
            retention: args.work_retention,
            bytes_max: args.work_max.map(|max| max.0.saturating_mul(1 << 20)),
            free_bytes_min: args.work_min_free,
        },
        prometheus: Some(metrics::install()?),
        log: Some(logging::control()),
        ..defaults
    })
}

fn refused(error: &AgentError) -> Failure {
    let exit = match error {
        AgentError::Options(_)
        | AgentError::Session(_)
        | AgentError::Spark { .. }
        | AgentError::SparkTwice { .. }
        | AgentError::SparkTooMany { .. } => Exit::Usage,
        AgentError::State(_) | AgentError::Leftovers { .. } | AgentError::Web { .. } => {
            Exit::Failed
        }
    };
    Failure::new(exit, crate::exit::chain(error))
}

/// The refusal of an address that others can reach.
pub(crate) fn needs_insecure(option: &str, address: &str) -> Failure {
    Failure::usage(format!(
        "{option} {address} can be reached from other machines, without encryption or passwords; \
         use a loopback address, or say --insecure"
    ))
}

/// The first socket address that `address` stands for.
///
/// # Errors
/// A name that does not resolve.
pub(crate) fn resolve(option: &str, address: &str) -> Result<SocketAddr, Failure> {
    let found = address.to_socket_addrs().map_err(|e| e.to_string());
    let first = found.and_then(|mut all| all.next().ok_or_else(|| "no such address".to_owned()));
    first.map_err(|why| Failure::usage(format!("{option} {address}: {why}")))
}

fn machine_cores() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(cores).unwrap_or(1)
}

/// Three quarters of the machine's memory; `None` where the system does not say how much it has.
fn machine_memory_mib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    let share = kib / 1024 * 3 / 4;
    Some(share.max(1))
}
