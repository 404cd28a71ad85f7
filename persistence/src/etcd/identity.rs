//! Who this master is, kept in its data directory; and the lock that makes the directory its own.
//!
//! The random number tells this master from another one with the same id, and an earlier life of it (whose leadership
//! may be ended at once) from a stranger's. The cluster's id makes sure that a master never leads over a store that is
//! not its cluster's, a wiped one included. The largest epoch makes sure that epochs rise even if etcd's revisions fall
//! back, as they do when it is restored from a backup.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};

use crate::{data_dir::DirLock, epoch::Epoch, error::OpenError, identity_file};

/// What `etcd.json` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Identity {
    format: u32,
    /// The configured id, such as `m1`.
    pub(super) id: String,
    /// Random, never 0, minted with the directory.
    pub(super) node: u64,
    /// The cluster this master belongs to; empty before it has met one.
    #[serde(default)]
    pub(super) cluster_id: String,
    /// The largest epoch that this master has heard of.
    #[serde(default)]
    pub(super) epoch: u64,
}

/// A data directory that belongs to this process until it is given back or this is dropped.
#[derive(Debug)]
pub(super) struct DataDir {
    path: PathBuf,
    identity: Mutex<Identity>,
    lock: Mutex<Option<DirLock>>,
}

// === impl DataDir ===

impl DataDir {
    /// Takes `path` for this process, creating it where it is missing, and reads or mints the identity. Blocks.
    ///
    /// # Errors
    /// `InUse` with the owner's process id; `Foreign` when the directory is another master's or something else;
    /// `Corrupt` when the identity cannot be read back; `Io`.
    pub(super) fn open(path: &Path, id: &str) -> Result<Self, OpenError> {
        let lock = DirLock::acquire(path)?;
        let identity = identity_file::claim(path, id)?;
        Ok(Self {
            path: path.to_owned(),
            identity: Mutex::new(identity),
            lock: Mutex::new(Some(lock)),
        })
    }

    /// The identity as it is now.
    pub(super) fn identity(&self) -> Identity {
        self.current().clone()
    }

    /// The largest epoch that this master has heard of.
    pub(super) fn epoch(&self) -> Epoch {
        Epoch(self.current().epoch)
    }

    /// Remembers the cluster, durably.
    ///
    /// # Errors
    /// `Io`; then it is not remembered at all.
    pub(super) async fn join(self: &Arc<Self>, cluster_id: String) -> Result<(), OpenError> {
        self.change(move |identity| identity.cluster_id = cluster_id)
            .await
    }

    /// Remembers an epoch, durably, if it is larger than those before.
    ///
    /// # Errors
    /// `Io`; then it is not remembered at all.
    pub(super) async fn heard_of(self: &Arc<Self>, epoch: Epoch) -> Result<(), OpenError> {
        if epoch <= self.epoch() {
            return Ok(());
        }
        self.change(move |identity| identity.epoch = identity.epoch.max(epoch.0))
            .await
    }

    /// Gives the directory back: handles that outlive the backend must not keep it. Nothing is written after this.
    pub(super) fn release(&self) {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        *lock = None;
    }

    async fn change(
        self: &Arc<Self>,
        change: impl FnOnce(&mut Identity) + Send + 'static,
    ) -> Result<(), OpenError> {
        let this = Arc::clone(self);
        let written = tokio::task::spawn_blocking(move || {
            // Held while the file is written, so that writes keep their order.
            let lock = this.lock.lock().unwrap_or_else(PoisonError::into_inner);
            if lock.is_none() {
                return Ok(());
            }
            let mut wanted = this.identity();
            change(&mut wanted);
            identity_file::store(&this.path, &wanted)?;
            *this.current() = wanted;
            Ok(())
        });
        written.await.unwrap_or_else(|error| {
            Err(OpenError::Io {
                path: self.path.clone(),
                source: io::Error::other(error),
            })
        })
    }

    fn current(&self) -> MutexGuard<'_, Identity> {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Identity ===

impl identity_file::Identity for Identity {
    const FILE: &'static str = "etcd.json";
    const FORMAT: u32 = 1;
    const WHOSE: &'static str = "that of a master on etcd";

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
            epoch: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_directory_keeps_its_identity_and_what_it_learns() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Arc::new(DataDir::open(temp.path(), "m1").unwrap());
        let first = dir.identity();
        dir.join("c1".to_owned()).await.unwrap();
        dir.heard_of(Epoch(7)).await.unwrap();
        dir.heard_of(Epoch(3)).await.unwrap();
        drop(dir);
        let second = DataDir::open(temp.path(), "m1").unwrap().identity();
        assert_eq!((second.node, second.epoch), (first.node, 7));
        assert_eq!(second.cluster_id, "c1");
    }

    #[test]
    fn a_directory_of_a_master_on_raft_is_refused_by_name() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("identity.json"), "{}").unwrap();
        let refused = DataDir::open(temp.path(), "m1").unwrap_err().to_string();
        assert!(refused.contains("`identity.json`"), "{refused}");
    }
}
