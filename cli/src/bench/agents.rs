//! `bench agents`: what many agents cost the leader, and how punctual their heartbeats are.
//!
//! The agents are simulated in this process, but only where processes and disks are concerned: each one is the worker
//! machine of a real agent behind a session of its own, which dials every master. Everything shares one machine, so
//! what the agents themselves take is printed beside what the leader takes.

mod board;
mod simulated;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use interrex_client::control::ControlClient;
use nix::sys::signal::Signal;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    board::{Board, Tally},
    simulated::Simulated,
};
use super::{
    own::Own,
    process,
    report::{Report, print},
};
use crate::{
    exit::{Done, Exit, Failure},
    master::{EngineKind, engine_parser},
    open_files,
    output::{self, Format},
};

/// Agents that may be on their way to their first registration at the same time.
const STARTING_MAX: usize = 32;
/// How long all agents may take until the leader has taken them.
const REGISTERED_DEADLINE: Duration = Duration::from_secs(180);
/// How often that is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// How long agents may take to close their sessions.
const END_DEADLINE: Duration = Duration::from_secs(10);
/// Files that a process has open besides its sessions.
const OTHER_FILES: u64 = 512;

/// Options of `interrex bench agents`.
#[derive(Debug, clap::Args)]
pub(super) struct AgentsArgs {
    /// Agents
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=50_000))]
    count: u32,
    /// How long their heartbeats are measured; the first ones leave one interval (5 s) after the registration
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Kill the leader at the end, and measure until the next one has taken all agents
    #[arg(long)]
    failover: bool,
    /// Masters, 1 to 7
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=7))]
    masters: u16,
    /// Where the masters keep their records: `raft` or `etcd`
    #[arg(long, value_parser = engine_parser(), default_value = "raft")]
    engine: EngineKind,
}

/// What the processes took while heartbeats were measured.
#[derive(Debug)]
struct Cost {
    leader_cores: f64,
    leader_bytes: u64,
    agents_cores: f64,
}

/// The agents of one bench; they end when this is dropped.
#[derive(Debug)]
struct Crowd {
    board: Arc<Board>,
    count: usize,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// Runs the bench.
pub(super) async fn run(args: AgentsArgs, format: Format) -> Done {
    if args.failover && args.masters < 3 {
        return Err(Failure::usage(
            "--failover needs --masters 3 or more: with fewer nobody can take over",
        ));
    }
    // The masters inherit the limit, and each has one connection of every agent.
    open_files::require(u64::from(args.count) * u64::from(args.masters) + OTHER_FILES)?;
    let mut own = Own::start(args.masters, args.engine).await?;
    let began = Instant::now();
    let crowd = Crowd::start(&own.cluster.layout().masters_list(), args.count)?;
    crowd.until_all_are_attached(0).await?;
    let registered = began.elapsed();
    output::say(&format!(
        "{} agents are registered after {}",
        args.count,
        output::seconds(registered)
    ));
    let leader = leader(&own.client()?).await?;
    let (cost, tally) = measure(&own, &leader, &crowd, args.seconds).await?;
    let mut report = Report::new("agents")
        .param("agents", args.count)
        .param("masters", args.masters)
        .param("engine", args.engine.name())
        .param("seconds", args.seconds)
        .metric("registered_seconds", registered.as_secs_f64())
        .metric("leader_cpu_cores", cost.leader_cores)
        .metric("leader_resident_bytes", cost.leader_bytes)
        .metric("agents_cpu_cores", cost.agents_cores)
        .metric("heartbeats", tally.late.count())
        .metric("acknowledged", tally.round_trips.count())
        .metric("detached", tally.detached)
        .named_times("late", &tally.late)
        .named_times("round_trip", &tally.round_trips);
    if args.failover {
        let took = fail_over(&mut own, &leader, &crowd).await?;
        report = report.metric("registered_again_seconds", took.as_secs_f64());
    }
    crowd.end().await;
    own.cluster.stop().await;
    print(&[report], format)?;
    Ok(Exit::Ok)
}

/// Lets everything be for `seconds`, and looks at what it took.
async fn measure(
    own: &Own,
    leader: &str,
    crowd: &Crowd,
    seconds: u64,
) -> Result<(Cost, Tally), Failure> {
    let pid = own.cluster.pid(leader);
    let pid = pid.ok_or_else(|| Failure::failed(format!("{leader} does not run")))?;
    let me = std::process::id();
    drop(crowd.board.take()?);
    let began = Instant::now();
    let (before, mine) = (process::cpu_time(pid)?, process::cpu_time(me)?);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let tally = crowd.board.take()?;
    let elapsed = began.elapsed();
    let cores = |before, after: Duration| process::cores(after.saturating_sub(before), elapsed);
    let cost = Cost {
        leader_cores: cores(before, process::cpu_time(pid)?),
        leader_bytes: process::resident_bytes(pid)?,
        agents_cores: cores(mine, process::cpu_time(me)?),
    };
    Ok((cost, tally))
}

/// Kills the leader; the time until the next one has taken every agent.
async fn fail_over(own: &mut Own, leader: &str, crowd: &Crowd) -> Result<Duration, Failure> {
    let epoch = crowd.board.newest_epoch();
    let began = Instant::now();
    own.cluster.signal(leader, Signal::SIGKILL);
    crowd.until_all_are_attached(epoch + 1).await?;
    let took = began.elapsed();
    output::say(&format!(
        "{leader} was killed; all agents are registered again after {}",
        output::seconds(took)
    ));
    own.cluster.wait_exit(leader).await?;
    Ok(took)
}

async fn leader(client: &ControlClient) -> Result<String, Failure> {
    Ok(client.cluster().await?.leader)
}

// === impl Crowd ===

impl Crowd {
    /// Starts `count` agents of the masters in `masters`, and returns at once.
    fn start(masters: &str, count: u32) -> Result<Self, Failure> {
        let board = Arc::new(Board::new()?);
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let starting = Arc::new(Semaphore::new(STARTING_MAX));
        for number in 0..count {
            let agent = Simulated::new(number, masters.to_owned(), Arc::clone(&board));
            let (starting, stop) = (Arc::clone(&starting), stop.clone());
            tasks.spawn(async move {
                // Cancelled while it waits for its turn, or while it runs: both are its end.
                let turn = stop.run_until_cancelled(starting.acquire_owned()).await;
                if let Some(Ok(turn)) = turn {
                    agent.run(turn, stop).await;
                }
            });
        }
        tasks.close();
        Ok(Self {
            board,
            count: usize::try_from(count).unwrap_or(usize::MAX),
            tasks,
            stop,
        })
    }

    /// Waits until a leader of at least this epoch has taken every agent.
    async fn until_all_are_attached(&self, epoch: u64) -> Result<(), Failure> {
        let deadline = Instant::now() + REGISTERED_DEADLINE;
        loop {
            let attached = self.board.attached_since(epoch);
            if attached >= self.count {
                return Ok(());
            }
            if let Some(why) = self.board.fault() {
                return Err(Failure::failed(why));
            }
            if Instant::now() >= deadline {
                let of = self.count;
                let why = format!(
                    "{attached} of {of} agents are registered after {REGISTERED_DEADLINE:?}"
                );
                return Err(Failure::new(Exit::Timeout, why));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Ends all agents; those that take too long end with the process.
    async fn end(&self) {
        self.stop.cancel();
        let ended = tokio::time::timeout(END_DEADLINE, self.tasks.wait()).await;
        if ended.is_err() {
            tracing::warn!(left = self.tasks.len(), "agents have not ended in time");
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
