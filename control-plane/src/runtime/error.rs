//! Why a request to the leader did not get its answer. Edges turn this into a `Status` or an HTTP error.

use interrex_core::{ids::Epoch, transition::Rejection};
use interrex_persistence::election::MasterInfo;

/// Why a request got no answer, or was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// This master does not lead; nothing was changed. Ask the leader.
    #[error("{}", not_leader(leader.as_ref()))]
    NotLeader {
        /// The leader, if one is known.
        leader: Option<MasterInfo>,
        /// The epoch that it leads in, as far as this master knows.
        epoch: Epoch,
    },
    /// Perhaps done: leadership ended while the commit was under way. Ask again with the same request id.
    #[error("outcome unknown: the commit was not confirmed; repeat with the same request id")]
    OutcomeUnknown,
    /// A queue is full; nothing was changed. Try again later.
    #[error("{queue} is full ({max} waiting); try again later")]
    Busy {
        /// Which queue.
        queue: &'static str,
        /// Its bound.
        max: usize,
    },
    /// The caller's deadline passed.
    #[error(
        "deadline exceeded{}",
        if *.outcome_unknown { "; outcome unknown, repeat with the same request id" }
        else { " before anything was done" }
    )]
    DeadlineExceeded {
        /// Perhaps it is done all the same; else it surely is not and never will be.
        outcome_unknown: bool,
    },
    /// Refused for good; nothing was changed.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The records are those of a snapshot whose restore has not ended; nothing was changed.
    #[error(
        "restore of snapshot {snapshot} incomplete: run `interrex snapshot restore` with it again, or wipe the masters' \
         data directories"
    )]
    Restoring {
        /// Its SHA-256.
        snapshot: String,
    },
    /// This master is stopping; nothing was changed. Ask another.
    #[error("this master is shutting down")]
    ShuttingDown,
}

// === impl RequestError ===

impl RequestError {
    /// Whether the same request, with the same request id, may succeed here or at another master.
    #[must_use]
    pub fn retryable(&self) -> bool {
        match self {
            Self::NotLeader { .. }
            | Self::OutcomeUnknown
            | Self::Busy { .. }
            | Self::DeadlineExceeded { .. }
            | Self::ShuttingDown => true,
            Self::Rejected(_) | Self::Restoring { .. } => false,
        }
    }

    /// Whether the request may have had its effect in spite of the error.
    #[must_use]
    pub fn outcome_unknown(&self) -> bool {
        match self {
            Self::OutcomeUnknown => true,
            Self::DeadlineExceeded { outcome_unknown } => *outcome_unknown,
            Self::NotLeader { .. }
            | Self::Busy { .. }
            | Self::Rejected(_)
            | Self::Restoring { .. }
            | Self::ShuttingDown => false,
        }
    }
}

fn not_leader(leader: Option<&MasterInfo>) -> String {
    leader.map_or_else(
        || "this master is not the leader, and no leader is known".to_owned(),
        |leader| {
            format!(
                "this master is not the leader; {} at {} is",
                leader.id, leader.rpc
            )
        },
    )
}
