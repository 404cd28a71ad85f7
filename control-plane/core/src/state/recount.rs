//! Carries the sums that caps are measured by along with each write, and says which caps have got room by it. Called by
//! `state/write.rs` only.

use std::sync::Arc;

use crate::state::{cluster::ClusterState, driver::Driver, index::waiting::Hold, worker::Worker};

// === impl ClusterState ===

impl ClusterState {
    pub(super) fn recount_offer(&mut self, before: Option<&Worker>, after: Option<&Worker>) {
        let offer = |worker: Option<&Worker>| worker.map_or(0, Worker::cores_offered);
        let (before, after) = (offer(before), offer(after));
        self.index.sums.share.offer(before, after);
        if after > before {
            self.index.waiting.loosen(&Hold::DriverShare);
        }
    }

    pub(super) fn recount_driver(&mut self, before: Option<&Driver>, after: Option<&Driver>) {
        let holds = |driver: Option<&Driver>| driver.is_some_and(|driver| driver.state.is_placed());
        let (held, holds) = (holds(before), holds(after));
        if held == holds {
            return;
        }
        let Some(spec) = before.or(after).map(|driver| Arc::clone(&driver.spec)) else {
            return;
        };
        let cores = u64::from(spec.cores.0);
        let bill = Some((spec.user.clone(), cores));
        if holds {
            if spec.needs_executors {
                self.index.sums.share.add(spec.cores);
            }
            self.recount_user(None, bill);
        } else {
            if spec.needs_executors {
                self.index.sums.share.take(spec.cores);
                self.index.waiting.loosen(&Hold::DriverShare);
            }
            self.recount_user(bill, None);
        }
    }

    /// What a user holds has changed; whatever that user's cap holds may have room then.
    pub(super) fn recount_user(
        &mut self,
        before: Option<(String, u64)>,
        after: Option<(String, u64)>,
    ) {
        if before == after {
            return;
        }
        if let Some((user, cores)) = &after {
            self.index.sums.add_user(user, *cores);
        }
        if let Some((user, cores)) = before {
            self.index.sums.take_user(&user, cores);
            let grew = after.is_some_and(|(now, more)| now == user && more >= cores);
            if !grew && self.config.user_cores_max.is_some() {
                let hold = Hold::User(user);
                self.index.waiting.loosen(&hold);
                self.index.starving.loosen(&hold);
            }
        }
    }
}
