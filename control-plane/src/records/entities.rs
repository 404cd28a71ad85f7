//! One entity ⇄ one message of `record.proto`.

use std::sync::Arc;

use interrex_core::{
    ids::{
        AppId, Attempt, DriverId, ExecutorId, Fingerprint, ProfileId, QueuePosition, RequestId,
        WorkerId,
    },
    resources::{Cores, MemoryMib},
    state::{
        app::{Application, Profile},
        driver::Driver,
        executor::Executor,
        meta::{Created, Meta, Request},
        worker::{Drain, Worker},
    },
    time::Timestamp,
};
use interrex_proto::v1;

use crate::{
    messages::{
        addresses, addresses_message, application_spec, application_spec_message, driver_spec,
        driver_spec_message, exit, exit_message, resource_profile, resource_profile_message,
        worker_spec, worker_spec_message,
    },
    records::{RecordError, states},
};

/// How a request record tells a driver from an application.
const DRIVER_PREFIX: &str = "driver:";
const APP_PREFIX: &str = "app:";
const KILLED_PREFIX: &str = "killed:";
const COUNT_PREFIX: &str = "count:";

pub(super) fn meta_message(meta: &Meta) -> v1::MetaRecord {
    v1::MetaRecord {
        cluster_id: meta.cluster_id.clone(),
        next_driver: meta.next_driver,
        next_app: meta.next_app,
        next_queue_position: meta.next_queue.0,
        created_at_ms: meta.created_at.0,
        formerly: meta.formerly.clone(),
        restoring: meta.restoring.clone(),
        restored: meta.restored.clone(),
    }
}

pub(super) fn meta(record: v1::MetaRecord) -> Meta {
    Meta {
        cluster_id: record.cluster_id,
        next_driver: record.next_driver,
        next_app: record.next_app,
        next_queue: QueuePosition(record.next_queue_position),
        created_at: Timestamp(record.created_at_ms),
        formerly: record.formerly,
        restoring: record.restoring,
        restored: record.restored,
    }
}

pub(super) fn worker_message(worker: &Worker) -> v1::WorkerRecord {
    v1::WorkerRecord {
        spec: Some(worker_spec_message(&worker.id, &worker.spec)),
        state: worker.state.name().to_owned(),
        registered_at_ms: worker.registered_at.0,
        drain: worker.drain.as_ref().map(drain_message),
    }
}

pub(super) fn worker(record: v1::WorkerRecord) -> Result<Worker, RecordError> {
    let (id, spec) = worker_spec(record.spec.ok_or_else(|| missing("spec"))?);
    Ok(Worker {
        id,
        spec: Arc::new(spec),
        state: states::worker(&record.state)?,
        registered_at: Timestamp(record.registered_at_ms),
        drain: record.drain.map(drain),
        not_accepting: String::new(),
    })
}

fn drain_message(drain: &Drain) -> v1::DrainRecord {
    v1::DrainRecord {
        since_ms: drain.since.0,
        deadline_ms: drain.deadline.map(|at| at.0),
        reason: drain.reason.clone(),
    }
}

fn drain(record: v1::DrainRecord) -> Drain {
    Drain {
        since: Timestamp(record.since_ms),
        deadline: record.deadline_ms.map(Timestamp),
        reason: record.reason,
    }
}

pub(super) fn driver_message(driver: &Driver) -> v1::DriverRecord {
    v1::DriverRecord {
        id: driver.id.to_string(),
        submission_id: driver.submission.to_string(),
        spec: Some(driver_spec_message(&driver.spec)),
        state: driver.state.name().to_owned(),
        attempt: driver.attempt.0,
        worker_id: driver
            .worker
            .as_ref()
            .map(WorkerId::to_string)
            .unwrap_or_default(),
        queue_position: driver.queue.0,
        submitted_at_ms: driver.submitted_at.0,
        started_at_ms: driver.started_at.map(|at| at.0),
        finished_at_ms: driver.finished_at.map(|at| at.0),
        exit: driver.exit.map(exit_message),
        message: driver.message.clone(),
        kill_requested: driver.kill_requested,
        evicted: driver.evicted,
        failures: driver.failures,
        not_before_ms: driver.not_before.map(|at| at.0),
        resources: addresses_message(&driver.resources),
    }
}

pub(super) fn driver(record: v1::DriverRecord) -> Result<Driver, RecordError> {
    let state = states::driver(&record.state)?;
    let worker = Some(record.worker_id)
        .filter(|id| !id.is_empty())
        .map(WorkerId::from);
    if state.is_placed() && worker.is_none() {
        return Err(missing("worker_id"));
    }
    Ok(Driver {
        id: DriverId::from(record.id),
        submission: RequestId::from(record.submission_id),
        spec: Arc::new(driver_spec(record.spec.ok_or_else(|| missing("spec"))?)),
        state,
        attempt: Attempt(record.attempt),
        worker,
        resources: addresses(record.resources),
        queue: QueuePosition(record.queue_position),
        submitted_at: Timestamp(record.submitted_at_ms),
        started_at: record.started_at_ms.map(Timestamp),
        finished_at: record.finished_at_ms.map(Timestamp),
        exit: record.exit.map(exit),
        message: record.message,
        kill_requested: record.kill_requested,
        evicted: record.evicted,
        failures: record.failures,
        not_before: record.not_before_ms.map(Timestamp),
    })
}

