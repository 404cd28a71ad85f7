//! The only place that writes entities. Each write notes how the entity was, so that it is stored, and carries every
//! index along, so that none can be forgotten.

use std::{sync::Arc, time::Duration};

use crate::{
    config::ClusterConfig,
    ids::{AppId, DriverId, ExecutorId, RequestId, WorkerId},
    state::{
        app::Application,
        changes::note,
        cluster::ClusterState,
        driver::{Driver, DriverState},
        executor::{Executor, ExecutorState},
        index::{free::Free, load::Load, place::Group, timers::Timer},
        meta::{Meta, Request},
        worker::{Worker, WorkerState},
    },
    time::Timestamp,
};

/// Where a thing's worker stands, as far as orders are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It takes orders.
    Alive,
    /// It may come back; it says then what it runs.
    Silent,
    /// Dead or not recorded: what it ran is lost.
    Gone,
}

// === impl ClusterState ===

impl ClusterState {
    pub(crate) fn put_meta(&mut self, meta: Meta) {
        let before = std::mem::replace(&mut self.meta, meta);
        self.changes.meta.get_or_insert(before);
    }

    pub(crate) fn put_worker(&mut self, worker: Worker) {
        let id = worker.id.clone();
        let before = self.workers.get(&id).cloned();
        if before.as_deref() == Some(&worker) {
            return;
        }
        note(&mut self.changes.workers, id.clone(), before.as_ref());
        self.tell_worker(before.as_deref(), &worker);
        let worker = Arc::new(worker);
        self.workers.insert(id.clone(), Arc::clone(&worker));
        let due = self.worker_deadline(&worker, before.as_deref());
        self.index.timers.set(Timer::Worker(id.clone()), due);
        if before
            .as_ref()
            .is_none_or(|before| before.spec != worker.spec)
            && self
                .index
                .loads
                .get(&id)
                .is_some_and(|load| !load.used.is_within(&worker.spec))
        {
            self.shrunk.insert(id.clone());
        }
        self.pass.grown.insert(id.clone());
        self.recount_offer(before.as_deref(), Some(&worker));
        self.refresh_worker(&id);
    }

    pub(crate) fn delete_worker(&mut self, id: &WorkerId) {
        if let Some(before) = self.workers.remove(id) {
            self.registrations.remove(id);
            note(&mut self.changes.workers, id.clone(), Some(&before));
            self.index.timers.set(Timer::Worker(id.clone()), None);
            self.recount_offer(Some(&before), None);
            self.refresh_worker(id);
        }
    }

    pub(crate) fn put_app(&mut self, app: Application) {
        let id = app.id.clone();
        let before = self.apps.get(&id).cloned();
        if before.as_deref() == Some(&app) {
            return;
        }
        note(&mut self.changes.apps, id.clone(), before.as_ref());
        self.tell_app(before.as_deref(), &app);
        self.unindex_ended_app(before.as_deref());
        if app.state.is_final() {
            self.index
                .ended_apps
                .insert((app.finished_at.unwrap_or_default(), id.clone()));
        }
        let due = app.not_before.filter(|_| !app.state.is_final());
        let due = self.capped(due, self.config.executor_backoff_max);
        self.index.timers.set(Timer::App(id.clone()), due);
        self.apps.insert(id.clone(), Arc::new(app));
        self.refresh_app(&id);
    }

    pub(crate) fn delete_app(&mut self, id: &AppId) {
        if let Some(before) = self.apps.remove(id) {
            note(&mut self.changes.apps, id.clone(), Some(&before));
            self.unindex_ended_app(Some(&before));
            self.index.timers.set(Timer::App(id.clone()), None);
            self.refresh_app(id);
        }
    }

