//! How a leadership ends by plan: it takes nothing new, finishes what is under way, and only then is handed over.
//!
//! Owned by the leader's loop. What must never happen: that a planned end leaves a caller in doubt while the store
//! works, or that a slow store keeps a leader from ever leaving. So draining has a deadline.

use std::{sync::Arc, time::Duration};

use interrex_persistence::{backend::BackendAdmin, error::AdminError};

use crate::runtime::restore::RestoreOrder;
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};

/// How long a leader that stops waits for what is under way.
const STOP_DRAIN_MAX: Duration = Duration::from_secs(1);
/// The same before a transfer; meanwhile nobody is served.
const TRANSFER_DRAIN_MAX: Duration = Duration::from_millis(300);
/// How long the backend may take to move the leadership; after that this master serves on if it still can.
const TRANSFER_MAX: Duration = Duration::from_secs(5);
/// Transfers that may wait for the leader's loop.
pub(crate) const HAND_OVERS_MAX: usize = 4;

/// An operator's order to hand leadership over.
#[derive(Debug)]
pub(crate) struct HandOver {
    /// To whom; `None`: to the most up-to-date standby.
    pub(crate) to: Option<String>,
    /// Who has taken over.
    pub(crate) done: oneshot::Sender<Result<String, AdminError>>,
}

/// Whether a leadership is about to end by plan.
#[derive(Debug, Default)]
pub(crate) struct Departure {
    stopping: bool,
    phase: Phase,
    /// What the leadership ends for, if it is to restore a snapshot instead of serving.
    restore: Option<RestoreOrder>,
}

#[derive(Debug, Default)]
enum Phase {
    /// It serves.
    #[default]
    Staying,
    /// It takes nothing new and finishes what is under way. Then it hands over as ordered, or resigns.
    Draining {
        until: Instant,
        order: Option<HandOver>,
    },
    /// The backend is moving the leadership; the task says whether it did.
    Moving(JoinHandle<bool>),
}

/// What happens to a departure by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// What is under way has not come to an end in time.
    DrainedTooLong,
    /// The leadership has moved.
    Moved,
    /// It has not; this master may lead on.
    Failed,
}

// === impl Departure ===

impl Departure {
    /// The master stops, whatever else was planned. (A transfer under way goes on by itself.)
    pub(crate) fn stop(&mut self) {
        self.stopping = true;
        self.phase = Phase::Draining {
            until: Instant::now() + STOP_DRAIN_MAX,
            order: None,
        };
    }

    /// Leadership is to be handed over.
    pub(crate) fn begin(&mut self, order: HandOver) {
        tracing::info!(to = ?order.to, "handing leadership over: finishing what is under way");
        self.phase = Phase::Draining {
            until: Instant::now() + TRANSFER_DRAIN_MAX,
            order: Some(order),
        };
    }

    /// Leadership is to serve nobody any more, and to carry out `order`.
    pub(crate) fn make_way(&mut self, order: RestoreOrder) {
        tracing::info!("a snapshot is to be restored: finishing what is under way");
        self.restore = Some(order);
        self.phase = Phase::Draining {
            until: Instant::now() + TRANSFER_DRAIN_MAX,
            order: None,
        };
    }

    /// The order that the leadership makes way for; not when the master stops.
    pub(crate) fn take_restore(&mut self) -> Option<RestoreOrder> {
        self.restore.take().filter(|_| !self.stopping)
    }

    /// The transfer has failed, or there is nothing to make way for: serves on.
    pub(crate) fn stay(&mut self) {
        self.phase = Phase::Staying;
    }

    /// Nothing is under way any more, or it is waited for no longer. False: there is nobody to hand over to by
    /// order, resign.
    pub(crate) fn hand_over(&mut self, admin: Arc<dyn BackendAdmin>, me: &str) -> bool {
        match std::mem::take(&mut self.phase) {
            Phase::Draining {
                order: Some(order), ..
            } => {
                self.phase = Phase::Moving(tokio::spawn(transfer(order, admin, me.to_owned())));
                true
            }
            Phase::Draining { order: None, .. } | Phase::Staying | Phase::Moving(_) => false,
        }
    }

    pub(crate) fn is_staying(&self) -> bool {
        matches!(self.phase, Phase::Staying)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping
    }

    pub(crate) fn is_draining(&self) -> bool {
        matches!(self.phase, Phase::Draining { .. })
    }

    /// Waits for what happens next; for ever while it stays.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn progress(&mut self) -> Progress {
        match &mut self.phase {
            Phase::Staying => std::future::pending().await,
            Phase::Draining { until, .. } => {
                sleep_until(*until).await;
                Progress::DrainedTooLong
            }
            Phase::Moving(moved) => match moved.await {
                Ok(true) => Progress::Moved,
                Ok(false) | Err(_) => Progress::Failed,
            },
        }
    }
}

/// Has the backend move the leadership, and tells who asked. Whether this master leads no longer.
async fn transfer(order: HandOver, admin: Arc<dyn BackendAdmin>, me: String) -> bool {
    let HandOver { to, done } = order;
    let outcome = match timeout(TRANSFER_MAX, admin.transfer_leader(to)).await {
        Ok(outcome) => outcome,
        Err(_elapsed) => Err(AdminError::Timeout(format!(
            "nobody has taken over within {TRANSFER_MAX:?}"
        ))),
    };
    let moved = matches!(&outcome, Ok(leader) if *leader != me);
    if let Err(error) = &outcome {
        tracing::warn!(%error, "leadership was not handed over: serving on");
    }
    if done.send(outcome).is_err() {
        tracing::debug!("whoever asked for the transfer has gone");
    }
    moved
}
