//! Drains: messages → commands, checked. A refusal names the field.

use std::time::Duration;

use interrex_core::{
    command::{Command, RequestKey, WorkersNamed},
    ids::WorkerId,
};
use interrex_proto::v1;
use tonic::Status;

use super::errors;
use crate::edge::{
    convert,
    validate::{self, FieldError},
};

/// The longest drain, in milliseconds: a year.
pub const DRAIN_MS_MAX: u64 = 365 * 24 * 3_600_000;

/// Checks a drain.
pub(crate) fn drain(request: v1::DrainWorkersRequest) -> Result<Command, Status> {
    let v1::DrainWorkersRequest {
        request_id,
        worker_id,
        host,
        deadline_ms,
        reason,
    } = request;
    let (workers, target) = named(&worker_id, &host)?;
    if let Some(ms) = deadline_ms.filter(|ms| *ms > DRAIN_MS_MAX) {
        let reason = format!("{ms}; give at most {DRAIN_MS_MAX} (a year), or leave it out");
        return Err(errors::field(&FieldError::new("deadline_ms", reason)));
    }
    validate::name("reason", &reason).map_err(|e| errors::field(&e))?;
    let wait = deadline_ms.map_or_else(|| "none".to_owned(), |ms| ms.to_string());
    let target = format!("{target}\n{wait}\n{reason}");
    Ok(Command::DrainWorkers {
        request: request_key(request_id, "drain", &target)?,
        workers,
        deadline: deadline_ms.map(Duration::from_millis),
        reason,
    })
}

/// Checks the end of a drain.
pub(crate) fn undrain(request: v1::UndrainWorkersRequest) -> Result<Command, Status> {
    let (workers, target) = named(&request.worker_id, &request.host)?;
    Ok(Command::UndrainWorkers {
        request: request_key(request.request_id, "undrain", &target)?,
        workers,
    })
}

/// An empty id is none: then a repeat is a new request.
pub(super) fn request_key(
    id: String,
    verb: &str,
    target: &str,
) -> Result<Option<RequestKey>, Status> {
    if id.is_empty() {
        return Ok(None);
    }
    validate::request_id("request_id", &id).map_err(|e| errors::field(&e))?;
    Ok(Some(convert::request_key(id, verb, target)))
}

/// The workers that are meant, and a text that is theirs alone.
fn named(worker: &str, host: &str) -> Result<(WorkersNamed, String), Status> {
    match (worker.is_empty(), host.is_empty()) {
        (false, true) => {
            validate::id("worker_id", worker).map_err(|e| errors::field(&e))?;
            let named = WorkersNamed::Id(WorkerId::from(worker));
            Ok((named, format!("worker {worker}")))
        }
        (true, false) => {
            validate::name("host", host).map_err(|e| errors::field(&e))?;
            let named = WorkersNamed::Host(host.to_owned());
            Ok((named, format!("host {}", host.to_ascii_lowercase())))
        }
        (true, true) => Err(errors::field(&FieldError::new(
            "worker_id",
            "is missing; set `worker_id` or `host`",
        ))),
        (false, false) => Err(errors::field(&FieldError::new(
            "worker_id",
            "and `host` are both set; set only one of them",
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> v1::DrainWorkersRequest {
        v1::DrainWorkersRequest {
            request_id: "r1".into(),
            worker_id: "w1".into(),
            deadline_ms: Some(600_000),
            ..Default::default()
        }
    }

    fn fingerprint(request: v1::DrainWorkersRequest) -> interrex_core::ids::Fingerprint {
        let Ok(Command::DrainWorkers {
            request: Some(key), ..
        }) = drain(request)
        else {
            panic!("a drain with a request id")
        };
        key.fingerprint
    }

    #[test]
    fn exactly_one_of_worker_and_host_is_named() {
        for (worker_id, host) in [("", ""), ("w1", "h1"), ("w 1", ""), ("", "h\n")] {
            let refused = drain(v1::DrainWorkersRequest {
                worker_id: worker_id.into(),
                host: host.into(),
                ..request()
            });
            let status = refused.expect_err("must be refused");
            assert_eq!(status.code(), tonic::Code::InvalidArgument);
        }
        let status = drain(v1::DrainWorkersRequest {
            deadline_ms: Some(u64::MAX),
            ..request()
        });
        let status = status.expect_err("must be refused");
        assert!(status.message().starts_with("deadline_ms: "), "{status}");
    }

    #[test]
    fn another_drain_has_another_fingerprint() {
        assert_eq!(fingerprint(request()), fingerprint(request()));
        for other in [
            v1::DrainWorkersRequest {
                worker_id: "w2".into(),
                ..request()
            },
            v1::DrainWorkersRequest {
                worker_id: String::new(),
                host: "w1".into(),
                ..request()
            },
            v1::DrainWorkersRequest {
                deadline_ms: None,
                ..request()
            },
            v1::DrainWorkersRequest {
                reason: "x".into(),
                ..request()
            },
        ] {
            assert_ne!(
                fingerprint(other.clone()),
                fingerprint(request()),
                "{other:?}"
            );
        }
    }
}
