//! A worker comes, says what it runs, and follows a new leader.
//!
//! Spark's worker is let in first and says then what it runs. Here that is one thing: the leader hears of a worker when
//! both are known, and it gets work when that is durable. Until then it has been promised nothing.

use std::{collections::BTreeSet, sync::Arc};

use interrex_core::{
    command::{Command, FullReport, RunningDriver, RunningExecutor, Subject},
    ids::{AppId, Epoch, ExecutorId, WorkerId},
    resources::{Cores, MemoryMib},
    spec::WorkerSpec,
};
use interrex_proto::v1::{self, master_frame::Body as Notice};
use interrex_spark_wire::{
    Address,
    message::{ExecutorState, ToWorker, WorkerDescription, WorkerExecutor},
};

use tokio::time::Instant;

use super::{KnownWorker, SAYS_WITHIN, launches};
use crate::{
    edge::{
        convert,
        spark_rpc::{
            REQUEST_DEADLINE,
            connection::{Connection, KnownPeer, Step},
        },
        validate::FieldError,
    },
    metrics,
    runtime::{
        error::RequestError,
        peers::{Peer, SessionId},
        port::Outcome,
    },
};

// === impl Connection ===

impl Connection {
    /// `RegisterWorker`: to every master when it starts or has lost its leader, and again until one has let it in.
    pub(in crate::edge::spark_rpc) fn worker_registers(
        &mut self,
        worker: &WorkerDescription,
    ) -> Step {
        let Some(dictionary) = self.dictionary() else {
            return self.unknown_build(None);
        };
        let checked = specification(worker, &dictionary.line);
        let address = Address::new(worker.host.clone(), worker.port);
        let peer = KnownPeer {
            address: worker.endpoint.address.clone().unwrap_or(address),
            endpoint: worker.endpoint.name.clone(),
        };
        let master = worker.master.clone().unwrap_or_else(|| self.rpc.me.clone());
        let id = WorkerId::from(worker.id.clone());
        self.know_worker(KnownWorker::new(id.clone(), peer, master));
        let spec = match checked {
            Ok((_, spec)) => Arc::new(spec),
            Err(error) => {
                metrics::registration("spark_worker", "refused");
                self.refused("registration", &error);
                let message = format!("its registration is refused: {error}");
                return self.to_worker(ToWorker::RegisterWorkerFailed { message });
            }
        };
        self.rpc.builds.offers(&spec.capabilities);
        if let Some(known) = &mut self.worker {
            known.spec = Some(spec);
        }
        if self.rpc.handle.port().is_err() {
            return self.to_worker(ToWorker::MasterInStandby);
        }
        let line = &dictionary.line;
        tracing::info!(worker = %id, from = self.from, line, "a worker of Spark registers");
        self.let_in(self.rpc.handle.view().worker(&id).is_some())
    }

    /// What it has been told on this connection stays what it has been told.
    fn know_worker(&mut self, mut worker: KnownWorker) {
        if let Some(before) = self.worker.take() {
            self.rpc.drivers.went(&before.peer.address);
            if before.id == worker.id {
                worker = KnownWorker {
                    peer: worker.peer,
                    master: worker.master,
                    ..before
                };
            }
        }
        self.rpc.drivers.came(&worker.peer.address);
        self.worker = Some(worker);
    }

    /// The worker says what it runs when it hears this.
    fn let_in(&mut self, duplicate: bool) -> Step {
        let Some(worker) = &mut self.worker else {
            return Step::default();
        };
        worker.told = Some(Instant::now());
        let master_address = worker.master.clone();
        self.to_worker(ToWorker::RegisteredWorker {
            master: self.rpc.reference(),
            web_url: self.rpc.web_url.clone(),
            master_address,
            duplicate,
        })
    }

    /// This master leads now, or is not sure what the worker runs: the worker follows, and says it.
    pub(in crate::edge::spark_rpc) fn lead_worker(&mut self) -> Step {
        let view = self.rpc.handle.view();
        let Some(worker) = &mut self.worker else {
            return Step::default();
        };
        // It is about to say so.
        worker.has.clear();
        worker.told = Some(Instant::now());
        // One that no leader has ever let in has not begun to send heartbeats.
        if view.worker(&worker.id).is_none() {
            return self.let_in(false);
        }
        self.tell_worker(&self.rpc.master_changed())
    }

