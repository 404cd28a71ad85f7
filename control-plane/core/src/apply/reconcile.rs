//! What a worker reports against what is recorded on it, both ways: adopt, launch again, end, or call lost.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    command::ProcessChange,
    command::{FullReport, RunningDriver, RunningExecutor},
    effect::WorkerOrder,
    ids::WorkerId,
    machines::{
        driver::{DriverEvent, DriverStep},
        executor::{ExecutorEvent, ExecutorStep},
    },
    state::{
        cluster::ClusterState,
        driver::{Driver, DriverState},
        executor::{Executor, ExecutorState},
        index::{load::Load, timers::Timer},
    },
};

const NOT_THERE: &str = "its worker answers, but does not run it";

// === impl ClusterState ===

impl ClusterState {
    /// Brings the record of a worker and its full report together. Doing it again changes nothing.
    pub(super) fn reconcile(&mut self, worker: &WorkerId, report: &FullReport) {
        for running in &report.drivers {
            self.reconcile_reported_driver(worker, running);
        }
        for running in &report.executors {
            self.reconcile_reported_executor(worker, running);
        }
        let drivers: BTreeMap<_, _> = report
            .drivers
            .iter()
            .map(|r| ((&r.driver, r.attempt), ()))
            .collect();
        let executors: BTreeSet<_> = report
            .executors
            .iter()
            .map(|r| (r.app.clone(), r.executor))
            .collect();
        let Load {
            drivers: recorded_drivers,
            executors: recorded_executors,
            ..
        } = self.index.loads.get(worker).cloned().unwrap_or_default();
        for driver in recorded_drivers.values() {
            if !drivers.contains_key(&(&driver.id, driver.attempt)) {
                self.reconcile_missing_driver(driver);
            }
            self.rearm(Timer::Driver(driver.id.clone()));
        }
        for (key, executor) in &recorded_executors {
            if !executors.contains(key) {
                self.reconcile_missing_executor(executor);
            }
            self.rearm(Timer::Executor(key.0.clone(), key.1));
        }
    }

    fn reconcile_reported_driver(&mut self, worker: &WorkerId, running: &RunningDriver) {
        let recorded = self.drivers.get(&running.driver).cloned().filter(|driver| {
            driver.state.is_placed()
                && driver.worker.as_ref() == Some(worker)
                && driver.attempt == running.attempt
        });
        let Some(driver) = recorded else {
            let order = WorkerOrder::KillDriver {
                driver: running.driver.clone(),
                attempt: running.attempt,
            };
            return self.order(worker, order);
        };
        let started = running.started_at.min(self.now);
        let event = DriverEvent::Reported(ProcessChange::Running);
        if let DriverStep::Becomes(next) = driver.after(event, started, self.now, &self.config) {
            self.put_driver(*next);
        }
        if driver.is_to_end() {
            self.order_kill_driver(&driver);
        }
    }

    fn reconcile_reported_executor(&mut self, worker: &WorkerId, running: &RunningExecutor) {
        let recorded = self
            .executors
            .get(&(running.app.clone(), running.executor))
            .cloned()
            .filter(|executor| !executor.state.is_final() && executor.worker == *worker);
        let Some(executor) = recorded else {
            let order = WorkerOrder::KillExecutor {
                app: running.app.clone(),
                executor: running.executor,
            };
            return self.order(worker, order);
        };
        let started = running.started_at.min(self.now);
        let event = ExecutorEvent::Reported(ProcessChange::Running);
        if let ExecutorStep::Becomes(next) = executor.after(event, started) {
            self.executor_becomes(&executor, *next);
        }
        if executor.state == ExecutorState::Killing {
            self.order_kill_executor(&executor);
        }
    }

    fn reconcile_missing_driver(&mut self, driver: &Driver) {
        if driver.state == DriverState::Launching && driver.evicted && !driver.kill_requested {
            // The answer tells whether it ever ran.
            self.order_kill_driver(driver);
        } else if driver.state == DriverState::Launching && !driver.kill_requested {
            self.order_launch_driver(driver);
        } else {
            self.lose_driver(driver, NOT_THERE);
        }
    }

    fn reconcile_missing_executor(&mut self, executor: &Executor) {
        match executor.state {
            ExecutorState::Launching => self.order_launch_executor(executor),
            ExecutorState::Running | ExecutorState::Decommissioned => {
                self.lose_executor(executor, NOT_THERE);
            }
            ExecutorState::Killing => {
                let message = executor.message.clone();
                let next = executor.ended(ExecutorState::Killed, None, self.now, message);
                self.executor_becomes(executor, next);
            }
            ExecutorState::Killed
            | ExecutorState::Failed
            | ExecutorState::Lost
            | ExecutorState::Exited => {}
        }
    }
}
