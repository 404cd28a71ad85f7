//! What is in the data directory of a master that does not run.
//!
//! For an operator who wants to know before anything is started: the directory is locked while it is read, and of what it
//! says nothing is changed. (A torn end of a log, which nobody was ever told of, is cut off, as at the next start.)

use std::path::Path;

use crate::{backend::StoreSnapshot, error::OpenError, etcd, raft, sled};

/// A data directory that was read.
#[derive(Debug, Clone)]
pub struct Directory {
    /// The id of the master that it belongs to.
    pub master: String,
    /// Its records, with everything that its log has.
    pub cut: StoreSnapshot,
    /// Entries at the end of its log of which the master had not heard that a quorum has them when it stopped; usually
    /// one has. Their batches are in the records.
    pub unconfirmed_entries: u64,
}

/// Reads the directory at `path`, whichever engine it is of. Blocks.
///
/// # Errors
/// `InUse` while its master runs; `Foreign` where there are no records in it, with where they are if that is known;
/// `Corrupt` and `Io` as when it is opened.
pub fn read(path: &Path) -> Result<Directory, OpenError> {
    let foreign = |reason: &str| OpenError::Foreign {
        path: path.to_owned(),
        reason: reason.to_owned(),
    };
    // Looked at first: nothing is made where nothing is.
    if path.join(raft::IDENTITY_FILE).is_file() {
        return raft::read_offline(path);
    }
    if path.join(sled::MARKER_FILE).is_file() {
        return sled::read_offline(path);
    }
    if path.join(etcd::IDENTITY_FILE).is_file() {
        return Err(foreign(
            "its master keeps its records in etcd; while a master runs, `interrex snapshot save` saves them",
        ));
    }
    Err(foreign("it is not the data directory of a master"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_data_directory_is_refused_and_stays_as_it_is() {
        let temp = tempfile::tempdir().unwrap();
        let refused = read(temp.path()).unwrap_err().to_string();
        assert!(refused.contains("not the data directory"), "{refused}");
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0);
        let missing = temp.path().join("missing");
        assert!(matches!(read(&missing), Err(OpenError::Foreign { .. })));
        assert!(!missing.exists());
    }

    #[test]
    fn a_directory_of_a_master_on_etcd_says_where_its_records_are() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join(etcd::IDENTITY_FILE), "{}").unwrap();
        let refused = read(temp.path()).unwrap_err().to_string();
        assert!(refused.contains("snapshot save"), "{refused}");
    }
}