    /// `WorkerLatestState`, `WorkerSchedulerStateResponse`: all that it runs.
    pub(in crate::edge::spark_rpc) fn worker_says(
        &mut self,
        id: &str,
        executors: &[WorkerExecutor],
        drivers: &[String],
    ) -> Step {
        let Ok(port) = self.rpc.handle.port() else {
            return Step::default();
        };
        let known = self.worker.as_ref().filter(|w| w.id.as_str() == id);
        let spec = known.and_then(|worker| {
            let recorded = || Some(Arc::clone(&self.rpc.handle.view().worker(&worker.id)?.spec));
            worker.spec.clone().or_else(recorded)
        });
        let Some(spec) = spec else {
            return self.fail(None, "message", "a worker that has not registered here");
        };
        let report = self.full_report(executors, drivers);
        if let Some(worker) = &mut self.worker {
            for executor in &report.executors {
                let (app, executor) = (executor.app.clone(), executor.executor);
                worker.note(Subject::Executor { app, executor });
            }
            for RunningDriver {
                driver, attempt, ..
            } in &report.drivers
            {
                let (driver, attempt) = (driver.clone(), *attempt);
                worker.note(Subject::Driver { driver, attempt });
            }
        }
        self.submit_worker(WorkerId::from(id.to_owned()), port.epoch, spec, report);
        Step::default()
    }

    fn full_report(&self, executors: &[WorkerExecutor], drivers: &[String]) -> FullReport {
        let started_at = self.rpc.handle.now();
        let mut report = FullReport::default();
        let mut seen = BTreeSet::new();
        for executor in executors {
            let (Ok(id), Ok(cores), Ok(memory)) = (
                u32::try_from(executor.id),
                u32::try_from(executor.cores),
                u64::try_from(executor.memory_mib),
            ) else {
                continue;
            };
            let runs = match executor.state {
                ExecutorState::Launching
                | ExecutorState::Running
                | ExecutorState::Decommissioned => true,
                ExecutorState::Killed
                | ExecutorState::Failed
                | ExecutorState::Lost
                | ExecutorState::Exited => false,
            };
            if runs && seen.insert((executor.app_id.clone(), id)) {
                report.executors.push(RunningExecutor {
                    app: AppId::from(executor.app_id.clone()),
                    executor: ExecutorId(id),
                    cores: Cores(cores),
                    memory: MemoryMib(memory),
                    started_at,
                });
            }
        }
        for name in drivers {
            match launches::driver_subject(name) {
                Some(Subject::Driver { driver, attempt }) => report.drivers.push(RunningDriver {
                    driver,
                    attempt,
                    started_at,
                }),
                Some(Subject::Executor { .. }) | None => {
                    tracing::warn!(name, "a worker of Spark runs a driver that is none of ours");
                }
            }
        }
        report
    }

    fn submit_worker(&self, id: WorkerId, epoch: Epoch, spec: Arc<WorkerSpec>, report: FullReport) {
        let (rpc, session): (_, SessionId) = (Arc::clone(&self.rpc), self.session);
        let worker = id.clone();
        // Runs within the leader's loop, before anything that follows from the same commit is sent.
        let answer = move |outcome: Outcome| match outcome {
            Ok(_registered) => {
                metrics::registration("spark_worker", "accepted");
                if rpc.peers.bind(epoch, &Peer::Worker(id.clone()), session) {
                    rpc.handle.heartbeat(&id);
                }
            }
            Err(RequestError::Rejected(rejection)) => {
                metrics::registration("spark_worker", "refused");
                tracing::warn!(worker = %id, %rejection, "a worker of Spark is refused");
                let refused = v1::Refused {
                    reason: rejection.to_string(),
                    permanent: true,
                };
                rpc.peers.send(session, epoch, Notice::Refused(refused));
            }
            // It says it again when it is asked at its next heartbeat, or elsewhere.
            Err(error) => {
                metrics::registration("spark_worker", "not_leader");
                tracing::info!(worker = %id, %error, "a worker of Spark is not recorded");
            }
        };
        let command = Command::RegisterWorker {
            worker: worker.clone(),
            spec,
            report,
        };
        if let Err(error) = self
            .rpc
            .handle
            .enqueue_for_session(command, REQUEST_DEADLINE, answer)
        {
            tracing::info!(%worker, %error, "the registration of a worker of Spark is not taken");
        }
    }

