//! The way into one leadership: made when the leader's loop starts, taken away when it ends.

use std::collections::BTreeMap;

use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use interrex_core::{command::Command, ids::Epoch, leader::Ticket, transition::Reply};
use interrex_proto::trace::{self, Traceparent};

use crate::runtime::{error::RequestError, hand_over::HandOver, heartbeat_acks::Heard};

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

/// What is put into the leader's mailbox: apply this and answer.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) command: Command,
    /// Not applied after this.
    pub(crate) deadline: Instant,
    /// `None`: nobody waits for the answer (a report).
    pub(crate) waiter: Option<Waiter>,
    /// Where it stands in a trace, if it is traced.
    pub(crate) trace: Option<Traceparent>,
}

/// One leadership's entrance.
#[derive(Debug, Clone)]
pub(crate) struct LeaderPort {
    pub(crate) epoch: Epoch,
    pub(crate) mailbox: mpsc::Sender<Input>,
    pub(crate) reads: mpsc::Sender<oneshot::Sender<Result<(), RequestError>>>,
    pub(crate) hand_overs: mpsc::Sender<HandOver>,
    /// Heartbeats to acknowledge.
    pub(crate) heard: mpsc::Sender<Heard>,
}

/// Who waits for an answer.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    waiting: BTreeMap<Ticket, Waiter>,
    next: u64,
}

// === impl Input ===

impl Input {
    /// A command that belongs to the span in which this is called.
    pub(crate) fn new(command: Command, deadline: Instant, waiter: Option<Waiter>) -> Self {
        Self {
            command,
            deadline,
            waiter,
            trace: trace::here(),
        }
    }
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

// === impl Waiters ===

impl Waiters {
    pub(crate) fn add(&mut self, waiter: Waiter) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.waiting.insert(ticket, waiter);
        ticket
    }

    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<Waiter> {
        self.waiting.remove(&ticket)
    }
}
