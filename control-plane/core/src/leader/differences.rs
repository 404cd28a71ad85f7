//! Whether a worker runs what is recorded, as far as its heartbeats tell.
//!
//! Owned by the leader machine, thrown away with the leadership. A heartbeat and the records are never of the same
//! instant: orders and reports are on their way, and an end stays in the agent's digest until its acknowledgement is
//! there. So a difference counts only when it is the same at two heartbeats in a row, and while no order to that worker
//! waits for its answer. What must never happen: that a busy worker is asked for full reports all the time.

use std::collections::BTreeMap;

use crate::ids::WorkerId;

/// Differences that were seen once. At most one for each worker.
#[derive(Debug, Clone, Default)]
pub(super) struct Differences {
    seen: BTreeMap<WorkerId, u64>,
}

// === impl Differences ===

impl Differences {
    /// Takes in a heartbeat. True: the same difference as at the one before, so its full report is needed; then both
    /// are forgotten.
    pub(super) fn persists(
        &mut self,
        worker: &WorkerId,
        reported: u64,
        recorded: u64,
        awaits_answer: bool,
    ) -> bool {
        let difference = reported ^ recorded;
        if difference == 0 || awaits_answer {
            self.forget(worker);
            return false;
        }
        if self.seen.get(worker) == Some(&difference) {
            self.forget(worker);
            return true;
        }
        self.seen.insert(worker.clone(), difference);
        false
    }

    /// The worker has told everything, or is gone.
    pub(super) fn forget(&mut self, worker: &WorkerId) {
        self.seen.remove(worker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(beats: &[(u64, u64, bool)]) -> Vec<bool> {
        let mut differences = Differences::default();
        let worker = WorkerId::from("w1");
        beats
            .iter()
            .map(|(reported, recorded, waits)| {
                differences.persists(&worker, *reported, *recorded, *waits)
            })
            .collect()
    }

    #[test]
    fn a_difference_counts_when_it_is_the_same_twice_in_a_row() {
        assert_eq!(seen(&[(1, 0, false), (1, 0, false)]), [false, true]);
        // What else comes and goes on both sides does not hide it.
        assert_eq!(seen(&[(1, 0, false), (7, 6, false)]), [false, true]);
        // And then everything begins anew.
        let thrice = [(1, 0, false), (1, 0, false), (1, 0, false)];
        assert_eq!(seen(&thrice), [false, true, false]);
    }

    #[test]
    fn what_is_on_its_way_is_no_difference() {
        let changing = [(1, 0, false), (3, 0, false), (3, 3, false), (3, 2, false)];
        assert_eq!(seen(&changing), [false; 4]);
        let waiting = [(1, 0, false), (1, 0, true), (1, 0, false)];
        assert_eq!(seen(&waiting), [false; 3]);
    }
}
