//! From a snapshot to the batches that make it the records of a new cluster.
//!
//! The records of the new cluster are replaced by the snapshot's. Its own id stays; the snapshot's becomes a former one, by
//! which agents are known. The first batch marks the meta record, the last one takes the mark away; in between come all
//! others, in an order that does not matter, since nobody works with marked records. Doing it twice is doing it once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use interrex_core::{
    state::meta::{FORMERLY_MAX, Meta},
    transition,
};
use interrex_persistence::{
    epoch::Epoch,
    record::{Mutation, RecordKey, Recovered},
    snapshot_file::SnapshotFile,
};

use crate::records::{self, META, NewerFormat};

/// How far above the snapshot's epoch the new cluster begins: the old one may have had that many elections (or writes,
/// where the epoch is a revision) since the snapshot was taken, and its agents have seen their epochs.
pub const EPOCH_MARGIN: u64 = 1_000_000_000;
/// Bounds of one batch.
const BATCH_RECORDS_MAX: usize = 1000;
const BATCH_BYTES_MAX: usize = 1 << 20;
/// Keys of quarantined records that a refusal names.
const NAMED_MAX: usize = 5;

/// A snapshot that may be restored.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) file: Arc<SnapshotFile>,
    /// As the snapshot's meta record says.
    meta: Meta,
}

/// Why a snapshot is not restored. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A newer version has written a record.
    #[error("in the snapshot, {0}")]
    Newer(#[from] NewerFormat),
    /// Records cannot be read.
    #[error(
        "{count} records of the snapshot cannot be read ({named}); look at them with `interrex snapshot inspect`, and \
         give --keep-quarantined to take them over as they are"
    )]
    Quarantined {
        /// How many.
        count: usize,
        /// The first ones.
        named: String,
    },
    /// It is of a restore that had not ended.
    #[error(
        "the snapshot was taken while snapshot {of} was being restored, so it is incomplete; take another one"
    )]
    Incomplete {
        /// Which snapshot was being restored.
        of: String,
    },
}

/// What has to be stored, in this order: [`begin`](Self::begin), each of [`batches`](Self::batches), and when the epochs are
/// raised above [`floor`](Self::floor), [`end`](Self::end).
#[derive(Debug)]
pub(crate) struct RestorePlan {
    marked: Meta,
    restored: Meta,
    batches: Vec<Vec<Mutation>>,
    pub(crate) floor: Epoch,
}

// === impl Source ===

impl Source {
    /// Decodes every record of `file`; takes a while with many.
    ///
    /// # Errors
    /// [`Unfit`].
    pub(crate) fn examine(file: SnapshotFile, keep_quarantined: bool) -> Result<Self, Unfit> {
        let decoded = records::decode_all(file.store.recovered())?;
        if !keep_quarantined && !decoded.quarantined.is_empty() {
            let named = decoded.quarantined.iter().take(NAMED_MAX);
            let named: Vec<String> = named.map(|record| record.shown()).collect();
            return Err(Unfit::Quarantined {
                count: decoded.quarantined.len(),
                named: named.join("; "),
            });
        }
        let mut meta = decoded.entities.meta;
        if !meta.restoring.is_empty() {
            return Err(Unfit::Incomplete { of: meta.restoring });
        }
        if meta.cluster_id.is_empty() {
            meta.cluster_id.clone_from(&file.header.cluster_id);
        }
        Ok(Self {
            file: Arc::new(file),
            meta,
        })
    }

    /// The name of the snapshot.
    pub(crate) fn name(&self) -> String {
        self.file.digest.to_string()
    }
}

// === impl RestorePlan ===

impl RestorePlan {
    /// What makes the store that holds `present` one with the records of `source`, for the cluster `cluster_id`.
    pub(crate) fn new(source: &Source, present: Recovered, cluster_id: &str) -> Self {
        let store = &source.file.store;
        let present: BTreeMap<RecordKey, Bytes> = present.records.into_iter().collect();
        let mut cutter = Cutter::default();
        for key in present.keys() {
            if key.kind != META && store.get(key).is_none() {
                cutter.push(Mutation::Delete { key: key.clone() });
            }
        }
        for (key, value) in store.iter() {
            // What is there already was put there by an earlier attempt.
            if key.kind != META && present.get(key) != Some(value) {
                let (key, value) = (key.clone(), value.clone());
                cutter.push(Mutation::Put { key, value });
            }
        }
        let restored = Meta {
            cluster_id: cluster_id.to_owned(),
            formerly: formerly(&source.meta, cluster_id),
            restored: source.name(),
            ..source.meta.clone()
        };
        Self {
            marked: Meta {
                restoring: source.name(),
                restored: String::new(),
                ..restored.clone()
            },
            restored,
            batches: cutter.finish(),
            floor: Epoch(source.file.header.epoch.saturating_add(EPOCH_MARGIN)),
        }
    }

    pub(crate) fn begin(&self) -> Vec<Mutation> {
        records::encode_batch(&[transition::Mutation::PutMeta(self.marked.clone())])
    }

    pub(crate) fn batches(&mut self) -> Vec<Vec<Mutation>> {
        std::mem::take(&mut self.batches)
    }

    pub(crate) fn end(&self) -> Vec<Mutation> {
        records::encode_batch(&[transition::Mutation::PutMeta(self.restored.clone())])
    }

    pub(crate) fn formerly(&self) -> &[String] {
        &self.restored.formerly
    }
}

/// The former ids of the new cluster, the newest last.
fn formerly(source: &Meta, ours: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let all = source.formerly.iter().chain([&source.cluster_id]).rev();
    let mut ids: Vec<String> = all
        .filter(|id| !id.is_empty() && *id != ours && seen.insert((*id).clone()))
        .take(FORMERLY_MAX)
        .cloned()
        .collect();
    ids.reverse();
    ids
}

/// Cuts mutations into bounded batches.
#[derive(Debug, Default)]
struct Cutter {
    done: Vec<Vec<Mutation>>,
    open: Vec<Mutation>,
    bytes: usize,
}

// === impl Cutter ===

impl Cutter {
    fn push(&mut self, mutation: Mutation) {
        let bytes = match &mutation {
            Mutation::Put { key, value } => key.id.len() + value.len(),
            Mutation::Delete { key } => key.id.len(),
        };
        if self.open.len() >= BATCH_RECORDS_MAX || self.bytes + bytes > BATCH_BYTES_MAX {
            self.close();
        }
        self.bytes += bytes;
        self.open.push(mutation);
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.done.push(std::mem::take(&mut self.open));
        }
        self.bytes = 0;
    }

    fn finish(mut self) -> Vec<Vec<Mutation>> {
        self.close();
        self.done
    }
}

#[cfg(test)]
#[path = "plan_test.rs"]
mod plan_test;