pub(super) fn app_message(app: &Application) -> v1::ApplicationRecord {
    v1::ApplicationRecord {
        id: app.id.to_string(),
        request_id: app.request.to_string(),
        spec: Some(application_spec_message(&app.spec)),
        state: app.state.name().to_owned(),
        queue_position: app.queue.0,
        executors_wanted: app.executors_wanted,
        profiles: app.profiles.iter().map(profile_message).collect(),
        next_executor_id: app.next_executor.0,
        executors_completed: app.executors_completed,
        executor_failures: app.executor_failures,
        registered_at_ms: app.registered_at.0,
        finished_at_ms: app.finished_at.map(|at| at.0),
        message: app.message.clone(),
        not_before_ms: app.not_before.map(|at| at.0),
    }
}

pub(super) fn app(record: v1::ApplicationRecord) -> Result<Application, RecordError> {
    Ok(Application {
        id: AppId::from(record.id),
        request: RequestId::from(record.request_id),
        spec: Arc::new(application_spec(
            record.spec.ok_or_else(|| missing("spec"))?,
        )),
        state: states::app(&record.state)?,
        queue: QueuePosition(record.queue_position),
        executors_wanted: record.executors_wanted,
        profiles: record.profiles.into_iter().map(profile).collect(),
        next_executor: ExecutorId(record.next_executor_id),
        executors_completed: record.executors_completed,
        executor_failures: record.executor_failures,
        registered_at: Timestamp(record.registered_at_ms),
        finished_at: record.finished_at_ms.map(Timestamp),
        message: record.message,
        not_before: record.not_before_ms.map(Timestamp),
    })
}

fn profile_message((id, profile): (&ProfileId, &Profile)) -> v1::ExecutorTarget {
    v1::ExecutorTarget {
        profile_id: id.0,
        profile: Some(resource_profile_message(&profile.needs)),
        total: profile.wanted,
    }
}

fn profile(record: v1::ExecutorTarget) -> (ProfileId, Profile) {
    let profile = Profile {
        needs: Arc::new(resource_profile(record.profile.unwrap_or_default())),
        wanted: record.total,
    };
    (ProfileId(record.profile_id), profile)
}

pub(super) fn executor_message(executor: &Executor) -> v1::ExecutorRecord {
    v1::ExecutorRecord {
        app_id: executor.app.to_string(),
        executor_id: executor.id.0,
        worker_id: executor.worker.to_string(),
        resource_profile: executor.profile.0,
        cores: executor.cores.0,
        memory_mib: executor.memory.0,
        resources: addresses_message(&executor.resources),
        state: executor.state.name().to_owned(),
        drained: executor.drained,
        exit: executor.exit.map(exit_message),
        message: executor.message.clone(),
        launched_at_ms: executor.launched_at.0,
        started_at_ms: executor.started_at.map(|at| at.0),
        finished_at_ms: executor.finished_at.map(|at| at.0),
    }
}

pub(super) fn executor(record: v1::ExecutorRecord) -> Result<Executor, RecordError> {
    Ok(Executor {
        app: AppId::from(record.app_id),
        id: ExecutorId(record.executor_id),
        worker: WorkerId::from(record.worker_id),
        profile: ProfileId(record.resource_profile),
        cores: Cores(record.cores),
        memory: MemoryMib(record.memory_mib),
        resources: addresses(record.resources),
        state: states::executor(&record.state)?,
        drained: record.drained,
        exit: record.exit.map(exit),
        message: record.message,
        launched_at: Timestamp(record.launched_at_ms),
        started_at: record.started_at_ms.map(Timestamp),
        finished_at: record.finished_at_ms.map(Timestamp),
    })
}

pub(super) fn request_message(request: &Request) -> v1::RequestRecord {
    let created = match &request.created {
        Created::Driver(id) => format!("{DRIVER_PREFIX}{id}"),
        Created::App(id) => format!("{APP_PREFIX}{id}"),
        Created::Killed(id) => format!("{KILLED_PREFIX}{id}"),
        Created::Count(count) => format!("{COUNT_PREFIX}{count}"),
    };
    v1::RequestRecord {
        request_id: request.id.to_string(),
        fingerprint: request.fingerprint.0.to_vec(),
        created,
        at_ms: request.at.0,
    }
}

pub(super) fn request(record: v1::RequestRecord) -> Result<Request, RecordError> {
    let fingerprint = <[u8; 32]>::try_from(record.fingerprint.as_slice()).map_err(|_length| {
        let value = format!("{} bytes", record.fingerprint.len());
        RecordError::Field {
            field: "fingerprint",
            value,
        }
    })?;
    let created = if let Some(id) = record.created.strip_prefix(DRIVER_PREFIX) {
        Created::Driver(DriverId::new(id))
    } else if let Some(id) = record.created.strip_prefix(APP_PREFIX) {
        Created::App(AppId::new(id))
    } else if let Some(id) = record.created.strip_prefix(KILLED_PREFIX) {
        Created::Killed(id.to_owned())
    } else if let Some(Ok(count)) = record.created.strip_prefix(COUNT_PREFIX).map(str::parse) {
        Created::Count(count)
    } else {
        return Err(RecordError::Field {
            field: "created",
            value: record.created,
        });
    };
    Ok(Request {
        id: RequestId::from(record.request_id),
        fingerprint: Fingerprint(fingerprint),
        created,
        at: Timestamp(record.at_ms),
    })
}

/// The id of an executor's record.
pub(super) fn executor_key(app: &AppId, id: ExecutorId) -> String {
    format!("{app}/{id}")
}

fn missing(field: &'static str) -> RecordError {
    RecordError::Field {
        field,
        value: String::new(),
    }
}
