//! One sled database, made durable.
//!
//! Owned by the writer's thread, or by the one that opens it: every call here blocks. What must never happen: `write`
//! returns `Ok` for a batch that a power cut can take. sled 0.34 does not fsync in `flush`: it uses
//! `sync_file_range`, which leaves out the file's size. So this module opens the database file once more and
//! syncs that; a sync works on the inode, whoever wrote.

use std::{
    fs::{self, File},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use sled::{Batch, Db};

use super::{
    anchor::Anchor,
    layout::{self, Content, Loader},
};
use crate::{data_dir, epoch::CommitSeq, error::OpenError, kill_point::KillPoint};

/// sled's page cache. Small: records are in memory already.
const CACHE_BYTES: u64 = 32 << 20;
/// Bytes of records in one batch when a database is filled anew.
const FILL_BYTES: usize = 1 << 20;
/// How long a handle of this process that is just closing may keep sled's own lock.
const SLED_LOCK_PATIENCE: Duration = Duration::from_secs(2);
const SLED_LOCK_RETRY: Duration = Duration::from_millis(10);

/// An open database.
#[derive(Debug)]
pub(super) struct Database {
    db: Db,
    /// sled's data file, opened once more, to be synced.
    file: File,
    anchor: Anchor,
    faults: SyncFaults,
}

/// Why the database could not be read or written. Its state on disk is unknown from then on.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// Reported by sled.
    #[error("database: {0}")]
    Sled(#[from] sled::Error),
    /// Reported by the system.
    #[error("database file: {0}")]
    Io(#[from] io::Error),
    /// sled gave up in the middle.
    #[error("the database panicked; the log has its message")]
    Panicked,
}

/// Lets a test make the next syncs fail; nothing otherwise.
#[derive(Debug, Clone, Default)]
pub(super) struct SyncFaults {
    #[cfg(test)]
    pub(super) next: std::sync::Arc<std::sync::atomic::AtomicU32>,
}

// === impl Database ===

impl Database {
    /// Makes a database at `path`, which must not exist, with `content`, and syncs it.
    pub(super) fn create(
        path: &Path,
        content: &Content,
        faults: SyncFaults,
    ) -> Result<Self, Fault> {
        guarded(|| {
            let database = Self::attach(path, faults)?;
            let mut batch = Batch::default();
            let mut bytes = 0;
            for (key, value) in content.store.iter() {
                layout::put(&mut batch, key, value);
                bytes += key.id.len() + value.len();
                if bytes >= FILL_BYTES {
                    database.db.apply_batch(std::mem::take(&mut batch))?;
                    bytes = 0;
                }
            }
            layout::put_meta(&mut batch, content);
            database.db.apply_batch(batch)?;
            database.sync()?;
            database.anchor.write(content.store.seq())?;
            sync_names(path)?;
            Ok(database)
        })
    }

    /// Opens the database at `path`, and reads all of it. What it returns is durable.
    pub(super) fn open(path: &Path, faults: SyncFaults) -> Result<(Self, Content), OpenError> {
        let database = match guarded(|| Self::attach(path, faults.clone())) {
            Err(Fault::Sled(sled::Error::Corruption { .. }) | Fault::Panicked) => {
                // A crash while sled wrote this file leaves it torn, and it is not needed.
                remove_torn_snapshots(path).map_err(data_dir::io_at(path))?;
                guarded(|| Self::attach(path, faults))
            }
            other => other,
        }
        .map_err(|fault| unreadable(path, fault))?;
        let (loader, anchor) = guarded(|| {
            // What is visible but not yet durable would otherwise be shown now and be gone after a power cut.
            database.sync()?;
            Ok((database.load()?, database.anchor.read()?))
        })
        .map_err(|fault| unreadable(path, fault))?;
        let content = loader
            .and_then(Loader::finish)
            .map_err(|reason| corrupt(path, &reason))?;
        if content.store.seq() < anchor {
            let seq = content.store.seq();
            return Err(corrupt(
                path,
                &format!("it ends at batch {seq}, but {anchor} was stored"),
            ));
        }
        Ok((database, content))
    }

    /// Stores `batch`, which ends with `seq`, whole; durable on `Ok`.
    pub(super) fn write(&self, batch: Batch, seq: CommitSeq) -> Result<(), Fault> {
        guarded(|| {
            self.db.apply_batch(batch)?;
            KillPoint::AppendedBeforeFsync.reach_in_submission();
            self.sync()?;
            KillPoint::FsyncedBeforeCommit.reach_in_submission();
            Ok(self.anchor.write(seq)?)
        })
    }

    /// Makes the anchor durable too. Nothing that was acknowledged depends on it.
    pub(super) fn sync_anchor(&self) {
        if let Err(error) = self.anchor.sync() {
            tracing::warn!(%error, "the anchor of the database is behind");
        }
    }

    /// Bytes on disk.
    pub(super) fn size_on_disk(&self) -> u64 {
        self.db.size_on_disk().unwrap_or_default()
    }

    fn attach(path: &Path, faults: SyncFaults) -> Result<Self, Fault> {
        // No flusher: every batch is synced before it is acknowledged.
        let config = sled::Config::new()
            .path(path)
            .cache_capacity(CACHE_BYTES)
            .flush_every_ms(None);
        let began = Instant::now();
        let db = loop {
            match config.open() {
                // The directory's lock is ours, so the holder is an earlier handle of this process, closing.
                Err(sled::Error::Io(error))
                    if error.to_string().contains("could not acquire lock")
                        && began.elapsed() < SLED_LOCK_PATIENCE =>
                {
                    std::thread::sleep(SLED_LOCK_RETRY);
                }
                other => break other?,
            }
        };
        let file = File::open(path.join("db"))?;
        let anchor = Anchor::open(path)?;
        Ok(Self {
            db,
            file,
            anchor,
            faults,
        })
    }

    fn load(&self) -> Result<Result<Loader, String>, Fault> {
        let mut loader = Loader::default();
        for entry in self.db.iter() {
            let (key, value) = entry?;
            if let Err(reason) = loader.push(&key, &value) {
                return Ok(Err(reason));
            }
        }
        Ok(Ok(loader))
    }

    fn sync(&self) -> Result<(), Fault> {
        self.db.flush()?;
        self.faults.check()?;
        self.file.sync_data()?;
        Ok(())
    }
}

// === impl SyncFaults ===

impl SyncFaults {
    #[cfg(not(test))]
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "fails in tests only"
    )]
    fn check(&self) -> io::Result<()> {
        Ok(())
    }

    #[cfg(test)]
    fn check(&self) -> io::Result<()> {
        use std::sync::atomic::Ordering::SeqCst;
        let due = self
            .next
            .fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1))
            .is_ok();
        if due {
            Err(io::Error::other("injected"))
        } else {
            Ok(())
        }
    }
}

/// sled panics on some damage; here that is a fault like others.
fn guarded<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Fault::Panicked))
}

/// sled renames files into place and syncs no directory.
fn sync_names(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        File::open(entry?.path())?.sync_all()?;
    }
    data_dir::sync_dir(path)
}

fn remove_torn_snapshots(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            tracing::warn!(file = %entry.path().display(), "removing a torn snapshot of the database");
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn unreadable(path: &Path, fault: Fault) -> OpenError {
    match fault {
        Fault::Io(source) | Fault::Sled(sled::Error::Io(source))
            if source.kind() != io::ErrorKind::UnexpectedEof
                && source.kind() != io::ErrorKind::InvalidData
                && source.raw_os_error().is_some() =>
        {
            OpenError::Io {
                path: path.to_owned(),
                source,
            }
        }
        Fault::Io(_) | Fault::Sled(_) | Fault::Panicked => corrupt(path, &fault.to_string()),
    }
}

fn corrupt(path: &Path, found: &str) -> OpenError {
    let path: PathBuf = path.to_owned();
    let reason = format!(
        "the database cannot be trusted: {found}. Restore the data directory from a backup, \
         or move it away to start empty"
    );
    OpenError::Corrupt { path, reason }
}
