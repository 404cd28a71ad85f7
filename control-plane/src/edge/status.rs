//! The committed view → the messages that clients see.
//!
//! Pure look-ups, shared by gRPC and REST. `message` says in words what something waits for, from a
//! [`Fleet`] that is summed up once a request. Nothing is decided here: the scheduler alone places work.

use std::collections::BTreeSet;

use interrex_core::{
    resources::{Cores, MemoryMib},
    spec::{DriverPayload, SPARK_CAPABILITY},
    state::{
        app::{Application, ApplicationState},
        driver::{Driver, DriverState},
        executor::Executor,
        worker::{Worker, WorkerState},
    },
    time::Timestamp,
};
use interrex_proto::v1;

use crate::{
    messages,
    runtime::view::{ClusterView, Found},
};

/// What the workers that take work could hold at most, to explain why something waits. Made by one pass over
/// the workers, so once a request and not once an entity.
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    alive: bool,
    able: bool,
    cores_max: u32,
    memory_mib_max: u64,
    capabilities: BTreeSet<String>,
}

/// The answer to a look-up: what the id names, as it is in `view`. `None`: it names nothing.
#[must_use]
pub fn find(view: &ClusterView, id: &str) -> Option<v1::StatusResponse> {
    let response = match view.find(id)? {
        Found::Driver(driver) => v1::StatusResponse {
            over: driver.state.is_final(),
            driver: Some(driver_status(
                view,
                &driver,
                fleet_for_driver(view, &driver).as_ref(),
            )),
            ..Default::default()
        },
        Found::App(app) => v1::StatusResponse {
            over: app.state.is_final(),
            application: Some(application_status(
                view,
                &app,
                fleet_for_app(view, &app).as_ref(),
            )),
            ..Default::default()
        },
    };
    Some(response)
}

/// Whether what `id` names is over; `None` where it names nothing. Cheaper than [`find`].
#[must_use]
pub fn is_over(view: &ClusterView, id: &str) -> Option<bool> {
    match view.find(id)? {
        Found::Driver(driver) => Some(driver.state.is_final()),
        Found::App(app) => Some(app.state.is_final()),
    }
}

/// A driver. Without `fleet` (which costs a pass over the workers) it is not explained what it waits for.
#[must_use]
pub fn driver_status(
    view: &ClusterView,
    driver: &Driver,
    fleet: Option<&Fleet>,
) -> v1::DriverStatus {
    let worker = driver.worker.as_ref().and_then(|id| view.worker(id));
    v1::DriverStatus {
        id: driver.id.to_string(),
        submission_id: driver.submission.to_string(),
        name: driver.spec.name.clone(),
        user: driver.spec.user.clone(),
        state: driver.state.name().to_owned(),
        attempt: driver.attempt.0,
        worker_id: driver
            .worker
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        worker_host: worker.map(|w| w.spec.host.clone()).unwrap_or_default(),
        worker_web: worker.map(|w| w.spec.web.clone()).unwrap_or_default(),
        cores: driver.spec.cores.0,
        memory_mib: driver.spec.memory.0,
        supervise: driver.spec.supervise,
        exit: driver.exit.map(messages::exit_message),
        message: driver_message(driver, fleet),
        submitted_at_ms: driver.submitted_at.0,
        started_at_ms: millis(driver.started_at),
        finished_at_ms: millis(driver.finished_at),
        kill_requested: driver.kill_requested,
        at_most_once: driver.spec.at_most_once,
    }
}

/// An application with its recorded executors; `fleet` as for [`driver_status`].
#[must_use]
pub fn application_status(
    view: &ClusterView,
    app: &Application,
    fleet: Option<&Fleet>,
) -> v1::ApplicationStatus {
    let executors: Vec<_> = view.executors_of(&app.id).collect();
    let held = |e: &&&std::sync::Arc<Executor>| !e.state.is_final();
    v1::ApplicationStatus {
        id: app.id.to_string(),
        name: app.spec.name.clone(),
        user: app.spec.user.clone(),
        state: app.state.name().to_owned(),
        cores_max: app.spec.cores_max.map(|cores| cores.0),
        cores_granted: executors.iter().filter(held).map(|e| e.cores.0).sum(),
        executors_wanted: app.executors_wanted,
        executors_completed: app.executors_completed,
        executors: executors.iter().map(|e| executor_info(view, e)).collect(),
        message: app_message(app, executors.iter().any(|e| !e.state.is_final()), fleet),
        registered_at_ms: app.registered_at.0,
        finished_at_ms: millis(app.finished_at),
    }
}

