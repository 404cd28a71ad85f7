//! Words: how the ends of processes are told to the masters.

use interrex_proto::{
    limits::TEXT_BYTES_MAX,
    v1::{DriverChanged, ExecutorChanged, Exit, ProcessState, work_report},
};

use crate::process::{EndCause, WorkKey};

/// Why a process is being ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// A master ordered it.
    Order,
    /// A later attempt of the same driver was ordered.
    Superseded,
    /// It may run at most once, and its lease was over.
    NoLeader,
    /// The agent stops.
    AgentStops,
    /// It belonged to an earlier life of the agent.
    FormerLife,
}

/// What a report says beside its subject and time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) state: ProcessState,
    pub(crate) exit: Option<Exit>,
    pub(crate) message: String,
}

/// The report about `key`.
pub(crate) fn body(key: &WorkKey, outcome: Outcome, at_ms: u64) -> work_report::Body {
    let Outcome {
        state,
        exit,
        message,
    } = outcome;
    let message = cut(message);
    match key {
        WorkKey::Driver { driver_id, attempt } => work_report::Body::Driver(DriverChanged {
            driver_id: driver_id.clone(),
            attempt: *attempt,
            state: state.into(),
            exit,
            message,
            at_ms,
        }),
        WorkKey::Executor {
            app_id,
            executor_id,
        } => work_report::Body::Executor(ExecutorChanged {
            app_id: app_id.clone(),
            executor_id: *executor_id,
            state: state.into(),
            exit,
            message,
            at_ms,
        }),
    }
}

// === impl Outcome ===

impl Outcome {
    /// The process runs.
    pub(crate) fn running() -> Self {
        Self {
            state: ProcessState::Running,
            exit: None,
            message: String::new(),
        }
    }

    /// It could not be started, or was lost.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self {
            state: ProcessState::Failed,
            exit: None,
            message: message.into(),
        }
    }

    /// It was ended by an order before it ran.
    pub(crate) fn killed(message: impl Into<String>) -> Self {
        Self {
            state: ProcessState::Killed,
            exit: None,
            message: message.into(),
        }
    }

    /// How a process ended that was being ended for `reason` (if it was), by `cause`.
    pub(crate) fn of_end(
        key: &WorkKey,
        reason: Option<EndReason>,
        cause: EndCause,
        exit: Option<Exit>,
    ) -> Self {
        match (cause, reason) {
            // True whatever was ordered meanwhile: the program was faster.
            (EndCause::Itself, _) => Self {
                state: ProcessState::Exited,
                exit,
                message: String::new(),
            },
            (EndCause::LeaseOver, _) => Self {
                exit,
                ..Self::killed(EndReason::NoLeader.words())
            },
            (
                EndCause::Order | EndCause::SupervisorLost | EndCause::AgentGone,
                Some(reason @ (EndReason::Order | EndReason::Superseded | EndReason::NoLeader)),
            ) => Self {
                exit,
                ..Self::killed(reason.words())
            },
            (
                EndCause::Order | EndCause::SupervisorLost | EndCause::AgentGone,
                Some(reason @ (EndReason::AgentStops | EndReason::FormerLife)),
            ) => Self {
                exit,
                ..Self::lost(key, reason)
            },
            (EndCause::Order, None) => Self {
                exit,
                ..Self::failed("its supervisor was told to end")
            },
            (EndCause::SupervisorLost, None) => Self {
                exit,
                ..Self::failed("its supervisor process was killed; ended with it")
            },
            (EndCause::AgentGone, None) => Self {
                exit,
                ..Self::lost(key, EndReason::FormerLife)
            },
        }
    }

    /// Lost with the agent. A driver has failed, so that supervision starts it elsewhere; an executor was killed, so
    /// that it is replaced without counting against its application.
    pub(crate) fn lost(key: &WorkKey, reason: EndReason) -> Self {
        match key {
            WorkKey::Driver { .. } => Self::failed(reason.words()),
            WorkKey::Executor { .. } => Self::killed(reason.words()),
        }
    }
}

// === impl EndReason ===

impl EndReason {
    /// The reason for people.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Order => "killed by order",
            Self::Superseded => "superseded by a later attempt",
            Self::NoLeader => "stopped: no leader for the length of its lease; at most once",
            Self::AgentStops => "the agent was stopped",
            Self::FormerLife => "the agent was restarted",
        }
    }
}

fn cut(mut message: String) -> String {
    if message.len() > TEXT_BYTES_MAX {
        let end = message.floor_char_boundary(TEXT_BYTES_MAX - 4);
        message.truncate(end);
        message.push_str(" ...");
    }
    message
}
