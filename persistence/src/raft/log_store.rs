//! Log and vote on the disk, in the `raft-log` crate.
//!
//! One writer for both, so that a vote and the entries around it reach the disk in the order in which openraft made
//! them. An entry is acknowledged to openraft from the crate's flush thread, after the fsync that covers it. A torn
//! tail is cut off when the log is opened; damage before the tail refuses to open.

use std::{
    fmt::Debug,
    io::{self, Read},
    ops::{Bound, RangeBounds},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use openraft::{
    Entry, LogState, OptionalSend, RaftLogReader,
    alias::EntryOf,
    storage::{IOFlushed, RaftLogStorage},
};
use raft_log::{Callback, Config, RaftLog, api::raft_log_writer::RaftLogWriter, codeq};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::{
    metrics,
    options::SnapshotBounds,
    types::{CommittedLeaderId, LogEntry, LogId, Payload, Types, Vote},
};
use crate::{
    data_dir::io_at,
    error::OpenError,
    record::{BATCH_BYTES_MAX, Mutation},
};

/// Entries are read for replication up to this many bytes at a time (at least one entry).
const READ_BYTES_MAX: usize = 4 << 20;
/// Payloads kept in memory for replication and apply, besides those of the newest log file.
const CACHE_BYTES: usize = 32 << 20;
const CACHE_ENTRIES: usize = 50_000;
/// Buffer for reading the log when it is opened.
const OPEN_BUFFER_BYTES: usize = 1 << 20;
/// An encoded payload: a batch with room for its framing. More can only be damage.
const PAYLOAD_BYTES_MAX: u64 = 2 * BATCH_BYTES_MAX as u64;
/// Closed log files keep a record count bound far above what fits by size.
const FILE_RECORDS_MAX: usize = 1 << 20;

/// The durable log and vote; clones share it.
#[derive(Debug, Clone)]
pub(super) struct LogStore {
    // `None` after `close`. Held for short, never across an await.
    log: Arc<Mutex<Option<RaftLog<Files>>>>,
}

/// How much there is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LogSize {
    /// Bytes on the disk.
    pub(super) bytes: u64,
    /// How many fsyncs there have been since opening.
    pub(super) fsyncs: u64,
    /// 99 of 100 of them took no longer.
    pub(super) fsync_p99: Duration,
}

/// What the `raft-log` crate is made of here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Files;

/// A payload as it is stored: decoded once, shared by the cache and its readers.
#[derive(Debug, Clone)]
pub(super) struct StoredPayload {
    payload: Arc<Payload>,
    bytes: u64,
}

/// A vote as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredVote(Vote);

/// Whom to tell that a write is durable, or failed.
#[derive(Debug)]
pub(super) struct Flushed(Option<Waiter>);

enum Waiter {
    Append {
        callback: IOFlushed<Types>,
        began: Instant,
    },
    Call(oneshot::Sender<io::Result<()>>),
}

// === impl LogStore ===

impl LogStore {
    /// Opens the log in `dir`, creating it where it is missing.
    ///
    /// # Errors
    /// `Corrupt` when something other than the tail is damaged, `Io` otherwise.
    pub(super) fn open(dir: &Path, bounds: &SnapshotBounds) -> Result<Self, OpenError> {
        std::fs::create_dir_all(dir).map_err(io_at(dir))?;
        let mut config = Config::new(dir.display());
        config.log_cache_capacity = Some(CACHE_BYTES);
        config.log_cache_max_items = Some(CACHE_ENTRIES);
        config.wal.read_buffer_size = Some(OPEN_BUFFER_BYTES);
        config.wal.chunk_max_size = usize::try_from(bounds.log_file_bytes).ok();
        config.wal.chunk_max_records = Some(FILE_RECORDS_MAX);
        config.wal.truncate_incomplete_record = Some(true);
        // One batch is in flight at a time, so waiting for more to share the fsync would only be waiting.
        config.wal.flush_batch_wait = Some(Duration::ZERO);
        match RaftLog::open(Arc::new(config)) {
            Ok(log) => Ok(Self {
                log: Arc::new(Mutex::new(Some(log))),
            }),
            Err(error) if is_damage(&error) => Err(OpenError::Corrupt {
                path: dir.to_owned(),
                reason: format!("the log is damaged before its end: {error}"),
            }),
            Err(source) => Err(io_at(dir)(source)),
        }
    }

