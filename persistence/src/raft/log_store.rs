//! Log and vote on the disk, in the `raft-log` crate.
//!
//! One writer for both, so that a vote and the entries around it reach the disk in the order in which openraft made
//! them. An entry is acknowledged to openraft from the crate's flush thread, after the fsync that covers it. A torn
//! tail is cut off when the log is opened; damage before the tail refuses to open. What is read is compared with what was
//! asked for, see [`super::log_read`].

use std::{
    fmt::Debug,
    io,
    ops::{Bound, RangeBounds},
    path::Path,
    sync::Arc,
    time::Duration,
};

use openraft::{
    Entry, LogState, OptionalSend, RaftLogReader,
    alias::EntryOf,
    storage::{IOFlushed, RaftLogStorage},
};
use raft_log::{Config, api::raft_log_writer::RaftLogWriter};

use super::{
    log_flush::OpenLog,
    log_format::{StoredPayload, StoredVote, from_stored, to_stored},
    log_read::Asked,
    meter::Meter,
    options::SnapshotBounds,
    types::{LogId, Types, Vote},
};
use crate::{
    data_dir::{create_dir, io_at},
    error::OpenError,
};

/// Entries are read for replication up to this many bytes at a time (at least one entry).
const READ_BYTES_MAX: usize = 4 << 20;
/// Payloads kept in memory for replication and apply, besides those of the newest log file.
const CACHE_BYTES: usize = 32 << 20;
const CACHE_ENTRIES: usize = 50_000;
/// Buffer for reading the log when it is opened.
const OPEN_BUFFER_BYTES: usize = 1 << 20;
/// Closed log files keep a record count bound far above what fits by size.
const FILE_RECORDS_MAX: usize = 1 << 20;

/// The durable log and vote; clones share it.
#[derive(Debug, Clone)]
pub(super) struct LogStore {
    log: Arc<OpenLog>,
}

/// How much there is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LogSize {
    /// Bytes on the disk.
    pub(super) bytes: u64,
    /// Bytes written since the log was begun; only ever rises.
    pub(super) written: u64,
    /// How many fsyncs there have been since opening.
    pub(super) fsyncs: u64,
}

// === impl LogStore ===

impl LogStore {
    /// Opens the log in `dir`, creating it where it is missing.
    ///
    /// # Errors
    /// `Corrupt` when something other than the tail is damaged, `Io` otherwise.
    pub(super) fn open(
        dir: &Path,
        bounds: &SnapshotBounds,
        meter: Arc<Meter>,
    ) -> Result<Self, OpenError> {
        create_dir(dir).map_err(io_at(dir))?;
        let mut config = Config::new(dir.display());
        config.log_cache_capacity = Some(CACHE_BYTES);
        config.log_cache_max_items = Some(CACHE_ENTRIES);
        config.wal.read_buffer_size = Some(OPEN_BUFFER_BYTES);
        config.wal.chunk_max_size = usize::try_from(bounds.log_file_bytes).ok();
        config.wal.chunk_max_records = Some(FILE_RECORDS_MAX);
        config.wal.truncate_incomplete_record = Some(true);
        // What shares an fsync is gathered by `OpenLog`, without waiting.
        config.wal.flush_batch_wait = Some(Duration::ZERO);
        match OpenLog::open(config, meter) {
            Ok(log) => Ok(Self { log }),
            Err(error) if is_damage(&error) => Err(OpenError::Corrupt {
                path: dir.to_owned(),
                reason: format!("the log is damaged before its end: {error}"),
            }),
            Err(source) => Err(io_at(dir)(source)),
        }
    }

    /// Whether nothing was ever stored: no vote, no entry.
    pub(super) fn is_pristine(&self) -> io::Result<bool> {
        self.log.with(|log| {
            let state = log.log_state();
            Ok(state.vote().is_none() && state.last().is_none())
        })
    }

