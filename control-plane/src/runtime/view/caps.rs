//! What caps are measured by, carried along with each change, so that a question about it costs nothing.

use std::sync::Arc;

use imbl::OrdMap;
use interrex_core::{
    caps::Share,
    resources::Cores,
    state::{driver::Driver, executor::Executor, worker::Worker},
};

/// What drivers that need executors hold, and each user. A clone costs O(1).
#[derive(Debug, Clone, Default)]
pub(super) struct CapUse {
    pub(super) share: Share,
    /// Nobody who holds nothing.
    users: OrdMap<Arc<str>, u64>,
}

// === impl CapUse ===

impl CapUse {
    /// Cores that a user holds.
    pub(super) fn of_user(&self, user: &str) -> u64 {
        self.users.get(user).copied().unwrap_or_default()
    }

    pub(super) fn worker(&mut self, old: Option<&Worker>, new: Option<&Worker>) {
        let offered = |worker: Option<&Worker>| worker.map_or(0, Worker::cores_offered);
        self.share.offer(offered(old), offered(new));
    }

    pub(super) fn driver(&mut self, old: Option<&Driver>, new: Option<&Driver>) {
        for (driver, joins) in [(old, false), (new, true)] {
            let Some(driver) = driver.filter(|driver| driver.state.is_placed()) else {
                continue;
            };
            let cores = driver.spec.cores;
            match (driver.spec.needs_executors, joins) {
                (true, true) => self.share.add(cores),
                (true, false) => self.share.take(cores),
                (false, _) => {}
            }
            self.bill(&driver.spec.user, cores, joins);
        }
    }

    pub(super) fn executor(&mut self, user: &str, old: Option<&Executor>, new: Option<&Executor>) {
        for (executor, joins) in [(old, false), (new, true)] {
            // As the scheduler counts: one that is replaced because its worker is drained does not count.
            let counts = |executor: &&Executor| !executor.state.is_final() && !executor.drained;
            if let Some(executor) = executor.filter(counts) {
                self.bill(user, executor.cores, joins);
            }
        }
    }

    fn bill(&mut self, user: &str, cores: Cores, joins: bool) {
        let (held, cores) = (self.of_user(user), u64::from(cores.0));
        let then = if joins {
            held.saturating_add(cores)
        } else {
            held.saturating_sub(cores)
        };
        if then == 0 {
            self.users.remove(user);
        } else {
            self.users.insert(Arc::from(user), then);
        }
    }
}
