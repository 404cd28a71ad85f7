//! What a failed call to etcd means: was it carried out or not?
//!
//! Only what surely was not carried out is called so. Everything that is not known to be a refusal counts as unknown.

use std::{error::Error, io, time::Duration};

use etcd_client::Error as EtcdError;
use tonic::{Code, Status};

use crate::error::CommitError;

/// A call that did not succeed.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(super) struct CallError {
    /// What it means.
    pub(super) kind: Kind,
    text: String,
}

/// What a failed call means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It never left: surely not carried out, and the connection is no good.
    Unsent,
    /// etcd refused it: surely not carried out.
    Refused(Refused),
    /// Perhaps carried out.
    Unknown,
}

/// Why etcd refused a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// Its database has reached its quota.
    NoSpace,
    /// The revision that was asked for is gone.
    Compacted,
    /// This member has no leader: another one may.
    NoLeader,
    /// Any other reason.
    Other,
}

// === impl CallError ===

impl CallError {
    pub(super) fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
        }
    }

    /// Nobody answered within `waited`.
    pub(super) fn late(waited: Duration) -> Self {
        Self::new(Kind::Unknown, format!("no answer within {waited:.1?}"))
    }

    /// Whether another connection may do better.
    pub(super) fn is_of_the_connection(&self) -> bool {
        match self.kind {
            Kind::Unsent | Kind::Unknown | Kind::Refused(Refused::NoLeader) => true,
            Kind::Refused(Refused::NoSpace | Refused::Compacted | Refused::Other) => false,
        }
    }

    /// Whether it may have been carried out.
    pub(super) fn maybe_done(&self) -> bool {
        self.kind == Kind::Unknown
    }

    /// Whether etcd's database is full.
    pub(super) fn no_space(&self) -> bool {
        self.kind == Kind::Refused(Refused::NoSpace)
    }
}

impl From<EtcdError> for CallError {
    fn from(error: EtcdError) -> Self {
        if let EtcdError::GRpcStatus(status) = &error {
            return Self::new(kind_of(status), words(status));
        }
        let kind = if never_sent(&error) {
            Kind::Unsent
        } else {
            Kind::Unknown
        };
        Self::new(kind, error.to_string())
    }
}

impl From<CallError> for CommitError {
    fn from(error: CallError) -> Self {
        if error.maybe_done() {
            Self::Indeterminate(Box::new(error))
        } else {
            Self::Rejected(Box::new(error))
        }
    }
}

fn kind_of(status: &Status) -> Kind {
    let says = |words: &str| status.message().contains(words);
    if says("database space exceeded") {
        return Kind::Refused(Refused::NoSpace);
    }
    if says("required revision has been compacted") {
        return Kind::Refused(Refused::Compacted);
    }
    // Said before anything is proposed, because every call requires a leader.
    if says("etcdserver: no leader") {
        return Kind::Refused(Refused::NoLeader);
    }
    let refusal = matches!(
        status.code(),
        Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::Unauthenticated
    );
    if refusal {
        Kind::Refused(Refused::Other)
    } else if never_sent(status) {
        Kind::Unsent
    } else {
        Kind::Unknown
    }
}

/// Whether the cause is that nobody listens, so that nothing can have been sent.
fn never_sent(error: &(dyn Error + 'static)) -> bool {
    let mut cause = error.source();
    while let Some(inner) = cause {
        let refused = inner
            .downcast_ref::<io::Error>()
            .is_some_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
        if refused {
            return true;
        }
        cause = inner.source();
    }
    false
}

/// What etcd said, or what the deepest cause says where the transport failed.
fn words(status: &Status) -> String {
    let mut deepest: Option<&(dyn Error + 'static)> = status.source();
    while let Some(inner) = deepest.and_then(Error::source) {
        deepest = Some(inner);
    }
    match deepest {
        Some(cause) => format!("{}: {cause}", status.message()),
        None if status.message().is_empty() => format!("{:?}", status.code()),
        None => status.message().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(code: Code, message: &str) -> Kind {
        CallError::from(EtcdError::GRpcStatus(Status::new(code, message))).kind
    }

    #[test]
    fn only_what_was_surely_refused_is_called_so() {
        for (code, message, refused) in [
            (
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                Refused::NoSpace,
            ),
            (
                Code::OutOfRange,
                "etcdserver: mvcc: required revision has been compacted",
                Refused::Compacted,
            ),
            (
                Code::Unavailable,
                "etcdserver: no leader",
                Refused::NoLeader,
            ),
            (
                Code::ResourceExhausted,
                "etcdserver: too many requests",
                Refused::Other,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: request is too large",
                Refused::Other,
            ),
            (
                Code::NotFound,
                "etcdserver: requested lease not found",
                Refused::Other,
            ),
            (
                Code::PermissionDenied,
                "etcdserver: permission denied",
                Refused::Other,
            ),
        ] {
            assert_eq!(kind(code, message), Kind::Refused(refused), "{message}");
        }
        for (code, message) in [
            (Code::Unavailable, "etcdserver: request timed out"),
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::Unknown, "transport error"),
            (Code::Cancelled, "etcdserver: request cancelled"),
            (Code::DeadlineExceeded, "context deadline exceeded"),
            (Code::Internal, "h2 protocol error"),
        ] {
            assert_eq!(kind(code, message), Kind::Unknown, "{message}");
        }
    }

    #[test]
    fn a_refused_connection_has_sent_nothing() {
        let status =
            Status::from_error(Box::new(io::Error::from(io::ErrorKind::ConnectionRefused)));
        assert_eq!(
            CallError::from(EtcdError::GRpcStatus(status)).kind,
            Kind::Unsent
        );
        let status = Status::from_error(Box::new(io::Error::from(io::ErrorKind::ConnectionReset)));
        assert_eq!(
            CallError::from(EtcdError::GRpcStatus(status)).kind,
            Kind::Unknown
        );
    }

    #[test]
    fn an_unknown_outcome_stays_unknown_for_the_caller() {
        let late = CallError::late(Duration::from_secs(1));
        assert!(CommitError::from(late).maybe_written());
        let refused = CallError::new(Kind::Refused(Refused::NoSpace), "full");
        assert!(!CommitError::from(refused).maybe_written());
    }
}
