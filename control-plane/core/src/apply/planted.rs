//! A bug on purpose, so that chaos can show that it would be found: what a worker reports twice is booked twice. In no build
//! that is used: the feature `planted-bugs` is chaos' own.

use std::sync::Arc;

use crate::state::{cluster::ClusterState, driver::Driver};

// === impl ClusterState ===

impl ClusterState {
    /// From now on a repeated report is counted again.
    pub(crate) fn plant_double_count(&mut self) {
        self.counts_repeats = true;
    }

    /// A report has said what is known already.
    pub(super) fn count_repeat(&mut self, driver: &Arc<Driver>) {
        if self.counts_repeats
            && let Some(worker) = &driver.worker
            && let Some(load) = self.index.loads.get_mut(worker)
        {
            load.book_again(driver);
        }
    }
}
