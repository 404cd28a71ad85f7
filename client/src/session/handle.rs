//! The role's side of a session: a cheap clone that sends to the task which owns the session.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use interrex_proto::v1::peer_frame;
use tokio::sync::{
    mpsc::{self, error::TrySendError},
    oneshot,
};

use super::event::StreamId;
use crate::metrics;

/// Sends to the leader and answers requests for registrations. Clones share one session, which ends when the
/// last of them is dropped.
#[derive(Debug, Clone)]
pub struct SessionHandle {
    mailbox: mpsc::Sender<Command>,
    seen: Arc<AtomicU64>,
}

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It is in the queue of the leader's stream, behind everything sent before. It may still be lost with the
    /// stream: what must arrive is sent again until it is acknowledged.
    Queued,
    /// There is no leader now; nothing was sent.
    NotAttached,
    /// A queue is full; nothing was sent. Try again later.
    Busy,
}

/// The session has ended: it was closed, or its shutdown token was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the session is closed")]
pub struct SessionClosed;

/// What a handle asks of the owner.
#[derive(Debug)]
pub(super) enum Command {
    Register {
        stream: StreamId,
        body: Box<peer_frame::Body>,
    },
    Send {
        body: Box<peer_frame::Body>,
        answer: oneshot::Sender<Delivery>,
    },
    Close {
        done: oneshot::Sender<()>,
    },
}

// === impl SessionHandle ===

impl SessionHandle {
    pub(super) fn new(mailbox: mpsc::Sender<Command>, seen: Arc<AtomicU64>) -> Self {
        Self { mailbox, seen }
    }

    /// The largest epoch observed so far. It never falls, and may be ahead of the events still in the queue.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen.load(Ordering::Acquire)
    }

    /// Answers [`SessionEvent::RegistrationWanted`](super::SessionEvent::RegistrationWanted). All that is sent
    /// on that stream afterwards is ordered behind it. A stream that is gone meanwhile ignores it.
    ///
    /// # Errors
    /// [`SessionClosed`]; retrying does not help.
    ///
    /// # Cancel safety
    /// A call dropped before it returns has had no effect.
    pub async fn register(
        &self,
        stream: StreamId,
        body: peer_frame::Body,
    ) -> Result<(), SessionClosed> {
        let command = Command::Register {
            stream,
            body: Box::new(body),
        };
        self.mailbox
            .send(command)
            .await
            .map_err(|_closed| SessionClosed)
    }

    /// Sends `body` to the leader, in the order of the calls. Never waits for the network or for the role.
    ///
    /// # Errors
    /// [`SessionClosed`]; retrying does not help.
    ///
    /// # Cancel safety
    /// A call dropped before it returns may have sent the frame.
    pub async fn send(&self, body: peer_frame::Body) -> Result<Delivery, SessionClosed> {
        let (answer, delivery) = oneshot::channel();
        match self.mailbox.try_send(Command::Send {
            body: Box::new(body),
            answer,
        }) {
            Ok(()) => delivery.await.map_err(|_closed| SessionClosed),
            Err(TrySendError::Full(_)) => {
                metrics::refused("mailbox");
                Ok(Delivery::Busy)
            }
            Err(TrySendError::Closed(_)) => Err(SessionClosed),
        }
    }

    /// Ends the session in order: what is queued is written (within `close_timeout`), then the streams are
    /// closed. Returns when that is done; closing twice does no harm.
    ///
    /// # Cancel safety
    /// The session closes even when the call is dropped after its first poll.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.mailbox.send(Command::Close { done }).await.is_ok() {
            // An error means that the owner has ended: closed as well.
            closed.await.unwrap_or_default();
        }
    }
}
