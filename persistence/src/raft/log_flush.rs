//! The open log with group commit: one fsync at a time, and what is appended meanwhile shares the next one.
//!
//! The `raft-log` crate syncs once for each request that it is given, so requests are given to it one at a time. The
//! first append after a pause asks for its fsync itself; when that has been made and more is waiting, a thread asks for
//! the next (the crate's own flush thread must never wait for the lock of the log, whose holder may wait for it).

use std::{
    fmt, io,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Instant,
};

use openraft::storage::IOFlushed;
use raft_log::{Callback, Config, RaftLog, Segment, api::raft_log_writer::RaftLogWriter};
use tokio::sync::oneshot;

use super::{
    log_format::{Files, StoredPayload},
    meter::{DiskFaults, Meter},
    metrics,
    types::Types,
};
use crate::kill_point::KillPoint;

/// The log, until it is closed.
#[derive(Debug)]
pub(super) struct OpenLog {
    // `None` after `close`. Held for short, never across an await.
    log: Mutex<Option<RaftLog<Files>>>,
    // Taken after `log` where both are.
    group: Mutex<Group>,
    meter: Arc<Meter>,
    more: SyncSender<()>,
}

/// Who waits for which fsync.
#[derive(Debug, Default)]
struct Group {
    /// Whether an fsync for appends has been asked for and not been made.
    under_way: bool,
    /// Appends that the next one will cover.
    waiting: Vec<Appended>,
}

/// An append that has been written, and is not yet known to be durable.
struct Appended {
    callback: IOFlushed<Types>,
    began: Instant,
    /// The end of its last entry in the log, in bytes since that was begun.
    end: u64,
    meter: Arc<Meter>,
}

/// Whom to tell that a write is durable, or failed; `None` once they have been told.
#[derive(Debug)]
pub(super) struct Flushed {
    waiters: Option<Waiters>,
    /// When it was asked for.
    began: Instant,
}

#[derive(Debug)]
enum Waiters {
    /// Some appends, and the log that others wait at.
    Appends(Vec<Appended>, Weak<OpenLog>),
    /// One call.
    Call(oneshot::Sender<io::Result<()>>),
}

// === impl OpenLog ===

impl OpenLog {
    /// Opens the log. Blocks.
    ///
    /// # Errors
    /// What the crate or the system says.
    pub(super) fn open(config: Config, meter: Arc<Meter>) -> io::Result<Arc<Self>> {
        let log = RaftLog::open(Arc::new(config))?;
        // One request at a time is under way, so one call for more is enough.
        let (more, calls) = sync_channel(1);
        let open = Arc::new(Self {
            log: Mutex::new(Some(log)),
            group: Mutex::default(),
            meter,
            more,
        });
        let weak = Arc::downgrade(&open);
        thread::Builder::new()
            .name("raft-log-group".to_owned())
            .spawn(move || ask_for_more(&calls, &weak))?;
        Ok(open)
    }

    /// Flushes and closes the files; every later call fails. Blocks for an fsync.
    pub(super) fn close(&self) {
        let taken = self
            .log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(mut log) = taken {
            if let Err(error) = log.flush(true, None) {
                tracing::warn!(%error, "the log was not flushed when it was closed");
            }
            // Joins the crate's flush thread.
            drop(log);
        }
        self.fail_waiting("the log was closed before this was synced");
    }

    /// The faults that a test gives its disk.
    pub(super) fn faults(&self) -> &DiskFaults {
        &self.meter.faults
    }

