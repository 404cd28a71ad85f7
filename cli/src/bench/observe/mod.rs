//! `bench observe`: what it costs to be looked at, and how quick the overview is with many drivers.
//!
//! Submissions a second, alternately with nobody looking and with a scrape of every master each second, an open overview page
//! and a followed log, on one cluster. What grows meanwhile weighs on both sides alike: rounds begin with either in turn.
//! What else the machine does meanwhile does not: that is why the time on processors for each submission stands beside
//! the rates, of the cluster and of this process, whose clients submit and look.

mod overview;
mod watchers;

use std::time::Duration;

use interrex_client::control::ControlClient;
use interrex_proto::v1::{CommandLine, DriverSpec};
use tokio_util::sync::CancellationToken;

use self::watchers::{Seen, Watchers};
use super::{
    own::Own,
    process,
    report::{Report, Times, print},
    submit::{Measured, fill, grpc_targets, measure_until},
};
use crate::{
    exit::{Done, Exit, Failure},
    local_cluster::LocalCluster,
    master::EngineKind,
    output::{self, Format},
};

/// How long the driver whose log is followed may take until it runs.
const RUNNING_WITHIN: Duration = Duration::from_secs(60);
/// What it writes: a line ten times a second.
const CHATTER: &str =
    "i=0; while :; do i=$((i+1)); echo \"line $i of a log that is followed\"; sleep 0.1; done";

/// Options of `interrex bench observe`.
#[derive(Debug, clap::Args)]
pub(super) struct ObserveArgs {
    /// Clients that submit
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// How long each part of a round is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Rounds of two parts: nobody looks, everybody looks
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Drivers that are queued first
    #[arg(long, default_value_t = 10_000)]
    drivers: usize,
    /// How often the overview is loaded for its own figures
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    loads: u32,
}

/// One side of the comparison.
#[derive(Debug)]
struct Side {
    acknowledged: u64,
    seconds: f64,
    times: Times,
    spent: Spent,
}

/// Time on processors.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    /// Of all masters and agents.
    cluster: Duration,
    /// Of this process.
    bench: Duration,
}

/// Runs the bench.
pub(super) async fn run(args: ObserveArgs, format: Format) -> Done {
    let mut own = Own::start_with_agents(3, 1, EngineKind::Raft).await?;
    let masters = own.cluster.layout().masters_list();
    let client = own.client()?;
    let driver = talkative(&client).await?;
    fill(&masters, args.drivers).await?;
    let webs: Vec<String> = own
        .cluster
        .layout()
        .masters
        .iter()
        .map(|m| m.web.clone())
        .collect();
    let leader = leader_web(&client).await?;
    let page = overview::measure(&leader, args.loads).await?;
    print(&[page.param("drivers", args.drivers)], format)?;

    let (mut alone, mut watched) = (Side::new()?, Side::new()?);
    let mut seen = Seen::default();
    for round in 0..args.rounds {
        for looking in [round % 2 == 1, round % 2 == 0] {
            let watchers = match looking {
                true => Some(Watchers::start(&webs, &leader, &driver).await?),
                false => None,
            };
            let before = Spent::by_now(&own.cluster)?;
            let measured = part(&masters, &args).await?;
            let spent = Spent::by_now(&own.cluster)?.since(before);
            if let Some(watchers) = watchers {
                seen += watchers.stop().await?;
                watched.add(&measured, spent);
            } else {
                alone.add(&measured, spent);
            }
        }
        let (a, b) = (alone.per_second(), watched.per_second());
        output::say(&format!(
            "after round {}: {a:.0} a second alone, {b:.0} watched, ratio {:.4}",
            round + 1,
            b / a
        ));
    }
    own.cluster.stop().await;
    let report = Report::new("observe")
        .param("clients", args.clients)
        .param("rounds", args.rounds)
        .param("seconds", args.seconds)
        .metric("ratio", watched.per_second() / alone.per_second())
        .metric("alone_per_second", alone.per_second().round())
        .metric("watched_per_second", watched.per_second().round())
        .named_times("alone", &alone.times)
        .named_times("watched", &watched.times)
        .metric("alone_cpu_seconds", alone.each(alone.spent.cluster))
        .metric("watched_cpu_seconds", watched.each(watched.spent.cluster))
        .metric("alone_bench_cpu_seconds", alone.each(alone.spent.bench))
        .metric(
            "watched_bench_cpu_seconds",
            watched.each(watched.spent.bench),
        )
        .metric("scrapes", seen.scrapes)
        .metric("pages", seen.pages)
        .metric("log_bytes", seen.log_bytes);
    print(&[report], format)?;
    Ok(Exit::Ok)
}

