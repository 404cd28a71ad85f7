//! `Report`: one change of one process, from its agent. Acknowledged in any case, so that the agent's outbox empties;
//! what does not concern the newest attempt changes nothing (SPARK-19900: an old attempt's KILLED ended the new one).

use crate::{
    command::{ProcessChange, Report, Subject},
    effect::{Effect, WorkerOrder},
    ids::{AppId, Attempt, DriverId, ExecutorId, WorkerId},
    machines::{
        driver::{DriverEvent, DriverStep},
        executor::{ExecutorEvent, ExecutorStep},
    },
    state::{cluster::ClusterState, driver::Driver},
    time::Timestamp,
    transition::Reply,
};

// === impl ClusterState ===

impl ClusterState {
    pub(super) fn report(&mut self, worker: &WorkerId, report: Report) -> Reply {
        let sequences = vec![report.sequence];
        self.take_report(worker, report);
        self.order(worker, WorkerOrder::Acknowledge { sequences });
        Reply::Done
    }

    /// Applies a report without acknowledging it.
    pub(super) fn take_report(&mut self, worker: &WorkerId, report: Report) {
        // An agent's clock may be ahead; nothing happens in the future.
        let at = report.at.min(self.now);
        match report.subject {
            Subject::Driver { driver, attempt } => {
                self.driver_reported(worker, &driver, attempt, report.change, at);
            }
            Subject::Executor { app, executor } => {
                self.executor_reported(worker, &app, executor, report.change, at);
            }
        }
    }

    fn driver_reported(
        &mut self,
        worker: &WorkerId,
        id: &DriverId,
        attempt: Attempt,
        change: ProcessChange,
        at: Timestamp,
    ) {
        let runs = change == ProcessChange::Running;
        let Some(driver) = self.drivers.get(id).cloned() else {
            self.ignored.unknown += 1;
            return self.end_if(runs, worker, id, attempt);
        };
        if driver.attempt != attempt || driver.worker.as_ref() != Some(worker) {
            self.ignored.stale += 1;
            return self.end_if(runs, worker, id, attempt);
        }
        match driver.after(DriverEvent::Reported(change), at, self.now, &self.config) {
            DriverStep::Becomes(next) => {
                let again = runs && next.is_to_end();
                self.put_driver(*next);
                self.end_if(again, worker, id, attempt);
            }
            DriverStep::Repeated => {
                self.ignored.repeated += 1;
                #[cfg(feature = "planted-bugs")]
                self.count_repeat(&driver);
            }
            DriverStep::Stale => {
                self.ignored.stale += 1;
                self.end_if(runs, worker, id, attempt);
            }
        }
    }

    fn executor_reported(
        &mut self,
        worker: &WorkerId,
        app: &AppId,
        id: ExecutorId,
        change: ProcessChange,
        at: Timestamp,
    ) {
        let runs = change == ProcessChange::Running;
        let kill = WorkerOrder::KillExecutor {
            app: app.clone(),
            executor: id,
        };
        let Some(executor) = self.executors.get(&(app.clone(), id)).cloned() else {
            self.ignored.unknown += 1;
            return if runs {
                self.order(worker, kill)
            };
        };
        if executor.worker != *worker {
            self.ignored.stale += 1;
            return if runs {
                self.order(worker, kill)
            };
        }
        match executor.after(ExecutorEvent::Reported(change), at) {
            ExecutorStep::Becomes(next) => {
                let unwanted = runs && !next.state.may_run();
                self.executor_becomes(&executor, *next);
                if unwanted {
                    self.order(worker, kill);
                }
            }
            ExecutorStep::Repeated => self.ignored.repeated += 1,
            ExecutorStep::Stale => {
                self.ignored.stale += 1;
                if runs {
                    self.order(worker, kill);
                }
            }
        }
    }

    fn end_if(&mut self, runs: bool, worker: &WorkerId, driver: &DriverId, attempt: Attempt) {
        if runs {
            let driver = driver.clone();
            self.order(worker, WorkerOrder::KillDriver { driver, attempt });
        }
    }

    /// Sends an order to a worker once this command is durable.
    pub(crate) fn order(&mut self, worker: &WorkerId, order: WorkerOrder) {
        self.effects.push(Effect::Worker {
            worker: worker.clone(),
            order,
        });
    }

    /// The order that starts a driver's newest attempt.
    pub(crate) fn order_launch_driver(&mut self, driver: &Driver) {
        if let Some(worker) = driver.worker.clone() {
            let order = WorkerOrder::LaunchDriver {
                driver: driver.id.clone(),
                attempt: driver.attempt,
                spec: driver.spec.clone(),
                resources: driver.resources.clone(),
            };
            self.order(&worker, order);
        }
    }
}
