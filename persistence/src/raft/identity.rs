//! Who this master is, kept in its data directory; and the lock that makes the directory its own.
//!
//! The identity is the id an operator chose plus a random number minted with the directory: the incarnation.
//! Votes are counted by that number, so a wiped disk is a new node and is never taken for the member it was.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::roster;
use crate::{
    data_dir::{DirLock, LOCK_FILE, io_at, replace_file},
    error::OpenError,
};

const FILE: &str = "identity.json";
const FORMAT: u32 = 1;
/// What may lie in a directory that is still free: our lock, what file systems put there, and what a crash between
/// making the identity and naming it leaves behind.
const HARMLESS: [&str; 3] = [LOCK_FILE, "lost+found", "identity.tmp"];

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
        let foreign = |reason| OpenError::Foreign {
            path: self.path.clone(),
            reason,
        };
        match self.read()? {
            Some(found) if found.id != id => Err(foreign(format!(
                "it belongs to master {}, not to {id}; check --id and --data-dir",
                found.id
            ))),
            Some(found) if found.left_behind => Err(foreign(roster::left_behind(id, found.node))),
            Some(found) => Ok(found),
            None => {
                if let Some(name) = self.stranger()? {
                    return Err(foreign(format!(
                        "it is not a master's (it holds `{name}` but no {FILE}); choose an empty one"
                    )));
                }
                let identity = Identity::mint(id);
                self.store(&identity)?;
                Ok(identity)
            }
        }
    }

    /// The identity that is stored here.
    ///
    /// # Errors
    /// `Foreign` when there is none, or it was left behind; `Corrupt` and `Io` as for [`identity`](Self::identity).
    pub(super) fn known_identity(&self) -> Result<Identity, OpenError> {
        let foreign = |reason| OpenError::Foreign {
            path: self.path.clone(),
            reason,
        };
        match self.read()? {
            Some(found) if found.left_behind => {
                Err(foreign(roster::left_behind(&found.id, found.node)))
            }
            Some(found) => Ok(found),
            None => Err(foreign(format!(
                "it is not a master's (there is no {FILE})"
            ))),
        }
    }

    fn read(&self) -> Result<Option<Identity>, OpenError> {
        let file = self.join(FILE);
        let bytes = match fs::read(&file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(OpenError::Io { path: file, source }),
        };
        let found: Identity =
            serde_json::from_slice(&bytes).map_err(|error| OpenError::Corrupt {
                path: file.clone(),
                reason: error.to_string(),
            })?;
        if found.format != FORMAT {
            return Err(OpenError::Foreign {
                path: self.path.clone(),
                reason: format!(
                    "written in format {}, this program reads format {FORMAT}",
                    found.format
                ),
            });
        }
        Ok(Some(found))
    }

    /// Stores `identity` durably.
    ///
    /// # Errors
    /// `Io` when it cannot be written.
    pub(super) fn store(&self, identity: &Identity) -> Result<(), OpenError> {
        let path = self.join(FILE);
        let text = serde_json::to_vec_pretty(identity).map_err(|error| OpenError::Io {
            path: path.clone(),
            source: error.into(),
        })?;
        replace_file(&path, &text).map_err(io_at(&path))
    }

    fn stranger(&self) -> Result<Option<String>, OpenError> {
        for entry in fs::read_dir(&self.path).map_err(io_at(&self.path))? {
            let name = entry
                .map_err(io_at(&self.path))?
                .file_name()
                .to_string_lossy()
                .into_owned();
            if !HARMLESS.contains(&name.as_str()) {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }
}

// === impl Identity ===

impl Identity {
    fn mint(id: &str) -> Self {
        Self {
            format: FORMAT,
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
    fn another_masters_directory_is_refused_by_name() {
        let temp = tempfile::tempdir().unwrap();
        DataDir::lock(temp.path()).unwrap().identity("m2").unwrap();
        let error = DataDir::lock(temp.path())
            .unwrap()
            .identity("m1")
            .unwrap_err();
        assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
        assert!(
            error
                .to_string()
                .contains("belongs to master m2, not to m1"),
            "{error}"
        );
    }

    #[test]
    fn a_directory_of_something_else_is_refused_by_name() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("thesis.tex"), "x").unwrap();
        let error = DataDir::lock(temp.path())
            .unwrap()
            .identity("m1")
            .unwrap_err();
        assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
        assert!(error.to_string().contains("thesis.tex"), "{error}");
        assert!(!temp.path().join(FILE).exists());
    }

    #[test]
    fn a_damaged_identity_is_said_to_be_damaged() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::lock(temp.path()).unwrap();
        fs::write(dir.join(FILE), "{").unwrap();
        assert!(matches!(
            dir.identity("m1").unwrap_err(),
            OpenError::Corrupt { .. }
        ));
    }
}
