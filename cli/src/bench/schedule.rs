//! `bench schedule`: what one decision costs, by the size of the cluster.
//!
//! Drives the leader's state directly: no I/O, no commits, one core. Applications are at their limit, as they are most
//! of the time: each has the executors that it asked for, and half of the cluster is free. With `--hungry` the cluster
//! is full instead, and every application, each with a demand of its own, wants more than there is.

mod load;

use std::time::Instant;

use interrex_core::{command::Command, config::EXECUTORS_PER_APP_MAX};
use load::{CORES_PER_WORKER, Load};

use super::report::{Report, Times, print};
use crate::{
    exit::{Done, Exit, Failure},
    output::{self, Format},
};

/// Options of `interrex bench schedule`.
#[derive(Debug, clap::Args)]
pub(super) struct ScheduleArgs {
    /// Workers, of 16 cores each; a list is measured one after the other
    #[arg(long, value_delimiter = ',', default_value = "200,2000,10000")]
    workers: Vec<u32>,
    /// Applications; each number is measured with each number of workers
    #[arg(long, value_delimiter = ',', default_value = "100,500,2000")]
    apps: Vec<u32>,
    /// Queue this many drivers that fit on no worker first
    #[arg(long, default_value_t = 0)]
    queued: u32,
    /// Fill the cluster, with applications that always want more
    #[arg(long)]
    hungry: bool,
    /// How often each event is measured
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    events: u32,
}

/// One size of a cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) workers: u32,
    pub(super) apps: u32,
    pub(super) queued: u32,
    pub(super) hungry: bool,
}

/// What is measured.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// An executor's process exists.
    ExecutorRunning,
    /// An executor has ended and another one is placed.
    ExecutorReplaced,
    /// A driver is submitted that finds a place.
    SubmissionPlaced,
    /// A driver is submitted that fits nowhere.
    SubmissionQueued,
}

const EVENTS: [Event; 4] = [
    Event::ExecutorRunning,
    Event::ExecutorReplaced,
    Event::SubmissionPlaced,
    Event::SubmissionQueued,
];

/// Runs the bench.
pub(super) fn run(args: &ScheduleArgs, format: Format) -> Done {
    let mut reports = Vec::new();
    for workers in &args.workers {
        for apps in &args.apps {
            let size = Size {
                workers: *workers,
                apps: *apps,
                queued: args.queued,
                hungry: args.hungry,
            };
            // Of several sizes, one that cannot be is passed over; alone, it is a mistake.
            match size.check() {
                Err(why) if args.workers.len() * args.apps.len() > 1 => {
                    output::say(&format!("passed over: {}", why.message));
                    continue;
                }
                checked => checked?,
            }
            let measured = measure(size, args.events)?;
            if format == Format::Json {
                print(&measured, format)?;
            }
            reports.extend(measured);
        }
    }
    if format == Format::Table {
        print(&reports, format)?;
    }
    Ok(Exit::Ok)
}

/// Builds one cluster and measures every event on it.
fn measure(size: Size, events: u32) -> Result<Vec<Report>, Failure> {
    let began = Instant::now();
    let mut load = Load::build(size);
    let executors = load.executors();
    output::say(&format!(
        "{} workers, {} applications with {executors} executors, {} queued drivers: built in {}",
        size.workers,
        size.apps,
        size.queued,
        output::seconds(began.elapsed())
    ));
    let mut reports = Vec::new();
    for event in EVENTS {
        let mut times = Times::new()?;
        for number in 0..events {
            if let Some(command) = event.prepare(&mut load, number) {
                let began = Instant::now();
                let transition = load.apply(command);
                times.add(began.elapsed());
                event.settle(&mut load, &transition);
            }
        }
        if times.count() == 0 {
            continue; // a full cluster places no driver
        }
        reports.push(
            Report::new("schedule")
                .param("workers", size.workers)
                .param("apps", size.apps)
                .param("executors", executors)
                .param("queued", size.queued)
                .param("hungry", size.hungry)
                .param("event", event.name())
                .metric("count", times.count())
                .times(&times),
        );
    }
    Ok(reports)
}

// === impl Size ===

impl Size {
    /// Executors of each application, of two cores: together they take half of the cluster, or all of it.
    pub(super) fn executors_per_app(self) -> u32 {
        let cores = self.workers.saturating_mul(CORES_PER_WORKER);
        let share = if self.hungry { 1 } else { 2 };
        (cores / load::CORES_PER_EXECUTOR / share / self.apps.max(1)).max(1)
    }

    fn check(self) -> Result<(), Failure> {
        if self.workers == 0 || self.apps == 0 {
            return Err(Failure::usage("--workers and --apps: give at least 1"));
        }
        let each = u64::from(self.executors_per_app());
        if each > EXECUTORS_PER_APP_MAX {
            return Err(Failure::usage(format!(
                "--apps {}: each would have {each} executors, at most {EXECUTORS_PER_APP_MAX} are possible; give more",
                self.apps
            )));
        }
        let room = self
            .workers
            .saturating_mul(CORES_PER_WORKER / load::CORES_PER_EXECUTOR);
        if self.apps > room {
            return Err(Failure::usage(format!(
                "--apps {}: {} workers hold {room} executors; give fewer, or more workers",
                self.apps, self.workers
            )));
        }
        Ok(())
    }
}

// === impl Event ===

impl Event {
    fn name(self) -> &'static str {
        match self {
            Self::ExecutorRunning => "executor_running",
            Self::ExecutorReplaced => "executor_replaced",
            Self::SubmissionPlaced => "submission_placed",
            Self::SubmissionQueued => "submission_queued",
        }
    }

    /// The command to be measured; `None`: there is nothing (more) to measure it on.
    fn prepare(self, load: &mut Load, number: u32) -> Option<Command> {
        match self {
            Self::ExecutorRunning => load.report_running(number),
            Self::ExecutorReplaced => load.report_ended(number),
            Self::SubmissionPlaced => load.has_room().then(|| load.submit_small()),
            Self::SubmissionQueued => Some(load.submit_unplaceable()),
        }
    }

    /// Brings the cluster back to where it was, as far as that matters to the next measurement.
    fn settle(self, load: &mut Load, transition: &interrex_core::transition::Transition) {
        match self {
            Self::ExecutorRunning | Self::ExecutorReplaced => {}
            Self::SubmissionPlaced | Self::SubmissionQueued => load.end_driver(transition),
        }
    }
}
