//! The one thread that writes: what has queued up goes to the disk together, then all are answered.
//!
//! It keeps [`Content`], which is exactly what is durable. After a failed write or sync nothing on disk can be
//! relied on (a second sync would report success for pages that the first one lost), so the batches of that group
//! are `Indeterminate`, leadership ends, and the next leadership begins with a new database made from memory.

use std::{collections::BTreeSet, sync::Arc};

use tokio::sync::{mpsc, oneshot};

use super::{
    database::{Database, Fault, SyncFaults},
    directory::Directory,
    layout::{self, Content},
    seat::Seat,
};
use crate::{
    data_dir::DirLock,
    epoch::{CommitSeq, Epoch},
    error::CommitError,
    metrics,
    options::EngineKind,
    record::{BATCH_BYTES_MAX, CommitBatch, RecordKey},
    record_store::{RecordStore, Refusal},
    requests::Reply,
};

/// Most requests that are made durable together.
const GROUP_REQUESTS_MAX: usize = 256;
/// No more requests join a group that has this many bytes.
const GROUP_BYTES_MAX: usize = BATCH_BYTES_MAX;
/// A database is made anew when it is larger than the first, and than its records by the second factor. While the
/// master serves, that interrupts it, so there it takes more.
const SWOLLEN_AT_START: (u64, u64) = if cfg!(test) {
    (1 << 20, 4)
} else {
    (64 << 20, 4)
};
const SWOLLEN_IN_SERVICE: (u64, u64) = (256 << 20, 16);
/// How often, in groups, the database is tended to.
const TEND_EVERY_GROUPS: u64 = 256;

/// What the handles ask of the writer.
#[derive(Debug)]
pub(super) enum Request {
    /// An epoch for a new leadership.
    Grant { reply: Reply<Epoch> },
    /// See `PersistenceEngine::open_epoch`.
    Open {
        epoch: Epoch,
        reply: Reply<RecordStore>,
    },
    /// See `PersistenceEngine::commit`.
    Commit {
        batch: CommitBatch,
        reply: Reply<CommitSeq>,
    },
    /// From the next grant on, epochs are larger than `floor`.
    Raise { floor: Epoch, reply: Reply<()> },
    /// All records as they are durable after what came before.
    Snapshot { reply: Reply<RecordStore> },
    /// Ends the thread, after what came before.
    Close { reply: oneshot::Sender<()> },
}

/// The database takes no writes at the moment.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}; the next leadership begins with a new database")]
struct Stopped(String);

/// The state of the thread.
#[derive(Debug)]
pub(super) struct Writer {
    /// `None` after a fault.
    database: Option<Database>,
    durable: Content,
    directory: Directory,
    seat: Arc<Seat>,
    faults: SyncFaults,
    fault: Stopped,
    groups: u64,
    /// Released after the database is closed: fields are dropped in this order.
    _lock: DirLock,
}

/// Requests that become durable together.
#[derive(Debug, Default)]
struct Group {
    after: Content,
    touched: BTreeSet<RecordKey>,
    changed: bool,
    answers: Vec<Answer>,
}

/// What will be answered when the group is durable.
#[derive(Debug)]
enum Answer {
    Granted(Reply<Epoch>, Epoch),
    Opened(Reply<RecordStore>, Result<RecordStore, Refusal>),
    Committed(Reply<CommitSeq>, Result<CommitSeq, Refusal>),
    Raised(Reply<()>),
    Cut(Reply<RecordStore>, RecordStore),
}

// === impl Writer ===

impl Writer {
    pub(super) fn new(
        database: Database,
        durable: Content,
        directory: Directory,
        seat: Arc<Seat>,
        faults: SyncFaults,
        lock: DirLock,
    ) -> Self {
        let fault = Stopped(String::new());
        Self {
            database: Some(database),
            durable,
            directory,
            seat,
            faults,
            fault,
            groups: 0,
            _lock: lock,
        }
    }

