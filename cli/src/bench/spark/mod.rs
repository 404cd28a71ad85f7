//! `bench spark`: unmodified Spark on Interrex and on Spark's own masters, side by side.
//!
//! Both have as many masters and one machine's worth of executors; Spark's masters agree through a ZooKeeper that is
//! started from the jars that Spark ships. The same jobs run on one and then on the other, round by round, from the same
//! installation of Spark, so that what the machine does meanwhile touches both.

mod job;
mod ours;
mod program;
mod theirs;

use std::{path::PathBuf, time::Duration};

use self::{
    job::{Job, Said},
    ours::Ours,
    program::Program,
    theirs::Theirs,
};
use super::report::{Report, Times, print};
use crate::{
    exit::{Done, Exit, Failure},
    output::{self, Format},
};

/// Steps of a job that is timed from its start to its end.
const STEPS: u32 = 10;
/// Tasks of a step: one after another, the application has one core.
const TASKS: u32 = 4;
/// How long a task takes.
const TASK: Duration = Duration::from_millis(50);
/// Steps of a job that loses what it runs on: more than it will ever come to.
const ENDLESS: u32 = 1_000_000;
/// Steps that such a job takes before and after, so that it is known to work.
const WARM_STEPS: u32 = 3;

/// Options of `interrex bench spark`.
#[derive(Debug, clap::Args)]
pub(super) struct SparkArgs {
    /// The installation of Spark: where its `bin` and `jars` are
    #[arg(long, value_name = "DIR", env = "SPARK_HOME")]
    spark_home: PathBuf,
    /// Python of the job
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,
    /// How often everything is measured, after one round that does not count
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Masters of each
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=7))]
    masters: u16,
    /// The longest session that ZooKeeper grants: after so long it takes a master that is silent for dead. The default
    /// is ZooKeeper's
    #[arg(long, value_name = "TIME", default_value = "40s", value_parser = humantime::parse_duration)]
    zookeeper_session: Duration,
}

/// What jobs run on.
#[derive(Debug)]
enum System {
    Interrex(Box<Ours>),
    Spark(Box<Theirs>),
}

/// What was measured on one of them.
#[derive(Debug)]
struct Figures {
    /// From `spark-submit` to the first executor at the driver.
    first_executor: Times,
    /// From there to the end of the last step.
    steps: Times,
    /// From `spark-submit` to its end.
    whole: Times,
    /// From the death of the only executor to the next step.
    executor_lost: Times,
    /// From the death of the leader and, at the same moment, of the only executor, to the next step.
    leader_lost: Times,
}

/// Runs the bench.
pub(super) async fn run(args: SparkArgs, format: Format) -> Done {
    let program = Program::new(&args.spark_home, &args.python)?;
    let ours = Ours::start(args.masters, &args.spark_home).await?;
    let theirs = Theirs::start(&program, args.masters, args.zookeeper_session).await?;
    let mut systems = [
        System::Interrex(Box::new(ours)),
        System::Spark(Box::new(theirs)),
    ];
    let mut all = [Figures::new()?, Figures::new()?];
    for round in 0..=args.rounds {
        let mut ignored = [Figures::new()?, Figures::new()?];
        let counted = if round == 0 { &mut ignored } else { &mut all };
        let mut turns: Vec<_> = systems.iter_mut().zip(counted).collect();
        // What the one leaves behind for the other, it leaves behind as often as it finds it.
        if round % 2 == 1 {
            turns.reverse();
        }
        for (system, figures) in turns {
            one_round(&program, system, figures, round).await?;
        }
    }
    for system in &mut systems {
        system.stop().await;
    }
    let [ours, theirs] = all;
    print(&reports(&args, &ours, &theirs), format)?;
    Ok(Exit::Ok)
}

