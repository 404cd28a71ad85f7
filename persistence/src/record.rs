//! What is stored: records, and the mutations that change them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{epoch::Epoch, error::CommitError};

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

/// Which limit a batch exceeds. Every engine refuses such a batch before it is written anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// More than [`BATCH_MUTATIONS_MAX`] mutations.
    #[error("batch of {found} mutations, at most {BATCH_MUTATIONS_MAX} are allowed")]
    Mutations {
        /// How many there are.
        found: usize,
    },
    /// More than [`BATCH_BYTES_MAX`] bytes.
    #[error("batch of {found} bytes, at most {BATCH_BYTES_MAX} are allowed")]
    Bytes {
        /// How many there are.
        found: usize,
    },
    /// An id longer than [`KEY_BYTES_MAX`].
    #[error("key of {found} bytes, at most {KEY_BYTES_MAX} are allowed")]
    Key {
        /// How long it is.
        found: usize,
    },
    /// A value larger than [`VALUE_BYTES_MAX`].
    #[error("value of {found} bytes, at most {VALUE_BYTES_MAX} are allowed")]
    Value {
        /// How large it is.
        found: usize,
    },
}

// === impl CommitBatch ===

impl CommitBatch {
    /// Bytes of all keys and values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.mutations
            .iter()
            .map(|mutation| mutation.key_bytes() + mutation.value_bytes())
            .sum()
    }

    /// Whether every limit of this module holds.
    ///
    /// # Errors
    /// The first limit that does not; becomes [`CommitError::Rejected`].
    pub fn check_limits(&self) -> Result<(), BatchError> {
        if self.mutations.len() > BATCH_MUTATIONS_MAX {
            return Err(BatchError::Mutations {
                found: self.mutations.len(),
            });
        }
        for mutation in &self.mutations {
            let (key, value) = (mutation.key_bytes(), mutation.value_bytes());
            if key > KEY_BYTES_MAX {
                return Err(BatchError::Key { found: key });
            }
            if value > VALUE_BYTES_MAX {
                return Err(BatchError::Value { found: value });
            }
        }
        match self.bytes() {
            found if found > BATCH_BYTES_MAX => Err(BatchError::Bytes { found }),
            _fits => Ok(()),
        }
    }
}

// === impl Mutation ===

impl Mutation {
    fn key_bytes(&self) -> usize {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key.id.len(),
        }
    }

    fn value_bytes(&self) -> usize {
        match self {
            Self::Put { value, .. } => value.len(),
            Self::Delete { .. } => 0,
        }
    }
}

// === impl BatchError ===

impl From<BatchError> for CommitError {
    fn from(error: BatchError) -> Self {
        Self::Rejected(Box::new(error))
    }
}
