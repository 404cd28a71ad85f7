//! One durable master with an embedded database.
//!
//! Records live in memory, in a [`RecordStore`](crate::record_store::RecordStore), and in a sled database that one
//! thread writes. A batch is acknowledged when the database file has been synced. The directory's lock makes sure
//! that no second master, and so no second leader, exists; epochs rise with every leadership, across restarts.

mod anchor;
mod database;
mod directory;
mod handle;
mod layout;
mod seat;
mod writer;

#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::sync::mpsc;

use self::{
    database::{Database, SyncFaults},
    directory::Directory,
    handle::Handle,
    layout::Content,
    seat::Seat,
    writer::Writer,
};
use crate::{
    backend::{Backend, StoreSnapshot},
    data_dir::{DirLock, io_at},
    election::MasterInfo,
    error::OpenError,
    offline,
    options::EngineKind,
};

pub(crate) use directory::MARKER_FILE;

/// Requests that may wait for the disk; more are rejected.
const QUEUE_LEN_MAX: usize = 1024;

/// What to open.
#[derive(Debug, Clone)]
pub struct SledOptions {
    /// Where the database is; made where it is missing.
    pub data_dir: PathBuf,
    /// The master that the directory belongs to.
    pub me: MasterInfo,
}

/// Opens the database, or makes it, and reads all records.
///
/// # Errors
/// `InUse` when another process has the directory; `Foreign` when it holds something else or belongs to another
/// master; `Corrupt` when its content cannot be trusted, with what to do; `Io`.
///
/// # Cancel safety
/// Dropping the future leaves the opening to a thread, which closes again when it is done.
pub async fn open(options: SledOptions) -> Result<Backend, OpenError> {
    open_with(options, SyncFaults::default()).await
}

/// Reads the records of a master that does not run. Blocks.
///
/// # Errors
/// As [`open`].
pub(crate) fn read_offline(path: &Path) -> Result<offline::Directory, OpenError> {
    let _lock = DirLock::acquire(path)?;
    let directory = Directory::known(path)?;
    let content = if directory.ready() {
        let (_database, content) = Database::open(&directory.database(), SyncFaults::default())?;
        content
    } else {
        Content::default()
    };
    Ok(offline::Directory {
        master: directory.master().to_owned(),
        cut: StoreSnapshot {
            engine: EngineKind::Sled,
            cluster_id: None,
            store: content.store,
        },
        unconfirmed_entries: 0,
    })
}

async fn open_with(options: SledOptions, faults: SyncFaults) -> Result<Backend, OpenError> {
    let path = options.data_dir.clone();
    let opened = tokio::task::spawn_blocking(move || open_blocking(options, faults)).await;
    opened.unwrap_or_else(|error| {
        Err(OpenError::Io {
            path,
            source: std::io::Error::other(error),
        })
    })
}

fn open_blocking(options: SledOptions, faults: SyncFaults) -> Result<Backend, OpenError> {
    let SledOptions { data_dir, me } = options;
    let lock = DirLock::acquire(&data_dir)?;
    let mut directory = Directory::open(&data_dir, &me.id)?;
    let path = directory.database();
    let (database, content) = if directory.ready() {
        Database::open(&path, faults.clone())?
    } else {
        let content = Content::default();
        let database = Database::create(&path, &content, faults.clone())
            .map_err(|fault| io_at(&path)(std::io::Error::other(fault)))?;
        directory.set_ready().map_err(io_at(&data_dir))?;
        (database, content)
    };
    tracing::info!(
        records = content.store.len(),
        epoch = %content.store.opened(),
        "database opened"
    );
    let seat = Arc::new(Seat::new(me, content.store.opened()));
    let writer = Writer::new(
        database,
        content,
        directory,
        Arc::clone(&seat),
        faults,
        lock,
    );
    let (requests, queue) = mpsc::channel(QUEUE_LEN_MAX);
    let run = move || {
        // Tell it only when the database is closed and the directory free.
        if let Some(waiting) = writer.run(queue) {
            waiting
                .send(())
                .unwrap_or_else(|()| tracing::debug!("nobody waits for the end"));
        }
    };
    std::thread::Builder::new()
        .name("sled-writer".to_owned())
        .spawn(run)
        .map_err(io_at(&data_dir))?;
    let handle = Arc::new(Handle::new(seat, requests));
    Ok(Backend {
        election: Arc::<Handle>::clone(&handle),
        engine: Arc::<Handle>::clone(&handle),
        peer_routes: None,
        admin: handle,
    })
}
