//! Workers come, go silent, and are given up.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    command::{FullReport, RunningDriver, Subject},
    effect::{AppNotice, WorkerOrder},
    ids::{AppId, WorkerId},
    machines::{
        driver::{DriverEvent, DriverStep},
        worker::{WorkerEvent, WorkerStep},
    },
    spec::WorkerSpec,
    state::{
        cluster::ClusterState,
        driver::Driver,
        worker::{Worker, WorkerState},
    },
    transition::{Rejection, Reply},
};

// === impl ClusterState ===

impl ClusterState {
    /// Registration and full report in one, at any time and any number of times (SPARK-4592: a second registration
    /// killed the worker).
    pub(super) fn register_worker(
        &mut self,
        id: WorkerId,
        spec: Arc<WorkerSpec>,
        mut report: FullReport,
    ) -> Reply {
        if let Some(rejection) = self
            .refuse_twin(&id, &spec)
            .or_else(|| self.refuse_stranger(&id, &report))
            .or_else(|| self.refuse_overtaken(&id, &spec, report.number))
        {
            return Reply::Rejected(rejection);
        }
        let unacknowledged = std::mem::take(&mut report.unacknowledged);
        let sequences: Vec<_> = unacknowledged
            .iter()
            .map(|report| report.sequence)
            .collect();
        for report in unacknowledged {
            self.take_report(&id, report);
        }
        let at = self.now;
        if self.workers.contains_key(&id) {
            self.worker_event(&id, WorkerEvent::Registered { spec, at });
        } else {
            self.put_worker(Worker::new(id.clone(), spec, at));
        }
        self.reconcile(&id, &report);
        if !sequences.is_empty() {
            self.order(&id, WorkerOrder::Acknowledge { sequences });
        }
        self.recovery.workers.remove(&id);
        self.recovery.settle();
        Reply::WorkerRegistered
    }

    /// A registration that a newer one has overtaken, because it was on its way over a connection that the agent has given
    /// up since (SPARK-4592): what it says is old, and would disown what has been started meanwhile.
    fn refuse_overtaken(
        &mut self,
        id: &WorkerId,
        spec: &WorkerSpec,
        number: u64,
    ) -> Option<Rejection> {
        let newest = self.registrations.get(id);
        if let Some((work_dir, newest)) = newest
            && *work_dir == spec.work_dir_id
            && number < *newest
            && number != 0
        {
            self.ignored.stale += 1;
            return Some(Rejection::Invalid {
                field: "number",
                reason: format!("{number}; registration {newest} of this worker has come before"),
            });
        }
        let known = (spec.work_dir_id.clone(), number);
        self.registrations.insert(id.clone(), known);
        None
    }

    /// An agent under the id of another one that is not given up, which would disown what that one runs.
    ///
    /// The other work directory may come in when the first worker is dead: an agent that lost its disk waits that long.
    fn refuse_twin(&self, id: &WorkerId, spec: &WorkerSpec) -> Option<Rejection> {
        let known = self.workers.get(id)?;
        let (ours, theirs) = (&known.spec.work_dir_id, &spec.work_dir_id);
        let told_apart = !ours.is_empty() && !theirs.is_empty();
        let same = if told_apart {
            ours == theirs
        } else {
            // Where that is not known, its word counts unless it could start a second run of what may run once.
            known.spec.incarnation == spec.incarnation || !self.runs_at_most_once(id)
        };
        if known.state == WorkerState::Dead || same {
            return None;
        }
        let reason = format!(
            "worker `{id}` is an agent with another work directory (host `{}`, web `{}`); start this one under \
             another --id, or stop that one and wait {:?}",
            known.spec.host, known.spec.web, self.config.worker_timeout
        );
        Some(Rejection::Invalid {
            field: "spec.id",
            reason,
        })
    }

