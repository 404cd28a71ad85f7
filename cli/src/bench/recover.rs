//! `bench recover`: how long a master needs to lead again when much is stored, and how much memory it takes.

use std::time::{Duration, Instant};

use interrex_client::control::ControlClient;
use nix::sys::signal::Signal;

use super::{
    own::Own,
    process,
    report::{Report, print},
    submit::fill,
};
use crate::{
    exit::{Done, Exit, Failure},
    master::{EngineKind, engine_parser},
    output::{self, Format},
};

/// How long the start may take.
const LEAD_DEADLINE: Duration = Duration::from_secs(120);
/// How often the master is asked whether it leads.
const LEAD_INTERVAL: Duration = Duration::from_millis(5);

/// Options of `interrex bench recover`.
#[derive(Debug, clap::Args)]
pub(super) struct RecoverArgs {
    /// Drivers that are stored
    #[arg(long, default_value_t = 100_000)]
    drivers: usize,
    /// Where the master keeps its records
    #[arg(long, value_parser = engine_parser(), default_value = "raft")]
    engine: EngineKind,
    /// How often the master is started again
    #[arg(long, default_value_t = 3)]
    rounds: u32,
}

/// Runs the bench.
pub(super) async fn run(args: RecoverArgs, format: Format) -> Done {
    let mut own = Own::start(1, args.engine).await?;
    let masters = own.cluster.layout().masters_list();
    fill(&masters, args.drivers).await?;
    let queued = process::resident_bytes(pid(&own)?)?;
    let mut reports = Vec::new();
    for round in 1..=args.rounds {
        own.cluster.signal("m1", Signal::SIGKILL);
        own.cluster.wait_exit("m1").await?;
        let client = own.client()?;
        let began = Instant::now();
        own.cluster.spawn("m1")?;
        until_it_leads(&client).await?;
        let took = began.elapsed();
        output::say(&format!(
            "round {round}: leads after {}",
            output::seconds(took)
        ));
        reports.push(
            Report::new("recover")
                .param("drivers", args.drivers)
                .param("engine", args.engine.name())
                .param("round", round)
                .metric("lead_seconds", took.as_secs_f64())
                .metric("resident_bytes_when_queued", queued)
                .metric(
                    "resident_bytes_after_start",
                    process::resident_bytes(pid(&own)?)?,
                ),
        );
    }
    own.cluster.stop().await;
    print(&reports, format)?;
    Ok(Exit::Ok)
}

async fn until_it_leads(client: &ControlClient) -> Result<(), Failure> {
    let deadline = Instant::now() + LEAD_DEADLINE;
    while Instant::now() < deadline {
        if let Ok(seen) = client.cluster().await
            && seen.leader == "m1"
            && matches!(
                seen.state.as_str(),
                "RECOVERING" | "COMPLETING_RECOVERY" | "ALIVE"
            )
        {
            return Ok(());
        }
        tokio::time::sleep(LEAD_INTERVAL).await;
    }
    Err(Failure::new(
        Exit::Timeout,
        format!("no leader after {LEAD_DEADLINE:?}"),
    ))
}

fn pid(own: &Own) -> Result<u32, Failure> {
    let pid = own.cluster.pid("m1");
    pid.ok_or_else(|| Failure::failed("m1 does not run"))
}
