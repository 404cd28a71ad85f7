//! Whole clusters as files: what a snapshot is of, what is in one, and how one becomes the records of a new cluster.
//!
//! Pure; the file itself is `interrex_persistence::snapshot_file`, and the pump of a restore is `runtime::restore`. What
//! must never happen: records that this build cannot read are written into a new cluster unasked.

mod plan;
mod report;

use interrex_persistence::{
    backend::StoreSnapshot, record_store::RecordStore, snapshot_file::SnapshotHeader,
};

pub(crate) use self::plan::{RestorePlan, Source};
pub use self::{
    plan::{EPOCH_MARGIN, Unfit},
    report::{KindReport, QuarantinedRecord, Report, Sampled, examine, examine_store},
};
use crate::records;

/// The header of a snapshot that was taken at `now_ms`, and its records. Counts them, so it takes a while with many.
#[must_use]
pub fn describe(mut cut: StoreSnapshot, now_ms: u64) -> (SnapshotHeader, RecordStore) {
    if cut.cluster_id.is_none() {
        cut.cluster_id = records::cluster_id(&cut.store);
    }
    (SnapshotHeader::new(&cut, now_ms), cut.store)
}
