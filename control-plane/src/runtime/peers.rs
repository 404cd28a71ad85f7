//! Attached sessions: agents and applications, on the leader and on standbys.
//!
//! Each session has one bounded queue of frames. A peer that does not read loses its session (it comes back and
//! registers again); the leader never waits for one. Every frame carries the epoch of the leadership that sent it,
//! which is fixed where the frame is made: a deposed leader cannot borrow a newer one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use interrex_core::ids::{AppId, Epoch, WorkerId};
use interrex_proto::v1::{MasterFrame, master_frame::Body};
use prost::Message;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(crate) use super::peer::Peer;
use crate::metrics::{self, Queue};

/// Frames that may wait in one session's queue.
pub(crate) const SESSION_FRAMES_MAX: usize = 4096;
/// Bytes that may wait in one session's queue.
pub(crate) const SESSION_BYTES_MAX: usize = 64 << 20;
/// Sessions of one master.
pub(crate) const SESSIONS_MAX: usize = 65_536;

/// Names one stream of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionId(u64);

/// All sessions of this master.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    inner: Mutex<Inner>,
    /// Frames that wait in the queues of all sessions, for the figures.
    waiting: Arc<AtomicUsize>,
}

/// What has happened to registered peers since the loop last asked. A table, so that it is never full: only
/// where each stands now is of interest.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Applications whose session came (true) or went.
    pub(crate) apps: BTreeMap<AppId, bool>,
    /// Workers whose session went.
    pub(crate) gone: BTreeSet<WorkerId>,
}

/// The stream's end of a session.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) id: SessionId,
    pub(crate) frames: FrameQueue,
    /// Cancelled when the session has to end: replaced, too slow, or the master stops.
    pub(crate) closed: CancellationToken,
}

/// Frames on their way to one peer.
#[derive(Debug)]
pub(crate) struct FrameQueue {
    rx: mpsc::Receiver<MasterFrame>,
    bytes: Arc<AtomicUsize>,
    /// Frames of all sessions.
    waiting: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The leadership that sessions are bound in; zero on a standby.
    epoch: Epoch,
    sessions: BTreeMap<SessionId, Session>,
    bound: BTreeMap<Peer, SessionId>,
    changes: Changes,
    next: u64,
}

#[derive(Debug)]
struct Session {
    tx: mpsc::Sender<MasterFrame>,
    bytes: Arc<AtomicUsize>,
    waiting: Arc<AtomicUsize>,
    closed: CancellationToken,
    peer: Option<Peer>,
}

// === impl Peers ===

impl Peers {
    /// A new stream; `None` when there are [`SESSIONS_MAX`].
    pub(crate) fn attach(&self) -> Option<Attached> {
        let mut inner = self.lock();
        if inner.sessions.len() >= SESSIONS_MAX {
            metrics::refused(Queue::Sessions);
            return None;
        }
        let id = SessionId(inner.next);
        inner.next += 1;
        let (tx, rx) = mpsc::channel(SESSION_FRAMES_MAX);
        let bytes = Arc::new(AtomicUsize::new(0));
        let closed = CancellationToken::new();
        let queue = FrameQueue {
            rx,
            bytes: Arc::clone(&bytes),
            waiting: Arc::clone(&self.waiting),
        };
        let session = Session {
            tx,
            bytes,
            waiting: Arc::clone(&self.waiting),
            closed: closed.clone(),
            peer: None,
        };
        inner.sessions.insert(id, session);
        inner.tell_sessions();
        Some(Attached {
            id,
            frames: queue,
            closed,
        })
    }

    /// A stream has ended; so has what its peer was bound to, unless a newer session speaks for it by now.
    pub(crate) fn detach(&self, id: SessionId) {
        let mut inner = self.lock();
        let Some(session) = inner.sessions.remove(&id) else {
            return;
        };
        inner.tell_sessions();
        if let Some(peer) = session.peer
            && inner.bound.get(&peer) == Some(&id)
        {
            inner.bound.remove(&peer);
            inner.note(peer, false);
        }
    }

    /// Whom a session speaks for in this epoch.
    pub(crate) fn peer_of(&self, id: SessionId) -> Option<Peer> {
        self.lock().sessions.get(&id)?.peer.clone()
    }

    /// What has happened since the last call.
    pub(crate) fn take_changes(&self) -> Changes {
        std::mem::take(&mut self.lock().changes)
    }

    /// From now on `peer` is reached through this session; an older session of the same peer is closed. False
    /// when the leadership or the session has ended meanwhile.
    pub(crate) fn bind(&self, epoch: Epoch, peer: &Peer, id: SessionId) -> bool {
        let mut inner = self.lock();
        if inner.epoch != epoch {
            return false;
        }
        let Some(session) = inner.sessions.get_mut(&id) else {
            // It registered and went before the answer: nobody else will say so.
            inner.note(peer.clone(), false);
            return false;
        };
        let before = session.peer.replace(peer.clone());
        if let Some(before) = before.filter(|before| before != peer) {
            inner.bound.remove(&before);
            inner.note(before, false);
        }
        inner.note(peer.clone(), true);
        let older = inner
            .bound
            .insert(peer.clone(), id)
            .filter(|older| *older != id);
        if let Some(older) = older.and_then(|older| inner.sessions.get_mut(&older)) {
            older.peer = None;
            older.closed.cancel();
            metrics::session_closed("replaced");
        }
        true
    }

