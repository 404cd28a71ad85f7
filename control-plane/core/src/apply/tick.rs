//! `Tick`: what is due. Bounded work; what is left over comes with the next tick.

use std::sync::Arc;

use crate::{
    ids::{AppId, DriverId, ExecutorId, RequestId, WorkerId},
    state::{
        app::Application,
        cluster::ClusterState,
        driver::{Driver, DriverState},
        executor::{Executor, ExecutorState},
        index::timers::Timer,
        worker::WorkerState,
        write::Reach,
    },
    time::Timestamp,
    transition::Reply,
};

/// Timers looked at in one tick.
pub(crate) const TIMERS_PER_TICK_MAX: usize = 1_000;

/// Records forgotten by one command (a little more, if an application has many executors).
pub(crate) const FORGOTTEN_PER_COMMAND_MAX: usize = 1_000;

// === impl ClusterState ===

impl ClusterState {
    pub(super) fn tick(&mut self) -> Reply {
        self.recovery.tick(self.now);
        for _ in 0..TIMERS_PER_TICK_MAX {
            let Some(timer) = self.index.timers.pop_due(self.now) else {
                break;
            };
            match timer {
                Timer::Driver(id) => self.driver_due(&id),
                Timer::Executor(app, id) => self.executor_due(&app, id),
                Timer::App(id) => self.app_due(&id),
                Timer::Worker(id) => self.worker_due(&id),
                Timer::Request(id) => self.delete_request(&id),
            }
        }
        self.trim_history();
        Reply::Done
    }

    /// Sets a thing's timer as its state asks.
    pub(crate) fn rearm(&mut self, timer: Timer) {
        let due = match &timer {
            Timer::Driver(id) => self
                .drivers
                .get(id)
                .and_then(|driver| self.driver_deadline(driver)),
            Timer::Executor(app, id) => {
                let executor = self.executors.get(&(app.clone(), *id));
                executor.and_then(|executor| self.executor_deadline(executor))
            }
            Timer::App(_) | Timer::Worker(_) | Timer::Request(_) => return,
        };
        self.index.timers.set(timer, due);
    }

    fn worker_due(&mut self, id: &WorkerId) {
        match self.workers.get(id).map(|worker| worker.state) {
            Some(WorkerState::Dead) => self.delete_worker(id),
            Some(WorkerState::Alive | WorkerState::Unknown) => self.drain_is_over(id),
            None => {}
        }
    }

    fn driver_due(&mut self, id: &DriverId) {
        let Some(driver) = self.drivers.get(id).cloned() else {
            return;
        };
        match driver.state {
            DriverState::Relaunching => {
                let mut next = driver.as_ref().clone();
                next.not_before = None;
                self.put_driver(next);
            }
            DriverState::Launching | DriverState::Running => self.placed_driver_due(&driver),
            DriverState::Submitted
            | DriverState::Finished
            | DriverState::Killed
            | DriverState::Failed
            | DriverState::Error => {}
        }
    }

    fn placed_driver_due(&mut self, driver: &Arc<Driver>) {
        let reach = driver
            .worker
            .as_ref()
            .map_or(Reach::Gone, |worker| self.reach(worker));
        match reach {
            Reach::Alive if driver.is_to_end() => self.order_kill_driver(driver),
            Reach::Alive if driver.state == DriverState::Launching => {
                self.order_launch_driver(driver)
            }
            Reach::Alive | Reach::Silent => {}
            Reach::Gone if self.now < self.lost_from(driver) => {}
            Reach::Gone => self.lose_driver(driver, "its worker is not known"),
        }
        self.rearm(Timer::Driver(driver.id.clone()));
    }

    fn executor_due(&mut self, app: &AppId, id: ExecutorId) {
        let Some(executor) = self.executors.get(&(app.clone(), id)).cloned() else {
            return;
        };
        let owner = self.apps.get(app).cloned();
        if executor.state.is_final() {
            if owner.is_none() {
                self.delete_executor(app, id);
            }
            return;
        }
        match self.reach(&executor.worker) {
            Reach::Gone => self.lose_executor(&executor, "its worker is not known"),
            Reach::Alive | Reach::Silent => self.kept_executor_due(&executor, owner.as_deref()),
        }
        self.rearm(Timer::Executor(app.clone(), id));
    }

