//! Registrations: messages → commands, checked. A refusal names the field.

use std::sync::Arc;

use interrex_core::{
    command::Command,
    ids::{AppId, RequestId, WorkerId},
};
use interrex_proto::v1;

use crate::edge::{
    convert,
    grpc::reports,
    validate::{self, FieldError},
};

/// The command, whom it is about, and reports that make no sense.
pub(super) fn worker_command(
    register: v1::RegisterWorker,
) -> Result<(Command, WorkerId, Vec<u64>), FieldError> {
    let v1::RegisterWorker {
        spec,
        drivers,
        executors,
        unacknowledged,
        cluster_id: _,
    } = register;
    let spec = spec.ok_or_else(|| FieldError::new("spec", "is missing"))?;
    let (worker, spec) = convert::worker_spec(spec)?;
    let (report, senseless) = reports::full_report(drivers, executors, unacknowledged)?;
    let spec = Arc::new(spec);
    Ok((
        Command::RegisterWorker {
            worker: worker.clone(),
            spec,
            report,
        },
        worker,
        senseless,
    ))
}

/// The registration of an application, checked.
pub(super) fn app_command(register: v1::RegisterApplication) -> Result<Command, FieldError> {
    validate::request_id("request_id", &register.request_id)?;
    let app = Some(register.app_id).filter(|id| !id.is_empty());
    if let Some(app) = &app {
        validate::id("app_id", app)?;
    }
    let spec = register
        .spec
        .ok_or_else(|| FieldError::new("spec", "is missing"))?;
    let spec = convert::application_spec(spec)?;
    Ok(Command::RegisterApplication {
        request: RequestId::from(register.request_id),
        fingerprint: convert::application_fingerprint(&spec),
        app: app.map(AppId::from),
        spec: Arc::new(spec),
    })
}