    /// An agent under the id of a worker whose record is lost: nobody can tell whether it is the one that runs what may run
    /// at most once, unless it says so. Its word counts when the other one's lease must be over.
    fn refuse_stranger(&self, id: &WorkerId, report: &FullReport) -> Option<Rejection> {
        if self.workers.contains_key(id) {
            return None;
        }
        let knows = |driver: &Driver| {
            let this = Subject::Driver {
                driver: driver.id.clone(),
                attempt: driver.attempt,
            };
            let runs = |running: &RunningDriver| {
                running.driver == driver.id && running.attempt == driver.attempt
            };
            report.drivers.iter().any(runs)
                || report
                    .unacknowledged
                    .iter()
                    .any(|told| told.subject == this)
        };
        let unanswered = self.index.loads.get(id)?.drivers.values().find(|driver| {
            driver.spec.at_most_once && self.now < self.lost_from(driver) && !knows(driver)
        })?;
        let reason = format!(
            "the record of worker `{id}` is lost, and this agent does not know driver {}, which may run at most once and \
             may still run there; wait {:?}",
            unanswered.id,
            self.lost_from(unanswered).since(self.now)
        );
        Some(Rejection::Invalid {
            field: "spec.id",
            reason,
        })
    }

    fn runs_at_most_once(&self, worker: &WorkerId) -> bool {
        let load = self.index.loads.get(worker);
        load.is_some_and(|load| load.drivers.values().any(|driver| driver.spec.at_most_once))
    }

    /// Disconnection is not death: it keeps what it runs and gets nothing new until it registers again.
    pub(super) fn worker_disconnected(&mut self, id: &WorkerId) -> Reply {
        self.worker_event(id, WorkerEvent::Disconnected);
        Reply::Done
    }

    /// Its heartbeats say whether it wants new work.
    pub(super) fn accepting_changed(&mut self, id: &WorkerId, not_accepting: String) -> Reply {
        self.worker_event(id, WorkerEvent::Accepting(not_accepting));
        Reply::Done
    }

    /// Lets something happen to a worker; what does not fit its state is counted. True if it changed.
    pub(super) fn worker_event(&mut self, id: &WorkerId, event: WorkerEvent) -> bool {
        let Some(worker) = self.workers.get(id) else {
            self.ignored.unknown += 1;
            return false;
        };
        match worker.after(event) {
            WorkerStep::Becomes(next) => {
                self.put_worker(*next);
                true
            }
            WorkerStep::Repeated => false,
            WorkerStep::Refused => {
                self.ignored.refused += 1;
                false
            }
        }
    }

    /// What it ran is lost; applications that had something there are told.
    pub(super) fn expire_worker(&mut self, id: &WorkerId) -> Reply {
        let Some(worker) = self.workers.get(id).cloned() else {
            return Reply::Done;
        };
        if !self.worker_event(id, WorkerEvent::Expired) {
            return Reply::Done;
        }
        let message = format!(
            "worker {id} was not heard of for {:?}",
            self.config.worker_timeout
        );
        let load = self.index.loads.get(id).cloned().unwrap_or_default();
        let mut touched: BTreeSet<AppId> = BTreeSet::new();
        for executor in load.executors.values() {
            touched.insert(executor.app.clone());
            self.lose_executor(executor, &message);
        }
        for driver in load.drivers.values() {
            self.lose_driver(driver, &message);
        }
        for app in touched {
            if self.apps.get(&app).is_some_and(|app| !app.state.is_final()) {
                let notice = AppNotice::WorkerRemoved {
                    worker: id.clone(),
                    host: worker.spec.host.clone(),
                    message: message.clone(),
                };
                self.tell(&app, notice);
            }
        }
        self.recovery.workers.remove(id);
        self.recovery.settle();
        Reply::Done
    }

    pub(crate) fn lose_driver(&mut self, driver: &Driver, reason: &str) {
        let reason = reason.to_owned();
        match driver.after(
            DriverEvent::Lost { reason },
            self.now,
            self.now,
            &self.config,
        ) {
            DriverStep::Becomes(next) => self.put_driver(*next),
            DriverStep::Repeated | DriverStep::Stale => self.ignored.refused += 1,
        }
    }
}
