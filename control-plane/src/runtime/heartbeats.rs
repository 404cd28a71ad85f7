//! When workers were last heard of and what they said then, and which applications' programs make no progress. Sessions
//! write, the leader's loop reads at each tick.
//!
//! Apart from the mailbox on purpose: however full that is, a heartbeat never waits behind it, and a busy
//! leader never takes a live worker for dead. Nothing here is ever stored.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use interrex_core::{
    ids::{AppId, WorkerId},
    leader::Heartbeat,
    time::Timestamp,
};

use crate::metrics;

/// The table of one leadership. Holds at most one entry for each worker or application that has a session.
#[derive(Debug, Default)]
pub struct Heartbeats {
    table: Mutex<Table>,
}

/// A sign of life that the loop has not seen yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fresh {
    pub(crate) worker: WorkerId,
    pub(crate) at: Timestamp,
    /// The newest heartbeat; `None`: only reports came.
    pub(crate) said: Option<Heartbeat>,
}

#[derive(Debug, Default)]
struct Table {
    last: BTreeMap<WorkerId, Timestamp>,
    fresh: BTreeMap<WorkerId, Option<Heartbeat>>,
    /// Applications whose program has not come for its events since then.
    stalled: BTreeMap<AppId, Timestamp>,
}

// === impl Heartbeats ===

impl Heartbeats {
    /// A worker was heard of.
    pub(crate) fn touch(&self, worker: &WorkerId, now: Timestamp) {
        let mut table = self.lock();
        let before = table.last.insert(worker.clone(), now);
        table.fresh.entry(worker.clone()).or_default();
        drop(table);
        if let Some(before) = before {
            metrics::heard_after(now.since(before));
        }
    }

    /// A worker said how it is.
    pub(crate) fn beat(&self, worker: &WorkerId, heartbeat: Heartbeat, now: Timestamp) {
        let mut table = self.lock();
        table.last.insert(worker.clone(), now);
        table.fresh.insert(worker.clone(), Some(heartbeat));
    }

    /// A worker is forgotten.
    pub(crate) fn forget(&self, worker: &WorkerId) {
        let mut table = self.lock();
        table.last.remove(worker);
        table.fresh.remove(worker);
    }

    /// Since when the program behind an application has not come for its events; `None`: it has, or it is away.
    pub(crate) fn progress(&self, app: &AppId, none_since: Option<Timestamp>) {
        let mut table = self.lock();
        let before = match none_since {
            Some(since) => table.stalled.insert(app.clone(), since),
            None => table.stalled.remove(app),
        };
        drop(table);
        match (before, none_since) {
            (None, Some(_)) => {
                tracing::warn!(event = "app_stalled", %app, "an application heartbeats, and makes no progress");
            }
            (Some(_), None) => {
                tracing::info!(event = "app_resumed", %app, "an application makes progress again, or is away");
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    /// Since when the program behind an application has made no progress, if that is so.
    #[must_use]
    pub fn stalled_since(&self, app: &AppId) -> Option<Timestamp> {
        self.lock().stalled.get(app).copied()
    }

    /// How many applications heartbeat and make no progress.
    #[must_use]
    pub fn stalled_count(&self) -> usize {
        self.lock().stalled.len()
    }

    /// What has been heard since the last call.
    pub(crate) fn take_fresh(&self) -> Vec<Fresh> {
        let mut table = self.lock();
        let fresh = std::mem::take(&mut table.fresh);
        let with_time = |(worker, said)| {
            let at = table.last.get(&worker).copied()?;
            Some(Fresh { worker, at, said })
        };
        fresh.into_iter().filter_map(with_time).collect()
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
        let seen = |said, at| {
            let (worker, at) = (worker.clone(), Timestamp(at));
            vec![Fresh { worker, at, said }]
        };
        assert_eq!(heartbeats.take_fresh(), seen(None, 7));
        assert_eq!(heartbeats.take_fresh(), vec![]);
        assert_eq!(heartbeats.last(&worker), Some(Timestamp(7)));
        // What was said stays until it is taken, whatever else comes from the worker.
        let said = Heartbeat {
            digest: 3,
            ..Heartbeat::default()
        };
        heartbeats.beat(&worker, said.clone(), Timestamp(8));
        heartbeats.touch(&worker, Timestamp(9));
        assert_eq!(heartbeats.take_fresh(), seen(Some(said), 9));
        heartbeats.forget(&worker);
        assert_eq!(heartbeats.last(&worker), None);
    }

    #[test]
    fn an_application_stalls_until_its_program_comes_or_its_session_goes() {
        let heartbeats = Heartbeats::default();
        let (a, b) = (AppId::from("a"), AppId::from("b"));
        heartbeats.progress(&a, Some(Timestamp(5)));
        heartbeats.progress(&b, None);
        assert_eq!(heartbeats.stalled_since(&a), Some(Timestamp(5)));
        assert_eq!(heartbeats.stalled_since(&b), None);
        assert_eq!(heartbeats.stalled_count(), 1);
        heartbeats.progress(&a, None);
        assert_eq!(heartbeats.stalled_count(), 0);
    }
}
