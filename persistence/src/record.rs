//! What is stored: records, and the mutations that change them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::epoch::Epoch;

/// The kind of a record; its meaning belongs to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RecordKind(pub u8);

/// The key of a record. Keys are ordered by kind, then id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RecordKey {
    /// What it is.
    pub kind: RecordKind,
    /// Which one; at most [`KEY_BYTES_MAX`] bytes.
    pub id: Box<str>,
}

/// Longest id of a key, in bytes: an application id, a slash and an executor's number fit.
pub const KEY_BYTES_MAX: usize = 512;
/// Largest value of one record, in bytes: a description of 1 MiB with room around it.
pub const VALUE_BYTES_MAX: usize = 2 << 20;
/// Largest batch, in bytes of keys and values.
pub const BATCH_BYTES_MAX: usize = 8 << 20;
/// Most mutations of one batch.
pub const BATCH_MUTATIONS_MAX: usize = 65_536;

/// One change of one record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mutation {
    /// Stores `value` under `key`, whatever was there.
    Put {
        /// Which record.
        key: RecordKey,
        /// Its new value.
        value: Bytes,
    },
    /// Removes the record; harmless where there is none.
    Delete {
        /// Which record.
        key: RecordKey,
    },
}

/// Mutations that are stored together or not at all, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitBatch {
    /// The leadership that decided them.
    pub epoch: Epoch,
    /// What changes. May be empty: then the commit is a proof that the epoch still holds.
    pub mutations: Vec<Mutation>,
}

/// Everything that was committed before an epoch was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// All records, ordered by key.
    pub records: Vec<(RecordKey, Bytes)>,
}
