//! What the cluster remembers about itself.

use std::fmt;

use crate::{
    ids::{Fingerprint, QueuePosition, RequestId},
    time::Timestamp,
};

/// The cluster's identity and counters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meta {
    /// Minted at first boot; a master or agent of another cluster is refused by it.
    pub cluster_id: String,
    /// Number of the next driver.
    pub next_driver: u64,
    /// Number of the next application.
    pub next_app: u64,
    /// The next place in the queue.
    pub next_queue: QueuePosition,
    /// When the cluster was created.
    pub created_at: Timestamp,
    /// Ids of the clusters whose records this one has taken over, oldest first: their agents and applications belong
    /// here, too.
    pub formerly: Vec<String>,
    /// The snapshot that is being restored; then the records are incomplete, and nobody may work with them. Empty: none.
    pub restoring: String,
    /// The snapshot that was restored; empty: none.
    pub restored: String,
}

/// Most ids in [`Meta::formerly`]; the oldest ones are forgotten.
pub const FORMERLY_MAX: usize = 8;

/// A request that has been accepted: a repeat gets the same answer, another body a conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The client's id for it.
    pub id: RequestId,
    /// Of its body.
    pub fingerprint: Fingerprint,
    /// What it created or did.
    pub created: Created,
    /// When it was accepted.
    pub at: Timestamp,
}

/// What a request created, or what it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// A driver.
    Driver(crate::ids::DriverId),
    /// An application.
    App(crate::ids::AppId),
    /// It ended this driver or application, which was not over before.
    Killed(String),
    /// It ended all drivers, forgot what was over, or (un)drained workers: so many.
    Count(u32),
}

/// How far recovery is after an election (Spark: `RecoveryState`; STANDBY is a matter of the runtime).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecoveryState {
    /// Workers or applications known from the store have not answered yet. Work is accepted and scheduled.
    Recovering,
    /// Everybody has answered or the time is up; what is silent is being given up.
    CompletingRecovery,
    /// Nothing is left to recover.
    #[default]
    Alive,
}

// === impl Created ===

impl Created {
    /// Whether an entity names the request in turn; then they are stored and forgotten together.
    #[must_use]
    pub fn is_entity(&self) -> bool {
        match self {
            Self::Driver(_) | Self::App(_) => true,
            Self::Killed(_) | Self::Count(_) => false,
        }
    }
}

impl fmt::Display for Created {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver(id) => id.fmt(f),
            Self::App(id) => id.fmt(f),
            Self::Killed(id) => write!(f, "a kill of {id}"),
            Self::Count(count) => write!(f, "a kill, clear or drain of {count} at once"),
        }
    }
}

// === impl RecoveryState ===

impl RecoveryState {
    /// Spark's name, in capitals.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Recovering => "RECOVERING",
            Self::CompletingRecovery => "COMPLETING_RECOVERY",
            Self::Alive => "ALIVE",
        }
    }
}
