//! One run of openraft over the data directory: from opening its files to closing them.
//!
//! A node has one at a time. The first begins with the master; when the disk has failed and works again, another one
//! takes its place, see [`super::reopen`]. What must never happen: that two runs have the files open.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use openraft::async_runtime::WatchReceiver;
use tokio_util::sync::CancellationToken;

use super::{
    formats::{Formats, check_applicable},
    identity::Identity,
    log_store::LogStore,
    meter::Meter,
    network::{Network, Peers},
    node::members_of,
    options::RaftOptions,
    snapshot::{Image, Snapshots},
    state_machine::{Applied, StateMachine},
    status::Status,
    types::{RaftHandle, format_of},
};
use crate::error::OpenError;

/// Entries that are looked at at once.
const READ_ENTRIES: u64 = 1024;

/// openraft with its log and its state machine.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) raft: RaftHandle,
    pub(super) log: LogStore,
    pub(super) applied: Arc<Applied>,
    /// Cancelled when this run has ended, whatever openraft's last metrics say; for good.
    pub(super) ended: CancellationToken,
    /// Whether openraft had a membership when it was opened; its metrics say so only a little later.
    was_initialized: AtomicBool,
}

/// What every run of a node is made with.
#[derive(Debug, Clone)]
pub(super) struct Ground {
    pub(super) options: RaftOptions,
    pub(super) peers: Arc<Peers>,
    pub(super) status: Arc<Status>,
    pub(super) meter: Arc<Meter>,
    /// What the masters apply.
    pub(super) formats: Arc<Formats>,
    /// Cancelled when the node closes.
    pub(super) closing: CancellationToken,
}

// === impl Running ===

impl Running {
    /// Opens log and snapshots, and starts openraft on them.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub(super) async fn open(ground: &Ground, identity: &Identity) -> Result<Self, OpenError> {
        let Ground {
            options,
            peers,
            status,
            meter,
            formats,
            closing,
        } = ground;
        let config = options.config()?;
        let path = options.data_dir.clone();
        let (known, options, meter) = (identity.clone(), options.clone(), Arc::clone(meter));
        let (at, timing) = (path.clone(), options.timing);
        let read = tokio::task::spawn_blocking(move || read(&options, &known, meter));
        let (log, snapshots, image) = read.await.map_err(|error| OpenError::Io {
            path: at,
            source: std::io::Error::other(error),
        })??;
        let ended = closing.child_token();
        let applied = Arc::new(Applied::new(
            image,
            snapshots,
            Arc::clone(status),
            formats.own(),
            ended.clone(),
        ));
        let damaged = |reason: String| OpenError::Corrupt {
            path: path.clone(),
            reason,
        };
        let raft = RaftHandle::new(
            identity.node,
            config,
            Network::new(Arc::clone(peers), timing),
            log.clone(),
            StateMachine(Arc::clone(&applied)),
        )
        .await
        .map_err(|fatal| damaged(fatal.to_string()))?;
        let initialized = raft
            .is_initialized()
            .await
            .map_err(|fatal| damaged(fatal.to_string()))?;
        Ok(Self {
            raft,
            log,
            applied,
            ended,
            was_initialized: AtomicBool::new(initialized),
        })
    }

    /// Whether openraft has ended here.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Whether there is a membership.
    pub(super) fn is_initialized(&self) -> bool {
        if self.was_initialized.load(Ordering::Relaxed) {
            return true;
        }
        let initialized = !members_of(&self.raft.metrics().borrow_watched()).is_empty();
        if initialized {
            self.was_initialized.store(true, Ordering::Relaxed);
        }
        initialized
    }

    /// Ends openraft and closes the files. Bounded by `deadline`, and by an fsync.
    pub(super) async fn end(&self, deadline: Duration) {
        self.ended.cancel();
        match tokio::time::timeout(deadline, self.raft.shutdown()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "raft did not end in order"),
            Err(_) => tracing::warn!("raft did not end within {deadline:?}"),
        }
        let log = self.log.clone();
        if let Err(error) = tokio::task::spawn_blocking(move || log.close()).await {
            tracing::warn!(%error, "the log was not closed in order");
        }
    }
}

/// Opens what is in the data directory. Blocks.
fn read(
    options: &RaftOptions,
    identity: &Identity,
    meter: Arc<Meter>,
) -> Result<(LogStore, Snapshots, Image), OpenError> {
    let (snapshots, image) = Snapshots::open(&options.data_dir.join("snapshots"))?;
    let log_dir = log_dir(options);
    // The identity is told of a cluster a little later than the log.
    let has_past = meter.has_stored() || !identity.cluster_id.is_empty();
    let log = LogStore::open(&log_dir, &options.snapshots, Arc::clone(&meter))?;
    let empty = log.is_pristine().map_err(|source| OpenError::Io {
        path: log_dir.clone(),
        source,
    })?;
    if !empty {
        meter.note_stored();
        check_formats(&log, image.as_ref(), options.entry_format).map_err(|source| {
            OpenError::Corrupt {
                path: log_dir.clone(),
                reason: source.to_string(),
            }
        })?;
    } else if has_past {
        log.close();
        // It has voted and promised, and does not know what any more.
        return Err(OpenError::Corrupt {
            path: log_dir,
            reason: format!(
                "the log of this member of cluster `{}` is missing; move the data directory away and let this master \
                 rejoin with `interrex cluster add {}=HOST:PORT`",
                identity.cluster_id, identity.id
            ),
        });
    }
    Ok((log, snapshots, image.unwrap_or_default()))
}

/// Looks for entries of a newer version where openraft does not: behind those that it applies when it is opened. A master
/// that could not apply what it has must not even stand for election.
fn check_formats(log: &LogStore, image: Option<&Image>, own: u32) -> std::io::Result<()> {
    let (last, _voted) = log.ends()?;
    let applied = image.and_then(|image| image.last).max(log.committed()?);
    let mut at = applied.map_or(0, |applied| applied.index + 1);
    while last.is_some_and(|last| at <= last.index) {
        let entries = log.entries(at, at + READ_ENTRIES)?;
        for entry in &entries {
            check_applicable(format_of(&entry.payload), entry.log_id.index, own)?;
        }
        at += (entries.len() as u64).max(1);
    }
    Ok(())
}

/// Where the log is.
pub(super) fn log_dir(options: &RaftOptions) -> PathBuf {
    options.data_dir.join("log")
}