    /// Serves requests until the last handle is gone or one asks for the end. Returns who waits for the end.
    pub(super) fn run(
        mut self,
        mut requests: mpsc::Receiver<Request>,
    ) -> Option<oneshot::Sender<()>> {
        self.tend(SWOLLEN_AT_START);
        while let Some(first) = requests.blocking_recv() {
            let (group, end) = self.gather(first, &mut requests);
            self.store(group);
            if end.is_some() {
                return end;
            }
        }
        None
    }

    /// Takes what has queued up, and applies it to a copy of what is durable.
    fn gather(
        &mut self,
        first: Request,
        requests: &mut mpsc::Receiver<Request>,
    ) -> (Group, Option<oneshot::Sender<()>>) {
        let mut group = Group {
            after: self.durable.clone(),
            ..Group::default()
        };
        let (mut count, mut bytes) = (0, 0);
        let mut next = Some(first);
        while let Some(request) = next {
            count += 1;
            match request {
                Request::Close { reply } => return (group, Some(reply)),
                Request::Grant { reply } => match self.repair() {
                    Ok(()) => group.grant(reply),
                    Err(error) => answer(reply, Err(rejected(error))),
                },
                Request::Raise { floor, reply } => match self.writable() {
                    Ok(()) => group.raise(floor, reply),
                    Err(error) => answer(reply, Err(rejected(error))),
                },
                // What is durable can be read whatever the disk does.
                Request::Snapshot { reply } => group.cut(reply),
                Request::Open { epoch, reply } => match self.writable() {
                    Ok(()) => group.open(epoch, reply),
                    Err(error) => answer(reply, Err(rejected(error))),
                },
                Request::Commit { batch, reply } => match self.writable() {
                    Ok(()) => {
                        bytes += batch.bytes();
                        group.commit(batch, reply);
                    }
                    Err(error) => answer(reply, Err(rejected(error))),
                },
            }
            let full = count >= GROUP_REQUESTS_MAX || bytes >= GROUP_BYTES_MAX;
            next = if full { None } else { requests.try_recv().ok() };
        }
        (group, None)
    }

    /// Makes a group durable, then answers it.
    fn store(&mut self, group: Group) {
        let Group {
            after,
            touched,
            changed,
            answers,
        } = group;
        if changed && let Some(database) = &self.database {
            let batch = layout::difference(&self.durable, &after, &touched);
            if let Err(fault) = database.write(batch, after.store.seq()) {
                let stopped = self.stop(&fault);
                answers.into_iter().for_each(|answer| answer.fail(&stopped));
                return;
            }
            self.seat.set_opened(after.store.opened());
            self.durable = after;
            self.groups += 1;
            if self.groups.is_multiple_of(TEND_EVERY_GROUPS) {
                self.tend(SWOLLEN_IN_SERVICE);
            }
        }
        answers.into_iter().for_each(Answer::send);
    }

    fn writable(&self) -> Result<(), Stopped> {
        self.database
            .as_ref()
            .map(|_open| ())
            .ok_or_else(|| self.fault.clone())
    }

    fn stop(&mut self, fault: &Fault) -> Stopped {
        tracing::error!(%fault, "the database takes no more writes; leadership ends");
        self.database = None;
        self.fault = Stopped(fault.to_string());
        self.seat.fail(self.fault.to_string());
        self.fault.clone()
    }

    /// After a fault: a new database from what is known to be durable.
    fn repair(&mut self) -> Result<(), Stopped> {
        if self.database.is_some() {
            return Ok(());
        }
        match self.replace_database() {
            Ok(()) => {
                tracing::info!("a new database has taken the place of the one that took no writes");
                self.seat.heal();
                Ok(())
            }
            Err(fault) => {
                tracing::warn!(%fault, "the database still takes no writes");
                self.fault = Stopped(fault.to_string());
                self.seat.fail(self.fault.to_string());
                Err(self.fault.clone())
            }
        }
    }

