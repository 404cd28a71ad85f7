//! What clients submit: ledger jobs, as driver specifications.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use interrex_proto::v1::{CommandLine, DriverSpec};
use serde_json::{Value, json};

use super::ledger::MARK;
use crate::sim::chance::Chance;

/// Memory of one job, in MiB: so little that cores are what is short.
pub const JOB_MEMORY_MIB: u64 = 64;
/// Cores that each agent of a run offers.
pub const AGENT_CORES: u32 = 4;

/// What is the same for all jobs of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// This program.
    pub program: PathBuf,
    /// The directory of the ledger.
    pub ledger: PathBuf,
    /// Marks every process of the run's work.
    pub run: String,
}

/// One job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobKind {
    /// How long its work takes.
    pub work: Duration,
    /// Start it again until it succeeds.
    pub supervise: bool,
    /// Never in two places at once.
    pub at_most_once: bool,
    /// Attempts that fail before one succeeds.
    pub failures: u32,
    /// Cores that it needs.
    pub cores: u32,
}

// === impl JobKind ===

impl JobKind {
    /// Short, and nothing else about it.
    pub const PLAIN: Self = Self {
        work: Duration::from_millis(100),
        supervise: false,
        at_most_once: false,
        failures: 0,
        cores: 1,
    };

    /// One of the mix that live runs submit: most are short and plain; some run for seconds, so that faults hit work that
    /// runs; some may run once only; some are supervised, and some of those fail at first.
    pub(super) fn draw(chance: &mut Chance) -> Self {
        let mut job = Self {
            work: chance.time(Duration::from_millis(20), Duration::from_millis(400)),
            ..Self::PLAIN
        };
        if chance.percent(15.0) {
            job.work = chance.time(Duration::from_secs(1), Duration::from_secs(5));
        }
        if chance.percent(10.0) {
            job.cores = 2;
        }
        if chance.percent(20.0) {
            job.at_most_once = true;
        }
        if chance.percent(20.0) {
            job.supervise = true;
            job.failures = u32::from(chance.percent(40.0));
        }
        job
    }

    /// What the history says of it.
    #[must_use]
    pub fn told(&self) -> Value {
        json!({
            "supervise": self.supervise, "at_most_once": self.at_most_once, "cores": self.cores,
            "failures": self.failures, "work_ms": self.work.as_millis() as u64,
        })
    }

    /// The driver that it is submitted as.
    #[must_use]
    pub fn spec(&self, site: &Site, submission: &str) -> DriverSpec {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let args = [
            "chaos",
            "ledger",
            "--dir",
            &text(&site.ledger),
            "--submission",
            submission,
            "--work-ms",
            &self.work.as_millis().to_string(),
            "--failures",
            &self.failures.to_string(),
            "--offered",
            &AGENT_CORES.to_string(),
            "--memory-mib",
            &JOB_MEMORY_MIB.to_string(),
        ];
        DriverSpec {
            name: "ledger".to_owned(),
            user: "chaos".to_owned(),
            command: Some(CommandLine {
                program: text(&site.program),
                args: args.map(str::to_owned).to_vec(),
                env: BTreeMap::from([(MARK.to_owned(), site.run.clone())]),
            }),
            cores: self.cores,
            memory_mib: JOB_MEMORY_MIB,
            supervise: self.supervise,
            at_most_once: self.at_most_once,
            ..DriverSpec::default()
        }
    }
}
