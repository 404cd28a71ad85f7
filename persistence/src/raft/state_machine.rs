//! What the log has come to: the [`RecordStore`](crate::record_store::RecordStore) behind openraft's apply.
//!
//! Every replica applies the same entries in the same order, so every replica refuses the same batches: the fence
//! holds wherever the records are. Applying never blocks, and fails only at an entry of a newer version; building and installing a snapshot
//! happen on blocking threads, from an O(1) clone.

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures::{Stream, TryStreamExt};
use openraft::{
    EntryPayload, OptionalSend, RaftSnapshotBuilder, Snapshot,
    alias::SnapshotOf,
    storage::{EntryResponder, RaftStateMachine},
};
use tokio_util::sync::CancellationToken;

use super::{
    epochs::Epochs,
    formats::check_applicable,
    metrics,
    snapshot::{Image, SnapshotFile, Snapshots},
    status::{Problem, Status},
    types::{self, ApplyOutcome, LogEntry, LogId, SnapshotMeta, StoredMembership, Types},
};
use crate::record_store::Refusal;

/// A snapshot that cannot be written is tried again after this long.
const SNAPSHOT_RETRY: Duration = Duration::from_secs(5);

/// The applied state, shared between openraft's worker and its readers.
#[derive(Debug)]
pub(super) struct Applied {
    // Held for one entry at a time, never across an await.
    image: Mutex<Image>,
    pub(super) snapshots: Snapshots,
    status: Arc<Status>,
    /// The newest format of entries that may be applied.
    entry_format: u32,
    closing: CancellationToken,
}

/// openraft's side of [`Applied`].
#[derive(Debug, Clone)]
pub(super) struct StateMachine(pub(super) Arc<Applied>);

// === impl Applied ===

impl Applied {
    pub(super) fn new(
        image: Image,
        snapshots: Snapshots,
        status: Arc<Status>,
        entry_format: u32,
        closing: CancellationToken,
    ) -> Self {
        Self {
            image: Mutex::new(image),
            snapshots,
            status,
            entry_format,
            closing,
        }
    }

    /// The state as of now, at the cost of a few reference counts.
    pub(super) fn image(&self) -> Image {
        self.lock().clone()
    }

    /// The cluster's name; empty before it has one.
    pub(super) fn cluster_id(&self) -> String {
        self.lock().cluster_id.clone()
    }

    /// The nodes that were left behind.
    pub(super) fn expelled(&self) -> BTreeSet<u64> {
        self.lock().expelled.clone()
    }

    /// Whether this node was left behind.
    pub(super) fn is_expelled(&self, node: u64) -> bool {
        self.lock().expelled.contains(&node)
    }

    /// Which epochs the terms have.
    pub(super) fn epochs(&self) -> Epochs {
        self.lock().epochs
    }

    fn lock(&self) -> MutexGuard<'_, Image> {
        self.image.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Image ===

impl Image {
    /// What `payload` makes of the state; the same on every replica.
    pub(super) fn apply(
        &mut self,
        log_id: LogId,
        payload: EntryPayload<LogEntry, u64, super::types::NodeInfo>,
    ) -> ApplyOutcome {
        self.last = Some(log_id);
        match payload {
            EntryPayload::Blank => ApplyOutcome::Nothing,
            EntryPayload::Membership(membership) => {
                self.membership = StoredMembership::new(Some(log_id), membership);
                ApplyOutcome::Nothing
            }
            EntryPayload::Normal(LogEntry::Form { cluster_id }) => {
                if self.cluster_id.is_empty() {
                    self.cluster_id = cluster_id;
                }
                ApplyOutcome::Nothing
            }
            EntryPayload::Normal(LogEntry::OpenEpoch(epoch)) => self
                .store
                .open_epoch(epoch)
                .map_or_else(refused, |()| ApplyOutcome::Opened),
            EntryPayload::Normal(LogEntry::Batch(batch)) => self
                .store
                .apply(batch)
                .map_or_else(refused, ApplyOutcome::Stored),
            EntryPayload::Normal(LogEntry::RaiseEpoch(floor)) => {
                self.epochs.raise(floor, *log_id.leader_id);
                ApplyOutcome::Raised
            }
            EntryPayload::Normal(LogEntry::Expel(nodes)) => {
                self.expelled.extend(nodes);
                ApplyOutcome::Nothing
            }
            // Whoever applies says before whether it knows the format; no format says anything yet.
            EntryPayload::Normal(LogEntry::Extension { .. }) => ApplyOutcome::Nothing,
        }
    }
}

fn refused(refusal: Refusal) -> ApplyOutcome {
    match refusal {
        Refusal::Fenced { opened, .. } => ApplyOutcome::Fenced(opened),
        Refusal::NotOpened { opened, .. } => ApplyOutcome::NotOpened(opened),
    }
}

// === impl StateMachine ===

impl RaftStateMachine<Types> for StateMachine {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        let image = self.0.lock();
        Ok((image.last, image.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + OptionalSend,
    {
        let mut took = Duration::ZERO;
        while let Some((entry, responder)) = entries.try_next().await? {
            // Without what reading the entries takes.
            let began = Instant::now();
            let format = types::format_of(&entry.payload);
            check_applicable(format, entry.log_id.index, self.0.entry_format)?;
            let outcome = self.0.lock().apply(entry.log_id, entry.payload);
            took += began.elapsed();
            if let Some(responder) = responder {
                responder.send(outcome);
            }
        }
        metrics::applied(took);
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(
        &mut self,
        _: &SnapshotMeta,
        snapshot: SnapshotFile,
    ) -> io::Result<()> {
        let began = Instant::now();
        let applied = Arc::clone(&self.0);
        blocking(move || {
            let image = applied.snapshots.install(snapshot)?;
            *applied.lock() = image;
            Ok(())
        })
        .await?;
        metrics::snapshot_installed(began.elapsed());
        Ok(())
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> io::Result<Option<SnapshotOf<Types, SnapshotFile>>> {
        let newest = self.0.snapshots.newest()?;
        Ok(newest.map(|(meta, snapshot)| Snapshot { meta, snapshot }))
    }
}

impl RaftSnapshotBuilder<Types> for StateMachine {
    type SnapshotData = SnapshotFile;

    /// Writes a snapshot, however often it has to be tried: a failed one would end the node, though the log still
    /// works on a disk that is, say, nearly full.
    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<Types, SnapshotFile>> {
        loop {
            let began = Instant::now();
            let applied = Arc::clone(&self.0);
            let built = blocking(move || {
                let image = applied.image();
                let snapshot = applied.snapshots.save(&image)?;
                Ok(Snapshot {
                    meta: image.meta(),
                    snapshot,
                })
            })
            .await;
            match built {
                Ok(snapshot) => {
                    metrics::snapshot_built(began.elapsed());
                    self.0.status.clear(Problem::Snapshot);
                    return Ok(snapshot);
                }
                Err(error) => self.0.status.set(
                    Problem::Snapshot,
                    format!("no snapshot can be written, so the log grows: {error}"),
                ),
            }
            tokio::select! {
                () = self.0.closing.cancelled() => return Err(io::Error::other("closing")),
                () = tokio::time::sleep(SNAPSHOT_RETRY) => {}
            }
        }
    }
}

/// Runs `f` on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(
    f: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(f)
        .await
        .map_err(io::Error::other)?
}
