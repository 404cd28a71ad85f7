//! Who leads, where only one can: the one master, once per epoch.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    backend::Health,
    election::{LeaderView, Leadership, MasterInfo},
    epoch::Epoch,
};

/// Shared by the handles and the writer.
#[derive(Debug)]
pub(super) struct Seat {
    me: MasterInfo,
    held: Mutex<Option<Leadership>>,
    view: watch::Sender<LeaderView>,
    /// The epoch that is durably open.
    opened: AtomicU64,
    /// Why the database takes no writes.
    fault: Mutex<Option<String>>,
}

// === impl Seat ===

impl Seat {
    pub(super) fn new(me: MasterInfo, opened: Epoch) -> Self {
        let masters = vec![me.clone()];
        let view = LeaderView {
            leader: None,
            epoch: opened,
            masters,
        };
        Self {
            me,
            held: Mutex::default(),
            view: watch::Sender::new(view),
            opened: AtomicU64::new(opened.0),
            fault: Mutex::default(),
        }
    }

    pub(super) fn me(&self) -> &MasterInfo {
        &self.me
    }

    pub(super) fn observe(&self) -> watch::Receiver<LeaderView> {
        self.view.subscribe()
    }

    /// Begins the leadership of `epoch`; an earlier one is over.
    pub(super) fn take(&self, epoch: Epoch) -> Leadership {
        let leadership = Leadership {
            epoch,
            lost: CancellationToken::new(),
        };
        let mut held = lock(&self.held);
        if let Some(earlier) = held.replace(leadership.clone()) {
            earlier.lost.cancel();
        }
        self.view.send_modify(|view| {
            view.leader = Some(self.me.clone());
            view.epoch = epoch;
        });
        leadership
    }

    /// Ends the leadership in force, if there is one.
    pub(super) fn vacate(&self) {
        let mut held = lock(&self.held);
        if let Some(earlier) = held.take() {
            earlier.lost.cancel();
            self.view.send_modify(|view| view.leader = None);
        }
    }

    pub(super) fn leads(&self, epoch: Epoch) -> bool {
        lock(&self.held)
            .as_ref()
            .is_some_and(|held| held.epoch == epoch)
    }

    pub(super) fn leader(&self) -> bool {
        lock(&self.held).is_some()
    }

    pub(super) fn opened(&self) -> Epoch {
        Epoch(self.opened.load(Ordering::Acquire))
    }

    pub(super) fn set_opened(&self, epoch: Epoch) {
        self.opened.store(epoch.0, Ordering::Release);
    }

    /// The database takes no more writes: whoever leads must stop.
    pub(super) fn fail(&self, reason: String) {
        *lock(&self.fault) = Some(reason);
        self.vacate();
    }

    pub(super) fn heal(&self) {
        *lock(&self.fault) = None;
    }

    pub(super) fn health(&self) -> Health {
        match &*lock(&self.fault) {
            Some(fault) => Health {
                ready: false,
                detail: fault.clone(),
            },
            None => Health {
                ready: true,
                detail: "sled, one durable master".to_owned(),
            },
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