    /// How much there is, for metrics and for the snapshot bound.
    pub(super) fn size(&self) -> LogSize {
        self.log
            .with(|log| {
                let stat = log.stat();
                let flushes = stat.flush_metrics;
                Ok(LogSize {
                    bytes: log.on_disk_size(),
                    written: stat.open_chunk.global_end,
                    fsyncs: flushes.sync_batch_count,
                })
            })
            .unwrap_or_default()
    }

    /// Flushes and closes the files; every later call fails. Blocks for an fsync.
    pub(super) fn close(&self) {
        self.log.close();
    }

    /// The last entry, and the term of the vote.
    pub(super) fn ends(&self) -> io::Result<(Option<LogId>, u64)> {
        self.log.with(|log| {
            let state = log.log_state();
            let voted = state.vote().map_or(0, |stored| stored.0.leader_id().term);
            Ok((state.last().copied().map(from_stored), voted))
        })
    }

    /// Up to where the log is known to be committed; often a little behind.
    pub(super) fn committed(&self) -> io::Result<Option<LogId>> {
        self.log
            .with(|log| Ok(log.log_state().committed().copied().map(from_stored)))
    }

    /// Entries from `from` up to, and without, `to`; fewer where they are large or there are no more.
    pub(super) fn entries(&self, from: u64, to: u64) -> io::Result<Vec<EntryOf<Types>>> {
        self.read(from, to, Some(READ_BYTES_MAX))
    }

    /// Appends entries in a term of their own, after a vote for `node` in it; durable on return. Only for a log that no
    /// node runs on.
    pub(super) async fn append_alone(
        &self,
        term: u64,
        node: u64,
        entries: Vec<EntryOf<Types>>,
    ) -> io::Result<()> {
        let vote = StoredVote(Vote::new(term, node));
        let entries = entries
            .into_iter()
            .map(|entry| (to_stored(entry.log_id), StoredPayload::new(entry.payload)));
        self.log
            .durably(|log| {
                log.save_vote(vote)?;
                log.append(entries)
            })
            .await
    }

    /// What the log has of `from..to`; `limit` in bytes says where to stop, after at least one entry.
    fn read(&self, from: u64, to: u64, limit: Option<usize>) -> io::Result<Vec<EntryOf<Types>>> {
        self.log.with(|log| {
            let state = log.log_state();
            let asked = Asked {
                from,
                to,
                purged: state.purged().map(|(_, index)| *index),
                last: state.last().map(|(_, index)| *index),
            };
            let mut entries = Vec::new();
            let mut bytes = 0;
            for item in log.read(from, to) {
                let (log_id, stored) = item?;
                bytes += stored.bytes as usize;
                if limit.is_some_and(|limit| bytes > limit) && !entries.is_empty() {
                    break;
                }
                let payload = Arc::unwrap_or_clone(stored.payload);
                entries.push(Entry {
                    log_id: from_stored(log_id),
                    payload,
                });
            }
            if let Some(fault) = self.log.faults().take_spoilt(asked.behind()) {
                fault.spoil(&mut entries)?;
            }
            asked.check(
                limit.is_some(),
                entries.iter().map(|entry| entry.log_id.index),
            )?;
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
        self.read(from, to, None)
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        self.log
            .with(|log| Ok(log.log_state().vote().map(|stored| stored.0)))
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> io::Result<Vec<EntryOf<Types>>> {
        self.read(start, end, Some(READ_BYTES_MAX))
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        self.log.with(|log| {
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
        self.log.durably(|log| log.save_vote(vote)).await
    }

    /// Written along with the next entry, without an fsync of its own: a restarted master that has lost it learns it
    /// again from the leader.
    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        let Some(committed) = committed.map(to_stored) else {
            return Ok(());
        };
        self.log.with(|log| {
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
        self.committed()
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = EntryOf<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries = entries
            .into_iter()
            .map(|entry| (to_stored(entry.log_id), StoredPayload::new(entry.payload)));
        self.log.append(entries, callback)
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let from = last.map_or(0, |last| last.index + 1);
        self.log.durably(|log| log.truncate(from)).await
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        let upto = to_stored(upto);
        self.log.durably(|log| log.purge(upto)).await
    }
}

fn is_damage(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::Other
    )
}
