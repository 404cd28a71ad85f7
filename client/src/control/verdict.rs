//! The one place that says what a gRPC status means to a caller. Pure.

use std::error::Error;

use interrex_proto::leader_hint::LeaderHint;
use tonic::{Code, Status};

use super::error::ClientError;
use crate::session::describe;

/// What to make of one refused attempt.
#[derive(Debug)]
pub(super) enum Verdict {
    /// No other attempt will fare better.
    Final(ClientError),
    /// The leader is elsewhere.
    Redirect { hint: LeaderHint, said: String },
    /// This master cannot serve the call now; it was not carried out.
    NotServed { said: String },
    /// This master cannot be reached; the call was not carried out.
    Unreachable { said: String },
    /// A queue is full; the call was not carried out.
    Busy { said: String },
    /// The call may have been carried out.
    Unknown { said: String },
}

// === impl Verdict ===

impl Verdict {
    pub(super) fn of(status: &Status) -> Self {
        let said = if status.message().is_empty() {
            status.code().description().to_owned()
        } else {
            status.message().to_owned()
        };
        match status.code() {
            Code::Unavailable => match (LeaderHint::read(status), status.source()) {
                (Some(hint), _) => Self::Redirect { hint, said },
                (None, Some(source)) => Self::Unreachable {
                    said: describe(source),
                },
                (None, None) => Self::NotServed { said },
            },
            Code::ResourceExhausted => Self::Busy { said },
            Code::InvalidArgument | Code::OutOfRange => {
                Self::Final(ClientError::Invalid { message: said })
            }
            Code::NotFound => Self::Final(ClientError::NotFound { message: said }),
            Code::AlreadyExists | Code::FailedPrecondition => {
                Self::Final(ClientError::Conflict { message: said })
            }
            Code::PermissionDenied | Code::Unauthenticated | Code::Unimplemented => {
                Self::Final(ClientError::Refused { message: said })
            }
            Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::Aborted
            | Code::Internal
            | Code::DataLoss => Self::Unknown { said },
        }
    }
}
