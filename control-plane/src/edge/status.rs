//! The committed view → the messages that clients see.
//!
//! Pure look-ups, shared by gRPC and REST. `message` says in words what something waits for, in those of
//! [`interrex_core::explain`]. Nothing is decided here: the scheduler alone places work.

use std::{collections::BTreeMap, sync::Arc};

use interrex_core::{
    explain::{Facts, NO_PROGRESS, Waits},
    ids::ProfileId,
    spec::ResourceProfile,
    state::{
        app::{Application, ApplicationState},
        driver::Driver,
        executor::Executor,
        worker::Worker,
    },
    time::Timestamp,
};
use interrex_proto::v1;

use crate::{
    edge::spark_rpc,
    messages,
    runtime::view::{ClusterView, Found},
};

/// Says why something waits; made once a request, not once an entity.
pub type ViewWaits<'a> = Waits<'a, ClusterView>;

/// The answer to a look-up: what the id names, as it is in `view`. `None`: it names nothing.
#[must_use]
pub fn find(view: &ClusterView, id: &str) -> Option<v1::StatusResponse> {
    let response = match view.find(id)? {
        Found::Driver(driver) => v1::StatusResponse {
            over: driver.state.is_final(),
            driver: Some(driver_status(
                view,
                &driver,
                waits_of_driver(view, &driver).as_ref(),
            )),
            ..Default::default()
        },
        Found::App(app) => v1::StatusResponse {
            over: app.state.is_final(),
            application: Some(application_status(
                view,
                &app,
                waits_of_app(view, &app).as_ref(),
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

/// A driver. Without `waits` (which costs a pass over the workers) it is not explained what it waits for.
#[must_use]
pub fn driver_status(
    view: &ClusterView,
    driver: &Driver,
    waits: Option<&ViewWaits<'_>>,
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
        log_page: log_page_of_driver(view, driver),
        cores: driver.spec.cores.0,
        memory_mib: driver.spec.memory.0,
        supervise: driver.spec.supervise,
        exit: driver.exit.map(messages::exit_message),
        message: driver_message(driver, waits),
        submitted_at_ms: driver.submitted_at.0,
        started_at_ms: millis(driver.started_at),
        finished_at_ms: millis(driver.finished_at),
        kill_requested: driver.kill_requested,
        at_most_once: driver.spec.at_most_once,
        priority: driver.spec.priority,
    }
}

/// An application with its recorded executors; `waits` as for [`driver_status`].
#[must_use]
pub fn application_status(
    view: &ClusterView,
    app: &Application,
    waits: Option<&ViewWaits<'_>>,
) -> v1::ApplicationStatus {
    let executors: Vec<_> = view.executors_of(&app.id).collect();
    let held = |e: &&&Arc<Executor>| !e.state.is_final();
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
        message: app_message(
            view,
            app,
            executors.iter().any(|e| !e.state.is_final()),
            waits,
        ),
        registered_at_ms: app.registered_at.0,
        finished_at_ms: millis(app.finished_at),
        priority: app.spec.priority,
        min_executors: app.spec.min_executors,
        profiles: profiles(app, executors.iter().filter(held).map(|e| e.profile)),
    }
}

/// The profiles of an application, with those of its executors that are not over.
fn profiles(app: &Application, granted: impl Iterator<Item = ProfileId>) -> Vec<v1::ProfileStatus> {
    let mut counts: BTreeMap<ProfileId, u32> = BTreeMap::new();
    for profile in granted {
        *counts.entry(profile).or_default() += 1;
    }
    let status = |id: ProfileId, needs: &ResourceProfile, wanted| v1::ProfileStatus {
        profile_id: id.0,
        profile: Some(messages::resource_profile_message(needs)),
        wanted,
        granted: counts.get(&id).copied().unwrap_or_default(),
    };
    let own = ResourceProfile {
        cores: app.spec.cores_per_executor,
        memory: Some(app.spec.memory_per_executor),
        resources: app.spec.resources_per_executor.clone(),
    };
    let own = status(ProfileId::default(), &own, app.executors_wanted);
    let further = app.profiles.iter();
    let further = further.map(|(id, profile)| status(*id, &profile.needs, Some(profile.wanted)));
    std::iter::once(own).chain(further).collect()
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
        log_page: log_page_of_executor(view, executor),
        cores: executor.cores.0,
        memory_mib: executor.memory.0,
        state: executor.state.name().to_owned(),
        exit: executor.exit.map(messages::exit_message),
        message: executor.message.clone(),
    }
}

/// Where one of Spark's own workers shows what a driver writes, but for the name of the output; empty: its agent has it.
#[must_use]
pub fn log_page_of_driver(view: &ClusterView, driver: &Driver) -> String {
    // It knows a driver by its attempt.
    let id = spark_rpc::driver_name(driver.id.as_str(), driver.attempt.0);
    let worker = driver.worker.as_ref().and_then(|id| view.worker(id));
    log_page(worker, &format!("driverId={id}"))
}

/// The same for an executor.
#[must_use]
pub fn log_page_of_executor(view: &ClusterView, executor: &Executor) -> String {
    let Executor { app, id, .. } = executor;
    log_page(
        view.worker(&executor.worker),
        &format!("appId={app}&executorId={}", id.0),
    )
}

fn log_page(worker: Option<&Arc<Worker>>, what: &str) -> String {
    let sparks = worker.filter(|worker| worker.spec.spark.is_some());
    sparks
        .map(|worker| format!("http://{}/logPage/?{what}&logType=", worker.spec.web))
        .unwrap_or_default()
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

fn driver_message(driver: &Driver, waits: Option<&ViewWaits<'_>>) -> String {
    match waits {
        Some(waits) if driver.state.waits() && driver.message.is_empty() => waits.driver(driver),
        Some(_) | None => driver.message.clone(),
    }
}

fn app_message(
    view: &ClusterView,
    app: &Application,
    has_executors: bool,
    waits: Option<&ViewWaits<'_>>,
) -> String {
    if !app.state.is_final() && view.stalled_since(&app.id).is_some() {
        return NO_PROGRESS.to_owned();
    }
    let waiting = app_waits(app) && !has_executors && app.executors_wanted != Some(0);
    match waits {
        Some(waits) if waiting && app.message.is_empty() => waits.app(app),
        Some(_) | None => app.message.clone(),
    }
}

/// What explains the waiting of `driver`; `None`: it does not wait.
fn waits_of_driver<'a>(view: &'a ClusterView, driver: &Driver) -> Option<ViewWaits<'a>> {
    driver.state.waits().then(|| Waits::of(view))
}

fn waits_of_app<'a>(view: &'a ClusterView, app: &Application) -> Option<ViewWaits<'a>> {
    app_waits(app).then(|| Waits::of(view))
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
