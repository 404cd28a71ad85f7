//! The records in the data directory of a master that does not run.

use std::{path::Path, sync::Arc};

use super::{
    formats::{ENTRY_FORMAT, check_applicable},
    identity::DataDir,
    log_store::LogStore,
    meter::Meter,
    options::SnapshotBounds,
    snapshot::{Image, Snapshots},
    types::format_of,
};
use crate::{
    backend::StoreSnapshot, data_dir::io_at, error::OpenError, offline::Directory,
    options::EngineKind,
};

/// Entries that are read at once.
const READ_ENTRIES: u64 = 1024;

/// Reads the newest snapshot and the whole log behind it, as a restart and then a leadership of this master would. Blocks.
///
/// # Errors
/// `InUse` while its master runs; `Foreign`, `Corrupt` and `Io` as when it is opened.
pub(crate) fn read(path: &Path) -> Result<Directory, OpenError> {
    let dir = DataDir::lock(path)?;
    let identity = dir.any_identity()?;
    let (_snapshots, image) = Snapshots::open(&dir.join("snapshots"))?;
    let log_dir = dir.join("log");
    let bounds = SnapshotBounds::default();
    let log = LogStore::open(&log_dir, &bounds, Arc::new(Meter::default()))?;
    let mut image = image.unwrap_or_default();
    let unconfirmed = replay(&log, &mut image).map_err(io_at(&log_dir))?;
    log.close();
    let cluster_id = match image.cluster_id.as_str() {
        "" => identity.cluster_id,
        known => known.to_owned(),
    };
    Ok(Directory {
        master: identity.id,
        cut: StoreSnapshot {
            engine: EngineKind::Raft,
            cluster_id: Some(cluster_id).filter(|id| !id.is_empty()),
            store: image.store,
        },
        unconfirmed_entries: unconfirmed,
    })
}

/// Applies the log; how much of it this master does not know to be committed.
fn replay(log: &LogStore, image: &mut Image) -> std::io::Result<u64> {
    let (last, _voted) = log.ends()?;
    let committed = log.committed()?.max(image.last);
    let mut unconfirmed = 0;
    let mut at = image.last.map_or(0, |last| last.index + 1);
    while last.is_some_and(|last| at <= last.index) {
        let entries = log.entries(at, at + READ_ENTRIES)?;
        let Some(end) = entries.last().map(|entry| entry.log_id.index) else {
            break;
        };
        for entry in entries {
            if Some(entry.log_id) > committed {
                unconfirmed += 1;
            }
            let format = format_of(&entry.payload);
            check_applicable(format, entry.log_id.index, ENTRY_FORMAT)?;
            // Refusals are part of what the log says: every replica comes to the same one.
            let _outcome = image.apply(entry.log_id, entry.payload);
        }
        at = end + 1;
    }
    Ok(unconfirmed)
}