    pub(crate) fn put_driver(&mut self, driver: Driver) {
        let id = driver.id.clone();
        let before = self.drivers.get(&id).cloned();
        if before.as_deref() == Some(&driver) {
            return;
        }
        note(&mut self.changes.drivers, id.clone(), before.as_ref());
        self.tell_driver(before.as_deref(), &driver);
        let driver = Arc::new(driver);
        self.unindex_driver(before.as_ref(), Some(&driver));
        self.index_driver(&driver);
        self.recount_driver(before.as_deref(), Some(&driver));
        self.drivers.insert(id.clone(), Arc::clone(&driver));
        let due = self.driver_deadline(&driver);
        self.index.timers.set(Timer::Driver(id), due);
    }

    pub(crate) fn delete_driver(&mut self, id: &DriverId) {
        if let Some(before) = self.drivers.remove(id) {
            note(&mut self.changes.drivers, id.clone(), Some(&before));
            self.unindex_driver(Some(&before), None);
            self.recount_driver(Some(&before), None);
            self.index.timers.set(Timer::Driver(id.clone()), None);
        }
    }

    pub(crate) fn put_executor(&mut self, executor: Executor) {
        let key = (executor.app.clone(), executor.id);
        let before = self.executors.get(&key).cloned();
        if before.as_deref() == Some(&executor) {
            return;
        }
        note(&mut self.changes.executors, key.clone(), before.as_ref());
        self.tell_executor(before.as_deref(), &executor);
        let executor = Arc::new(executor);
        self.unindex_executor(before.as_ref(), Some(&executor));
        if !executor.state.is_final() {
            let load = self.index.loads.entry(executor.worker.clone()).or_default();
            load.put_executor(&executor);
            self.refresh_worker(&executor.worker);
        }
        self.index
            .app_loads
            .entry(executor.app.clone())
            .or_default()
            .insert(&executor);
        self.executors.insert(key.clone(), Arc::clone(&executor));
        self.refresh_app(&executor.app);
        let due = self.executor_deadline(&executor);
        self.index.timers.set(Timer::Executor(key.0, key.1), due);
    }

    pub(crate) fn delete_executor(&mut self, app: &AppId, executor: ExecutorId) {
        let key = (app.clone(), executor);
        if let Some(before) = self.executors.remove(&key) {
            note(&mut self.changes.executors, key.clone(), Some(&before));
            self.unindex_executor(Some(&before), None);
            self.refresh_app(app);
            self.index.timers.set(Timer::Executor(key.0, key.1), None);
        }
    }

    pub(crate) fn put_request(&mut self, request: Request) {
        let before = self.requests.get(&request.id).cloned();
        note(
            &mut self.changes.requests,
            request.id.clone(),
            before.as_ref(),
        );
        self.requests.insert(request.id.clone(), Arc::new(request));
    }

    pub(crate) fn delete_request(&mut self, id: &RequestId) {
        if let Some(before) = self.requests.remove(id) {
            note(&mut self.changes.requests, id.clone(), Some(&before));
            self.index.timers.set(Timer::Request(id.clone()), None);
        }
    }

    // --- indexes ---

    fn index_driver(&mut self, driver: &Arc<Driver>) {
        if let Some(group) = waiting_group(driver, &self.config) {
            self.index
                .waiting
                .insert(&group, driver.place(), driver.id.clone());
        }
        if driver.state.is_placed() {
            self.index.placed_drivers.insert(driver.id.clone());
            if let Some(worker) = &driver.worker {
                let load = self.index.loads.entry(worker.clone()).or_default();
                load.put_driver(driver);
                self.refresh_worker(worker);
            }
        }
        if driver.state.is_final() {
            let ended = (driver.finished_at.unwrap_or_default(), driver.id.clone());
            self.index.ended_drivers.insert(ended);
        }
    }

