//! The one place where errors become an HTTP answer: JSON, never HTML, never a stack trace, never nothing.
//!
//! | what happened | status |
//! |---|---|
//! | a field is unusable, bad JSON, an unknown action | 400 |
//! | a method that the path does not have | 405 + `Allow` |
//! | the body did not arrive in time | 408 |
//! | the same submission id with another body | 409 |
//! | the body or description is too large | 413 |
//! | a queue is full, a bound of the cluster is reached | 429 + `Retry-After` |
//! | another protocol version | 468 + `highestProtocolVersion`, as Spark |
//! | no leader, no answer in time, shutting down, too many requests at once | 503 + `Retry-After` |

use std::time::Duration;

use http::StatusCode;
use interrex_core::transition::Rejection;

use super::model::PROTOCOL_VERSION;
use crate::{access::Denied, edge::validate::FieldError, runtime::error::RequestError};

/// Spark's status for a protocol version that the server does not speak.
const UNKNOWN_PROTOCOL_VERSION: u16 = 468;
/// When a client that met a full queue or no leader may ask again.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The end of Spark's texts about unusable paths.
const HOW_TO_SUBMIT: &str =
    "Please submit requests through http://[host]:[port]/v1/submissions/...";

/// An error as the client sees it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RestError {
    /// The HTTP status.
    pub status: StatusCode,
    /// Names field, value and fix.
    pub message: String,
    /// Set where the protocol version is unknown.
    pub highest_protocol_version: Option<&'static str>,
    /// Set where asking again can help.
    pub retry_after: Option<Duration>,
    /// The method that the path has.
    pub allow: Option<&'static str>,
}

// === impl RestError ===

impl RestError {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            highest_protocol_version: None,
            retry_after: None,
            allow: None,
        }
    }

    /// The request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// A path that is none, with Spark's advice.
    #[must_use]
    pub fn bad_path(message: &str) -> Self {
        Self::bad_request(format!("{message} {HOW_TO_SUBMIT}"))
    }

    /// A protocol version that is none.
    #[must_use]
    pub fn unknown_version(version: &str) -> Self {
        let message = format!("Unknown protocol version '{version}'. {HOW_TO_SUBMIT}");
        let status =
            StatusCode::from_u16(UNKNOWN_PROTOCOL_VERSION).unwrap_or(StatusCode::BAD_REQUEST);
        Self {
            highest_protocol_version: Some(PROTOCOL_VERSION),
            ..Self::new(status, message)
        }
    }

    /// A method that the path does not have.
    #[must_use]
    pub fn wrong_method(method: &http::Method, path: &str, allow: &'static str) -> Self {
        let message = format!("Method {method} is not allowed for {path}; use {allow}.");
        Self {
            allow: Some(allow),
            ..Self::new(StatusCode::METHOD_NOT_ALLOWED, message)
        }
    }

    /// The body is larger than `max` bytes.
    #[must_use]
    pub fn too_large(max: usize) -> Self {
        let message = format!("Request body is larger than {max} bytes, the limit of this server.");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    }

    /// The body did not arrive.
    #[must_use]
    pub fn body_too_slow(limit: Duration) -> Self {
        let message = format!(
            "Request body did not arrive within {} s.",
            limit.as_secs_f32()
        );
        Self::new(StatusCode::REQUEST_TIMEOUT, message)
    }

    /// This server does something else for too many clients.
    #[must_use]
    pub fn overloaded(max: usize) -> Self {
        Self::unavailable(format!(
            "{max} requests are being served, the limit of this server."
        ))
    }

    /// The request changes something, and shows no token that counts.
    #[must_use]
    pub fn unauthorized(denied: Denied) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, format!("Unauthorized: {denied}."))
    }

    /// Nobody can answer at this moment.
    #[must_use]
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self {
            retry_after: Some(RETRY_AFTER),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
        }
    }
}

/// A field that was refused before anything was done.
impl From<FieldError> for RestError {
    fn from(error: FieldError) -> Self {
        let status = match error.field.as_ref() {
            "spec" => StatusCode::PAYLOAD_TOO_LARGE,
            _field => StatusCode::BAD_REQUEST,
        };
        Self::new(status, format!("Malformed request: {error}"))
    }
}

/// A request that the leader refused, or that found none.
impl From<&RequestError> for RestError {
    fn from(error: &RequestError) -> Self {
        let text = error.to_string();
        match error {
            RequestError::Busy { .. } => Self {
                retry_after: Some(RETRY_AFTER),
                ..Self::new(StatusCode::TOO_MANY_REQUESTS, text)
            },
            RequestError::Rejected(rejection) => Self::from(rejection),
            RequestError::NotLeader { .. }
            | RequestError::OutcomeUnknown
            | RequestError::DeadlineExceeded { .. }
            | RequestError::Restoring { .. }
            | RequestError::ShuttingDown => Self::unavailable(text),
        }
    }
}

/// A command that the core refused.
impl From<&Rejection> for RestError {
    fn from(rejection: &Rejection) -> Self {
        let text = rejection.to_string();
        match rejection {
            Rejection::NotFound { .. } | Rejection::UnknownWorker { .. } => {
                Self::new(StatusCode::NOT_FOUND, text)
            }
            Rejection::Conflict { .. }
            | Rejection::ProfileConflict { .. }
            | Rejection::AppOver { .. }
            | Rejection::WorkerDead { .. } => Self::new(StatusCode::CONFLICT, text),
            Rejection::Invalid { .. } => Self::bad_request(format!("Malformed request: {text}")),
            Rejection::LimitReached { .. } => Self {
                retry_after: Some(RETRY_AFTER),
                ..Self::new(StatusCode::TOO_MANY_REQUESTS, text)
            },
        }
    }
}