    fn kept_executor_due(&mut self, executor: &Executor, app: Option<&Application>) {
        if executor.state.may_run() && app.is_none_or(|app| app.state.is_final()) {
            self.kill_executor(executor, "its application is over");
            return;
        }
        let alive = self.reach(&executor.worker) == Reach::Alive;
        match executor.state {
            ExecutorState::Launching if alive => self.order_launch_executor(executor),
            ExecutorState::Killing | ExecutorState::Decommissioned
                if alive && executor.is_unanswered() =>
            {
                self.order_kill_executor(executor);
            }
            ExecutorState::Running => {
                // It stayed up: the row of failures is over.
                if let Some(app) = app.filter(|app| app.executor_failures > 0) {
                    let mut next = app.clone();
                    next.executor_failures = 0;
                    self.put_app(next);
                }
            }
            ExecutorState::Launching
            | ExecutorState::Killing
            | ExecutorState::Decommissioned
            | ExecutorState::Killed
            | ExecutorState::Failed
            | ExecutorState::Lost
            | ExecutorState::Exited => {}
        }
    }

    fn app_due(&mut self, id: &AppId) {
        if let Some(app) = self.apps.get(id) {
            let mut next = app.as_ref().clone();
            next.not_before = None;
            self.put_app(next);
        }
    }

    /// Forgets what is over and too much, too old, or cleared; oldest first, at most
    /// [`FORGOTTEN_PER_COMMAND_MAX`] records.
    pub(crate) fn trim_history(&mut self) {
        let mut left = FORGOTTEN_PER_COMMAND_MAX;
        let max = usize::try_from(self.config.retained_drivers).unwrap_or(usize::MAX);
        while left > 0
            && let Some((at, id)) = self.index.ended_drivers.first().cloned()
            && (self.index.ended_drivers.len() > max || self.is_outdated(at))
        {
            left -= 1;
            if let Some(driver) = self.drivers.get(&id).cloned() {
                self.delete_driver(&id);
                self.release_request(&driver.submission);
            }
        }
        let max = usize::try_from(self.config.retained_apps).unwrap_or(usize::MAX);
        let mut kept = Vec::new();
        while left > 0
            && let Some((at, id)) = self.index.ended_apps.first().cloned()
            && (self.index.ended_apps.len() > max || self.is_outdated(at))
        {
            left -= 1;
            if !self.forget_app(&id, &mut left) {
                kept.push((at, id.clone()));
                self.index.ended_apps.remove(&(at, id));
            }
        }
        self.index.ended_apps.extend(kept);
        if left > 0 {
            self.clear_until = None;
        }
    }

    /// Forgets an application and its executors, unless some of these are still being ended.
    fn forget_app(&mut self, id: &AppId, left: &mut usize) -> bool {
        let Some(app) = self.apps.get(id).cloned() else {
            return true;
        };
        if self
            .index
            .app_loads
            .get(id)
            .is_some_and(|load| load.active_count() > 0)
        {
            return false;
        }
        let executors: Vec<_> = self.executors_of(id).map(|executor| executor.id).collect();
        *left = left.saturating_sub(executors.len());
        for executor in executors {
            self.delete_executor(id, executor);
        }
        self.delete_app(id);
        self.release_request(&app.request);
        true
    }

    fn is_outdated(&self, ended: Timestamp) -> bool {
        self.now.since(ended) > self.config.retained_for
            || self.clear_until.is_some_and(|until| ended <= until)
    }

    /// What a request created is gone: it goes too, once it is old enough.
    fn release_request(&mut self, id: &RequestId) {
        if let Some(request) = self.requests.get(id) {
            let due = request.at.plus(self.config.request_retention);
            if due <= self.now {
                self.delete_request(id);
            } else {
                self.index.timers.set(Timer::Request(id.clone()), Some(due));
            }
        }
    }
}