    /// It is there. One that this leader has not heard from is asked to say what it runs.
    pub(super) fn worker_lives(&mut self) -> Step {
        match self.rpc.peers.peer_of(self.session) {
            Some(Peer::Worker(id)) => {
                self.rpc.handle.heartbeat(&id);
                Step::default()
            }
            Some(Peer::App(_)) | None => {
                let told = self.worker.as_ref().and_then(|w| w.told);
                let waits = told.is_some_and(|told| told.elapsed() < SAYS_WITHIN);
                if waits || self.rpc.handle.port().is_err() {
                    return Step::default();
                }
                self.lead_worker()
            }
        }
    }
}

/// What a worker of Spark offers, as an agent would say it.
///
/// # Errors
/// [`FieldError`] with the first thing that is wrong.
fn specification(
    worker: &WorkerDescription,
    line: &str,
) -> Result<(WorkerId, WorkerSpec), FieldError> {
    let negative = |field: &'static str, value: i32| {
        move |_ignored| FieldError::new(field, format!("`{value}` is out of range"))
    };
    let resources = worker.resources.iter();
    let resources = resources.map(|(name, addresses)| v1::ResourceAddresses {
        name: name.clone(),
        addresses: addresses.clone(),
    });
    let web = worker.web_url.split_once("://");
    convert::worker_spec(v1::WorkerSpec {
        id: worker.id.clone(),
        host: worker.host.clone(),
        web: web.map_or_else(|| worker.web_url.clone(), |(_, address)| address.to_owned()),
        cores: u32::try_from(worker.cores).map_err(negative("cores", worker.cores))?,
        memory_mib: u64::try_from(worker.memory_mib)
            .map_err(negative("memory", worker.memory_mib))?,
        resources: resources.collect(),
        capabilities: vec![format!("spark-{line}")],
        // An id is never used by two processes: it has the time of its start and the port in it.
        incarnation: worker.id.clone(),
        work_dir_id: String::new(),
        spark: Some(v1::SparkWorker {
            line: line.to_owned(),
            host: worker.host.clone(),
            port: u32::from(worker.port),
            endpoint: worker.endpoint.name.clone(),
        }),
    })
}

#[cfg(test)]
mod tests {
    use interrex_spark_wire::message::EndpointRef;

    use super::*;

    fn worker() -> WorkerDescription {
        WorkerDescription {
            id: "worker-20261130000000-h1-40000".to_owned(),
            host: "h1".to_owned(),
            port: 40_000,
            cores: 4,
            memory_mib: 2048,
            endpoint: EndpointRef::new("Worker", Address::new("h1", 40_000)),
            web_url: "http://h1:8081".to_owned(),
            master: None,
            resources: [("gpu".to_owned(), vec!["0".to_owned()])].into(),
        }
    }

    #[test]
    fn a_worker_offers_its_own_line_and_can_be_reached_by_any_leader() {
        let (id, spec) = specification(&worker(), "3.5").expect("valid");
        assert_eq!(id.as_str(), "worker-20261130000000-h1-40000");
        assert_eq!(spec.capabilities, ["spark-3.5"]);
        assert_eq!(spec.web, "h1:8081");
        assert_eq!((spec.cores, spec.memory), (Cores(4), MemoryMib(2048)));
        let spark = spec.spark.expect("one of Spark's own");
        assert_eq!((spark.host.as_str(), spark.port), ("h1", 40_000));
        assert_eq!(spark.endpoint, "Worker");
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let refused = |change: fn(&mut WorkerDescription)| {
            let mut worker = worker();
            change(&mut worker);
            specification(&worker, "3.5").expect_err("bad").to_string()
        };
        assert_eq!(refused(|w| w.cores = -1), "cores: `-1` is out of range");
        assert!(refused(|w| w.cores = 0).starts_with("cores"));
        assert!(refused(|w| w.id = "a/b".to_owned()).starts_with("id"));
    }
}
