//! What the agent and a supervisor say to each other: JSON lines over the supervisor's stdin and stdout.
//!
//! The agent sends one [`ProgramSpec`], then any number of [`Order`]s; the supervisor answers with one
//! [`Notice::NotStarted`], or a [`Notice::Started`] and a [`Notice::Ended`]. The end of the supervisor's stdin is an
//! order of its own: the agent is gone, end everything.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

/// Longest line either way, in bytes: a description of 1 MiB whose every byte is escaped, and room around it.
pub const LINE_BYTES_MAX: usize = 8 << 20;

/// What to run, with every placeholder replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramSpec {
    /// The program, looked up in the `PATH` of `env` where it has no slash.
    pub program: String,
    /// Its arguments, without the program's name.
    pub args: Vec<String>,
    /// Its whole environment: nothing is inherited.
    pub env: Vec<(String, String)>,
    /// Its working directory.
    pub directory: PathBuf,
    /// Where its standard output is appended.
    pub stdout: PathBuf,
    /// Where its standard error is appended.
    pub stderr: PathBuf,
    /// From SIGTERM to SIGKILL when the agent is gone, in milliseconds.
    pub grace_ms: u64,
    /// Until when it may run unless that is renewed; unset: for ever.
    #[serde(default)]
    pub lease: Option<Lease>,
}

/// How long something may run that must never run twice in a cluster. The supervisor ends it when the lease is over,
/// by its own clock: it needs no agent for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The last instant, in milliseconds since the machine started (its suspensions included).
    pub until_ms: u64,
    /// From SIGTERM to SIGKILL after that, in milliseconds.
    pub grace_ms: u64,
}

/// What the agent may order of a running supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// End the tree: SIGTERM now, SIGKILL after `grace_ms`.
    Term {
        /// From SIGTERM to SIGKILL, in milliseconds.
        grace_ms: u64,
    },
    /// The lease goes on. One that is over stays over, and none is ever shortened.
    Renew {
        /// Until when, as in [`Lease`].
        until_ms: u64,
    },
}

/// What a supervisor tells the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    /// The program runs.
    Started(MainProcess),
    /// It could not be started; nothing of it exists.
    NotStarted {
        /// Why, naming the program.
        message: String,
    },
    /// It ended, and nothing of its tree is left.
    Ended(Ending),
}

/// The program's main process, named so that a reused pid is not taken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MainProcess {
    /// Its process id; also the id of its process group.
    pub pid: i32,
    /// When it started, in clock ticks since boot (field 22 of `/proc/<pid>/stat`).
    pub start_ticks: u64,
}

/// How the main process ended. Also the content of the `.end` file that outlives the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether it ended after an order (or after the agent was gone), rather than by itself.
    pub ordered: bool,
    /// Whether it was ended because its lease was over.
    #[serde(default)]
    pub lease_over: bool,
}

// === impl Lease ===

impl Lease {
    /// A lease up to `until` on the clock of leases, with `grace` after it.
    #[must_use]
    pub fn new(until: Duration, grace: Duration) -> Self {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            until_ms: ms(until),
            grace_ms: ms(grace),
        }
    }

    /// The last instant, since the machine started.
    #[must_use]
    pub fn until(self) -> Duration {
        Duration::from_millis(self.until_ms)
    }

    /// From SIGTERM to SIGKILL.
    #[must_use]
    pub fn grace(self) -> Duration {
        Duration::from_millis(self.grace_ms)
    }
}
