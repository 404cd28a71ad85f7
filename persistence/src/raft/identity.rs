//! Who this master is, kept in its data directory; and the lock that makes the directory its own.
//!
//! The identity is the id an operator chose plus a random number minted with the directory: the incarnation.
//! Votes are counted by that number, so a wiped disk is a new node and is never taken for the member it was.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::roster;
use crate::{data_dir::DirLock, error::OpenError, identity_file};

/// What `identity.json` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Identity {
    format: u32,
    /// The configured id, such as `m1`.
    pub(super) id: String,
    /// The incarnation: random, never 0, minted with the directory.
    pub(super) node: u64,
    /// The cluster this directory has been part of; empty before it was formed.
    #[serde(default)]
    pub(super) cluster_id: String,
    /// Whether the cluster was recovered without this node, which therefore never takes part again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) left_behind: bool,
}

/// A data directory that belongs to this process until this is dropped.
#[derive(Debug)]
pub(super) struct DataDir {
    path: PathBuf,
    _lock: DirLock,
}

// === impl DataDir ===

impl DataDir {
    /// Takes `path` for this process, creating it where it is missing.
    ///
    /// # Errors
    /// `InUse` with the owner's process id, `Io` when it cannot be created or written.
    pub(super) fn lock(path: &Path) -> Result<Self, OpenError> {
        let lock = DirLock::acquire(path)?;
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// A path inside the directory.
    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The identity that is stored here, or a new one for `id` in a directory that is empty.
    ///
    /// # Errors
    /// `Foreign` when the directory is another master's or something else, `Corrupt` when the identity cannot be
    /// read back, `Io` when it cannot be stored.
    pub(super) fn identity(&self, id: &str) -> Result<Identity, OpenError> {
        self.with_a_future(identity_file::claim(&self.path, id)?)
    }

    /// The identity that is stored here.
    ///
    /// # Errors
    /// `Foreign` when there is none, or it was left behind; `Corrupt` and `Io` as for [`identity`](Self::identity).
    pub(super) fn known_identity(&self) -> Result<Identity, OpenError> {
        self.with_a_future(self.any_identity()?)
    }

    /// The identity that is stored here, whatever has become of its node.
    ///
    /// # Errors
    /// `Foreign` when there is none; `Corrupt` and `Io` as for [`identity`](Self::identity).
    pub(super) fn any_identity(&self) -> Result<Identity, OpenError> {
        identity_file::expect(&self.path)
    }

    /// The same identity, unless it was left behind.
    fn with_a_future(&self, identity: Identity) -> Result<Identity, OpenError> {
        if identity.left_behind {
            return Err(OpenError::Foreign {
                path: self.path.clone(),
                reason: roster::left_behind(&identity.id, identity.node),
            });
        }
        Ok(identity)
    }

    /// Stores `identity` durably.
    ///
    /// # Errors
    /// `Io` when it cannot be written.
    pub(super) fn store(&self, identity: &Identity) -> Result<(), OpenError> {
        identity_file::store(&self.path, identity)
    }
}

// === impl Identity ===

impl identity_file::Identity for Identity {
    const FILE: &'static str = "identity.json";
    const FORMAT: u32 = 1;
    const WHOSE: &'static str = "a master's";

    fn format(&self) -> u32 {
        self.format
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn mint(id: &str) -> Self {
        Self {
            format: Self::FORMAT,
            id: id.to_owned(),
            node: rand::random::<u64>().max(1),
            cluster_id: String::new(),
            left_behind: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_keeps_its_identity() {
        let temp = tempfile::tempdir().unwrap();
        let first = DataDir::lock(temp.path()).unwrap().identity("m1").unwrap();
        let second = DataDir::lock(temp.path()).unwrap().identity("m1").unwrap();
        assert_eq!(first, second);
        assert_ne!(first.node, 0);
    }

    #[test]
    fn a_directory_that_was_left_behind_can_be_read_and_not_used() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::lock(temp.path()).unwrap();
        let mut identity = dir.identity("m1").unwrap();
        identity.left_behind = true;
        dir.store(&identity).unwrap();
        for refused in [dir.identity("m1"), dir.known_identity()] {
            let error = refused.unwrap_err();
            assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
        }
        assert_eq!(dir.any_identity().unwrap(), identity);
    }
}