async fn part(masters: &str, args: &ObserveArgs) -> Result<Measured, Failure> {
    let over = CancellationToken::new();
    let targets = grpc_targets(masters, args.clients)?;
    let clock = async {
        tokio::time::sleep(Duration::from_secs(args.seconds)).await;
        over.cancel();
    };
    let (measured, ()) = tokio::join!(measure_until(&over, targets, args.clients), clock);
    measured
}

/// Starts the driver whose log is followed; it takes the only core that there is, so that all others wait.
async fn talkative(client: &ControlClient) -> Result<String, Failure> {
    let spec = DriverSpec {
        name: "talkative".to_owned(),
        user: "bench".to_owned(),
        command: Some(CommandLine {
            program: "sh".to_owned(),
            args: vec!["-c".to_owned(), CHATTER.to_owned()],
            ..CommandLine::default()
        }),
        cores: 1,
        memory_mib: 64,
        ..DriverSpec::default()
    };
    let id = interrex_client::new_request_id();
    client.submit(&id, spec).await?;
    let running = async {
        loop {
            let status = client.status(&id, false).await?;
            match status.driver {
                Some(driver) if driver.state == "RUNNING" => return Ok(driver.id),
                Some(_) | None => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    let waited = tokio::time::timeout(RUNNING_WITHIN, running).await;
    waited.map_err(|_elapsed| Failure::failed("the driver with the log does not run"))?
}

async fn leader_web(client: &ControlClient) -> Result<String, Failure> {
    let seen = client.cluster().await?;
    let leader = seen.masters.into_iter().find(|m| m.id == seen.leader);
    let leader = leader.ok_or_else(|| Failure::new(Exit::NoLeader, "nobody leads"))?;
    Ok(leader.web)
}

// === impl Side ===

impl Side {
    fn new() -> Result<Self, Failure> {
        Ok(Self {
            acknowledged: 0,
            seconds: 0.0,
            times: Times::new()?,
            spent: Spent::default(),
        })
    }

    fn add(&mut self, part: &Measured, spent: Spent) {
        self.spent.cluster += spent.cluster;
        self.spent.bench += spent.bench;
        self.acknowledged += part.times.count();
        self.seconds += part.elapsed.as_secs_f64();
        self.times.merge(&part.times);
    }

    fn per_second(&self) -> f64 {
        self.count() / self.seconds.max(f64::EPSILON)
    }

    /// The part of one submission, in seconds.
    fn each(&self, spent: Duration) -> f64 {
        spent.as_secs_f64() / self.count().max(1.0)
    }

    fn count(&self) -> f64 {
        f64::from(u32::try_from(self.acknowledged).unwrap_or(u32::MAX))
    }
}

// === impl Spent ===

impl Spent {
    fn by_now(cluster: &LocalCluster) -> Result<Self, Failure> {
        let ids = [cluster.master_ids(), cluster.agent_ids()].concat();
        let mut of_cluster = Duration::ZERO;
        for pid in ids.iter().filter_map(|id| cluster.pid(id)) {
            of_cluster += process::cpu_time(pid)?;
        }
        Ok(Self {
            cluster: of_cluster,
            bench: process::cpu_time(std::process::id())?,
        })
    }

    fn since(self, before: Self) -> Self {
        Self {
            cluster: self.cluster.saturating_sub(before.cluster),
            bench: self.bench.saturating_sub(before.bench),
        }
    }
}