    /// Whether nothing was ever stored: no vote, no entry.
    pub(super) fn is_pristine(&self) -> io::Result<bool> {
        self.with(|log| {
            let state = log.log_state();
            Ok(state.vote().is_none() && state.last().is_none())
        })
    }

    /// How much there is, for metrics and for the snapshot bound.
    pub(super) fn size(&self) -> LogSize {
        self.with(|log| {
            let flushes = log.stat().flush_metrics;
            Ok(LogSize {
                bytes: log.on_disk_size(),
                fsyncs: flushes.sync_batch_count,
                fsync_p99: Duration::from_micros(flushes.sync_percentiles.p99_us),
            })
        })
        .unwrap_or_default()
    }

    /// Flushes and closes the files; every later call fails. Blocks for an fsync.
    pub(super) fn close(&self) {
        let taken = self
            .log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(taken);
    }

    fn with<T>(&self, f: impl FnOnce(&mut RaftLog<Files>) -> io::Result<T>) -> io::Result<T> {
        let mut guard = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        match guard.as_mut() {
            Some(log) => f(log),
            None => Err(io::Error::other("the log is closed")),
        }
    }

    /// Makes a change durable before it returns.
    async fn durably(
        &self,
        change: impl FnOnce(&mut RaftLog<Files>) -> io::Result<()>,
    ) -> io::Result<()> {
        let (tx, rx) = oneshot::channel();
        self.with(|log| {
            change(log)?;
            log.flush(true, Some(Flushed(Some(Waiter::Call(tx)))))
        })?;
        rx.await.map_err(io::Error::other)?
    }

    fn read(&self, from: u64, to: u64, bytes_max: usize) -> io::Result<Vec<EntryOf<Types>>> {
        self.with(|log| {
            let mut entries = Vec::new();
            let mut bytes = 0;
            for item in log.read(from, to) {
                let (log_id, stored) = item?;
                bytes += stored.bytes as usize;
                if bytes > bytes_max && !entries.is_empty() {
                    break;
                }
                let payload = Arc::unwrap_or_clone(stored.payload);
                entries.push(Entry {
                    log_id: from_stored(log_id),
                    payload,
                });
            }
            Ok(entries)
        })
    }
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<R>(&mut self, range: R) -> io::Result<Vec<EntryOf<Types>>>
    where
        R: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let from = match range.start_bound() {
            Bound::Included(&index) => index,
            Bound::Excluded(&index) => index.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(&index) => index.saturating_add(1),
            Bound::Excluded(&index) => index,
            Bound::Unbounded => u64::MAX,
        };
        self.read(from, to, usize::MAX)
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        self.with(|log| Ok(log.log_state().vote().map(|stored| stored.0)))
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> io::Result<Vec<EntryOf<Types>>> {
        self.read(start, end, READ_BYTES_MAX)
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        self.with(|log| {
            let state = log.log_state();
            Ok(LogState {
                last_purged_log_id: state.purged().copied().map(from_stored),
                last_log_id: state.last().copied().map(from_stored),
            })
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let vote = StoredVote(*vote);
        self.durably(|log| log.save_vote(vote).map(drop)).await
    }

    /// Written along with the next entry, without an fsync of its own: a restarted master that has lost it learns it
    /// again from the leader.
    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        let Some(committed) = committed.map(to_stored) else {
            return Ok(());
        };
        self.with(|log| {
            let state = log.log_state();
            // Beyond the last entry after a snapshot was installed, until the log has been purged up to it.
            let known = Some(&committed) <= state.last() && Some(&committed) > state.committed();
            if known {
                log.commit(committed)?;
            }
            Ok(())
        })
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        self.with(|log| Ok(log.log_state().committed().copied().map(from_stored)))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = EntryOf<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let waiter = Waiter::Append {
            callback,
            began: Instant::now(),
        };
        let entries = entries.into_iter().map(|entry| {
            let bytes = weight(&entry.payload);
            (
                to_stored(entry.log_id),
                StoredPayload {
                    payload: Arc::new(entry.payload),
                    bytes,
                },
            )
        });
        self.with(|log| {
            log.append(entries)?;
            log.flush(true, Some(Flushed(Some(waiter))))
        })
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let from = last.map_or(0, |last| last.index + 1);
        self.durably(|log| log.truncate(from).map(drop)).await
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        let upto = to_stored(upto);
        self.durably(|log| log.purge(upto).map(drop)).await
    }
}

// === impl Files ===

impl raft_log::Types for Files {
    /// Term and index.
    type LogId = (u64, u64);
    type LogPayload = StoredPayload;
    type Vote = StoredVote;
    type Callback = Flushed;
    type UserData = String;

