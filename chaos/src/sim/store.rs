//! The store and the election, as masters see them: one fenced, durable set of records behind a network that delays and
//! loses, and an election that can leave two masters believing.
//!
//! Not a model of Raft: of the contract (`PersistenceEngine`, `LeaderElection`) that every backend keeps. It uses its
//! worst liberties: an operation may be carried out long after its caller has given up, an answer may be lost, a disk may
//! refuse, a deposed leader may learn of it late or only from the fence.

use std::collections::BTreeMap;

use interrex_persistence::{
    epoch::Epoch,
    record::{CommitBatch, Recovered},
    record_store::RecordStore,
};

use super::plant::Plant;

/// Names one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct OpId(pub(crate) u64);

/// An operation on the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    /// Open an epoch.
    Open(Epoch),
    /// Store a batch.
    Commit(CommitBatch),
    /// Still the newest?
    Confirm(Epoch),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Open, and what is stored.
    Opened(Recovered),
    /// Stored.
    Committed,
    /// Still the newest.
    Confirmed,
    /// A larger epoch is open: surely not stored.
    Fenced,
    /// Surely not stored.
    Rejected,
}

/// Who asked, and what.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The master.
    pub(crate) master: usize,
    /// What.
    pub(crate) op: Op,
}

/// The store and the election.
#[derive(Debug, Default)]
pub(crate) struct SimStore {
    records: RecordStore,
    under_way: BTreeMap<OpId, Asked>,
    next: u64,
    epoch: u64,
    leadership: u64,
    /// Who leads, as the election sees it.
    pub(crate) holder: Option<(usize, u64)>,
    /// Batches that were acknowledged, for the checks.
    pub(crate) commits: u64,
    /// Operations that met the fence.
    pub(crate) fenced: u64,
}

// === impl SimStore ===

impl SimStore {
    /// What is stored.
    #[must_use]
    pub(crate) fn records(&self) -> &RecordStore {
        &self.records
    }

    /// An operation sets out.
    pub(crate) fn ask(&mut self, asked: Asked) -> OpId {
        let id = OpId(self.next);
        self.next += 1;
        self.under_way.insert(id, asked);
        id
    }

    /// An operation has arrived: it is carried out. `None`: it is void, or was lost.
    pub(crate) fn carry_out(&mut self, id: OpId, plant: Option<Plant>) -> Option<(Asked, Answer)> {
        let asked = self.under_way.remove(&id)?;
        let answer = match &asked.op {
            Op::Open(epoch) => match self.records.open_epoch(*epoch) {
                Ok(()) => Answer::Opened(self.records.recovered()),
                Err(_refused) => Answer::Fenced,
            },
            Op::Commit(batch) => {
                let mut batch = batch.clone();
                if plant == Some(Plant::NoStoreFence) {
                    batch.epoch = self.records.opened();
                }
                match self.records.apply(batch) {
                    Ok(_seq) => {
                        self.commits += 1;
                        Answer::Committed
                    }
                    Err(_refused) => Answer::Fenced,
                }
            }
            Op::Confirm(epoch) => {
                if self.records.check(*epoch).is_ok() {
                    Answer::Confirmed
                } else {
                    Answer::Fenced
                }
            }
        };
        if answer == Answer::Fenced {
            self.fenced += 1;
        }
        Some((asked, answer))
    }

    /// An operation is lost before it arrives.
    pub(crate) fn lose(&mut self, id: OpId) {
        self.under_way.remove(&id);
    }

    /// The disk refuses an operation.
    pub(crate) fn refuse(&mut self, id: OpId) -> Option<Asked> {
        self.under_way.remove(&id)
    }

    /// Elects a master: mostly with a new epoch; with `again`, the epoch that the same master had last, if nobody has had a
    /// newer one since (as Raft does after a quorum was silent for a while). Returns the epoch and the leadership.
    pub(crate) fn elect(&mut self, master: usize, again: bool) -> (u64, u64) {
        let same = again
            && self.epoch > 0
            && self.holder_of_epoch() == Some(master)
            && self.records.opened().0 == self.epoch;
        self.leadership += 1;
        if same {
            // What the ended leadership had under way was aborted and awaited.
            self.under_way
                .retain(|_, asked| asked.master != master || !matches!(asked.op, Op::Commit(_)));
        } else {
            self.epoch += 1;
        }
        self.holder = Some((master, self.epoch));
        (self.epoch, self.leadership)
    }

    fn holder_of_epoch(&self) -> Option<usize> {
        self.holder
            .filter(|(_, epoch)| *epoch == self.epoch)
            .map(|(master, _)| master)
    }

    /// Whether a leadership is the newest.
    #[must_use]
    pub(crate) fn is_newest(&self, leadership: u64) -> bool {
        self.leadership == leadership
    }

    /// The epochs that were given out.
    #[must_use]
    pub(crate) fn epochs(&self) -> u64 {
        self.epoch
    }
}
