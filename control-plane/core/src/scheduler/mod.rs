//! Who runs where. One pass after each command, over what that command made possible: drivers first, then executors.
//!
//! Between passes this holds (and `validate()` checks it): nothing that waits fits on any worker, unless the last
//! pass stopped at its bound or `max_drivers` holds drivers back. So a pass needs to look only at
//! * what is new in the queue, on all workers, and
//! * all that waits, on workers that have got room since.
//!
//! A queue is made of groups of equal demand. If the head of a group does not fit, nothing behind it does, so a pass
//! costs the number of different demands that are small enough, and what it places. A full cluster costs nothing.
//!
//! Spark instead goes over all applications and all workers at each event (2.7 s at 2,000 workers and 500
//! applications); the placements are the same.

mod drivers;
mod executors;
pub(crate) mod plan;
mod wants;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ids::{QueuePosition, WorkerId},
    resources::Demand,
    state::{
        cluster::ClusterState,
        index::{load::Used, waiting::Waiting},
    },
};

/// Drivers and applications served in one pass. What is left is served by the next command or tick.
pub(crate) const SERVED_PER_PASS_MAX: usize = 1_000;

/// On which workers a group is to be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// On all.
    All,
    /// On those that have got room since the last pass.
    Grown,
}

/// The heads of the groups to look at, in queue order.
pub(crate) type Heads = BTreeMap<QueuePosition, (Demand, Scope)>;

// === impl ClusterState ===

impl ClusterState {
    /// One pass.
    pub(crate) fn schedule(&mut self) {
        let grown = std::mem::take(&mut self.pass.grown);
        let everything = std::mem::take(&mut self.pass.unfinished);
        let drivers = self.index.waiting.take_fresh();
        let apps = self.index.starving.take_fresh();
        if self.index.free.is_empty() {
            return;
        }
        let grown: BTreeSet<WorkerId> = grown
            .into_iter()
            .filter(|id| self.index.free.get(id).is_some())
            .collect();
        let mut left = SERVED_PER_PASS_MAX;
        self.place_drivers(&drivers, &grown, everything, &mut left);
        self.place_executors(&apps, &grown, everything, &mut left);
    }

    /// The most cores that one of these workers has left.
    fn cores_max_of(&self, workers: &BTreeSet<WorkerId>) -> u64 {
        workers
            .iter()
            .filter_map(|id| self.index.free.get(id))
            .map(|free| free.cores)
            .max()
            .unwrap_or(0)
    }

    /// Which groups of a queue to look at.
    fn heads<I: Clone + PartialEq>(
        &self,
        queue: &Waiting<I>,
        fresh: &BTreeSet<Demand>,
        grown: &BTreeSet<WorkerId>,
        everything: bool,
    ) -> Heads {
        let mut heads = Heads::new();
        let mut add = |demand: &Demand, scope| {
            if let Some((position, _)) = queue.head(demand) {
                heads.insert(position, (demand.clone(), scope));
            }
        };
        if everything {
            for demand in queue.demands_up_to(self.index.free.cores_max()) {
                add(demand, Scope::All);
            }
            return heads;
        }
        if !grown.is_empty() && !queue.is_empty() {
            for demand in queue.demands_up_to(self.cores_max_of(grown)) {
                add(demand, Scope::Grown);
            }
        }
        for demand in fresh {
            add(demand, Scope::All);
        }
        heads
    }

    /// Whether an alive worker with room can take this in addition.
    pub(crate) fn fits_on(&self, id: &WorkerId, demand: &Demand) -> bool {
        let Some(free) = self.index.free.get(id) else {
            return false;
        };
        if free.cores < u64::from(demand.cores.0)
            || free.memory < demand.memory.0
            || self.shrunk.contains(id)
        {
            return false;
        }
        if demand.resources.is_empty() && demand.capability.is_none() {
            return true;
        }
        let Some(worker) = self.workers.get(id) else {
            return false;
        };
        self.used_on(id).leaves_room_for(&worker.spec, demand)
    }

    /// What is in use on a worker.
    pub(crate) fn used_on(&self, id: &WorkerId) -> &Used {
        static NOTHING: Used = Used::NONE;
        self.index.loads.get(id).map_or(&NOTHING, |load| &load.used)
    }
}