    fn log_index(log_id: &Self::LogId) -> u64 {
        log_id.1
    }

    fn payload_size(payload: &Self::LogPayload) -> u64 {
        payload.bytes
    }
}

fn to_stored(log_id: LogId) -> (u64, u64) {
    (*log_id.leader_id, log_id.index)
}

fn from_stored((term, index): (u64, u64)) -> LogId {
    LogId::new(CommittedLeaderId::new(term), index)
}

// === impl StoredPayload ===

impl codeq::Encode for StoredPayload {
    fn encode<W: io::Write>(&self, w: W) -> io::Result<usize> {
        postcard::to_allocvec(&*self.payload)
            .map_err(io::Error::other)?
            .encode(w)
    }
}

impl codeq::Decode for StoredPayload {
    fn decode<R: io::Read>(r: R) -> io::Result<Self> {
        let body = bounded(r)?;
        let payload = postcard::from_bytes(&body).map_err(damage)?;
        Ok(Self {
            bytes: weight(&payload),
            payload: Arc::new(payload),
        })
    }
}

// === impl StoredVote ===

/// Votes of one term for different nodes cannot follow each other, so they do not compare.
impl PartialOrd for StoredVote {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.0.partial_cmp(&other.0)
    }
}

impl codeq::Encode for StoredVote {
    fn encode<W: io::Write>(&self, w: W) -> io::Result<usize> {
        postcard::to_allocvec(self)
            .map_err(io::Error::other)?
            .encode(w)
    }
}

impl codeq::Decode for StoredVote {
    fn decode<R: io::Read>(r: R) -> io::Result<Self> {
        postcard::from_bytes(&bounded(r)?).map_err(damage)
    }
}

// === impl Flushed ===

impl Callback for Flushed {
    fn send(mut self, result: io::Result<()>) {
        if let Some(waiter) = self.0.take() {
            waiter.tell(result);
        }
    }
}

impl Drop for Flushed {
    /// The flush thread died with this in its queue: nobody may wait for ever.
    fn drop(&mut self) {
        if let Some(waiter) = self.0.take() {
            waiter.tell(Err(io::Error::other(
                "the log was closed before this was written",
            )));
        }
    }
}

// === impl Waiter ===

impl Waiter {
    fn tell(self, result: io::Result<()>) {
        match self {
            Self::Append { callback, began } => {
                metrics::appended(began.elapsed());
                callback.io_completed(result);
            }
            Self::Call(tx) => {
                // The caller was dropped: nobody is waiting.
                drop(tx.send(result));
            }
        }
    }
}

impl Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Append { .. } => f.write_str("Append"),
            Self::Call(_) => f.write_str("Call"),
        }
    }
}

/// A length and as many bytes. A length beyond [`PAYLOAD_BYTES_MAX`] is damage, not a torn tail.
fn bounded<R: io::Read>(mut r: R) -> io::Result<Vec<u8>> {
    let len: u32 = codeq::Decode::decode(&mut r)?;
    if u64::from(len) > PAYLOAD_BYTES_MAX {
        let text = format!("an entry of {len} bytes, at most {PAYLOAD_BYTES_MAX} are written");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let mut body = Vec::new();
    io::Read::take(&mut r, u64::from(len)).read_to_end(&mut body)?;
    if body.len() != len as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(body)
}

/// About how much memory a payload takes, for the bounds of the cache and of one read.
fn weight(payload: &Payload) -> u64 {
    const OVERHEAD: usize = 64;
    let bytes = match payload {
        Payload::Normal(LogEntry::Batch(batch)) => batch
            .mutations
            .iter()
            .map(|mutation| match mutation {
                Mutation::Put { key, value } => OVERHEAD + key.id.len() + value.len(),
                Mutation::Delete { key } => OVERHEAD + key.id.len(),
            })
            .sum(),
        Payload::Blank | Payload::Normal(_) | Payload::Membership(_) => OVERHEAD,
    };
    (OVERHEAD + bytes) as u64
}

fn damage(error: postcard::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn is_damage(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::Other
    )
}
