//! Gates: an application with `min_executors` gets nothing before so many executors fit at once.
//!
//! To know whether they do, workers have to be counted, which must not happen at every event. What fits can only become
//! more on workers that have got room, and by no more than what fits on them now; so after a count that found `n` too
//! few, nothing is counted again before workers have got room for `n`. The answer is the same as if every pass counted.
//!
//! A gate reserves nothing: smaller applications behind it go on taking what there is.

use std::collections::BTreeSet;

use crate::{
    ids::WorkerId,
    scheduler::{Head, Scope},
    state::{
        cluster::ClusterState,
        index::place::{Gate, Group},
    },
};

// === impl ClusterState ===

impl ClusterState {
    /// Whether what this head asks for may be started, as far as its gate is concerned.
    pub(super) fn is_open(&mut self, head: &Head, grown: &BTreeSet<WorkerId>) -> bool {
        let Some(gate) = head.group.gate else {
            return true;
        };
        if head.scope == Scope::Grown {
            let more = grown.iter().map(|id| self.room_on(id, &head.group)).sum();
            if !self.index.starving.may_open(&head.group, more) {
                return false;
            }
        }
        let fitting = self.count_fitting(&head.group, gate);
        let lacking = gate.executors.saturating_sub(fitting);
        self.index.starving.shut(&head.group, lacking);
        lacking == 0
    }

    /// How many executors fit at once, counted up to what the gate asks for; where the free cores alone are too few,
    /// the number that they would be enough for.
    fn count_fitting(&self, group: &Group, gate: Gate) -> u64 {
        let unit = u64::from(group.demand.cores.0);
        let at_most = self.index.free.cores() / unit.max(1);
        if at_most < gate.executors {
            return at_most;
        }
        let rare = self.index.free.rare(&group.demand);
        let policy = self.config.worker_selection;
        let workers: Box<dyn Iterator<Item = &WorkerId>> = match &rare {
            Some(rare) => Box::new(rare.iter()),
            None => self.index.free.ordered_with(policy, unit),
        };
        let mut fitting = 0;
        for worker in workers {
            fitting += self.room_on(worker, group);
            if fitting >= gate.executors {
                break;
            }
        }
        fitting
    }

    /// How many of what is asked for fit on this worker: for a gate all of them, otherwise 1 or none.
    pub(crate) fn room_on(&self, id: &WorkerId, group: &Group) -> u64 {
        let demand = &group.demand;
        if !self.fits_on(id, demand) {
            return 0;
        }
        let (Some(gate), Some(free)) = (group.gate, self.index.free.get(id)) else {
            return 1;
        };
        if gate.one_a_worker {
            return 1;
        }
        let by_cores = free.cores / u64::from(demand.cores.0).max(1);
        let by_memory = free.memory.checked_div(demand.memory.0);
        let mut room = by_cores.min(by_memory.unwrap_or(u64::MAX));
        if let Some(worker) = self.workers.get(id) {
            for (name, amount) in &demand.resources {
                let there = self.used_on(id).addresses_free(&worker.spec, name).len();
                let fitting = (there as u64).checked_div(u64::from(*amount));
                room = room.min(fitting.unwrap_or(u64::MAX));
            }
        }
        room
    }
}
