//! What is placed on one worker, and the sum of it.
//!
//! A number that is counted up and down drifts (SPARK-12552: "-1 cores used"), and one that is made anew at each change
//! costs what is on the worker. So the sum changes in one place only, with the map that it is a sum of: an entry adds what
//! it holds when it comes, and exactly the same entry takes it away when it goes. `validate()` makes the sum anew.

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

/// A sum of what is held. Too wide to be cut off: what was added can always be taken away again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Used {
    cores: u64,
    memory: u128,
    /// Addresses of each resource, and how many hold each: never more than one, unless an agent claims nonsense.
    resources: BTreeMap<String, BTreeMap<String, u64>>,
}

/// What one entry holds.
struct Held<'a> {
    cores: u32,
    memory: u64,
    resources: &'a Addresses,
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
        self.remove_driver(&driver.id);
        self.digest ^= digest::of_driver(driver);
        self.used.add(&Held::by_driver(driver));
        self.drivers.insert(driver.id.clone(), Arc::clone(driver));
    }

    /// A bug on purpose: a sum that grows without its map.
    #[cfg(feature = "planted-bugs")]
    pub(crate) fn book_again(&mut self, driver: &Driver) {
        self.used.add(&Held::by_driver(driver));
    }

    pub(crate) fn remove_driver(&mut self, id: &DriverId) {
        if let Some(before) = self.drivers.remove(id) {
            self.digest ^= digest::of_driver(&before);
            self.used.subtract(&Held::by_driver(&before));
        }
    }

    pub(crate) fn put_executor(&mut self, executor: &Arc<Executor>) {
        self.remove_executor(executor);
        let key = (executor.app.clone(), executor.id);
        self.digest ^= digest::of_executor(executor);
        self.used.add(&Held::by_executor(executor));
        self.executors.insert(key, Arc::clone(executor));
    }

    pub(crate) fn remove_executor(&mut self, executor: &Executor) {
        let key = (executor.app.clone(), executor.id);
        if let Some(before) = self.executors.remove(&key) {
            self.digest ^= digest::of_executor(&before);
            self.used.subtract(&Held::by_executor(&before));
        }
    }
}

// === impl Held ===

impl<'a> Held<'a> {
    fn by_driver(driver: &'a Driver) -> Self {
        Self {
            cores: driver.spec.cores.0,
            memory: driver.spec.memory.0,
            resources: &driver.resources,
        }
    }

    fn by_executor(executor: &'a Executor) -> Self {
        Self {
            cores: executor.cores.0,
            memory: executor.memory.0,
            resources: &executor.resources,
        }
    }
}

// === impl Used ===

impl Used {
    pub(crate) const NONE: Self = Self {
        cores: 0,
        memory: 0,
        resources: BTreeMap::new(),
    };

    fn add(&mut self, held: &Held<'_>) {
        self.cores += u64::from(held.cores);
        self.memory += u128::from(held.memory);
        for (name, addresses) in held.resources {
            if addresses.is_empty() {
                continue;
            }
            let holders = self.resources.entry(name.clone()).or_default();
            for address in addresses {
                *holders.entry(address.clone()).or_default() += 1;
            }
        }
    }

    /// The inverse of `add`.
    fn subtract(&mut self, held: &Held<'_>) {
        self.cores -= u64::from(held.cores);
        self.memory -= u128::from(held.memory);
        for (name, addresses) in held.resources {
            let Some(holders) = self.resources.get_mut(name) else {
                continue;
            };
            for address in addresses {
                if let Some(count) = holders.get_mut(address) {
                    *count -= 1;
                    if *count == 0 {
                        holders.remove(address);
                    }
                }
            }
            if holders.is_empty() {
                self.resources.remove(name);
            }
        }
    }

    /// Cores in use.
    pub(crate) fn cores(&self) -> u64 {
        self.cores
    }

    /// Memory in use, in MiB.
    pub(crate) fn memory(&self) -> u64 {
        u64::try_from(self.memory).unwrap_or(u64::MAX)
    }

    /// Cores that a worker of this spec has left.
    pub(crate) fn cores_free(&self, spec: &WorkerSpec) -> u64 {
        u64::from(spec.cores.0).saturating_sub(self.cores)
    }

    /// Memory that a worker of this spec has left, in MiB.
    pub(crate) fn memory_free(&self, spec: &WorkerSpec) -> u64 {
        spec.memory.0.saturating_sub(self.memory())
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
            .filter(|address| held.is_none_or(|held| !held.contains_key(*address)))
            .collect()
    }

    /// Whether a worker of this spec can take this demand in addition.
    pub(crate) fn leaves_room_for(&self, spec: &WorkerSpec, demand: &Demand) -> bool {
        self.cores_free(spec) >= u64::from(demand.cores.0)
            && self.memory_free(spec) >= demand.memory.0
            && !(demand.needs_agent && spec.spark.is_some())
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
            && self.memory <= u128::from(spec.memory.0)
            && self.resources.iter().all(|(name, held)| {
                let offered = spec.resources.get(name);
                held.keys()
                    .all(|a| offered.is_some_and(|offered| offered.contains(a)))
            })
    }
}

#[cfg(test)]
#[path = "load_test.rs"]
mod tests;
