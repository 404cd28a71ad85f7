//! Alive workers with at least one free core, in every order that a policy asks for. Empty when the cluster is full,
//! so that a full cluster costs nothing to look at.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use crate::{
    config::WorkerSelection,
    ids::WorkerId,
    resources::Demand,
    state::index::offer::{Offer, Offers},
};

/// So many workers are looked at one by one; more are searched in the order in which they are wanted.
const FEW: usize = 64;

/// What a worker has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Free {
    pub(crate) cores: u64,
    pub(crate) memory: u64,
    /// Not one of Spark's own workers.
    pub(crate) is_agent: bool,
}

/// Workers by what they have left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FreeIndex {
    current: BTreeMap<WorkerId, Free>,
    by_cores: BTreeMap<u64, BTreeSet<WorkerId>>,
    by_memory: BTreeMap<u64, BTreeSet<WorkerId>>,
    /// What some workers have that not every one has; only those that have any.
    offers: BTreeMap<WorkerId, Offers>,
    by_offer: BTreeMap<Offer, BTreeSet<WorkerId>>,
    /// The sum over `current`. Written only where `current` is, and compared by `validate()`.
    cores: u64,
}

// === impl FreeIndex ===

impl FreeIndex {
    pub(crate) fn is_empty(&self) -> bool {
        self.current.is_empty()
    }

    pub(crate) fn get(&self, worker: &WorkerId) -> Option<Free> {
        self.current.get(worker).copied()
    }

    /// Cores that all workers have left together.
    pub(crate) fn cores(&self) -> u64 {
        self.cores
    }

    /// The most cores that any worker has left.
    pub(crate) fn cores_max(&self) -> u64 {
        self.by_cores
            .last_key_value()
            .map_or(0, |(cores, _)| *cores)
    }

    /// The most memory that any worker with a free core has left.
    pub(crate) fn memory_max(&self) -> u64 {
        self.by_memory
            .last_key_value()
            .map_or(0, |(memory, _)| *memory)
    }

    /// Records what a worker has left; `None`, or no free core: it takes nothing.
    pub(crate) fn set(&mut self, worker: &WorkerId, free: Option<Free>, offers: Offers) {
        let free = free.filter(|free| free.cores > 0);
        self.set_offers(worker, free.map_or_else(Offers::new, |_| offers));
        let before = self.current.get(worker).copied();
        if before == free {
            return;
        }
        if let Some(before) = before {
            self.current.remove(worker);
            self.cores -= before.cores;
            take(&mut self.by_cores, before.cores, worker);
            take(&mut self.by_memory, before.memory, worker);
        }
        if let Some(free) = free {
            self.current.insert(worker.clone(), free);
            self.cores += free.cores;
            self.by_cores
                .entry(free.cores)
                .or_default()
                .insert(worker.clone());
            self.by_memory
                .entry(free.memory)
                .or_default()
                .insert(worker.clone());
        }
    }

    fn set_offers(&mut self, worker: &WorkerId, offers: Offers) {
        if self.offers_of(worker) == &offers {
            return;
        }
        for gone in self.offers.remove(worker).unwrap_or_default() {
            take(&mut self.by_offer, gone, worker);
        }
        for offer in &offers {
            self.by_offer
                .entry(offer.clone())
                .or_default()
                .insert(worker.clone());
        }
        if !offers.is_empty() {
            self.offers.insert(worker.clone(), offers);
        }
    }

    /// What a worker has that not every one has.
    pub(crate) fn offers_of(&self, worker: &WorkerId) -> &Offers {
        static NOTHING: Offers = Offers::new();
        self.offers.get(worker).unwrap_or(&NOTHING)
    }

    /// If something that is asked for is rare, the workers that have it: no others can take this. `None`: nothing is.
    pub(crate) fn rare(&self, demand: &Demand) -> Option<BTreeSet<WorkerId>> {
        let few = |workers: &mut dyn Iterator<Item = &WorkerId>| {
            let found: Vec<_> = workers.take(FEW + 1).collect();
            (found.len() <= FEW).then(|| found.into_iter().cloned().collect())
        };
        for offer in demand.offers_asked() {
            let Some(workers) = self.by_offer.get(&offer) else {
                return Some(BTreeSet::new());
            };
            let found = few(&mut workers.iter());
            if found.is_some() {
                return found;
            }
        }
        let cores = self.by_cores.range(u64::from(demand.cores.0)..);
        let memory = self.by_memory.range(demand.memory.0..);
        few(&mut memory.flat_map(|(_, ids)| ids))
            .or_else(|| few(&mut cores.flat_map(|(_, ids)| ids)))
    }

    /// Workers with at least these free cores, in the order of a policy. Lazy: by cores it costs what is taken, by
    /// memory or id also those that have some, but too few cores.
    pub(crate) fn ordered_with(
        &self,
        policy: WorkerSelection,
        cores: u64,
    ) -> Box<dyn Iterator<Item = &WorkerId> + '_> {
        let enough = move |id: &&WorkerId| self.get(id).is_some_and(|free| free.cores >= cores);
        match policy {
            WorkerSelection::CoresFreeDesc => Box::new(
                self.by_cores
                    .range(cores..)
                    .rev()
                    .flat_map(|(_, ids)| ids.iter().rev()),
            ),
            WorkerSelection::CoresFreeAsc => {
                Box::new(self.by_cores.range(cores..).flat_map(|(_, ids)| ids))
            }
            WorkerSelection::MemoryFreeDesc => {
                let ids = self
                    .by_memory
                    .values()
                    .rev()
                    .flat_map(|ids| ids.iter().rev());
                Box::new(ids.filter(enough))
            }
            WorkerSelection::MemoryFreeAsc => {
                Box::new(self.by_memory.values().flatten().filter(enough))
            }
            WorkerSelection::WorkerId => Box::new(self.current.keys().filter(enough)),
        }
    }

    /// The first worker by id after `after` with at least these cores that `fits`. Looks only at workers with so many
    /// free cores; costs those that fail `fits`, times the number of distinct free-core counts.
    pub(crate) fn next_by_id(
        &self,
        after: Option<&WorkerId>,
        cores: u64,
        fits: impl Fn(&WorkerId) -> bool,
    ) -> Option<WorkerId> {
        let mut after = after.cloned();
        loop {
            let bound = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let next = self
                .by_cores
                .range(cores..)
                .filter_map(|(_, ids)| ids.range::<WorkerId, _>((bound, Bound::Unbounded)).next())
                .min()?
                .clone();
            if fits(&next) {
                return Some(next);
            }
            after = Some(next);
        }
    }
}

fn take<K: Ord>(by: &mut BTreeMap<K, BTreeSet<WorkerId>>, key: K, worker: &WorkerId) {
    if let Some(ids) = by.get_mut(&key) {
        ids.remove(worker);
        if ids.is_empty() {
            by.remove(&key);
        }
    }
}
