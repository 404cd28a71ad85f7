//! A worker and its states (Spark: `WorkerInfo`, `WorkerState`).

use std::sync::Arc;

use crate::{ids::WorkerId, spec::WorkerSpec, time::Timestamp};

/// Where a worker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkerState {
    /// Its report has been reconciled in this epoch: it gets work.
    Alive,
    /// Known from the store or disconnected; keeps what it runs, gets nothing new.
    Unknown,
    /// Silent for longer than the worker timeout: what it ran is lost.
    Dead,
}

/// A worker. Only `Alive` and `Dead` are stored; `Unknown` is what a stored one is until it has reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// Its id.
    pub id: WorkerId,
    /// What it offers.
    pub spec: Arc<WorkerSpec>,
    /// Where it stands.
    pub state: WorkerState,
    /// When it registered first.
    pub registered_at: Timestamp,
    /// Set while it is to be emptied; it gets no new work then.
    pub drain: Option<Drain>,
    /// Why it wants no new work, such as a full disk; empty: it is welcome. As its heartbeats say; not stored.
    pub not_accepting: String,
}

/// A worker that is to be emptied (Spark: decommissioning). Kept with the worker, so that neither a failover nor a
/// registration undoes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drain {
    /// Since when.
    pub since: Timestamp,
    /// What still runs then is ended; `None`: it may end by itself.
    pub deadline: Option<Timestamp>,
    /// Why, for people.
    pub reason: String,
}

// === impl Worker ===

impl Worker {
    /// Whether it gets new work.
    #[must_use]
    pub fn takes_work(&self) -> bool {
        self.state == WorkerState::Alive && self.drain.is_none() && self.not_accepting.is_empty()
    }

    /// Cores that it offers for new work; 0 unless it is alive and not being drained.
    #[must_use]
    pub fn cores_offered(&self) -> u64 {
        match (self.state, &self.drain) {
            (WorkerState::Alive, None) => u64::from(self.spec.cores.0),
            (WorkerState::Alive | WorkerState::Unknown | WorkerState::Dead, _) => 0,
        }
    }

    /// Spark's name of its state, in capitals: `DECOMMISSIONED` while it is alive and being drained.
    #[must_use]
    pub fn state_name(&self) -> &'static str {
        match (self.state, &self.drain) {
            (WorkerState::Alive, Some(_)) => "DECOMMISSIONED",
            (WorkerState::Alive | WorkerState::Unknown | WorkerState::Dead, _) => self.state.name(),
        }
    }
}

// === impl WorkerState ===

impl WorkerState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Alive, Self::Unknown, Self::Dead];

    /// Spark's name, in capitals.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Alive => "ALIVE",
            Self::Unknown => "UNKNOWN",
            Self::Dead => "DEAD",
        }
    }
}
