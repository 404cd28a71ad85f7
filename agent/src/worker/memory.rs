//! A short memory of work whose result a master has acknowledged, so that a late repeat of its launch is not run.

use std::collections::{BTreeMap, VecDeque};

use interrex_proto::v1::work_report;

use crate::{
    outbox::{ByWorkKey, later_attempt},
    process::WorkKey,
};

/// How many finished attempts are remembered.
pub(crate) const FINISHED_MAX: usize = 4_096;

/// The last [`FINISHED_MAX`] acknowledged results.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Finished {
    order: VecDeque<WorkKey>,
    results: BTreeMap<WorkKey, work_report::Body>,
}

// === impl Finished ===

impl Finished {
    pub(crate) fn remember(&mut self, key: WorkKey, result: work_report::Body) {
        if self.results.insert(key.clone(), result).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > FINISHED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.results.remove(&oldest);
        }
    }

    pub(crate) fn result(&self, key: &WorkKey) -> Option<&work_report::Body> {
        self.results.get(key)
    }

    /// The highest remembered attempt of `driver_id` above `attempt`.
    pub(crate) fn later_attempt(&self, driver_id: &str, attempt: u32) -> Option<u32> {
        later_attempt(self.results.keys_range(driver_id, attempt))
    }
}