    fn unindex_driver(&mut self, driver: Option<&Arc<Driver>>, after: Option<&Driver>) {
        let Some(driver) = driver else { return };
        let holds_on = after.is_some_and(|after| {
            after.state.is_placed()
                && after.worker == driver.worker
                && after.resources == driver.resources
        });
        if let Some(group) = waiting_group(driver, &self.config) {
            self.index.waiting.remove(&group, driver.place());
        }
        if driver.state.is_placed() && !holds_on {
            self.index.placed_drivers.remove(&driver.id);
            if let Some(worker) = &driver.worker {
                if let Some(load) = self.index.loads.get_mut(worker) {
                    load.remove_driver(&driver.id);
                }
                self.pass.grown.insert(worker.clone());
                self.refresh_worker(worker);
            }
        }
        if driver.state.is_final() {
            let ended = (driver.finished_at.unwrap_or_default(), driver.id.clone());
            self.index.ended_drivers.remove(&ended);
        }
    }

    fn unindex_executor(&mut self, executor: Option<&Arc<Executor>>, after: Option<&Executor>) {
        let Some(executor) = executor else { return };
        let holds_on = after.is_some_and(|a| !a.state.is_final() && a.worker == executor.worker);
        if let Some(load) = self.index.app_loads.get_mut(&executor.app) {
            load.remove(executor);
        }
        if !executor.state.is_final() && !holds_on {
            if let Some(load) = self.index.loads.get_mut(&executor.worker) {
                load.remove_executor(executor);
            }
            self.pass.grown.insert(executor.worker.clone());
            self.refresh_worker(&executor.worker);
        }
    }

    fn unindex_ended_app(&mut self, app: Option<&Application>) {
        if let Some(app) = app
            && app.state.is_final()
        {
            let ended = (app.finished_at.unwrap_or_default(), app.id.clone());
            self.index.ended_apps.remove(&ended);
        }
    }

    /// Files what a worker has left. Costs the custom resources that it offers, not what is on it.
    fn refresh_worker(&mut self, id: &WorkerId) {
        if self.index.loads.get(id).is_some_and(Load::is_empty) {
            self.index.loads.remove(id);
        }
        let free = self.free_of(id);
        let offers = self.offers_of(id);
        self.index.free.set(id, free, offers);
        let fits = self.workers.get(id).is_none_or(|worker| {
            self.index
                .loads
                .get(id)
                .is_none_or(|load| load.used.is_within(&worker.spec))
        });
        if fits {
            self.shrunk.remove(id);
        }
    }

    /// What a worker has left for new work; `None` unless it takes some.
    pub(crate) fn free_of(&self, id: &WorkerId) -> Option<Free> {
        let worker = self.workers.get(id).filter(|worker| worker.takes_work())?;
        let used = self.used_on(id);
        Some(Free {
            cores: used.cores_free(&worker.spec),
            memory: used.memory_free(&worker.spec),
            is_agent: worker.spec.spark.is_none(),
        })
    }

    /// Files an application's profiles among the starving, or takes them out; sums up what its user holds. Costs the
    /// number of its profiles.
    fn refresh_app(&mut self, id: &AppId) {
        let load = self.index.app_loads.entry(id.clone()).or_default();
        let app = self.apps.get(id);
        let bill = app.map(|app| (app.spec.user.clone(), load.cores()));
        let before = std::mem::replace(&mut load.billed, bill.filter(|(_, cores)| *cores > 0));
        if let Some(app) = app {
            let wants = app.wants(load, &self.config);
            for (profile, before) in &load.queued {
                if wants.get(profile) != Some(before) {
                    self.index.starving.remove(before, app.place(*profile));
                }
            }
            for (profile, group) in &wants {
                if load.queued.get(profile) != Some(group) {
                    let item = (id.clone(), *profile);
                    self.index.starving.insert(group, app.place(*profile), item);
                }
            }
            load.queued = wants;
        }
        let bill = load.billed.clone();
        if load.is_empty() {
            self.index.app_loads.remove(id);
        }
        self.recount_user(before, bill);
    }

    // --- timers ---

    /// Whether orders to this worker make sense.
    pub(crate) fn reach(&self, worker: &WorkerId) -> Reach {
        match self.workers.get(worker).map(|worker| worker.state) {
            Some(WorkerState::Alive) => Reach::Alive,
            Some(WorkerState::Unknown) => Reach::Silent,
            Some(WorkerState::Dead) | None => Reach::Gone,
        }
    }

