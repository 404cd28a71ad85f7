//! Indexes against what the entities say.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::Faults;
use crate::{
    ids::{AppId, DriverId, ProfileId, WorkerId},
    resources::Addresses,
    state::{
        cluster::ClusterState,
        driver::DriverState,
        executor::Executor,
        index::{
            app_load::AppLoad,
            free::FreeIndex,
            load::Load,
            place::Group,
            sums::Sums,
            timers::{Timer, Timers},
            waiting::{Groups, Waiting},
        },
        worker::WorkerState,
        write::waiting_group,
    },
};

// === impl ClusterState ===

impl ClusterState {
    pub(super) fn check_loads(&self, faults: &mut Faults) {
        let mut loads: BTreeMap<WorkerId, Load> = BTreeMap::new();
        for driver in self
            .drivers
            .values()
            .filter(|driver| driver.state.is_placed())
        {
            if let Some(worker) = &driver.worker {
                let load = loads.entry(worker.clone()).or_default();
                load.put_driver(driver);
            }
        }
        for executor in self
            .executors
            .values()
            .filter(|executor| !executor.state.is_final())
        {
            let load = loads.entry(executor.worker.clone()).or_default();
            load.put_executor(executor);
        }
        for (id, load) in &loads {
            check_addresses(id, load, faults);
        }
        faults.check(loads == self.index.loads, || {
            format!("loads are {:?}, should be {loads:?}", self.index.loads)
        });
        let mut free = FreeIndex::default();
        for worker in self.workers.values() {
            let used = self.used_on(&worker.id);
            let fits = used.is_within(&worker.spec);
            faults.check(fits || self.shrunk.contains(&worker.id), || {
                format!(
                    "worker {} offers {:?}, in use are {used:?}",
                    worker.id, worker.spec
                )
            });
            if worker.takes_work() {
                let (left, offers) = (self.free_of(&worker.id), self.offers_of(&worker.id));
                free.set(&worker.id, left, offers);
            }
        }
        faults.check(free == self.index.free, || {
            format!("free workers are {:?}, should be {free:?}", self.index.free)
        });
    }

    pub(super) fn check_queues(&self, faults: &mut Faults) {
        let mut waiting: Groups<DriverId> = Groups::new();
        let mut placed = BTreeSet::new();
        for driver in self.drivers.values() {
            if let Some(group) = waiting_group(driver, &self.config) {
                waiting
                    .entry(group)
                    .or_default()
                    .insert(driver.place(), driver.id.clone());
            }
            if driver.state.is_placed() {
                placed.insert(driver.id.clone());
            }
        }
        faults.check(waiting == *self.index.waiting.groups(), || {
            format!(
                "waiting are {:?}, should be {waiting:?}",
                self.index.waiting.groups()
            )
        });
        let heads = self.index.waiting.heads_are_right() && self.index.starving.heads_are_right();
        faults.check(heads, || "heads of queues are wrong".to_owned());
        faults.check(placed == self.index.placed_drivers, || {
            format!(
                "placed are {:?}, should be {placed:?}",
                self.index.placed_drivers
            )
        });
        let mut app_loads: BTreeMap<AppId, AppLoad> = BTreeMap::new();
        for executor in self.executors.values() {
            app_loads
                .entry(executor.app.clone())
                .or_default()
                .insert(executor);
        }
        let mut starving: Groups<(AppId, ProfileId)> = Groups::new();
        for app in self.apps.values() {
            let load = app_loads.entry(app.id.clone()).or_default();
            load.queued = app.wants(load, &self.config);
            load.billed = Some((app.spec.user.clone(), load.cores())).filter(|bill| bill.1 > 0);
            for (profile, group) in &load.queued {
                starving
                    .entry(group.clone())
                    .or_default()
                    .insert(app.place(*profile), (app.id.clone(), *profile));
            }
        }
        app_loads.retain(|_, load| !load.is_empty());
        faults.check(app_loads == self.index.app_loads, || {
            format!(
                "loads of applications are {:?}, should be {app_loads:?}",
                self.index.app_loads
            )
        });
        faults.check(starving == *self.index.starving.groups(), || {
            format!(
                "starving are {:?}, should be {starving:?}",
                self.index.starving.groups()
            )
        });
    }

    pub(super) fn check_history(&self, faults: &mut Faults) {
        let drivers: BTreeSet<_> = self
            .drivers
            .values()
            .filter(|driver| driver.state.is_final())
            .map(|driver| (driver.finished_at.unwrap_or_default(), driver.id.clone()))
            .collect();
        faults.check(drivers == self.index.ended_drivers, || {
            format!(
                "ended drivers are {:?}, should be {drivers:?}",
                self.index.ended_drivers
            )
        });
        let apps: BTreeSet<_> = self
            .apps
            .values()
            .filter(|app| app.state.is_final())
            .map(|app| (app.finished_at.unwrap_or_default(), app.id.clone()))
            .collect();
        faults.check(apps == self.index.ended_apps, || {
            format!(
                "ended applications are {:?}, should be {apps:?}",
                self.index.ended_apps
            )
        });
    }

