//! Processes: start one, end its whole tree, say how it ended.
//!
//! [`ProcessRunner`] is the seam: the worker's pump orders through it and hears [`ProcessEvent`]s; the simulator
//! and tests bring runners of their own. [`local::LocalRunner`] is the real one. It never starts a program
//! itself: each attempt runs under a small supervisor process ([`supervisor`] says why).
//!
//! What must never happen: an event that says a process has ended while anything of its tree is alive.

pub mod attempt;
pub mod key;
pub mod local;
pub mod proc;
pub mod protocol;
pub mod record;
mod resources;
pub mod supervisor;
pub mod template;
mod tree;
pub mod work_dirs;

use std::{collections::BTreeMap, fmt, time::Duration};

use interrex_proto::{
    trace::Traceparent,
    v1::{CommandLine, Exit},
};

pub use key::{LogOwner, UnsafeId, WorkKey, safe_component};
pub use protocol::Lease;
pub use work_dirs::WorkDirs;

/// One process to start.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// What it is an attempt of.
    pub key: WorkKey,
    /// The driver's or the application's name, for people.
    pub name: String,
    /// The program, before placeholders are replaced.
    pub command: CommandLine,
    /// The epoch of the order.
    pub epoch: u64,
    /// Cores that it was given.
    pub cores: u32,
    /// Memory that it was given, in MiB.
    pub memory_mib: u64,
    /// Addresses of custom resources that it was given.
    pub resources: BTreeMap<String, Vec<String>>,
    /// gRPC addresses of every master, for `{{MASTERS}}`.
    pub masters: Vec<String>,
    /// The resource profile of an executor, for `{{RESOURCE_PROFILE_ID}}`; 0 is the application's own description.
    pub resource_profile: u32,
    /// Until when it may run unless that is renewed; unset: for ever.
    pub lease: Option<Lease>,
    /// Where its start stands in the trace of its submission, if that is traced.
    pub trace: Option<Traceparent>,
}

/// Why a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndCause {
    /// By itself, or by a signal that neither the agent nor the supervisor sent.
    Itself,
    /// The agent ordered it.
    Order,
    /// Its lease was over.
    LeaseOver,
    /// Its supervisor was killed; what it left was ended by the agent.
    SupervisorLost,
    /// The agent that had started it died, and its tree was ended with it.
    AgentGone,
}

/// What a runner tells.
#[derive(Debug, Clone, PartialEq)]
pub enum ProcessEvent {
    /// The process exists.
    Started {
        /// Which.
        key: WorkKey,
        /// Its process id, which is its group's id too.
        pid: i32,
    },
    /// It could not be started, and nothing of it exists.
    NotStarted {
        /// Which.
        key: WorkKey,
        /// Why, naming the program.
        message: String,
    },
    /// It ended, and so did everything that it had started.
    Ended {
        /// Which.
        key: WorkKey,
        /// How; unset where nobody saw it.
        exit: Option<Exit>,
        /// Why.
        cause: EndCause,
    },
}

/// Starts and ends processes. Orders return at once; what came of them is told as [`ProcessEvent`]s on the channel
/// that the runner was made with. Every started key gets exactly one `NotStarted` or `Ended`.
pub trait ProcessRunner: Send + Sync + fmt::Debug + 'static {
    /// Starts a process. The caller never starts a key that has not ended.
    fn start(&self, launch: Launch);

    /// Ends the process and its tree: SIGTERM, and SIGKILL after `grace`. An unknown key is ignored: its end has
    /// been told already.
    fn kill(&self, key: &WorkKey, grace: Duration);

    /// Renews every lease. Nothing that was started without one is touched.
    fn renew(&self, lease: Lease);
}

// === impl ProcessEvent ===

impl ProcessEvent {
    /// Which process it is about.
    #[must_use]
    pub fn key(&self) -> &WorkKey {
        match self {
            Self::Started { key, .. } | Self::NotStarted { key, .. } | Self::Ended { key, .. } => {
                key
            }
        }
    }
}
