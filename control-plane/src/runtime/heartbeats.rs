//! When workers were last heard of. Sessions write, the leader's loop reads at each tick.
//!
//! Apart from the mailbox on purpose: however full that is, a heartbeat never waits behind it, and a busy
//! leader never takes a live worker for dead. Nothing here is ever stored.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use interrex_core::{ids::WorkerId, time::Timestamp};

/// The table of one leadership. Holds at most one entry for each worker that has a session.
#[derive(Debug, Default)]
pub struct Heartbeats {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    last: BTreeMap<WorkerId, Timestamp>,
    fresh: BTreeSet<WorkerId>,
}

// === impl Heartbeats ===

impl Heartbeats {
    /// A worker was heard of.
    pub(crate) fn touch(&self, worker: &WorkerId, now: Timestamp) {
        let mut table = self.lock();
        table.last.insert(worker.clone(), now);
        table.fresh.insert(worker.clone());
    }

    /// A worker is forgotten.
    pub(crate) fn forget(&self, worker: &WorkerId) {
        let mut table = self.lock();
        table.last.remove(worker);
        table.fresh.remove(worker);
    }

    /// What has been heard since the last call.
    pub(crate) fn take_fresh(&self) -> Vec<(WorkerId, Timestamp)> {
        let mut table = self.lock();
        let fresh = std::mem::take(&mut table.fresh);
        fresh
            .into_iter()
            .filter_map(|worker| table.last.get(&worker).copied().map(|at| (worker, at)))
            .collect()
    }

    /// When a worker was last heard of.
    #[must_use]
    pub fn last(&self, worker: &WorkerId) -> Option<Timestamp> {
        self.lock().last.get(worker).copied()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // The table is whole after every statement above, so a panic elsewhere does not spoil it.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_is_handed_over_once_and_remembered() {
        let heartbeats = Heartbeats::default();
        let worker = WorkerId::new("w1");
        heartbeats.touch(&worker, Timestamp(5));
        heartbeats.touch(&worker, Timestamp(7));
        assert_eq!(
            heartbeats.take_fresh(),
            vec![(worker.clone(), Timestamp(7))]
        );
        assert_eq!(heartbeats.take_fresh(), vec![]);
        assert_eq!(heartbeats.last(&worker), Some(Timestamp(7)));
        heartbeats.forget(&worker);
        assert_eq!(heartbeats.last(&worker), None);
    }
}
