//! An opened epoch: the records as they are stored, and how they change.

use tokio::{task::JoinHandle, time::Instant};

use super::{
    failure::{CallError, Kind},
    limits::SNAPSHOT_PAUSE,
    log::{Encoded, Entry},
    metrics,
    reader::{Loaded, SnapshotValue},
    snapshot,
    write::{Outcome, Pen},
};
use crate::{
    epoch::{CommitSeq, Epoch},
    metrics::store_size,
    options::EngineKind,
    record::CommitBatch,
    record_store::{RecordStore, Refusal},
};

/// Pieces of a snapshot that were written, or why they were not.
pub(super) type Uploaded = Result<SnapshotValue, CallError>;

/// What the writer keeps while its master leads.
#[derive(Debug)]
pub(super) struct Opened {
    pen: Pen,
    store: RecordStore,
    /// The log since the snapshot.
    log: LogSize,
    upload: Option<Upload>,
    /// No snapshot is begun before this.
    next_snapshot: Instant,
}

#[derive(Debug, Clone, Copy)]
struct LogSize {
    entries: u64,
    bytes: u64,
}

/// A snapshot under way; dropping it ends it.
#[derive(Debug)]
struct Upload {
    task: JoinHandle<Uploaded>,
    /// The log that it will replace.
    log: LogSize,
}

// === impl Opened ===

impl Opened {
    pub(super) fn new(pen: Pen, loaded: Loaded) -> Self {
        let opened = Self {
            pen,
            store: loaded.store,
            log: LogSize {
                entries: loaded.log_entries,
                bytes: loaded.log_bytes,
            },
            upload: None,
            next_snapshot: Instant::now(),
        };
        opened.report();
        opened
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.pen.held.leadership.epoch
    }

    /// Stores `batches` as the next entry of the log, and applies them if it is surely stored.
    pub(super) async fn store(
        &mut self,
        batches: Vec<CommitBatch>,
    ) -> (Outcome, Vec<Result<CommitSeq, Refusal>>) {
        let entry = Entry {
            epoch: self.epoch().0,
            seq: self.store.seq().0 + 1,
            batches: batches.into_iter().map(|batch| batch.mutations).collect(),
        };
        let encoded = match entry.encode() {
            Ok(encoded) => encoded,
            Err(error) => {
                let error = CallError::new(Kind::Unsent, error.to_string());
                return (Outcome::Refused(error), Vec::new());
            }
        };
        let bytes = encoded.bytes() as u64;
        let outcome = self.write(entry.seq, encoded).await;
        let mut numbers = Vec::new();
        if let Outcome::Stored = outcome {
            let epoch = self.epoch();
            let batches = entry.batches.into_iter();
            numbers.extend(
                batches.map(|mutations| self.store.apply(CommitBatch { epoch, mutations })),
            );
            self.log.entries += 1;
            self.log.bytes += bytes;
            self.report();
            self.begin_snapshot();
        }
        (outcome, numbers)
    }

    async fn write(&self, seq: u64, encoded: Encoded) -> Outcome {
        let keys = &self.pen.node.keys;
        for (n, part) in (0u32..).zip(encoded.parts) {
            let put = etcd_client::TxnOp::put(keys.part(seq, n), part, None);
            match self.pen.repeatable("commit", vec![put]).await {
                Outcome::Stored => {}
                // Without its head a part is nothing.
                Outcome::Unknown(error) => return Outcome::Refused(error),
                refused @ (Outcome::Fenced | Outcome::Refused(_)) => return refused,
            }
        }
        self.pen
            .put_fresh("commit", keys.entry(seq), encoded.head)
            .await
    }

    fn begin_snapshot(&mut self) {
        let LogSize { entries, bytes } = self.log;
        if self.upload.is_some()
            || Instant::now() < self.next_snapshot
            || !snapshot::due(entries, bytes, self.store.bytes())
        {
            return;
        }
        let upload = snapshot::upload(self.pen.clone(), self.store.clone());
        self.upload = Some(Upload {
            task: self.pen.node.tasks.spawn(upload),
            log: self.log,
        });
    }

    /// Waits for the snapshot under way; for ever where there is none.
    ///
    /// # Cancel safety
    /// Safe.
    pub(super) async fn uploaded(&mut self) -> Uploaded {
        match &mut self.upload {
            Some(upload) => (&mut upload.task)
                .await
                .unwrap_or_else(|error| Err(CallError::new(Kind::Unknown, error.to_string()))),
            None => std::future::pending().await,
        }
    }

    /// Makes an uploaded snapshot count.
    ///
    /// # Errors
    /// Why it does not; the next one is tried later.
    pub(super) async fn adopt(&mut self, uploaded: Uploaded) -> Result<(), CallError> {
        let Some(upload) = self.upload.take() else {
            return Ok(());
        };
        let adopted = match uploaded {
            Ok(head) => snapshot::adopt(&self.pen, &head).await,
            Err(error) => Outcome::Refused(error),
        };
        match adopted {
            Outcome::Stored => {
                self.log.entries -= upload.log.entries;
                self.log.bytes -= upload.log.bytes;
                self.report();
                Ok(())
            }
            // The next commit finds out, and says so.
            Outcome::Fenced => Ok(()),
            Outcome::Refused(error) | Outcome::Unknown(error) => {
                self.next_snapshot = Instant::now() + SNAPSHOT_PAUSE;
                Err(error)
            }
        }
    }

    fn report(&self) {
        store_size(EngineKind::Etcd, self.store.bytes());
        metrics::log_size(self.log.entries, self.log.bytes);
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.task.abort();
    }
}
