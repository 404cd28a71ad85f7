//! What a command tells its caller: the exit codes, fixed because scripts depend on them.
//!
//! Every command returns [`Done`]. A [`Failure`] carries the code and one message for stderr; only
//! `main` prints it.

use std::process::ExitCode;

use interrex_client::control::ClientError;

/// The exit codes of every command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It worked.
    Ok,
    /// It did not work, for a reason that has no code of its own.
    Failed,
    /// The command line or the configuration is wrong.
    Usage,
    /// No master that leads could be reached before the deadline.
    NoLeader,
    /// The cluster refused the request.
    Refused,
    /// There is no such thing, or the id belongs to something else.
    NotFoundOrConflict,
    /// The deadline passed first.
    Timeout,
    /// The job ended, and not well.
    JobFailed,
    /// The job was killed.
    JobKilled,
    /// A run that proves nothing: something that was to be tried did not happen. The same number as a usage error, as is
    /// usual for tools that judge histories.
    Undecided,
    /// The job is accepted and durable, but nothing has room for it yet.
    Waiting,
}

/// Why a command ends with something else than what it was asked for.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// What to say, without a trailing full stop; empty when everything has been said.
    pub(crate) message: String,
}

/// What every command returns.
pub(crate) type Done = Result<Exit, Failure>;

// === impl Exit ===

impl Exit {
    /// The number the shell sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::Usage | Self::Undecided => 2,
            Self::NoLeader => 3,
            Self::Refused => 4,
            Self::NotFoundOrConflict => 5,
            Self::Timeout => 6,
            Self::JobFailed => 10,
            Self::JobKilled => 11,
            Self::Waiting => 12,
        }
    }

    fn from_client_code(code: u8) -> Self {
        match code {
            2 => Self::Usage,
            3 => Self::NoLeader,
            4 => Self::Refused,
            5 => Self::NotFoundOrConflict,
            6 => Self::Timeout,
            _ => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

// === impl Failure ===

impl Failure {
    /// A failure with a code.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
        }
    }

    /// The command line or the configuration is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// It did not work.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// An input or output error, with what was being done.
    pub(crate) fn io(doing: &str, error: &std::io::Error) -> Self {
        Self::failed(format!("{doing}: {error}"))
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let exit = Exit::from_client_code(error.exit_code());
        Self::new(exit, chain(&error))
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::failed(chain(&error))
    }
}

/// The error and its sources, each said once.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(next) = source {
        let said = next.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        source = next.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_are_the_documented_ones() {
        let all = [
            (Exit::Ok, 0),
            (Exit::Failed, 1),
            (Exit::Usage, 2),
            (Exit::NoLeader, 3),
            (Exit::Refused, 4),
            (Exit::NotFoundOrConflict, 5),
            (Exit::Timeout, 6),
            (Exit::JobFailed, 10),
            (Exit::JobKilled, 11),
            (Exit::Waiting, 12),
        ];
        for (exit, code) in all {
            assert_eq!(exit.code(), code, "{exit:?}");
        }
    }

    #[test]
    fn a_chain_says_each_cause_once() {
        let inner = std::io::Error::other("disk on fire");
        let outer = std::io::Error::other(inner);
        assert_eq!(chain(&outer), "disk on fire");
    }
}