/// An executor, with where its worker is.
#[must_use]
pub fn executor_info(view: &ClusterView, executor: &Executor) -> v1::ExecutorInfo {
    let worker = view.worker(&executor.worker);
    v1::ExecutorInfo {
        resource_profile: executor.profile.0,
        executor_id: executor.id.0,
        worker_id: executor.worker.to_string(),
        worker_host: worker.map(|w| w.spec.host.clone()).unwrap_or_default(),
        worker_web: worker.map(|w| w.spec.web.clone()).unwrap_or_default(),
        cores: executor.cores.0,
        memory_mib: executor.memory.0,
        state: executor.state.name().to_owned(),
        exit: executor.exit.map(messages::exit_message),
        message: executor.message.clone(),
    }
}

/// A worker with what is booked on it.
#[must_use]
pub fn worker_status(view: &ClusterView, worker: &Worker) -> v1::WorkerStatus {
    let load = view.load(&worker.id);
    v1::WorkerStatus {
        id: worker.id.to_string(),
        host: worker.spec.host.clone(),
        web: worker.spec.web.clone(),
        state: worker.state_name().to_owned(),
        cores: worker.spec.cores.0,
        cores_used: load.cores.0,
        memory_mib: worker.spec.memory.0,
        memory_mib_used: load.memory.0,
        drivers: load.drivers.iter().map(ToString::to_string).collect(),
        executors: load
            .executors
            .iter()
            .map(|(app, id)| format!("{app}/{id}"))
            .collect(),
        last_heartbeat_ms: millis(view.last_heartbeat(&worker.id)),
        drain: worker.drain.as_ref().map(|drain| v1::DrainStatus {
            since_ms: drain.since.0,
            deadline_ms: drain.deadline.map(|at| at.0),
            reason: drain.reason.clone(),
        }),
        not_accepting: worker.not_accepting.clone(),
    }
}

// === impl Fleet ===

impl Fleet {
    /// One pass over the workers.
    #[must_use]
    pub fn of(view: &ClusterView) -> Self {
        Self::sum(view.workers().map(AsRef::as_ref))
    }

    fn sum<'a>(workers: impl Iterator<Item = &'a Worker>) -> Self {
        let mut fleet = Self::default();
        for worker in workers.filter(|w| w.state == WorkerState::Alive) {
            fleet.alive = true;
            if !worker.takes_work() {
                continue;
            }
            fleet.able = true;
            fleet.cores_max = fleet.cores_max.max(worker.spec.cores.0);
            fleet.memory_mib_max = fleet.memory_mib_max.max(worker.spec.memory.0);
            for capability in &worker.spec.capabilities {
                if !fleet.capabilities.contains(capability) {
                    fleet.capabilities.insert(capability.clone());
                }
            }
        }
        fleet
    }

    /// Why something that needs this much is not placed yet.
    fn explain(&self, cores: Cores, memory: MemoryMib, capability: Option<&str>) -> String {
        let (cores, mib) = (cores.0, memory.0);
        let missing = capability.filter(|c| !self.capabilities.contains(*c));
        if !self.alive {
            return "waiting for an agent: none is alive".to_owned();
        }
        if !self.able {
            return "waiting for an agent: those that are alive are being drained or take no new work"
                .to_owned();
        }
        if let Some(capability) = missing {
            return format!("no agent offers the capability `{capability}`");
        }
        if cores > self.cores_max || mib > self.memory_mib_max {
            return format!(
                "no agent is large enough for {cores} cores and {mib} MiB: the largest offers {} cores, {} MiB",
                self.cores_max, self.memory_mib_max
            );
        }
        format!("waiting for a worker with {cores} cores and {mib} MiB free")
    }
}

