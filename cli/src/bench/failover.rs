//! `bench failover`: how long nobody can submit when the leader goes.
//!
//! Each round ends the leader and, from that moment on, submits one driver with a client that knows all
//! masters and has open connections to them, until it is acknowledged. Then the old leader is started again,
//! so that every round begins with all masters.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use interrex_client::control::ControlClient;
use nix::sys::signal::Signal;

use super::{
    own::{Own, queued_driver},
    report::{Report, Times, print},
};
use crate::{
    exit::{Done, Exit, Failure},
    master::{EngineKind, engine_parser},
    output::{self, Format},
};

/// How long the cluster may take to agree on the picture again between rounds.
const SETTLE_DEADLINE: Duration = Duration::from_secs(30);
/// How often it is asked.
const SETTLE_INTERVAL: Duration = Duration::from_millis(50);

/// How the leader goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// SIGKILL: nothing is handed over
    Kill,
    /// SIGTERM: it hands leadership over, then ends
    Sigterm,
    /// It is asked to hand leadership over, and stays
    Transfer,
}

/// Options of `interrex bench failover`.
#[derive(Debug, clap::Args)]
pub(super) struct FailoverArgs {
    /// How often
    #[arg(long, default_value_t = 20)]
    rounds: u32,
    /// How the leader goes
    #[arg(long, value_enum, default_value = "kill")]
    mode: Mode,
    /// Masters, 3 to 7
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(3..=7))]
    masters: u16,
    /// Where the masters keep their records: `raft` or `etcd`
    #[arg(long, value_parser = engine_parser(), default_value = "raft")]
    engine: EngineKind,
}

/// Runs the bench.
pub(super) async fn run(args: FailoverArgs, format: Format) -> Done {
    let mut own = Own::start(args.masters, args.engine).await?;
    let client = own.client()?;
    let mut times = Times::new()?;
    for round in 1..=args.rounds {
        let leader = settle(&own, &client).await?;
        let took = one_round(&mut own, &client, args.mode, &leader).await?;
        output::say(&format!(
            "round {round}: {leader} gone, {}",
            output::seconds(took)
        ));
        times.add(took);
    }
    own.cluster.stop().await;
    let report = Report::new("failover")
        .param("mode", args.mode.name())
        .param("engine", args.engine.name())
        .param("masters", args.masters)
        .param("rounds", args.rounds)
        .times(&times);
    print(&[report], format)?;
    Ok(Exit::Ok)
}

// === impl Mode ===

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Sigterm => "sigterm",
            Self::Transfer => "transfer",
        }
    }
}

async fn one_round(
    own: &mut Own,
    client: &ControlClient,
    mode: Mode,
    leader: &str,
) -> Result<Duration, Failure> {
    let began = Instant::now();
    match mode {
        Mode::Kill => own.cluster.signal(leader, Signal::SIGKILL),
        Mode::Sigterm => own.cluster.signal(leader, Signal::SIGTERM),
        Mode::Transfer => {
            client.transfer_leader(None).await?;
        }
    }
    if mode == Mode::Sigterm {
        // The old leader may still acknowledge; what counts is the first acknowledgement of another one.
        while acknowledged_by(client).await? == leader {}
    } else {
        submit(client).await?;
    }
    let took = began.elapsed();
    if mode != Mode::Transfer {
        own.cluster.wait_exit(leader).await?;
        own.cluster.spawn(leader)?;
        own.cluster.wait_ready(&[leader.to_owned()]).await?;
    }
    Ok(took)
}

async fn submit(client: &ControlClient) -> Result<(), Failure> {
    client
        .submit(&interrex_client::new_request_id(), queued_driver())
        .await?;
    Ok(())
}

/// Submits one driver and returns who leads afterwards.
async fn acknowledged_by(client: &ControlClient) -> Result<String, Failure> {
    submit(client).await?;
    Ok(client.cluster().await?.leader)
}

/// Waits until a leader is known and every master is healthy and caught up; returns the leader.
async fn settle(own: &Own, client: &ControlClient) -> Result<String, Failure> {
    let deadline = Instant::now() + SETTLE_DEADLINE;
    let masters = own.cluster.master_ids().len();
    loop {
        submit(client).await?;
        let seen = client.cluster().await?;
        let healthy = seen
            .masters
            .iter()
            .filter(|m| m.healthy && m.lag.unwrap_or(0) == 0)
            .count();
        if !seen.leader.is_empty() && healthy == masters {
            return Ok(seen.leader);
        }
        if Instant::now() >= deadline {
            return Err(Failure::new(
                Exit::Timeout,
                format!(
                    "only {healthy} of {masters} masters are healthy after {SETTLE_DEADLINE:?}"
                ),
            ));
        }
        tokio::time::sleep(SETTLE_INTERVAL).await;
    }
}
