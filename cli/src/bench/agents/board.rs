//! What all simulated agents have seen. They write, the bench reads.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{bench::report::Times, exit::Failure};

/// Shared by all agents of a bench.
#[derive(Debug)]
pub(super) struct Board(Mutex<Inner>);

/// What was seen since the last look.
#[derive(Debug)]
pub(super) struct Tally {
    /// How late each heartbeat was in its stream's queue.
    pub(super) late: Times,
    /// From there until the leader's acknowledgement was here.
    pub(super) round_trips: Times,
    /// How often an agent lost its leader.
    pub(super) detached: u64,
}

#[derive(Debug)]
struct Inner {
    tally: Tally,
    /// How many agents are attached in each epoch.
    attached: BTreeMap<u64, usize>,
    fault: Option<String>,
}

// === impl Board ===

impl Board {
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self(Mutex::new(Inner {
            tally: Tally::new()?,
            attached: BTreeMap::new(),
            fault: None,
        })))
    }

    /// A heartbeat has left so much later than it was due.
    pub(super) fn beaten(&self, late: Duration) {
        self.lock().tally.late.add(late);
    }

    /// A heartbeat was acknowledged.
    pub(super) fn acknowledged(&self, round_trip: Duration) {
        self.lock().tally.round_trips.add(round_trip);
    }

    /// An agent that was attached in `before` is attached in `now`; `None`: it is not.
    pub(super) fn moved(&self, before: Option<u64>, now: Option<u64>) {
        let mut inner = self.lock();
        if let Some(before) = before {
            if now.is_none() {
                inner.tally.detached += 1;
            }
            if let Some(count) = inner.attached.get_mut(&before) {
                *count -= 1;
            }
        }
        if let Some(now) = now {
            *inner.attached.entry(now).or_default() += 1;
        }
    }

    /// An agent can never be taken: the first such reason is kept.
    pub(super) fn failed(&self, why: String) {
        self.lock().fault.get_or_insert(why);
    }

    pub(super) fn fault(&self) -> Option<String> {
        self.lock().fault.clone()
    }

    /// Agents that are attached in `epoch` or a later one.
    pub(super) fn attached_since(&self, epoch: u64) -> usize {
        self.lock().attached.range(epoch..).map(|(_, n)| n).sum()
    }

    /// The newest epoch in which any agent is attached; 0 if none is.
    pub(super) fn newest_epoch(&self) -> u64 {
        let inner = self.lock();
        let mut held = inner.attached.iter().rev().filter(|(_, n)| **n > 0);
        held.next().map_or(0, |(epoch, _)| *epoch)
    }

    /// What was seen since the last call.
    pub(super) fn take(&self) -> Result<Tally, Failure> {
        let empty = Tally::new()?;
        Ok(mem::replace(&mut self.lock().tally, empty))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Counts only: they are whole after every statement above.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Tally ===

impl Tally {
    fn new() -> Result<Self, Failure> {
        Ok(Self {
            late: Times::new()?,
            round_trips: Times::new()?,
            detached: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_counts_where_it_is_attached_last() {
        let board = Board::new().unwrap();
        board.moved(None, Some(3));
        board.moved(None, Some(3));
        board.moved(Some(3), None);
        board.moved(None, Some(4));
        assert_eq!((board.attached_since(0), board.attached_since(4)), (2, 1));
        assert_eq!(board.newest_epoch(), 4);
        // The same leader again, after it has asked for another registration.
        board.moved(Some(4), Some(4));
        assert_eq!(board.attached_since(4), 1);
        assert_eq!(board.take().unwrap().detached, 1);
        assert_eq!(board.take().unwrap().detached, 0);
    }
}
