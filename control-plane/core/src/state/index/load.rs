//! What is placed on one worker, and the sum of it. The sum is made anew at each change: a number that is counted up
//! and down drifts (SPARK-12552: "-1 cores used").

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    ids::{AppId, DriverId, ExecutorId},
    resources::{Addresses, Demand},
    spec::WorkerSpec,
    state::{
        driver::{Driver, DriverState},
        executor::Executor,
        index::digest,
    },
};

/// Drivers and executors that hold resources of one worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) drivers: BTreeMap<DriverId, Arc<Driver>>,
    pub(crate) executors: BTreeMap<(AppId, ExecutorId), Arc<Executor>>,
    pub(crate) used: Used,
    /// Over all of the above: what an agent that has carried out every order says of itself. Of each entry it takes its
    /// own inverse, so it cannot drift as a sum would.
    digest: u64,
}

/// A sum of what is held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) cores: u64,
    pub(crate) memory: u64,
    pub(crate) resources: BTreeMap<String, BTreeSet<String>>,
}

// === impl Load ===

impl Load {
    pub(crate) fn is_empty(&self) -> bool {
        self.drivers.is_empty() && self.executors.is_empty()
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    /// Whether an order about any of it waits for an answer.
    pub(crate) fn awaits_answer(&self) -> bool {
        let driver =
            |driver: &Arc<Driver>| driver.state == DriverState::Launching || driver.is_to_end();
        self.drivers.values().any(driver)
            || self
                .executors
                .values()
                .any(|executor| executor.is_unanswered())
    }

    pub(crate) fn put_driver(&mut self, driver: &Arc<Driver>) {
        self.digest ^= digest::of_driver(driver);
        if let Some(before) = self.drivers.insert(driver.id.clone(), Arc::clone(driver)) {
            self.digest ^= digest::of_driver(&before);
        }
    }

    pub(crate) fn remove_driver(&mut self, id: &DriverId) {
        if let Some(before) = self.drivers.remove(id) {
            self.digest ^= digest::of_driver(&before);
        }
    }

    pub(crate) fn put_executor(&mut self, executor: &Arc<Executor>) {
        let key = (executor.app.clone(), executor.id);
        if self.executors.insert(key, Arc::clone(executor)).is_none() {
            self.digest ^= digest::of_executor(executor);
        }
    }

    pub(crate) fn remove_executor(&mut self, executor: &Executor) {
        let key = (executor.app.clone(), executor.id);
        if self.executors.remove(&key).is_some() {
            self.digest ^= digest::of_executor(executor);
        }
    }

    /// Makes the sum anew. Costs what is on this worker.
    pub(crate) fn recompute(&mut self) {
        let mut used = Used::default();
        for driver in self.drivers.values() {
            used.add(driver.spec.cores.0, driver.spec.memory.0, &driver.resources);
        }
        for executor in self.executors.values() {
            used.add(executor.cores.0, executor.memory.0, &executor.resources);
        }
        self.used = used;
    }
}

// === impl Used ===

impl Used {
    pub(crate) const NONE: Self = Self {
        cores: 0,
        memory: 0,
        resources: BTreeMap::new(),
    };

    fn add(&mut self, cores: u32, memory: u64, resources: &Addresses) {
        self.cores = self.cores.saturating_add(u64::from(cores));
        self.memory = self.memory.saturating_add(memory);
        for (name, addresses) in resources {
            self.resources
                .entry(name.clone())
                .or_default()
                .extend(addresses.iter().cloned());
        }
    }

    /// Cores that a worker of this spec has left.
    pub(crate) fn cores_free(&self, spec: &WorkerSpec) -> u64 {
        u64::from(spec.cores.0).saturating_sub(self.cores)
    }

    /// Memory that a worker of this spec has left, in MiB.
    pub(crate) fn memory_free(&self, spec: &WorkerSpec) -> u64 {
        spec.memory.0.saturating_sub(self.memory)
    }

    /// Addresses of one resource that a worker of this spec has left, in string order.
    pub(crate) fn addresses_free<'a>(
        &self,
        spec: &'a WorkerSpec,
        resource: &str,
    ) -> BTreeSet<&'a String> {
        let held = self.resources.get(resource);
        spec.resources
            .get(resource)
            .into_iter()
            .flatten()
            .filter(|address| held.is_none_or(|held| !held.contains(*address)))
            .collect()
    }

    /// Whether a worker of this spec can take this demand in addition.
    pub(crate) fn leaves_room_for(&self, spec: &WorkerSpec, demand: &Demand) -> bool {
        self.cores_free(spec) >= u64::from(demand.cores.0)
            && self.memory_free(spec) >= demand.memory.0
            && demand
                .capability
                .as_ref()
                .is_none_or(|c| spec.capabilities.contains(c))
            && demand.resources.iter().all(|(name, amount)| {
                *amount == 0
                    || self.addresses_free(spec, name).len()
                        >= usize::try_from(*amount).unwrap_or(usize::MAX)
            })
    }

    /// The lowest free addresses for a demand, in string order as Spark hands them out.
    pub(crate) fn pick(&self, spec: &WorkerSpec, demand: &Demand) -> Addresses {
        let mut picked = Addresses::new();
        for (name, amount) in &demand.resources {
            if *amount > 0 {
                let free = self.addresses_free(spec, name);
                let count = usize::try_from(*amount).unwrap_or(usize::MAX);
                picked.insert(
                    name.clone(),
                    free.into_iter().take(count).cloned().collect(),
                );
            }
        }
        picked
    }

    /// Whether a worker of this spec offers all of this.
    pub(crate) fn is_within(&self, spec: &WorkerSpec) -> bool {
        self.cores <= u64::from(spec.cores.0)
            && self.memory <= spec.memory.0
            && self.resources.iter().all(|(name, held)| {
                let offered = spec.resources.get(name);
                held.iter()
                    .all(|a| offered.is_some_and(|offered| offered.contains(a)))
            })
    }
}
