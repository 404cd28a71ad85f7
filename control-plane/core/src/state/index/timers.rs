//! What is to be looked at, and when. At most one entry for each thing; a tick costs what is due.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ids::{AppId, DriverId, ExecutorId, RequestId, WorkerId},
    time::Timestamp,
};

/// A thing that wants to be looked at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// Its back-off is over, or its worker has not answered.
    Driver(DriverId),
    /// Its worker has not answered, or it has been up for long enough to be called stable.
    Executor(AppId, ExecutorId),
    /// Its back-off is over.
    App(AppId),
    /// Its drain is over, or it is dead for long enough to be forgotten.
    Worker(WorkerId),
    /// What it created is gone (or it created nothing), and it is old enough to be forgotten.
    Request(RequestId),
}

/// Timers in the order of their time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timers {
    due: BTreeSet<(Timestamp, Timer)>,
    at: BTreeMap<Timer, Timestamp>,
}

// === impl Timers ===

impl Timers {
    /// Sets, moves or removes a timer.
    pub(crate) fn set(&mut self, timer: Timer, at: Option<Timestamp>) {
        if let Some(before) = self.at.remove(&timer) {
            self.due.remove(&(before, timer.clone()));
        }
        if let Some(at) = at {
            self.due.insert((at, timer.clone()));
            self.at.insert(timer, at);
        }
    }

    /// Takes the earliest timer that is due.
    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<Timer> {
        if self.due.first()?.0 > now {
            return None;
        }
        let (_, timer) = self.due.pop_first()?;
        self.at.remove(&timer);
        Some(timer)
    }

    pub(crate) fn get(&self, timer: &Timer) -> Option<Timestamp> {
        self.at.get(timer).copied()
    }
}
