//! The records themselves, with their fence: a pure map that every replica keeps alike.
//!
//! Owned by whoever applies batches in order: the memory backend, the Raft state machine, the sled writer, the
//! simulator. It has no clock, no randomness and no I/O, so that the same calls give the same store everywhere.
//! What must never happen: a batch of an epoch that is not the opened one is stored, or half of a batch is.
//!
//! The map is persistent (in the data structure's sense): [`Clone`] costs O(1), so a snapshot is taken between two
//! batches and encoded elsewhere, while the next batches are applied.

mod snapshot;

#[cfg(test)]
mod properties;

use bytes::Bytes;
use imbl::OrdMap;

use crate::{
    epoch::{CommitSeq, Epoch},
    error::CommitError,
    record::{CommitBatch, Mutation, RecordKey, Recovered},
};

pub use snapshot::{SNAPSHOT_CHUNK_BYTES, SNAPSHOT_VERSION, SnapshotChunks, SnapshotError};

/// Records, the epoch that may change them, and how many batches have done so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordStore {
    records: OrdMap<RecordKey, Bytes>,
    opened: Epoch,
    seq: CommitSeq,
    bytes: u64,
}

/// Why the store refused an epoch or a batch. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A larger epoch is open.
    #[error("epoch {epoch} is fenced: epoch {opened} has been opened")]
    Fenced {
        /// The epoch that was offered.
        epoch: Epoch,
        /// The epoch that is open.
        opened: Epoch,
    },
    /// The batch's epoch was never opened, so its leader has not read what it is changing.
    #[error("epoch {epoch} has not been opened (open is {opened}); call open_epoch first")]
    NotOpened {
        /// The epoch that was offered.
        epoch: Epoch,
        /// The epoch that is open.
        opened: Epoch,
    },
}

// === impl RecordStore ===

impl RecordStore {
    /// An empty store; no epoch is open.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A store that continues from what was read back from a disk.
    #[must_use]
    pub fn restore(
        opened: Epoch,
        seq: CommitSeq,
        records: impl IntoIterator<Item = (RecordKey, Bytes)>,
    ) -> Self {
        let mut store = Self {
            opened,
            seq,
            ..Self::default()
        };
        for (key, value) in records {
            store.put(key, value);
        }
        store
    }

    /// Opens `epoch`: from now on every other epoch is refused. Opening the open epoch again changes nothing.
    ///
    /// # Errors
    /// `Fenced` when a larger epoch is open; `NotOpened` for [`Epoch::ZERO`], which nobody can lead in.
    pub fn open_epoch(&mut self, epoch: Epoch) -> Result<(), Refusal> {
        if epoch < self.opened {
            return Err(Refusal::Fenced {
                epoch,
                opened: self.opened,
            });
        }
        if epoch == Epoch::ZERO {
            return Err(Refusal::NotOpened {
                epoch,
                opened: self.opened,
            });
        }
        self.opened = epoch;
        Ok(())
    }

    /// Whether a batch of `epoch` would be stored now.
    ///
    /// # Errors
    /// The [`Refusal`] that [`apply`](Self::apply) would give.
    pub fn check(&self, epoch: Epoch) -> Result<(), Refusal> {
        let opened = self.opened;
        if epoch < opened {
            Err(Refusal::Fenced { epoch, opened })
        } else if epoch > opened || epoch == Epoch::ZERO {
            Err(Refusal::NotOpened { epoch, opened })
        } else {
            Ok(())
        }
    }

    /// Stores all mutations of `batch`, or none of them. Returns its place in the order of all batches.
    ///
    /// # Errors
    /// A [`Refusal`] when the batch's epoch is not the open one; nothing was changed.
    pub fn apply(&mut self, batch: CommitBatch) -> Result<CommitSeq, Refusal> {
        self.check(batch.epoch)?;
        for mutation in batch.mutations {
            match mutation {
                Mutation::Put { key, value } => self.put(key, value),
                Mutation::Delete { key } => self.delete(&key),
            }
        }
        self.seq = CommitSeq(self.seq.0 + 1);
        Ok(self.seq)
    }

    /// The epoch that is open; [`Epoch::ZERO`] when none ever was.
    #[must_use]
    pub fn opened(&self) -> Epoch {
        self.opened
    }

    /// The place of the newest batch.
    #[must_use]
    pub fn seq(&self) -> CommitSeq {
        self.seq
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes of all keys and values.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The value under `key`.
    #[must_use]
    pub fn get(&self, key: &RecordKey) -> Option<&Bytes> {
        self.records.get(key)
    }

    /// All records, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&RecordKey, &Bytes)> {
        self.records.iter()
    }

    /// All records as a new leader gets them.
    #[must_use]
    pub fn recovered(&self) -> Recovered {
        Recovered {
            records: self
                .iter()
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        }
    }

    fn put(&mut self, key: RecordKey, value: Bytes) {
        self.bytes += record_bytes(&key, &value);
        if let Some(old) = self.records.get(&key) {
            self.bytes -= record_bytes(&key, old);
        }
        self.records.insert(key, value);
    }

    fn delete(&mut self, key: &RecordKey) {
        if let Some(old) = self.records.remove(key) {
            self.bytes -= record_bytes(key, &old);
        }
    }
}

// === impl Refusal ===

impl From<Refusal> for CommitError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Fenced { opened, .. } => Self::Fenced { current: opened },
            Refusal::NotOpened { .. } => Self::Rejected(Box::new(refusal)),
        }
    }
}

fn record_bytes(key: &RecordKey, value: &Bytes) -> u64 {
    // The kind is one byte.
    (1 + key.id.len() + value.len()) as u64
}