    pub(super) fn with<T>(
        &self,
        f: impl FnOnce(&mut RaftLog<Files>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut guard = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        match guard.as_mut() {
            Some(log) => f(log),
            None => Err(io::Error::other("the log is closed")),
        }
    }

    /// Makes a change durable before it returns.
    ///
    /// # Cancel safety
    /// The change has been made, and becomes durable in its order.
    pub(super) async fn durably(
        &self,
        change: impl FnOnce(&mut RaftLog<Files>) -> io::Result<Segment>,
    ) -> io::Result<()> {
        let (tx, rx) = oneshot::channel();
        let end = self.with(|log| {
            self.meter.faults.check()?;
            let end = end_of(&change(log)?);
            log.flush(true, Some(Flushed::new(Waiters::Call(tx))))?;
            Ok(end)
        })?;
        rx.await.map_err(io::Error::other)??;
        self.meter.faults.note_synced(end);
        self.meter.note_stored();
        Ok(())
    }

    /// Appends entries, which can be read at once, and tells `callback` when they are durable.
    pub(super) fn append(
        self: &Arc<Self>,
        entries: impl IntoIterator<Item = ((u64, u64), StoredPayload)>,
        callback: IOFlushed<Types>,
    ) -> io::Result<()> {
        let began = Instant::now();
        self.with(|log| {
            self.meter.faults.check()?;
            let end = end_of(&log.append(entries)?);
            KillPoint::AppendedBeforeFsync.reach_in_submission();
            let appended = Appended::begin(callback, began, end, Arc::clone(&self.meter));
            let mut group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
            group.waiting.push(appended);
            if group.under_way {
                return Ok(());
            }
            group.under_way = true;
            let waiting = std::mem::take(&mut group.waiting);
            drop(group);
            self.flush_for(log, waiting)
        })
    }

    fn flush_for(
        self: &Arc<Self>,
        log: &mut RaftLog<Files>,
        waiting: Vec<Appended>,
    ) -> io::Result<()> {
        let waiters = Waiters::Appends(waiting, Arc::downgrade(self));
        log.flush(true, Some(Flushed::new(waiters)))
    }

    fn flush_waiting(self: &Arc<Self>) -> io::Result<()> {
        self.with(|log| {
            let mut group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
            let waiting = std::mem::take(&mut group.waiting);
            drop(group);
            self.flush_for(log, waiting)
        })
    }

    /// An fsync for appends has been made: the next one begins when somebody waits for it.
    fn flushed(&self) {
        let mut group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        if group.waiting.is_empty() {
            group.under_way = false;
            return;
        }
        if let Err(error) = self.more.try_send(()) {
            // There is one call for each fsync, so it is not full: its thread has ended.
            tracing::error!(%error, "nobody asks for the next fsync");
        }
    }

    fn fail_waiting(&self, reason: &str) {
        let mut group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = std::mem::take(&mut group.waiting);
        drop(group);
        for appended in waiting {
            appended.tell(Err(io::Error::other(reason.to_owned())));
        }
    }
}

fn ask_for_more(calls: &Receiver<()>, log: &Weak<OpenLog>) {
    while calls.recv().is_ok() {
        let Some(log) = log.upgrade() else { return };
        if let Err(error) = log.flush_waiting() {
            tracing::debug!(%error, "nothing more is flushed");
            return;
        }
    }
}

// === impl Appended ===

impl Appended {
    fn begin(callback: IOFlushed<Types>, began: Instant, end: u64, meter: Arc<Meter>) -> Self {
        meter.begin(began);
        Self {
            callback,
            began,
            end,
            meter,
        }
    }

    fn tell(self, result: io::Result<()>) {
        if result.is_ok() {
            metrics::appended(self.began.elapsed());
            self.meter.note_stored();
            self.meter.faults.note_synced(self.end);
        }
        self.meter.end(self.began);
        self.callback.io_completed(result);
    }
}

impl fmt::Debug for Appended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Appended")
            .field("began", &self.began)
            .finish_non_exhaustive()
    }
}

// === impl Flushed ===

impl Flushed {
    fn new(waiters: Waiters) -> Self {
        Self {
            waiters: Some(waiters),
            began: Instant::now(),
        }
    }

    fn tell(&mut self, result: &io::Result<()>) {
        match self.waiters.take() {
            Some(Waiters::Appends(appends, log)) => {
                if let Some(first) = appends.first() {
                    first.meter.faults.dawdle();
                }
                KillPoint::FsyncedBeforeCommit.reach_in_submission();
                for appended in appends {
                    appended.tell(again(result));
                }
                match (log.upgrade(), result) {
                    (Some(log), Ok(())) => log.flushed(),
                    (Some(log), Err(error)) => log.fail_waiting(&error.to_string()),
                    (None, _) => {}
                }
            }
            Some(Waiters::Call(tx)) => {
                // The caller may have stopped waiting.
                drop(tx.send(again(result)));
            }
            None => {}
        }
    }
}

impl Callback for Flushed {
    fn send(mut self, result: io::Result<()>) {
        metrics::synced(self.began.elapsed());
        self.tell(&result);
    }
}

impl Drop for Flushed {
    /// The flush thread died with this in its queue: nobody may wait for ever.
    fn drop(&mut self) {
        self.tell(&Err(io::Error::other(
            "the log was closed before this was written",
        )));
    }
}

fn end_of(written: &Segment) -> u64 {
    written.offset.saturating_add(written.size)
}

fn again(result: &io::Result<()>) -> io::Result<()> {
    match result {
        Ok(()) => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
    }
}
