//! The one place where errors become a gRPC `Status`.
//!
//! | what happened | code | what our client does |
//! |---|---|---|
//! | not the leader (any more) | `UNAVAILABLE` + leader hint | asks the leader, same request id |
//! | commit's outcome unknown | `UNKNOWN` | repeats with the same request id: promise P2 makes that safe |
//! | a queue is full, a bound of the cluster reached | `RESOURCE_EXHAUSTED` | repeats later, same request id |
//! | no answer in time | `DEADLINE_EXCEEDED` | repeats with the same request id |
//! | shutting down | `UNAVAILABLE` | asks another master |
//! | no such thing | `NOT_FOUND` | gives up |
//! | same request or profile id, another body | `ALREADY_EXISTS` | gives up |
//! | a field is unusable | `INVALID_ARGUMENT` | gives up |
//! | the application is over, the worker is dead; not possible now | `FAILED_PRECONDITION` | gives up |
//! | not possible with this engine | `UNIMPLEMENTED` | gives up |

use interrex_core::{ids::Epoch, transition::Rejection};
use interrex_persistence::{election::MasterInfo, error::AdminError};
use interrex_proto::leader_hint::LeaderHint;
use tonic::{Code, Status};

use crate::{
    edge::validate::FieldError,
    messages::master_message,
    runtime::{error::RequestError, handle::MasterStatus, restore::RestoreError},
};

/// A refused or failed request.
#[must_use]
pub fn request(error: &RequestError) -> Status {
    let text = error.to_string();
    match error {
        RequestError::NotLeader { leader, epoch } => not_leader(leader.as_ref(), *epoch),
        RequestError::OutcomeUnknown => Status::unknown(text),
        RequestError::Busy { .. } => Status::resource_exhausted(text),
        RequestError::DeadlineExceeded { .. } => Status::deadline_exceeded(text),
        RequestError::Rejected(rejected) => rejection(rejected),
        RequestError::Restoring { .. } => Status::failed_precondition(text),
        RequestError::ShuttingDown => Status::unavailable(text),
    }
}

/// A command that the core refused.
#[must_use]
pub fn rejection(rejection: &Rejection) -> Status {
    let text = rejection.to_string();
    match rejection {
        Rejection::NotFound { .. } | Rejection::UnknownWorker { .. } => Status::not_found(text),
        Rejection::Conflict { .. } | Rejection::ProfileConflict { .. } => {
            Status::already_exists(text)
        }
        Rejection::Invalid { .. } => Status::invalid_argument(text),
        Rejection::AppOver { .. } | Rejection::WorkerDead { .. } => {
            Status::failed_precondition(text)
        }
        Rejection::LimitReached { .. } => Status::resource_exhausted(text),
    }
}

/// A field that was refused before anything was done.
#[must_use]
pub fn field(error: &FieldError) -> Status {
    Status::invalid_argument(error.to_string())
}

/// An administrative request that was refused or failed; `status` tells where the leader is.
#[must_use]
pub fn admin(error: &AdminError, status: &MasterStatus) -> Status {
    let text = error.to_string();
    match error {
        AdminError::Unsupported(_) => Status::unimplemented(text),
        AdminError::Refused(_) => Status::failed_precondition(text),
        AdminError::NotLeader => not_leader(status.leader.as_ref(), status.epoch),
        AdminError::Timeout(_) => Status::deadline_exceeded(text),
    }
}

/// A snapshot that was not restored; `status` tells where the leader is.
#[must_use]
pub fn restore(error: &RestoreError, status: &MasterStatus) -> Status {
    let text = error.to_string();
    match error {
        RestoreError::NotLeader => not_leader(status.leader.as_ref(), status.epoch),
        RestoreError::NotEmpty { .. } | RestoreError::Another { .. } => {
            Status::failed_precondition(text)
        }
        RestoreError::Busy(_) => Status::resource_exhausted(text),
        RestoreError::Incomplete { .. } => Status::aborted(text),
    }
}

/// This master does not lead; the metadata say who does, if it is known.
#[must_use]
pub fn not_leader(leader: Option<&MasterInfo>, epoch: Epoch) -> Status {
    match leader {
        Some(leader) => {
            let mut status =
                Status::unavailable(format!("this master is a standby; {} leads", leader.id));
            LeaderHint::new(&master_message(leader), epoch.0).attach(&mut status);
            status
        }
        None => Status::unavailable("this master is a standby and no leader is known yet"),
    }
}

/// The core answered with something that does not belong to the request: a fault of this program.
#[must_use]
pub fn unexpected_reply(what: &'static str) -> Status {
    tracing::error!(
        request = what,
        "the core gave an answer that does not belong to this request"
    );
    Status::internal(format!("unexpected answer to {what}"))
}

/// The metric label of a submission that was refused or failed.
#[must_use]
pub fn submission_label(code: Code) -> &'static str {
    match code {
        Code::InvalidArgument => "invalid",
        Code::AlreadyExists => "conflict",
        Code::ResourceExhausted => "busy",
        Code::Unavailable => "not_leader",
        Code::Unknown | Code::DeadlineExceeded => "unknown",
        Code::Ok
        | Code::Cancelled
        | Code::NotFound
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Internal
        | Code::DataLoss
        | Code::Unauthenticated => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standbys_refusal_carries_the_leader() {
        let leader = MasterInfo {
            id: "m2".into(),
            rpc: "127.0.0.1:7078".into(),
            ..Default::default()
        };
        let status = request(&RequestError::NotLeader {
            leader: Some(leader),
            epoch: Epoch(7),
        });
        assert_eq!(status.code(), Code::Unavailable);
        let hint = LeaderHint::read(&status).expect("a hint");
        assert_eq!(
            (hint.id.as_str(), hint.rpc.as_str(), hint.epoch),
            ("m2", "127.0.0.1:7078", 7)
        );

        let status = request(&RequestError::NotLeader {
            leader: None,
            epoch: Epoch(0),
        });
        assert_eq!(
            (status.code(), LeaderHint::read(&status)),
            (Code::Unavailable, None)
        );
    }

    #[test]
    fn what_may_have_happened_has_a_code_that_clients_repeat() {
        assert_eq!(request(&RequestError::OutcomeUnknown).code(), Code::Unknown);
        let late = RequestError::DeadlineExceeded {
            outcome_unknown: true,
        };
        assert_eq!(request(&late).code(), Code::DeadlineExceeded);
    }

    #[test]
    fn refusals_of_the_core_are_final_and_say_why() {
        let cases = [
            (Rejection::NotFound { id: "x".into() }, Code::NotFound),
            (
                Rejection::Conflict {
                    id: "r".into(),
                    created: "driver-1".into(),
                },
                Code::AlreadyExists,
            ),
            (
                Rejection::Invalid {
                    field: "cores",
                    reason: "`0`".into(),
                },
                Code::InvalidArgument,
            ),
            (
                Rejection::AppOver {
                    app: "app-1".into(),
                    state: "FAILED",
                },
                Code::FailedPrecondition,
            ),
        ];
        for (rejected, code) in cases {
            let status = request(&RequestError::Rejected(rejected.clone()));
            assert_eq!(
                (status.code(), status.message()),
                (code, rejected.to_string().as_str())
            );
        }
    }
}