    fn replace_database(&mut self) -> Result<(), Fault> {
        let path = self.directory.next_database()?;
        let database = Database::create(&path, &self.durable, self.faults.clone())?;
        self.directory.switch()?;
        // Closes the old one before its files go.
        self.database = Some(database);
        if let Err(error) = self.directory.remove_leftovers() {
            tracing::warn!(%error, "the replaced database is still on disk; removed at the next start");
        }
        Ok(())
    }

    /// Syncs the anchor, measures the database, and makes it anew where sled has let it grow far beyond its records.
    fn tend(&mut self, (bytes_max, factor_max): (u64, u64)) {
        let Some(database) = &self.database else {
            return;
        };
        let size = database.size_on_disk();
        metrics::store_size(EngineKind::Sled, size);
        database.sync_anchor();
        if size <= bytes_max.max(self.durable.store.bytes() * factor_max) {
            return;
        }
        match self.replace_database() {
            Ok(()) => tracing::info!(
                size,
                records = self.durable.store.bytes(),
                "database made anew"
            ),
            // The old one is in force and whole.
            Err(fault) => {
                tracing::warn!(%fault, size, "the database stays larger than it should be")
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.seat.vacate();
        if let Some(database) = &self.database {
            database.sync_anchor();
        }
    }
}

// === impl Group ===

impl Group {
    fn grant(&mut self, reply: Reply<Epoch>) {
        let newest = self.after.granted.max(self.after.store.opened());
        self.after.granted = Epoch(newest.0 + 1);
        self.changed = true;
        self.answers
            .push(Answer::Granted(reply, self.after.granted));
    }

    fn open(&mut self, epoch: Epoch, reply: Reply<RecordStore>) {
        let opened = self
            .after
            .store
            .open_epoch(epoch)
            .map(|()| self.after.store.clone());
        self.changed |= opened.is_ok();
        self.answers.push(Answer::Opened(reply, opened));
    }

    fn raise(&mut self, floor: Epoch, reply: Reply<()>) {
        self.changed |= floor > self.after.granted;
        self.after.granted = self.after.granted.max(floor);
        self.answers.push(Answer::Raised(reply));
    }

    fn cut(&mut self, reply: Reply<RecordStore>) {
        self.answers
            .push(Answer::Cut(reply, self.after.store.clone()));
    }

    fn commit(&mut self, batch: CommitBatch, reply: Reply<CommitSeq>) {
        let committed = self.after.store.check(batch.epoch).and_then(|()| {
            layout::touch(&batch, &mut self.touched);
            self.after.store.apply(batch)
        });
        self.changed |= committed.is_ok();
        self.answers.push(Answer::Committed(reply, committed));
    }
}

// === impl Answer ===

impl Answer {
    fn send(self) {
        match self {
            Self::Granted(reply, epoch) => answer(reply, Ok(epoch)),
            Self::Opened(reply, outcome) => answer(reply, outcome.map_err(CommitError::from)),
            Self::Committed(reply, outcome) => answer(reply, outcome.map_err(CommitError::from)),
            Self::Raised(reply) => answer(reply, Ok(())),
            Self::Cut(reply, store) => answer(reply, Ok(store)),
        }
    }

    /// What was refused stays refused; of the rest nobody knows.
    fn fail(self, why: &Stopped) {
        let unknown = || CommitError::Indeterminate(Box::new(why.clone()));
        match self {
            Self::Granted(reply, _) => answer(reply, Err(unknown())),
            Self::Raised(reply) => answer(reply, Err(unknown())),
            Self::Cut(reply, _) => answer(reply, Err(unknown())),
            Self::Opened(reply, outcome) => {
                answer(
                    reply,
                    Err(outcome.map_or_else(CommitError::from, |_store| unknown())),
                );
            }
            Self::Committed(reply, outcome) => {
                answer(
                    reply,
                    Err(outcome.map_or_else(CommitError::from, |_seq| unknown())),
                );
            }
        }
    }
}

fn rejected(why: Stopped) -> CommitError {
    CommitError::Rejected(Box::new(why))
}

fn answer<T>(reply: Reply<T>, outcome: Result<T, CommitError>) {
    // A caller that has gone away does not need it.
    drop(reply.send(outcome));
}
