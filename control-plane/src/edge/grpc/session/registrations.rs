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
///
/// # Errors
/// [`FieldError`] with the first thing that is wrong.
pub fn worker_command(
    register: v1::RegisterWorker,
) -> Result<(Command, WorkerId, Vec<u64>), FieldError> {
    let v1::RegisterWorker {
        spec,
        drivers,
        executors,
        unacknowledged,
        cluster_id: _,
        number,
        seen_epoch: _,
        dictionaries: _,
    } = register;
    let spec = spec.ok_or_else(|| FieldError::new("spec", "is missing"))?;
    let (worker, mut spec) = convert::worker_spec(spec)?;
    // An agent is none of Spark's own workers.
    spec.spark = None;
    let (mut report, senseless) = reports::full_report(drivers, executors, unacknowledged)?;
    report.number = number;
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
///
/// # Errors
/// [`FieldError`] with the first thing that is wrong.
pub fn app_command(register: v1::RegisterApplication) -> Result<Command, FieldError> {
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

#[cfg(test)]
mod tests {
    use interrex_core::config::{ClusterConfig, EXECUTORS_PER_APP_MAX};
    use interrex_proto::limits::{NAME_BYTES_MAX, SESSION_MESSAGE_BYTES_MAX, TEXT_BYTES_MAX};
    use prost::Message;

    use super::*;

    #[test]
    fn an_application_with_the_most_executors_fits_into_one_frame() {
        let name = "x".repeat(NAME_BYTES_MAX);
        let active = v1::ExecutorInfo {
            resource_profile: u32::MAX,
            executor_id: u32::MAX,
            worker_id: name.clone(),
            worker_host: name.clone(),
            worker_web: name.clone(),
            cores: u32::MAX,
            memory_mib: u64::MAX,
            state: "LAUNCHING".to_owned(),
            exit: None,
            message: "killed by its application".to_owned(),
            log_page: format!("http://{name}/logPage/?appId={name}&executorId=1&logType="),
        };
        let ended = v1::ExecutorInfo {
            exit: Some(v1::Exit {
                code: Some(-1),
                signal: Some(-1),
            }),
            message: "x".repeat(TEXT_BYTES_MAX),
            ..active.clone()
        };
        let retained = ClusterConfig::default().retained_executors_per_app;
        let mut executors = vec![active; usize::try_from(EXECUTORS_PER_APP_MAX).unwrap()];
        executors.extend(vec![ended; usize::try_from(retained).unwrap()]);
        let largest = v1::Registered {
            cluster_id: name.clone(),
            app_id: name,
            executors,
            ..Default::default()
        };
        let bytes = largest.encoded_len();
        assert!(bytes < SESSION_MESSAGE_BYTES_MAX, "{bytes}");
    }
}