    /// Whatever must be looked at again has a timer: an order without an answer, a back-off, a reference to nothing.
    pub(super) fn check_timers(&self, faults: &mut Faults) {
        let timers: &Timers = &self.index.timers;
        let mut needs = |timer: Timer| {
            faults.check(timers.get(&timer).is_some(), || {
                format!("{timer:?} is not set")
            });
        };
        for driver in self.drivers.values() {
            let alive = driver
                .worker
                .as_ref()
                .is_some_and(|worker| self.is_alive(worker));
            let unanswered = driver.state == DriverState::Launching
                || (driver.state == DriverState::Running && driver.is_to_end());
            if driver.not_before.is_some() || (alive && unanswered) {
                needs(Timer::Driver(driver.id.clone()));
            }
        }
        for executor in self.executors.values() {
            if executor.is_unanswered() && self.is_alive(&executor.worker) {
                needs(Timer::Executor(executor.app.clone(), executor.id));
            }
        }
        for app in self.apps.values().filter(|app| app.not_before.is_some()) {
            needs(Timer::App(app.id.clone()));
        }
        for worker in self
            .workers
            .values()
            .filter(|worker| worker.state == WorkerState::Dead)
        {
            needs(Timer::Worker(worker.id.clone()));
        }
    }

    /// What caps are measured by.
    pub(super) fn check_sums(&self, faults: &mut Faults) {
        let mut sums = Sums::default();
        sums.share.cores_offered = self.workers.values().map(|w| w.cores_offered()).sum();
        for driver in self.drivers.values().filter(|d| d.state.is_placed()) {
            let cores = u64::from(driver.spec.cores.0);
            if driver.spec.needs_executors {
                sums.share.add(driver.spec.cores);
            }
            sums.add_user(&driver.spec.user, cores);
        }
        let counts = |e: &&Arc<Executor>| !e.state.is_final() && !e.drained;
        for executor in self.executors.values().filter(counts) {
            if let Some(app) = self.apps.get(&executor.app) {
                sums.add_user(&app.spec.user, u64::from(executor.cores.0));
            }
        }
        faults.check(sums == self.index.sums, || {
            format!("sums are {:?}, should be {sums:?}", self.index.sums)
        });
    }

    /// The scheduler's promise: it left nothing that fits and that no cap holds.
    pub(super) fn check_nothing_fits(&self, faults: &mut Faults) {
        self.check_held("drivers", &self.index.waiting, faults);
        self.check_held("applications", &self.index.starving, faults);
        if self.pass.unfinished {
            return;
        }
        let mut check = |what: &str, group: &Group| {
            if self.hold_on(group).is_some() {
                return;
            }
            let rooms = self
                .workers
                .keys()
                .map(|worker| self.room_on(worker, group));
            let fitting: u64 = rooms.sum();
            let enough = group.gate.map_or(1, |gate| gate.executors);
            faults.check(fitting < enough, || {
                format!("{what} {group:?} waits, {fitting} would fit")
            });
        };
        if !self.pass.held_back {
            self.index
                .waiting
                .groups()
                .keys()
                .for_each(|group| check("driver", group));
        }
        self.index
            .starving
            .groups()
            .keys()
            .for_each(|group| check("executor", group));
    }

    /// What a cap holds though it has room will be looked at.
    fn check_held<I: Clone + PartialEq>(
        &self,
        what: &str,
        queue: &Waiting<I>,
        faults: &mut Faults,
    ) {
        for (group, hold) in queue.held_by() {
            let allows = hold.allows(group.cores(), &self.index.sums, &self.config);
            faults.check(!allows || queue.loosened().contains(hold), || {
                format!("{what}: {hold:?} has room for {group:?} and holds it for ever")
            });
        }
    }

    fn is_alive(&self, worker: &WorkerId) -> bool {
        self.workers
            .get(worker)
            .is_some_and(|worker| worker.state == WorkerState::Alive)
    }
}

/// No address is held by two.
fn check_addresses(worker: &WorkerId, load: &Load, faults: &mut Faults) {
    let held = load.drivers.values().map(|driver| &driver.resources);
    let held = held.chain(load.executors.values().map(|executor| &executor.resources));
    let mut seen: BTreeSet<(&String, &String)> = BTreeSet::new();
    for addresses in held {
        let addresses: &Addresses = addresses;
        for (name, addresses) in addresses {
            for address in addresses {
                faults.check(seen.insert((name, address)), || {
                    format!("worker {worker}: {name} {address} is held twice")
                });
            }
        }
    }
}
