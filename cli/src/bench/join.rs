//! `bench join`: how long a fresh master takes to join a cluster under load, and what that costs the others.
//!
//! Submissions never pause: their rate and latency are measured before the new master starts, from its start until it
//! votes, and afterwards. It gets what is stored as a snapshot, as the log before it has been purged or is longer.

use std::time::{Duration, Instant};

use interrex_client::control::ControlClient;
use tokio_util::sync::CancellationToken;

use super::{
    own::Own,
    report::{Report, print},
    submit::{Measured, fill, grpc_targets, measure_until},
};
use crate::{
    connect::Connect,
    exit::{Done, Exit, Failure},
    master::EngineKind,
    output::{self, Format},
};

/// How long the new master may take to catch up.
const JOIN_DEADLINE: Duration = Duration::from_secs(600);

/// Options of `interrex bench join`.
#[derive(Debug, clap::Args)]
pub(super) struct JoinArgs {
    /// Drivers that are stored when the new master starts
    #[arg(long, default_value_t = 50_000)]
    drivers: usize,
    /// Clients that go on submitting
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    clients: u16,
    /// How long the load is measured before and after
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Masters that it joins, 1 to 6
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=6))]
    masters: u16,
}

/// The load in one of the three parts.
#[derive(Debug)]
struct Part {
    name: &'static str,
    measured: Measured,
}

/// Runs the bench.
pub(super) async fn run(args: JoinArgs, format: Format) -> Done {
    let mut own = Own::start(args.masters, EngineKind::Raft).await?;
    let masters = own.cluster.layout().masters_list();
    fill(&masters, args.drivers).await?;
    let before = loaded("before", &masters, args.clients, rest(args.seconds)).await?;
    let mut took = Duration::ZERO;
    let joining = async {
        took = join(&mut own, &masters).await?;
        Ok(())
    };
    let during = loaded("during", &masters, args.clients, joining).await?;
    let after = loaded("after", &masters, args.clients, rest(args.seconds)).await?;
    own.cluster.stop().await;
    let report = Report::new("join")
        .param("drivers", args.drivers)
        .param("masters", args.masters)
        .param("clients", args.clients)
        .metric("join_seconds", took.as_secs_f64());
    let parts = [before, during, after];
    let report = parts.iter().fold(report, |report, part| {
        report
            .metric(
                &format!("{}_per_second", part.name),
                part.measured.per_second(),
            )
            .named_times(part.name, &part.measured.times)
    });
    print(&[report], format)?;
    Ok(Exit::Ok)
}

/// Starts one more master, lets it in, and waits until it votes.
async fn join(own: &mut Own, masters: &str) -> Result<Duration, Failure> {
    let client: ControlClient = Connect::to(masters).client_within(JOIN_DEADLINE)?;
    let began = Instant::now();
    let (id, rpc) = own.cluster.spawn_joining(own.ports)?;
    client.add_master(&id, &rpc).await?;
    let took = began.elapsed();
    output::say(&format!("{id} votes after {}", output::seconds(took)));
    Ok(took)
}

/// Lets time pass.
async fn rest(seconds: u64) -> Result<(), Failure> {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    Ok(())
}

/// Submits for as long as `meanwhile` takes.
async fn loaded(
    name: &'static str,
    masters: &str,
    clients: u16,
    meanwhile: impl Future<Output = Result<(), Failure>>,
) -> Result<Part, Failure> {
    let over = CancellationToken::new();
    let targets = grpc_targets(masters, clients.into())?;
    let ended = async {
        let done = meanwhile.await;
        over.cancel();
        done
    };
    let (measured, done) = tokio::join!(measure_until(&over, targets, clients.into()), ended);
    done?;
    let measured = measured?;
    output::say(&format!("{name}: {} a second", measured.per_second()));
    Ok(Part { name, measured })
}
