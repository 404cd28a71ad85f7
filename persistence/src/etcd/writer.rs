//! The one task that changes records: what has queued up goes to etcd together, then all are answered.
//!
//! It keeps the records of the opened epoch in memory, which is exactly what is stored. When it does not know any more
//! what is stored, it forgets them, and the epoch has to be opened again.

use std::sync::{Arc, PoisonError};

use etcd_client::{Txn, TxnOp};
use tokio::{sync::mpsc, time::Instant};

use super::{
    control::OpenedValue,
    limits::{CALL_DEADLINE, CHUNK_BYTES, GROUP_REQUESTS_MAX},
    node::{Fence, Node},
    opened::{Opened, Uploaded},
    reader,
    status::Problem,
    write::{Outcome, Pen},
};
use crate::{
    epoch::{CommitSeq, Epoch},
    error::CommitError,
    record::CommitBatch,
    record_store::{RecordStore, Refusal},
    requests::Reply,
};

/// About what a mutation takes beside its key and value.
const MUTATION_OVERHEAD_BYTES: usize = 16;

/// What the handles ask of the writer.
#[derive(Debug)]
pub(super) enum Request {
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
}

/// Owns the records while this master leads.
#[derive(Debug)]
pub(super) struct Writer {
    node: Arc<Node>,
    opened: Option<Opened>,
    /// Taken from the queue, but not for this group.
    carried: Option<Request>,
}

/// Commits that are stored together.
#[derive(Debug, Default)]
struct Group {
    batches: Vec<CommitBatch>,
    replies: Vec<Reply<CommitSeq>>,
    bytes: usize,
}