fn driver_message(driver: &Driver, fleet: Option<&Fleet>) -> String {
    match fleet {
        Some(fleet) if driver_waits(driver) && driver.message.is_empty() => {
            let capability = match &driver.spec.payload {
                DriverPayload::Command(_) => None,
                DriverPayload::Spark(_) => Some(SPARK_CAPABILITY),
            };
            fleet.explain(driver.spec.cores, driver.spec.memory, capability)
        }
        Some(_) | None => driver.message.clone(),
    }
}

fn app_message(app: &Application, has_executors: bool, fleet: Option<&Fleet>) -> String {
    let waits = app_waits(app) && !has_executors && app.executors_wanted != Some(0);
    match fleet {
        Some(fleet) if waits && app.message.is_empty() => {
            let cores = app.spec.cores_per_executor.unwrap_or(Cores(1));
            fleet.explain(cores, app.spec.memory_per_executor, None)
        }
        Some(_) | None => app.message.clone(),
    }
}

/// A fleet where `driver` waits; else nothing has to be explained.
fn fleet_for_driver(view: &ClusterView, driver: &Driver) -> Option<Fleet> {
    driver_waits(driver).then(|| Fleet::of(view))
}

fn fleet_for_app(view: &ClusterView, app: &Application) -> Option<Fleet> {
    app_waits(app).then(|| Fleet::of(view))
}

fn driver_waits(driver: &Driver) -> bool {
    match driver.state {
        DriverState::Submitted | DriverState::Relaunching => true,
        DriverState::Launching
        | DriverState::Running
        | DriverState::Finished
        | DriverState::Killed
        | DriverState::Failed
        | DriverState::Error => false,
    }
}

fn app_waits(app: &Application) -> bool {
    match app.state {
        ApplicationState::Waiting => true,
        ApplicationState::Running
        | ApplicationState::Finished
        | ApplicationState::Failed
        | ApplicationState::Killed => false,
    }
}

fn millis(at: Option<Timestamp>) -> u64 {
    at.map(|at| at.0).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use interrex_core::spec::WorkerSpec;

    use super::*;

    fn worker(cores: u32, memory: u64, capabilities: &[&str]) -> Worker {
        Worker {
            drain: None,
            not_accepting: String::new(),
            id: "w1".into(),
            spec: Arc::new(WorkerSpec {
                cores: Cores(cores),
                memory: MemoryMib(memory),
                capabilities: capabilities.iter().map(|c| (*c).to_owned()).collect(),
                ..WorkerSpec::default()
            }),
            state: WorkerState::Alive,
            registered_at: Timestamp(0),
        }
    }

    #[test]
    fn waiting_is_explained_in_words() {
        let explain = |workers: &[Worker], capability| {
            Fleet::sum(workers.iter()).explain(Cores(8), MemoryMib(4096), capability)
        };
        assert_eq!(explain(&[], None), "waiting for an agent: none is alive");
        let dead = Worker {
            state: WorkerState::Dead,
            ..worker(64, 65536, &[])
        };
        assert_eq!(
            explain(&[dead], None),
            "waiting for an agent: none is alive"
        );
        let drained = Worker {
            drain: Some(Default::default()),
            ..worker(64, 65536, &[])
        };
        assert!(explain(&[drained], None).contains("being drained"));
        let big = worker(16, 8192, &[]);
        assert_eq!(
            explain(std::slice::from_ref(&big), Some("spark")),
            "no agent offers the capability `spark`"
        );
        assert_eq!(
            explain(&[big], None),
            "waiting for a worker with 8 cores and 4096 MiB free"
        );
        assert_eq!(
            explain(&[worker(4, 8192, &["spark"])], Some("spark")),
            "no agent is large enough for 8 cores and 4096 MiB: the largest offers 4 cores, 8192 MiB"
        );
    }
}
