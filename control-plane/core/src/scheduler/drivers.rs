//! Drivers: larger priorities first, then first come, first served, without blocking.
//!
//! Spread: round robin over the workers by id. Spark draws a random order at each pass; a fixed order spreads as well
//! and gives the same outcome whenever it is replayed. Consolidated: the first that fits by id, as Spark.

use std::{collections::BTreeSet, ops::Bound};

use crate::{
    ids::{DriverId, WorkerId},
    resources::{Addresses, Demand},
    scheduler::Scope,
    state::{cluster::ClusterState, index::place::Group},
};

// === impl ClusterState ===

impl ClusterState {
    pub(super) fn place_drivers(
        &mut self,
        fresh: &BTreeSet<Group>,
        grown: &BTreeSet<WorkerId>,
        everything: bool,
        left: &mut usize,
    ) {
        let everything = everything || (self.pass.held_back && !self.drivers_at_limit());
        self.pass.held_back &= self.drivers_at_limit();
        let mut walk = self.walk(&self.index.waiting, fresh, grown, everything);
        self.let_go(&mut walk, |index| &mut index.waiting);
        while let Some(head) = walk.next(&self.index.waiting) {
            if self.drivers_at_limit() {
                self.pass.held_back = true;
                return;
            }
            if *left == 0 {
                self.pass.unfinished = true;
                return;
            }
            let Some((_, driver)) = self.index.waiting.head(&head.group) else {
                continue;
            };
            let place = head.place;
            if let Some(hold) = self.hold_on(&head.group) {
                self.index.waiting.hold(&head.group, hold);
            } else if let Some(worker) =
                self.worker_for_driver(&head.group.demand, head.scope, grown)
            {
                *left -= 1;
                self.place_driver(&driver, worker, &head.group.demand);
                walk.placed(self, &self.index.waiting, head);
            }
            self.visited(&mut walk, place, |index| &mut index.waiting);
        }
    }

    pub(crate) fn drivers_at_limit(&self) -> bool {
        self.config.max_drivers.is_some_and(|max| {
            self.index.placed_drivers.len() >= usize::try_from(max).unwrap_or(usize::MAX)
        })
    }

    fn worker_for_driver(
        &self,
        demand: &Demand,
        scope: Scope,
        grown: &BTreeSet<WorkerId>,
    ) -> Option<WorkerId> {
        if demand.memory.0 > self.index.free.memory_max() {
            return None;
        }
        let after = self
            .pass
            .cursor
            .as_ref()
            .filter(|_| self.config.spread_out_drivers);
        self.next_fit(after, demand, scope, grown).or_else(|| {
            // Round the end, once.
            after.and_then(|_| self.next_fit(None, demand, scope, grown))
        })
    }

    fn next_fit(
        &self,
        after: Option<&WorkerId>,
        demand: &Demand,
        scope: Scope,
        grown: &BTreeSet<WorkerId>,
    ) -> Option<WorkerId> {
        let among = |workers: &BTreeSet<WorkerId>| {
            let bound = after.map_or(Bound::Unbounded, Bound::Excluded);
            workers
                .range::<WorkerId, _>((bound, Bound::Unbounded))
                .find(|id| self.fits_on(id, demand))
                .cloned()
        };
        match scope {
            Scope::Grown => among(grown),
            Scope::All => match self.index.free.rare(demand) {
                Some(rare) => among(&rare),
                None => {
                    let cores = u64::from(demand.cores.0);
                    self.index
                        .free
                        .next_by_id(after, cores, |id| self.fits_on(id, demand))
                }
            },
        }
    }

    fn place_driver(&mut self, id: &DriverId, worker: WorkerId, demand: &Demand) {
        let Some(driver) = self.drivers.get(id).cloned() else {
            return;
        };
        let resources = self.pick_addresses(&worker, demand);
        self.pass.cursor = Some(worker.clone());
        let placed = driver.placed(worker, resources);
        self.put_driver(placed.clone());
        self.order_launch_driver(&placed);
    }

    /// The lowest free addresses of a worker for this demand.
    pub(super) fn pick_addresses(&self, worker: &WorkerId, demand: &Demand) -> Addresses {
        let Some(worker) = self.workers.get(worker) else {
            return Addresses::new();
        };
        self.used_on(&worker.id).pick(&worker.spec, demand)
    }
}
