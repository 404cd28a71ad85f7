//! `interrex bench`: measurements on this machine, as a table for people or one JSON object a line.
//!
//! Figures are printed, never asserted: a busy machine is no fault of the code. Each bench starts a cluster
//! of its own (real processes, a directory that is removed afterwards) unless it is told where one is, or needs none.

mod agents;
mod etcd;
mod failover;
mod join;
mod observe;
mod own;
mod process;
mod recover;
mod report;
mod schedule;
mod snapshot;
mod spark;
mod submit;

use clap::Subcommand;

use crate::{exit::Done, output::Format};

const EXAMPLES: &str = "\
Examples:
  interrex bench failover --rounds 20
  interrex bench failover --rounds 20 --mode transfer
  interrex bench submit --clients 1,16,64,256 --seconds 10
  interrex bench submit --rest --queued 50000
  interrex bench submit --engine etcd --compare-etcd
  interrex bench recover --drivers 100000
  interrex bench schedule --workers 2000 --apps 500 --queued 100000
  interrex bench snapshot --drivers 100000
  interrex bench join --drivers 100000 --clients 64
  interrex bench agents --count 5000 --failover
  interrex bench spark --spark-home /opt/spark-4.1.4
  interrex bench observe --drivers 10000

With -o json: one object a line, {\"bench\", \"params\", \"metrics\"}, times in seconds. Use a release build.";

const SPARK_EXAMPLES: &str = "\
Example:
  interrex bench spark --spark-home /opt/spark-4.1.4 --rounds 5

A row a figure, medians in seconds. Needs Java and Python. Everything runs on this machine: as many masters of each, one \
agent and one worker of 2 cores and 2 GiB, and one ZooKeeper for Spark's masters, from Spark's own jars.
lost_to_the_leader_kill: how much longer a job stands still when its leader dies together with its only executor than when \
the executor dies alone. Most of Spark's share is ZooKeeper's session (--zookeeper-session).";

/// Options of `interrex bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
    /// How to print results on stdout
    #[arg(short, long, global = true, value_enum, default_value = "table")]
    output: Format,
}

/// What to measure.
#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// From the end of the leader to the next acknowledged submission
    #[command(
        after_help = "Example:\n  interrex bench failover --rounds 20 --mode transfer -o json"
    )]
    Failover(failover::FailoverArgs),
    /// Acknowledged, durable submissions a second
    #[command(after_help = "Example:\n  interrex bench submit --clients 1,16 --rest")]
    Submit(submit::SubmitArgs),
    /// From the start of a master with many stored drivers until it leads
    #[command(after_help = "Example:\n  interrex bench recover --drivers 100000")]
    Recover(recover::RecoverArgs),
    /// What one decision of the scheduler costs, by the size of the cluster; no cluster is started
    #[command(
        after_help = "Example:\n  interrex bench schedule --workers 2000,10000 --apps 500,2000"
    )]
    Schedule(schedule::ScheduleArgs),
    /// Saving a snapshot, and restoring it into a new cluster
    #[command(after_help = "Example:\n  interrex bench snapshot --drivers 100000")]
    Snapshot(snapshot::SnapshotBenchArgs),
    /// How long a fresh master takes to join under load, and what that costs the others
    #[command(after_help = "Example:\n  interrex bench join --drivers 100000 --clients 64")]
    Join(join::JoinArgs),
    /// What many agents cost the leader, and how punctual their heartbeats are
    #[command(after_help = "Example:\n  interrex bench agents --count 5000 --failover")]
    Agents(agents::AgentsArgs),
    /// Jobs of unmodified Spark on Interrex and on Spark's own masters with ZooKeeper, side by side
    #[command(after_help = SPARK_EXAMPLES)]
    Spark(spark::SparkArgs),
    /// What being looked at costs (scrapes, an open page, a followed log), and how quick the overview is
    #[command(after_help = "Example:\n  interrex bench observe --rounds 10 --seconds 5")]
    Observe(observe::ObserveArgs),
}

/// Runs `interrex bench`.
pub(crate) async fn run(args: BenchArgs) -> Done {
    let format = args.output;
    match args.command {
        BenchCommand::Failover(args) => failover::run(args, format).await,
        BenchCommand::Submit(args) => submit::run(args, format).await,
        BenchCommand::Recover(args) => recover::run(args, format).await,
        BenchCommand::Schedule(args) => schedule::run(&args, format),
        BenchCommand::Snapshot(args) => snapshot::run(args, format).await,
        BenchCommand::Join(args) => join::run(args, format).await,
        BenchCommand::Agents(args) => agents::run(args, format).await,
        BenchCommand::Spark(args) => spark::run(args, format).await,
        BenchCommand::Observe(args) => observe::run(args, format).await,
    }
}