async fn one_round(
    program: &Program,
    system: &mut System,
    figures: &mut Figures,
    round: u32,
) -> Result<(), Failure> {
    let name = system.name();
    let say = |what: &str, took: Duration| {
        output::say(&format!(
            "round {round}, {name}: {what} {}",
            output::seconds(took)
        ));
    };
    let mut job = Job::start(program, &system.url(), [STEPS, TASKS], TASK)?;
    let executor = job.until(Said::is_executor, "an executor").await?;
    let last = job
        .until(|said| said.is_step(STEPS - 1), "the last step")
        .await?;
    let end = job.end().await?;
    say("first executor after", executor.duration_since(job.began));
    figures
        .first_executor
        .add(executor.duration_since(job.began));
    figures.steps.add(last.duration_since(executor));
    figures.whole.add(end.duration_since(job.began));

    let mut job = Job::start(program, &system.url(), [ENDLESS, TASKS], TASK)?;
    let took = job.without_executor(|| Ok(())).await?;
    say("goes on after its executor's death within", took);
    figures.executor_lost.add(took);
    let leader = system.leader().await?;
    let took = job.without_executor(|| system.kill(&leader)).await?;
    say(
        "goes on after the leader's and its executor's death within",
        took,
    );
    figures.leader_lost.add(took);
    job.kill().await;
    // The first round makes everybody warm; a failover more or less makes nobody warmer.
    system.restore(&leader).await
}

fn reports(args: &SparkArgs, ours: &Figures, theirs: &Figures) -> Vec<Report> {
    let measured = [
        (
            "submit_to_first_executor",
            median(&ours.first_executor),
            median(&theirs.first_executor),
        ),
        (
            "steps_of_the_job",
            median(&ours.steps),
            median(&theirs.steps),
        ),
        ("whole_job", median(&ours.whole), median(&theirs.whole)),
        (
            "executor_killed",
            median(&ours.executor_lost),
            median(&theirs.executor_lost),
        ),
        (
            "leader_and_executor_killed",
            median(&ours.leader_lost),
            median(&theirs.leader_lost),
        ),
        ("lost_to_the_leader_kill", ours.lost(), theirs.lost()),
    ];
    let report = |(figure, ours, theirs): (&str, f64, f64)| {
        Report::new("spark")
            .param("figure", figure)
            .param("rounds", args.rounds)
            .param("masters", args.masters)
            .metric("interrex_seconds", ours)
            .metric("spark_seconds", theirs)
            .metric("spark_to_interrex", theirs / ours.max(f64::EPSILON))
    };
    measured.into_iter().map(report).collect()
}

fn median(times: &Times) -> f64 {
    times.at(0.5)
}

// === impl System ===

impl System {
    fn name(&self) -> &'static str {
        match self {
            Self::Interrex(_) => "interrex",
            Self::Spark(_) => "spark",
        }
    }

    /// For `--master`, with every master.
    fn url(&self) -> String {
        match self {
            Self::Interrex(ours) => ours.url(),
            Self::Spark(theirs) => theirs.url(),
        }
    }

    async fn leader(&self) -> Result<String, Failure> {
        match self {
            Self::Interrex(ours) => ours.leader().await,
            Self::Spark(theirs) => theirs.leader().await,
        }
    }

    /// SIGKILL.
    fn kill(&self, master: &str) -> Result<(), Failure> {
        match self {
            Self::Interrex(ours) => ours.kill(master),
            Self::Spark(theirs) => theirs.kill(master),
        }
    }

    /// Starts a master that was killed again, and waits until everything is as before.
    async fn restore(&mut self, master: &str) -> Result<(), Failure> {
        match self {
            Self::Interrex(ours) => ours.restore(master).await,
            Self::Spark(theirs) => theirs.restore(master).await,
        }
    }

    async fn stop(&mut self) {
        match self {
            Self::Interrex(ours) => ours.stop().await,
            // Its processes end with their handles.
            Self::Spark(_) => {}
        }
    }
}

// === impl Figures ===

impl Figures {
    fn new() -> Result<Self, Failure> {
        Ok(Self {
            first_executor: Times::new()?,
            steps: Times::new()?,
            whole: Times::new()?,
            executor_lost: Times::new()?,
            leader_lost: Times::new()?,
        })
    }

    /// What the death of the leader adds to that of an executor.
    fn lost(&self) -> f64 {
        (median(&self.leader_lost) - median(&self.executor_lost)).max(0.0)
    }
}
