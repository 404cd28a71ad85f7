//! Drains: workers that are to be emptied (Spark: decommissioning, which forgets it at the next registration: W29).
//!
//! A worker that is being drained gets no new work. Applications are told at once and get other executors in place of
//! those there; what runs goes on until it ends or until the deadline, and is ended then. What a drain has ended is
//! never a success and never a failure of its own: drivers that are supervised go on elsewhere, others are `KILLED`.

use std::{sync::Arc, time::Duration};

use crate::{
    command::WorkersNamed,
    ids::WorkerId,
    machines::{
        driver::{DriverEvent, DriverStep},
        executor::{ExecutorEvent, ExecutorStep},
        worker::WorkerEvent,
    },
    state::{
        cluster::ClusterState,
        driver::Driver,
        executor::Executor,
        worker::{Drain, Worker, WorkerState},
    },
    transition::{Rejection, Reply},
};

// === impl ClusterState ===

impl ClusterState {
    /// Again: the deadline and the reason change, the beginning stays.
    pub(super) fn drain_workers(
        &mut self,
        named: &WorkersNamed,
        deadline: Option<Duration>,
        reason: &str,
    ) -> Reply {
        let workers = match self.workers_named(named) {
            Ok(workers) => workers,
            Err(rejection) => return Reply::Rejected(rejection),
        };
        if let WorkersNamed::Id(id) = named
            && workers.is_empty()
        {
            return Reply::Rejected(Rejection::WorkerDead { id: id.clone() });
        }
        for worker in &workers {
            let since = worker.drain.as_ref().map_or(self.now, |drain| drain.since);
            let drain = Drain {
                since,
                deadline: deadline.map(|wait| self.now.plus(wait)),
                reason: reason.to_owned(),
            };
            self.drain_worker(worker, drain);
        }
        Reply::Count(u32::try_from(workers.len()).unwrap_or(u32::MAX))
    }

    /// It gets work again at once. Executors that were decommissioned stay so until they end: their replacements are
    /// on their way.
    pub(super) fn undrain_workers(&mut self, named: &WorkersNamed) -> Reply {
        let known = match named {
            WorkersNamed::Id(id) => match self.workers.get(id) {
                Some(worker) => vec![Arc::clone(worker)],
                None => return Reply::Rejected(Rejection::UnknownWorker { id: id.clone() }),
            },
            WorkersNamed::Host(host) => self.workers_on(host),
        };
        let mut count = 0;
        for worker in known.iter().filter(|worker| worker.drain.is_some()) {
            count += 1;
            self.worker_event(&worker.id, WorkerEvent::Undrained);
        }
        Reply::Count(count)
    }

    /// The drain's deadline has come: what still runs there is told to end. The answers of the worker show how.
    pub(super) fn drain_is_over(&mut self, id: &WorkerId) {
        let Some(drain) = self
            .workers
            .get(id)
            .and_then(|worker| worker.drain.as_ref())
        else {
            return;
        };
        let reason = words(&format!("the drain of worker {id} is over"), &drain.reason);
        let load = self.index.loads.get(id).cloned().unwrap_or_default();
        for executor in load.executors.values() {
            self.kill_executor(executor, &reason);
        }
        for driver in load.drivers.values() {
            self.evict_driver(driver, &reason);
        }
    }

    /// Those that can be drained: the dead run nothing. Empty for a dead worker that is named by id.
    fn workers_named(&self, named: &WorkersNamed) -> Result<Vec<Arc<Worker>>, Rejection> {
        let alive = |worker: &Arc<Worker>| worker.state != WorkerState::Dead;
        match named {
            WorkersNamed::Id(id) => match self.workers.get(id) {
                Some(worker) => Ok(Some(worker)
                    .filter(|w| alive(w))
                    .cloned()
                    .into_iter()
                    .collect()),
                None => Err(Rejection::UnknownWorker { id: id.clone() }),
            },
            WorkersNamed::Host(host) => {
                Ok(self.workers_on(host).into_iter().filter(alive).collect())
            }
        }
    }

    /// Looks at all workers; only for what an operator asks.
    fn workers_on(&self, host: &str) -> Vec<Arc<Worker>> {
        self.workers
            .values()
            .filter(|worker| worker.spec.host.eq_ignore_ascii_case(host))
            .cloned()
            .collect()
    }

    fn drain_worker(&mut self, worker: &Worker, drain: Drain) {
        let reason = words(
            &format!("worker {} is being drained", worker.id),
            &drain.reason,
        );
        self.worker_event(&worker.id, WorkerEvent::Drained(drain));
        let load = self.index.loads.get(&worker.id).cloned();
        for executor in load.unwrap_or_default().executors.values() {
            self.decommission(executor, &reason);
        }
    }

    fn decommission(&mut self, executor: &Executor, reason: &str) {
        let reason = reason.to_owned();
        match executor.after(ExecutorEvent::Drained { reason }, self.now) {
            ExecutorStep::Becomes(next) => {
                let unseen = next.is_unanswered();
                self.executor_becomes(executor, *next);
                if unseen {
                    self.order_kill_executor(executor);
                }
            }
            ExecutorStep::Repeated | ExecutorStep::Stale => {}
        }
    }

    fn evict_driver(&mut self, driver: &Driver, reason: &str) {
        let reason = reason.to_owned();
        let event = DriverEvent::Evicted { reason };
        match driver.after(event, self.now, self.now, &self.config) {
            DriverStep::Becomes(next) => {
                self.put_driver(*next);
                self.order_kill_driver(driver);
            }
            DriverStep::Repeated | DriverStep::Stale => {}
        }
    }
}

fn words(what: &str, reason: &str) -> String {
    if reason.is_empty() {
        what.to_owned()
    } else {
        format!("{what}: {reason}")
    }
}