    /// A stored time was made by another master's clock: never wait longer than we would ourselves.
    fn capped(&self, at: Option<Timestamp>, max: Duration) -> Option<Timestamp> {
        at.map(|at| at.min(self.now.plus(max)))
    }

    /// When its drain is over, or when it is to be forgotten.
    fn worker_deadline(&self, worker: &Worker, before: Option<&Worker>) -> Option<Timestamp> {
        match (worker.state, &worker.drain) {
            // Later, so that it is still being drained when it comes back from what it was drained for.
            (WorkerState::Dead, Some(_)) => Some(self.now.plus(self.config.retained_for)),
            (WorkerState::Dead, None) => Some(self.now.plus(self.config.dead_worker_retention)),
            (WorkerState::Alive | WorkerState::Unknown, None) => None,
            (WorkerState::Alive | WorkerState::Unknown, Some(drain)) => {
                let known = before.is_some_and(|before| before.drain.as_ref() == Some(drain));
                if known && before.is_some_and(|before| before.state != WorkerState::Dead) {
                    return self.index.timers.get(&Timer::Worker(worker.id.clone()));
                }
                let deadline = drain.deadline?;
                self.capped(Some(deadline), deadline.since(drain.since))
            }
        }
    }

    pub(crate) fn driver_deadline(&self, driver: &Driver) -> Option<Timestamp> {
        let unanswered = match driver.state {
            DriverState::Relaunching => {
                return self.capped(driver.not_before, self.config.driver_backoff_max);
            }
            DriverState::Submitted
            | DriverState::Finished
            | DriverState::Killed
            | DriverState::Failed
            | DriverState::Error => return None,
            DriverState::Launching => true,
            DriverState::Running => driver.is_to_end(),
        };
        match driver
            .worker
            .as_ref()
            .map_or(Reach::Gone, |worker| self.reach(worker))
        {
            Reach::Alive if unanswered => Some(self.now.plus(self.config.launch_resend_after)),
            Reach::Alive | Reach::Silent => None,
            Reach::Gone => Some(self.now.max(self.lost_from(driver))),
        }
    }

    /// From when on a driver whose worker is not there counts as lost. What may run at most once may still do so until
    /// its agent's lease is over; when that began is not known here, but surely before this leadership did.
    pub(crate) fn lost_from(&self, driver: &Driver) -> Timestamp {
        if driver.spec.at_most_once {
            self.recovery.since.plus(self.config.worker_timeout)
        } else {
            Timestamp::default()
        }
    }

    pub(crate) fn executor_deadline(&self, executor: &Executor) -> Option<Timestamp> {
        let app = self.apps.get(&executor.app);
        let over = app.is_none_or(|app| app.state.is_final());
        if over && executor.state.may_run() {
            return Some(self.now);
        }
        if executor.state.is_final() {
            // Without its application nobody will ever ask for it.
            return app.is_none().then_some(self.now);
        }
        match self.reach(&executor.worker) {
            Reach::Gone => Some(self.now),
            Reach::Alive if executor.is_unanswered() => {
                Some(self.now.plus(self.config.launch_resend_after))
            }
            Reach::Alive | Reach::Silent => executor
                .started_at
                .filter(|_| executor.state == ExecutorState::Running)
                .map(|at| at.plus(self.config.executor_stable_after))
                .filter(|at| *at > self.now),
        }
    }
}

/// In which group a driver waits, if it can be placed now.
pub(crate) fn waiting_group(driver: &Driver, config: &ClusterConfig) -> Option<Group> {
    let waits = match driver.state {
        DriverState::Submitted => true,
        DriverState::Relaunching => driver.not_before.is_none(),
        DriverState::Launching
        | DriverState::Running
        | DriverState::Finished
        | DriverState::Killed
        | DriverState::Failed
        | DriverState::Error => false,
    };
    waits.then(|| Group {
        demand: driver.spec.demand(),
        gate: None,
        class: driver.class(config),
    })
}