    /// Leadership of `epoch` begins: nobody has registered in it yet.
    pub(crate) fn begin(&self, epoch: Epoch) {
        let mut inner = self.lock();
        inner.unbind_all();
        inner.epoch = epoch;
    }

    /// Leadership is over.
    pub(crate) fn end(&self) {
        self.begin(Epoch::default());
    }

    /// Sends to one session.
    pub(crate) fn send(&self, id: SessionId, epoch: Epoch, body: Body) {
        let mut inner = self.lock();
        inner.push(
            id,
            MasterFrame {
                epoch: epoch.0,
                body: Some(body),
            },
        );
    }

    /// Sends to the session that speaks for `peer` in this epoch. False when there is none.
    pub(crate) fn send_to(&self, peer: &Peer, epoch: Epoch, body: Body) -> bool {
        let mut inner = self.lock();
        if inner.epoch != epoch {
            return false;
        }
        let Some(id) = inner.bound.get(peer).copied() else {
            return false;
        };
        inner.push(
            id,
            MasterFrame {
                epoch: epoch.0,
                body: Some(body),
            },
        )
    }

    /// Sends to every session, registered or not.
    pub(crate) fn broadcast(&self, epoch: Epoch, body: &Body) {
        let mut inner = self.lock();
        let ids: Vec<_> = inner.sessions.keys().copied().collect();
        for id in ids {
            inner.push(
                id,
                MasterFrame {
                    epoch: epoch.0,
                    body: Some(body.clone()),
                },
            );
        }
    }

    /// Frames that wait in the queues of all sessions, and how many may.
    pub(crate) fn frames_waiting(&self) -> (usize, usize) {
        let sessions = self.lock().sessions.len();
        let waiting = self.waiting.load(Ordering::Relaxed);
        (waiting, sessions.saturating_mul(SESSION_FRAMES_MAX))
    }

    /// Closes every session: the master stops.
    pub(crate) fn close_all(&self) {
        for session in self.lock().sessions.values() {
            session.closed.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing between two changes of the maps can panic, so what a poisoned lock guards is whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Inner ===

impl Inner {
    fn tell_sessions(&self) {
        metrics::queue(Queue::Sessions, self.sessions.len(), SESSIONS_MAX);
    }

    fn note(&mut self, peer: Peer, here: bool) {
        match (peer, here) {
            (Peer::App(app), here) => drop(self.changes.apps.insert(app, here)),
            (Peer::Worker(worker), true) => drop(self.changes.gone.remove(&worker)),
            (Peer::Worker(worker), false) => drop(self.changes.gone.insert(worker)),
        }
    }

    fn unbind_all(&mut self) {
        self.bound.clear();
        self.changes = Changes::default();
        for session in self.sessions.values_mut() {
            session.peer = None;
        }
    }

    /// Never waits: a session whose queue is full is closed.
    fn push(&mut self, id: SessionId, frame: MasterFrame) -> bool {
        let Some(session) = self.sessions.get(&id) else {
            return false;
        };
        if session.closed.is_cancelled() {
            return false;
        }
        let bytes = frame.encoded_len();
        let queued = session.bytes.load(Ordering::Relaxed).saturating_add(bytes);
        if queued <= SESSION_BYTES_MAX {
            // Before sending, since the receiver subtracts.
            session.bytes.fetch_add(bytes, Ordering::Relaxed);
            session.waiting.fetch_add(1, Ordering::Relaxed);
            if session.tx.try_send(frame).is_ok() {
                return true;
            }
            session.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        tracing::warn!(event = "session_slow", session = id.0, peer = ?session.peer, queued, "session is too slow: closed");
        metrics::session_closed("slow");
        metrics::refused(Queue::SessionFrames);
        session.closed.cancel();
        false
    }
}

// === impl FrameQueue ===

impl FrameQueue {
    /// The next frame; `None` when the session has been removed.
    ///
    /// # Cancel safety
    /// Safe: no frame is lost.
    pub(crate) async fn next(&mut self) -> Option<MasterFrame> {
        let frame = self.rx.recv().await?;
        self.bytes.fetch_sub(frame.encoded_len(), Ordering::Relaxed);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(frame)
    }
}

impl Drop for FrameQueue {
    /// What was not sent waits no more.
    fn drop(&mut self) {
        self.rx.close();
        while self.rx.try_recv().is_ok() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[path = "peers_test.rs"]
mod tests;
