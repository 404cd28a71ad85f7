//! The way into one leadership: made when the leader's loop starts, taken away when it ends.

use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use interrex_core::{
    command::Command,
    ids::{AppId, Epoch},
    transition::Reply,
};
use tokio_util::sync::CancellationToken;

use crate::runtime::error::RequestError;

/// Requests that may wait for the leader's loop. A full mailbox refuses with [`RequestError::Busy`].
pub const MAILBOX_MAX: usize = 4096;
/// Reads that may wait for the confirmation that this master still leads.
pub const READS_MAX: usize = 16_384;

/// What a request came to.
pub(crate) type Outcome = Result<Reply, RequestError>;

/// Who gets the outcome of a command.
pub(crate) enum Waiter {
    /// A caller that waits.
    Caller(oneshot::Sender<Outcome>),
    /// A session: called within the leader's loop, before the effects of the same commit leave, so that a
    /// registration is answered before the first order. Must not block.
    Session(Box<dyn FnOnce(Outcome) + Send>),
}

/// What can be put into the leader's mailbox.
pub(crate) enum Input {
    /// Apply this and answer.
    Submit {
        command: Command,
        /// Not applied after this.
        deadline: Instant,
        /// `None`: nobody waits for the answer (a report).
        waiter: Option<Waiter>,
    },
    /// An application's session is attached.
    AppAttached(AppId),
    /// An application's session ended; its grace begins.
    AppDetached(AppId),
}

/// One leadership's entrance.
#[derive(Debug, Clone)]
pub(crate) struct LeaderPort {
    pub(crate) epoch: Epoch,
    pub(crate) mailbox: mpsc::Sender<Input>,
    pub(crate) reads: mpsc::Sender<oneshot::Sender<Result<(), RequestError>>>,
    /// Cancelled when the leadership is found to be over.
    pub(crate) over: CancellationToken,
}

// === impl Waiter ===

impl Waiter {
    /// Hands the outcome over.
    pub(crate) fn answer(self, outcome: Outcome) {
        match self {
            Self::Caller(tx) => {
                if tx.send(outcome).is_err() {
                    tracing::trace!("the caller has gone");
                }
            }
            Self::Session(answer) => answer(outcome),
        }
    }
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Caller(_) => "Caller",
            Self::Session(_) => "Session",
        })
    }
}

// === impl Input ===

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Submit {
                command, waiter, ..
            } => f
                .debug_struct("Submit")
                .field("command", command)
                .field("waiter", waiter)
                .finish(),
            Self::AppAttached(app) => f.debug_tuple("AppAttached").field(app).finish(),
            Self::AppDetached(app) => f.debug_tuple("AppDetached").field(app).finish(),
        }
    }
}
