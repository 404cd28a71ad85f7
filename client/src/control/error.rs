//! What a caller of the cluster can get instead of an answer, and what may be done about it.

use std::{fmt, time::Duration};

use super::options::OptionsError;

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The client's options are bad.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// No master could be asked, or none knew a leader. The request has had no effect.
    #[error("no leader reachable{}", Said(tried))]
    NoLeader {
        /// What each master that was tried said last.
        tried: Vec<Tried>,
    },
    /// The request itself is bad; the message names the field and the limit.
    #[error("invalid request: {message}")]
    Invalid {
        /// The leader's words.
        message: String,
    },
    /// The leader will not do it.
    #[error("refused: {message}")]
    Refused {
        /// The leader's words.
        message: String,
    },
    /// There is nothing under that id.
    #[error("not found: {message}")]
    NotFound {
        /// The leader's words.
        message: String,
    },
    /// The same request id was used for another body, or the state of things does not allow it.
    #[error("conflict: {message}")]
    Conflict {
        /// The leader's words.
        message: String,
    },
    /// A bound of the leader is reached; the request has had no effect.
    #[error("the cluster is busy: {message}")]
    Busy {
        /// The leader's words.
        message: String,
    },
    /// The deadline has passed.
    #[error(
        "no answer within {waited:?}{}",
        if *outcome_unknown { ": the request may have had its effect; repeat it with the same request id" } else { "" }
    )]
    Timeout {
        /// How long was waited.
        waited: Duration,
        /// The request was sent and may have had its effect. Repeating it with the same request id is safe.
        outcome_unknown: bool,
    },
}

/// One master that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// Its address.
    pub master: String,
    /// What it said, or why it could not be asked.
    pub said: String,
}

struct Said<'a>(&'a [Tried]);

// === impl ClientError ===

impl ClientError {
    /// Whether the same request, with the same request id, may succeed later.
    #[must_use]
    pub fn retryable(&self) -> bool {
        match self {
            Self::NoLeader { .. } | Self::Busy { .. } | Self::Timeout { .. } => true,
            Self::Options(_)
            | Self::Invalid { .. }
            | Self::Refused { .. }
            | Self::NotFound { .. }
            | Self::Conflict { .. } => false,
        }
    }

    /// The exit code of a program that ends with this error: 2 usage, 3 no leader reachable, 4 refused, 5 not
    /// found or conflict, 6 timeout.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Options(_) => 2,
            Self::NoLeader { .. } => 3,
            Self::Invalid { .. } | Self::Refused { .. } | Self::Busy { .. } => 4,
            Self::NotFound { .. } | Self::Conflict { .. } => 5,
            Self::Timeout { .. } => 6,
        }
    }
}

// === impl Said ===

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Tried { master, said }) in self.0.iter().enumerate() {
            write!(
                f,
                "{}{master}: {said}",
                if index == 0 { ": " } else { "; " }
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_exit_code_and_says_whether_to_retry() {
        let message = || "because".to_owned();
        let waited = Duration::from_secs(30);
        for (error, code, retryable) in [
            (
                ClientError::Options(OptionsError::Zero("call_timeout")),
                2,
                false,
            ),
            (ClientError::NoLeader { tried: Vec::new() }, 3, true),
            (ClientError::Invalid { message: message() }, 4, false),
            (ClientError::Refused { message: message() }, 4, false),
            (ClientError::Busy { message: message() }, 4, true),
            (ClientError::NotFound { message: message() }, 5, false),
            (ClientError::Conflict { message: message() }, 5, false),
            (
                ClientError::Timeout {
                    waited,
                    outcome_unknown: true,
                },
                6,
                true,
            ),
        ] {
            assert_eq!(
                (error.exit_code(), error.retryable()),
                (code, retryable),
                "{error}"
            );
        }
    }

    #[test]
    fn no_leader_says_what_each_master_said() {
        let tried = |master: &str, said: &str| Tried {
            master: master.into(),
            said: said.into(),
        };
        let tried = vec![
            tried("a:1", "connection refused"),
            tried("b:2", "no leader known"),
        ];
        let error = ClientError::NoLeader { tried };
        let text = "no leader reachable: a:1: connection refused; b:2: no leader known";
        assert_eq!(error.to_string(), text);
    }
}
