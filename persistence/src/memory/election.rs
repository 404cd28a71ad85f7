//! A queue of candidates, in one process.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use super::{Member, Shared};
use crate::{
    election::{LeaderElection, LeaderView, Leadership, MasterInfo},
    error::ElectionError,
};

/// A place in the queue; dropping it withdraws the candidacy.
struct Candidacy {
    shared: Arc<Shared>,
    ticket: u64,
}

// === impl LeaderElection for Member ===

#[async_trait]
impl LeaderElection for Member {
    async fn campaign(&self, me: &MasterInfo) -> Result<Leadership, ElectionError> {
        // A leader that campaigns has given up: the new epoch fences what it may still have in flight.
        self.shared
            .change(|state| state.resign(&self.me.id, self.life));
        debug_assert_eq!(
            me.id, self.me.id,
            "a backend campaigns for the master it was opened for"
        );
        let ticket = self.shared.change(|state| state.enqueue(&self.me.id));
        let candidacy = Candidacy {
            shared: Arc::clone(&self.shared),
            ticket,
        };
        loop {
            // Made before the look, so that no change between look and wait is missed.
            let changed = self.shared.changed.notified();
            if !self.alive() {
                return Err(ElectionError::Closed);
            }
            let taken = self
                .shared
                .change_if(|state| state.take(candidacy.ticket, self.life));
            if let Some(leadership) = taken {
                return Ok(leadership);
            }
            changed.await;
        }
    }

    async fn resign(&self) {
        self.shared
            .change(|state| state.resign(&self.me.id, self.life));
    }

    fn observe(&self) -> watch::Receiver<LeaderView> {
        self.shared.view.subscribe()
    }
}

// === impl Candidacy ===

impl Drop for Candidacy {
    fn drop(&mut self) {
        self.shared.change(|state| state.withdraw(self.ticket));
    }
}
