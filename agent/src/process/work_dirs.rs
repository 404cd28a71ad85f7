//! The directories of drivers and executors, and which of them are in use.
//!
//! Attempts make them, the clean-up takes them away, and a driver's next attempt may come for its directory at any
//! moment. Both go through here: what is in use is never taken away, and what is taken away is gone at once (it is
//! moved aside first and emptied later).

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::process::LogOwner;

/// The directories of one agent. Clones share what is in use.
#[derive(Debug, Clone)]
pub struct WorkDirs {
    root: PathBuf,
    trash: PathBuf,
    in_use: Arc<Mutex<BTreeMap<LogOwner, usize>>>,
}

/// As long as this lives, the directory of its owner is not taken away.
#[derive(Debug)]
pub struct InUse {
    dirs: WorkDirs,
    owner: LogOwner,
}

// === impl WorkDirs ===

impl WorkDirs {
    /// Directories under `root`. What is taken away goes to `trash`, which must be on the same file system and is
    /// made where it is missing.
    #[must_use]
    pub fn new(root: PathBuf, trash: PathBuf) -> Self {
        Self {
            root,
            trash,
            in_use: Arc::default(),
        }
    }

    /// Where all of them are.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where those go that are taken away.
    #[must_use]
    pub fn trash(&self) -> &Path {
        &self.trash
    }

    /// Makes the directory of `owner`, where it is missing, and keeps it. Blocking.
    ///
    /// # Errors
    /// As the file system says, or an id that cannot be a directory's name.
    pub fn make(&self, owner: LogOwner) -> io::Result<(InUse, PathBuf)> {
        let path = self.path(&owner)?;
        let in_use = self.claim(owner);
        // Under the lock: an application's own directory may be going with its last executor's.
        let _unchanged = self.lock();
        fs::create_dir_all(&path)?;
        Ok((in_use, path))
    }

    /// Keeps the directory of `owner`, whether it is there or not.
    #[must_use]
    pub fn claim(&self, owner: LogOwner) -> InUse {
        *self.lock().entry(owner.clone()).or_default() += 1;
        InUse {
            dirs: self.clone(),
            owner,
        }
    }

    /// Whether something may still write to the directory of `owner`.
    #[must_use]
    pub fn is_in_use(&self, owner: &LogOwner) -> bool {
        self.lock().contains_key(owner)
    }

    /// Takes the directory of `owner` away, to the trash and under `name`, unless it is in use. Returns where it is
    /// now; `None` where it stays. Blocking.
    ///
    /// # Errors
    /// As the file system says; nothing has changed then.
    pub fn discard(&self, owner: &LogOwner, name: &str) -> io::Result<Option<PathBuf>> {
        let path = self.path(owner)?;
        fs::create_dir_all(&self.trash)?;
        let to = self.trash.join(name);
        let in_use = self.lock();
        if in_use.contains_key(owner) {
            return Ok(None);
        }
        fs::rename(&path, &to)?;
        if let (LogOwner::Executor(..), Some(application)) = (owner, path.parent()) {
            // Refused while it holds other executors.
            fs::remove_dir(application).ok();
        }
        drop(in_use);
        Ok(Some(to))
    }

    fn path(&self, owner: &LogOwner) -> io::Result<PathBuf> {
        owner
            .directory(&self.root)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<LogOwner, usize>> {
        // The map is whole after every statement above, so a panic elsewhere does not spoil it.
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl InUse ===

impl Drop for InUse {
    fn drop(&mut self) {
        let mut in_use = self.dirs.lock();
        if let Some(count) = in_use.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                in_use.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_stays_and_what_is_not_goes_with_its_empty_parent() {
        let directory = tempfile::tempdir().unwrap();
        let dirs = WorkDirs::new(directory.path().join("w"), directory.path().join("t"));
        let (e1, e2) = (
            LogOwner::Executor("a1".to_owned(), 1),
            LogOwner::Executor("a1".to_owned(), 2),
        );
        let (first, path) = dirs.make(e1.clone()).unwrap();
        let second = dirs.claim(e1.clone());
        let (third, _) = dirs.make(e2.clone()).unwrap();
        fs::write(path.join("stdout"), "x").unwrap();
        drop(first);
        assert_eq!(dirs.discard(&e1, "n1").unwrap(), None);
        drop(second);
        let to = dirs.discard(&e1, "n1").unwrap().unwrap();
        assert!(!path.exists() && to.join("stdout").exists());
        assert!(path.parent().unwrap().exists());
        drop(third);
        assert!(dirs.discard(&e2, "n2").unwrap().is_some());
        assert!(!path.parent().unwrap().exists());
    }
}