/// What happened when nobody asked.
enum Event {
    Asked(Request),
    Uploaded(Uploaded),
    Closing,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Because(&'static str);

// === impl Writer ===

impl Writer {
    pub(super) fn new(node: Arc<Node>) -> Self {
        Self {
            node,
            opened: None,
            carried: None,
        }
    }

    /// Runs until closing.
    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<Request>) {
        loop {
            match self.next(&mut queue).await {
                Event::Asked(Request::Open { epoch, mut reply }) => {
                    let opened = self.open(epoch, &mut reply).await;
                    answer(reply, opened);
                }
                Event::Asked(Request::Commit { batch, reply }) => {
                    let group = self.gather(batch, reply, &mut queue);
                    self.commit(group).await;
                }
                Event::Uploaded(uploaded) => self.uploaded(uploaded).await,
                Event::Closing => break,
            }
        }
        self.forget();
        queue.close();
        while let Ok(request) = queue.try_recv() {
            let closed = || CommitError::Rejected(Box::new(Because("the backend is closed")));
            match request {
                Request::Open { reply, .. } => answer(reply, Err(closed())),
                Request::Commit { reply, .. } => answer(reply, Err(closed())),
            }
        }
    }

    async fn next(&mut self, queue: &mut mpsc::Receiver<Request>) -> Event {
        if let Some(carried) = self.carried.take() {
            return Event::Asked(carried);
        }
        let closing = self.node.closing.clone();
        let opened = self.opened.as_mut();
        let uploaded = async {
            match opened {
                Some(opened) => opened.uploaded().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = closing.cancelled() => Event::Closing,
            asked = queue.recv() => asked.map_or(Event::Closing, Event::Asked),
            uploaded = uploaded => Event::Uploaded(uploaded),
        }
    }

    /// Fences everything that is still on its way, and reads all records.
    async fn open(
        &mut self,
        epoch: Epoch,
        reply: &mut Reply<RecordStore>,
    ) -> Result<RecordStore, CommitError> {
        self.forget();
        let node = Arc::clone(&self.node);
        let Some(held) = node.seat.held_in(epoch) else {
            return Err(refusal(&node, epoch));
        };
        let fence = Fence::new(held.key.clone());
        let value = serde_json::to_vec(&OpenedValue { epoch: epoch.0 })
            .map_err(|error| CommitError::Rejected(Box::new(error)))?;
        let txn = Txn::new()
            .when(fence.compares(&node.keys))
            .and_then([TxnOp::put(node.keys.opened(), value, None)]);
        let deadline = (Instant::now() + CALL_DEADLINE).min(held.lease.good_until());
        let done = node.txn("open", deadline, txn).await.inspect_err(|error| {
            node.note_space(error);
        })?;
        if !done.succeeded {
            node.seat.vacate_epoch(epoch);
            node.nudge.notify_one();
            return Err(refusal(&node, epoch));
        }
        let fence = fence.opened_at(done.revision);
        let wanted = || !reply.is_closed() && node.seat.held_in(epoch).is_some();
        let began = Instant::now();
        let mut loaded = reader::read(&node, done.revision, wanted).await?;
        loaded.store.open_epoch(epoch)?;
        tracing::info!(
            master = node.id(),
            %epoch,
            records = loaded.store.len(),
            took_ms = began.elapsed().as_millis(),
            "records read from etcd"
        );
        let store = loaded.store.clone();
        *node.fence.lock().unwrap_or_else(PoisonError::into_inner) = Some((epoch, fence.clone()));
        self.opened = Some(Opened::new(Pen { node, held, fence }, loaded));
        Ok(store)
    }

    /// What else waits and fits joins the first one. Whatever does not belong to the opened epoch is refused.
    fn gather(
        &mut self,
        batch: CommitBatch,
        reply: Reply<CommitSeq>,
        queue: &mut mpsc::Receiver<Request>,
    ) -> Group {
        let mut group = Group::default();
        self.admit(&mut group, batch, reply);
        while self.carried.is_none() && group.replies.len() < GROUP_REQUESTS_MAX {
            match queue.try_recv() {
                Ok(Request::Commit { batch, reply }) => self.admit(&mut group, batch, reply),
                Ok(other) => self.carried = Some(other),
                Err(_empty) => break,
            }
        }
        group
    }

    fn admit(&mut self, group: &mut Group, batch: CommitBatch, reply: Reply<CommitSeq>) {
        if reply.is_closed() {
            // Nobody waits: the outcome may be what it likes, and this is the least harmful.
            return;
        }
        let epoch = batch.epoch;
        let opened = self.opened.as_ref().map(Opened::epoch);
        if opened != Some(epoch) || self.node.seat.held_in(epoch).is_none() {
            return answer(reply, Err(refusal(&self.node, epoch)));
        }
        let bytes = batch.bytes() + batch.mutations.len() * MUTATION_OVERHEAD_BYTES;
        if !group.batches.is_empty() && group.bytes + bytes > CHUNK_BYTES {
            self.carried = Some(Request::Commit { batch, reply });
            return;
        }
        group.bytes += bytes;
        group.batches.push(batch);
        group.replies.push(reply);
    }

    async fn commit(&mut self, group: Group) {
        let Some(opened) = self.opened.as_mut().filter(|_| !group.batches.is_empty()) else {
            return;
        };
        let epoch = opened.epoch();
        let (outcome, numbers) = opened.store(group.batches).await;
        let node = Arc::clone(&self.node);
        match outcome {
            Outcome::Stored => {
                node.status.clear(Problem::NoSpace);
                // What is stored is stored; but who answers now may be a leader no more.
                let leads = node.seat.held_in(epoch).is_some();
                for (reply, number) in group.replies.into_iter().zip(numbers) {
                    let late = Because("stored, but the lease may have ended meanwhile");
                    answer(
                        reply,
                        match number {
                            Ok(seq) if leads => Ok(seq),
                            Ok(_) => Err(CommitError::Indeterminate(Box::new(late))),
                            Err(refusal) => Err(refusal.into()),
                        },
                    );
                }
            }
            Outcome::Fenced => {
                self.forget();
                node.seat.vacate_epoch(epoch);
                node.nudge.notify_one();
                for reply in group.replies {
                    answer(reply, Err(refusal(&node, epoch)));
                }
            }
            Outcome::Refused(error) => {
                let error = Arc::new(error);
                for reply in group.replies {
                    answer(
                        reply,
                        Err(CommitError::Rejected(Box::new(Arc::clone(&error)))),
                    );
                }
            }
            Outcome::Unknown(error) => {
                self.forget();
                let error = Arc::new(error);
                for reply in group.replies {
                    let unknown = CommitError::Indeterminate(Box::new(Arc::clone(&error)));
                    answer(reply, Err(unknown));
                }
            }
        }
    }

    /// Makes an uploaded snapshot count.
    async fn uploaded(&mut self, uploaded: Uploaded) {
        let Some(opened) = &mut self.opened else {
            return;
        };
        match opened.adopt(uploaded).await {
            Ok(()) => self.node.status.clear(Problem::Upkeep),
            Err(error) => {
                let text = format!("no snapshot could be written: {error}");
                self.node.status.set(Problem::Upkeep, text);
            }
        }
    }

    /// Forgets the records: they have to be read again.
    fn forget(&mut self) {
        *self
            .node
            .fence
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = None;
        self.opened = None;
    }
}

/// Why a batch of this epoch is not stored, by a master that has not opened it.
pub(super) fn refusal(node: &Node, epoch: Epoch) -> CommitError {
    let held = node.seat.held().map(|held| held.leadership.epoch);
    let current = node.control().epoch().max(held.unwrap_or(Epoch::ZERO));
    if held == Some(epoch) || epoch > current || epoch == Epoch::ZERO {
        let opened = Epoch::ZERO;
        CommitError::Rejected(Box::new(Refusal::NotOpened { epoch, opened }))
    } else {
        // Also the epoch that was this master's, and is over.
        CommitError::Fenced { current }
    }
}

fn answer<T>(reply: Reply<T>, outcome: Result<T, CommitError>) {
    // Who has gone away takes any answer for unknown.
    drop(reply.send(outcome));
}
