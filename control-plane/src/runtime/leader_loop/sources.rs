//! What the leader's loop waits for, and what it has woken up for.

use interrex_core::leader::BatchId;
use interrex_persistence::{epoch::CommitSeq, error::CommitError};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, Interval, MissedTickBehavior, error::Elapsed, interval},
};
use tokio_util::sync::CancellationToken;

use super::{INPUTS_MAX, TICK};
use crate::{
    metrics::Turn,
    runtime::{
        hand_over::{Departure, HandOver, Progress},
        port::Input,
        restore::RestoreOrder,
    },
};

pub(super) type Committed = Result<Result<CommitSeq, CommitError>, Elapsed>;

/// Why this leadership has to end, seen from outside the machine.
#[derive(Debug)]
pub(crate) struct Signals {
    /// The election says that leadership is gone.
    pub(crate) lost: CancellationToken,
    /// A read met the fence.
    pub(crate) over: CancellationToken,
    /// The master is to stop.
    pub(crate) stop: CancellationToken,
    /// Somebody else is to lead.
    pub(crate) hand_overs: mpsc::Receiver<HandOver>,
    /// A snapshot's records are to be taken over.
    pub(crate) restores: mpsc::Receiver<RestoreOrder>,
}

/// What the loop waits for.
pub(super) struct Sources {
    pub(super) mailbox: mpsc::Receiver<Input>,
    /// Taken from the mailbox.
    pub(super) inbox: Vec<Input>,
    pub(super) ticks: Interval,
    pub(super) commit: Option<(BatchId, JoinHandle<Committed>)>,
    pub(super) signals: Signals,
    pub(super) departure: Departure,
}

/// What the loop has woken up for.
pub(super) enum Event {
    Lost,
    Stop,
    HandOver(HandOver),
    Restore(RestoreOrder),
    Departure(Progress),
    Committed(BatchId, Committed),
    Tick(Instant),
    Inputs,
    MailboxClosed,
}

// === impl Event ===

impl Event {
    /// For the figures.
    pub(super) fn turn(&self) -> Turn {
        match self {
            Self::Inputs => Turn::Requests,
            Self::Committed(..) => Turn::Committed,
            Self::Tick(_) => Turn::Tick,
            Self::Lost
            | Self::Stop
            | Self::HandOver(_)
            | Self::Restore(_)
            | Self::Departure(_)
            | Self::MailboxClosed => Turn::Other,
        }
    }
}

// === impl Sources ===

impl Sources {
    pub(super) fn new(mailbox: mpsc::Receiver<Input>, signals: Signals) -> Self {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            mailbox,
            inbox: Vec::with_capacity(INPUTS_MAX),
            ticks,
            commit: None,
            signals,
            departure: Departure::default(),
        }
    }

    /// The next thing to deal with. `room`: whether the machine can take more.
    pub(super) async fn next(&mut self, room: bool) -> Event {
        let (stays, stops) = (self.departure.is_staying(), self.departure.is_stopping());
        tokio::select! {
            biased;
            () = self.signals.lost.cancelled() => Event::Lost,
            () = self.signals.over.cancelled() => Event::Lost,
            () = self.signals.stop.cancelled(), if !stops => Event::Stop,
            progress = self.departure.progress() => Event::Departure(progress),
            (batch, result) = finished(&mut self.commit) => Event::Committed(batch, result),
            due = self.ticks.tick() => Event::Tick(due),
            Some(order) = self.signals.hand_overs.recv(), if stays => Event::HandOver(order),
            Some(order) = self.signals.restores.recv(), if stays => Event::Restore(order),
            received = self.mailbox.recv_many(&mut self.inbox, INPUTS_MAX), if stays && room => {
                if received == 0 { Event::MailboxClosed } else { Event::Inputs }
            }
        }
    }
}

/// Waits for the commit under way; for ever when there is none. Cancel-safe: the task goes on.
async fn finished(commit: &mut Option<(BatchId, JoinHandle<Committed>)>) -> (BatchId, Committed) {
    let Some((batch, task)) = commit else {
        return std::future::pending().await;
    };
    let batch = *batch;
    match task.await {
        Ok(result) => (batch, result),
        // It panicked, or the runtime ends: what it did is not known.
        Err(error) => (batch, Ok(Err(CommitError::Indeterminate(Box::new(error))))),
    }
}
