//! What can go wrong, and whether the write may have happened all the same.

use std::path::PathBuf;

use crate::epoch::Epoch;

/// The cause of a failure, as the backend reports it.
pub type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a commit, an `open_epoch` or a `confirm` did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// A larger epoch has been opened: this leadership is over. Surely not written.
    #[error("fenced: epoch {current} has been opened")]
    Fenced {
        /// The epoch that is open now (at least).
        current: Epoch,
    },
    /// Surely not written (too large, not the leader, refused before it was proposed).
    #[error("rejected, nothing was written: {0}")]
    Rejected(#[source] Source),
    /// Perhaps written: an answer was lost, a deadline passed, a disk failed in the middle.
    #[error("outcome unknown: {0}")]
    Indeterminate(#[source] Source),
}

impl CommitError {
    /// Whether the batch may have been stored in spite of the error.
    #[must_use]
    pub fn maybe_written(&self) -> bool {
        match self {
            Self::Fenced { .. } | Self::Rejected(_) => false,
            Self::Indeterminate(_) => true,
        }
    }
}

/// Why a campaign ended without leadership.
#[derive(Debug, thiserror::Error)]
pub enum ElectionError {
    /// The backend has been shut down; campaigning again does not help.
    #[error("the backend is closed")]
    Closed,
    /// A passing fault; campaign again after a pause.
    #[error("election interrupted: {0}")]
    Interrupted(#[source] Source),
}

impl ElectionError {
    /// Whether another campaign may succeed.
    #[must_use]
    pub fn retryable(&self) -> bool {
        match self {
            Self::Closed => false,
            Self::Interrupted(_) => true,
        }
    }
}

/// Why a backend could not be opened. None of these is cured by trying again without a change.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the directory open.
    #[error("data directory {} is in use by {owner}; stop that process or choose another --data-dir", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Who has it: `pid 1234`, or `another process`.
        owner: String,
    },
    /// The directory belongs to something else.
    #[error("data directory {}: {reason}", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// What was found and what was expected.
        reason: String,
    },
    /// The directory cannot be read or written.
    #[error("data directory {}: {source}", path.display())]
    Io {
        /// The directory or file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// What is stored cannot be trusted.
    #[error("data directory {}: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// An option has an unusable value.
    #[error("option {option}: {reason}")]
    Option {
        /// The option's name on the command line.
        option: &'static str,
        /// Its value, and what would be right.
        reason: String,
    },
}

/// Why an administrative request was refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// This backend has no such notion.
    #[error("not possible with this engine: {0}")]
    Unsupported(String),
    /// Refused: it would harm, or it names something that does not exist.
    #[error("{0}")]
    Refused(String),
    /// Only the leader can do this.
    #[error("this master is not the leader")]
    NotLeader,
    /// It did not finish in time; ask for the state before trying again.
    #[error("not finished in time: {0}")]
    Timeout(String),
}

// === impl AdminError ===

impl From<CommitError> for AdminError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Fenced { .. } => Self::NotLeader,
            CommitError::Rejected(_) => Self::Refused(error.to_string()),
            CommitError::Indeterminate(_) => Self::Timeout(error.to_string()),
        }
    }
}
