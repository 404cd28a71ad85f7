//! The leader of one epoch, without tasks: what may leave, and when.
//!
//! ```text
//!   submit ─▶ apply ─▶ outbox (next batch) ─▶ Commit ─▶ store
//!                                               │
//!              Publish, then Reply, then Effect ◀── committed
//!              StepDown, NotLeader, OutcomeUnknown ◀── commit_failed
//! ```
//!
//! What must never happen: that a reply, an effect or a publication leaves before the commit that covers it. So
//! this is the only code that produces them. There is no rollback: a commit that fails ends the leadership, and
//! memory is dropped.

mod batch;
mod differences;
mod event_log;
mod machine;
mod outbox;

use std::{sync::Arc, time::Duration};

pub use self::{
    batch::{BatchId, BatchLimits},
    machine::LeaderMachine,
};
use crate::{
    effect::Effect,
    ids::WorkerId,
    state::{meta::RecoveryState, worker::Worker},
    transition::{Mutation, Reply},
};

/// Names a request that waits for its answer; chosen by the pump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Bounds and waits of a leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaderConfig {
    /// How much one batch takes.
    pub batch: BatchLimits,
    /// Commands that may wait for room in a batch. Default 4096; more are refused as busy.
    pub queue_max: usize,
    /// A leader that has committed nothing for this long commits an empty batch, to prove that it can.
    /// Default 5 s.
    pub self_check_interval: Duration,
}

/// What the pump has to do, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Store this under the leadership's epoch, and report with `committed` or `commit_failed`. At most one is
    /// under way. May be empty: then it is a proof of leadership.
    Commit {
        /// Its name, for the report.
        batch: BatchId,
        /// To be stored together, in order.
        mutations: Arc<[Mutation]>,
    },
    /// Show this to readers, before any reply that follows.
    Publish(Publication),
    /// Answer a request.
    Reply {
        /// Which.
        ticket: Ticket,
        /// With what.
        answer: Answer,
    },
    /// Send an order or a notice.
    Effect(Effect),
    /// Ask a worker to register again: the leader has no full picture of it.
    Reregister {
        /// Which.
        worker: WorkerId,
        /// Why.
        reason: Reregister,
    },
    /// This leadership is over; nothing follows.
    StepDown(StepDown),
}

/// What readers may see now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// Durable changes, in order.
    pub mutations: Arc<[Mutation]>,
    /// Workers whose state changed though their record did not (heard of again, or disconnected).
    pub workers: Vec<Arc<Worker>>,
    /// How far recovery is, when that changed.
    pub recovery: Option<RecoveryState>,
}

/// What a request came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Durable; or refused, which changed nothing.
    Reply(Reply),
    /// The leadership ended; surely nothing was stored.
    NotLeader,
    /// The leadership ended; perhaps it was stored.
    OutcomeUnknown,
    /// Its deadline had passed before it could be applied.
    DeadlineExceeded,
    /// Too many requests wait.
    Busy,
}

/// What a worker says of itself with each heartbeat.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// What it runs; compare [`ClusterState::digest`](crate::state::cluster::ClusterState::digest).
    pub digest: u64,
    /// Why it wants no new work; empty: it does.
    pub not_accepting: String,
}

/// Why a worker's full report is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reregister {
    /// Nothing is recorded under its id (W30: Spark drops the heartbeats of such a worker).
    NotRegistered,
    /// It has not reported since this leadership began, or since it was away.
    NoReport,
    /// It runs something else than is recorded, at two heartbeats in a row.
    Differs,
}

/// Why a commit did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitFailure {
    /// A larger epoch is open. Surely not stored.
    Fenced,
    /// Refused by the store. Surely not stored.
    Rejected,
    /// Perhaps stored.
    Unknown,
}

/// Why a leadership ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepDown {
    /// A commit failed.
    CommitFailed(CommitFailure),
    /// The election says that it is lost.
    Lost,
    /// By request: a shutdown or a transfer.
    Resigned,
}

// === impl LeaderConfig ===

impl Default for LeaderConfig {
    fn default() -> Self {
        Self {
            batch: BatchLimits::default(),
            queue_max: 4096,
            self_check_interval: Duration::from_secs(5),
        }
    }
}

// === impl Reregister ===

impl Reregister {
    /// For metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NotRegistered => "not_registered",
            Self::NoReport => "no_report",
            Self::Differs => "differs",
        }
    }

    /// For people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::NotRegistered => "it is not registered",
            Self::NoReport => "its report is missing in this epoch",
            Self::Differs => "what it runs is not what is recorded",
        }
    }
}

// === impl StepDown ===

impl StepDown {
    /// For logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CommitFailed(CommitFailure::Fenced) => "fenced",
            Self::CommitFailed(CommitFailure::Rejected) => "commit_rejected",
            Self::CommitFailed(CommitFailure::Unknown) => "commit_unknown",
            Self::Lost => "lost",
            Self::Resigned => "resigned",
        }
    }
}

#[cfg(test)]
mod backlog_test;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod machine_test;
#[cfg(test)]
mod properties;
