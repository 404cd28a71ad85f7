//! The backend without a disk: for tests, and for a master that may forget.
//!
//! A [`MemoryCluster`] stands for the quorum of a real store. It outlives its masters, so a test can crash one,
//! let another lead, and bring the first back; and it can be told to take leadership away with the old leader
//! knowing it ([`depose`](MemoryCluster::depose)) or not ([`steal`](MemoryCluster::steal)). The fence is the one
//! of [`RecordStore`], the same code that the Raft backend applies.

mod admin;
mod election;
mod engine;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use self::state::State;
use crate::{
    backend::Backend,
    election::{LeaderView, MasterInfo},
    epoch::Epoch,
    record_store::RecordStore,
};

/// Opens a store of its own for one master; everything is gone when the last handle is dropped.
#[must_use]
pub fn open(me: MasterInfo) -> Backend {
    MemoryCluster::new().join(me)
}

/// A store that several masters of one process share. Cheap to clone; all clones are the same cluster.
#[derive(Debug, Clone, Default)]
pub struct MemoryCluster {
    shared: Arc<Shared>,
}

/// What the handles of all masters share.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Wakes candidates: leadership may be free, or their place in the queue has changed.
    changed: Notify,
    view: watch::Sender<LeaderView>,
}

/// One life of one master: what its election, engine and admin handles have in common.
#[derive(Debug)]
struct Member {
    shared: Arc<Shared>,
    me: MasterInfo,
    /// Tells this life from an earlier one of the same id.
    life: u64,
}

// === impl MemoryCluster ===

impl MemoryCluster {
    /// A new, empty store without masters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the store for `me`. An earlier life of the same id is over, as after a crash.
    #[must_use]
    pub fn join(&self, me: MasterInfo) -> Backend {
        let life = self.shared.change(|state| state.join(&me));
        let member = Arc::new(Member {
            shared: Arc::clone(&self.shared),
            me,
            life,
        });
        Backend {
            election: Arc::<Member>::clone(&member),
            engine: Arc::<Member>::clone(&member),
            peer_routes: None,
            admin: member,
        }
    }

    /// The leader, as far as the store knows.
    #[must_use]
    pub fn leader(&self) -> Option<MasterInfo> {
        self.shared.view.borrow().leader.clone()
    }

    /// Ends the current leadership; its holder hears of it. Returns its epoch, or `None` when nobody leads.
    pub fn depose(&self) -> Option<Epoch> {
        self.shared.change(|state| state.end_leadership(true))
    }

    /// Ends the current leadership behind its holder's back: two masters may now believe that they lead, until
    /// the old one meets the fence. Returns its epoch, or `None` when nobody leads.
    pub fn steal(&self) -> Option<Epoch> {
        self.shared.change(|state| state.end_leadership(false))
    }

    /// Kills the master `id`: its handles answer no more, its candidacy and leadership are gone.
    pub fn crash(&self, id: &str) {
        self.shared.change(|state| state.crash(id));
    }

    /// The records as they are now.
    #[must_use]
    pub fn store(&self) -> RecordStore {
        self.shared.state().store.clone()
    }
}

// === impl Shared ===

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, then tells candidates and observers.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let outcome = change(&mut state);
        self.tell(state);
        outcome
    }

    /// Like [`change`](Self::change), but tells nobody where nothing was changed: a candidate that looks in vain
    /// must not wake the others, who would look in vain and wake it.
    fn change_if<T>(&self, change: impl FnOnce(&mut State) -> Option<T>) -> Option<T> {
        let mut state = self.state();
        let outcome = change(&mut state)?;
        self.tell(state);
        Some(outcome)
    }

    fn tell(&self, state: MutexGuard<'_, State>) {
        let view = state.view();
        // Under the lock, so that views are published in the order of the changes.
        self.view.send_if_modified(|published| {
            let differs = *published != view;
            *published = view;
            differs
        });
        drop(state);
        self.changed.notify_waiters();
    }
}

// === impl Member ===

impl Member {
    fn alive(&self) -> bool {
        self.shared.state().alive(&self.me.id, self.life)
    }
}
