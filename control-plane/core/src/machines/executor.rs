//! What becomes of an executor, and what its end means for its application. Pure.

use std::time::Duration;

use crate::{
    command::ProcessChange,
    state::{
        driver::Exit,
        executor::{Executor, ExecutorState},
    },
    time::Timestamp,
};

/// Something that happens to an executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExecutorEvent {
    /// Its worker says so.
    Reported(ProcessChange),
    /// Its worker is dead, or does not have it any more.
    Lost {
        /// Why, for people.
        reason: String,
    },
    /// It is to end.
    KillRequested {
        /// Why, for people.
        reason: String,
    },
    /// Its worker is being drained.
    Drained {
        /// Why, for people.
        reason: String,
    },
}

/// What the event means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExecutorStep {
    /// The executor is this now.
    Becomes(Box<Executor>),
    /// Nothing new.
    Repeated,
    /// It is over.
    Stale,
}

/// What an executor's end means for its application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It did what it was to do.
    Completed,
    /// It counts as a failure.
    Failure,
    /// Its worker ended it unasked.
    Unasked,
    /// Nobody's fault.
    Neutral,
}

// === impl Executor ===

impl Executor {
    /// What becomes of it.
    pub(crate) fn after(&self, event: ExecutorEvent, at: Timestamp) -> ExecutorStep {
        match self.state {
            ExecutorState::Launching
            | ExecutorState::Running
            | ExecutorState::Killing
            | ExecutorState::Decommissioned => self.after_active(event, at),
            ExecutorState::Killed
            | ExecutorState::Failed
            | ExecutorState::Lost
            | ExecutorState::Exited => ExecutorStep::Stale,
        }
    }

    fn after_active(&self, event: ExecutorEvent, at: Timestamp) -> ExecutorStep {
        let killing = self.state == ExecutorState::Killing;
        let next = match event {
            ExecutorEvent::Reported(ProcessChange::Running) => {
                if self.started_at.is_some() {
                    return ExecutorStep::Repeated;
                }
                let state = if self.state == ExecutorState::Launching {
                    ExecutorState::Running
                } else {
                    self.state
                };
                Self {
                    state,
                    started_at: Some(at),
                    ..self.clone()
                }
            }
            ExecutorEvent::Reported(ProcessChange::Exited(exit)) => {
                let by_itself = !killing || exit.code == Some(0);
                let state = if by_itself {
                    ExecutorState::Exited
                } else {
                    ExecutorState::Killed
                };
                self.ended(state, Some(exit), at, exit.describe())
            }
            ExecutorEvent::Reported(ProcessChange::Killed(exit)) => {
                let message = if killing {
                    self.message.clone()
                } else {
                    "ended by its worker".to_owned()
                };
                self.ended(ExecutorState::Killed, Some(exit), at, message)
            }
            ExecutorEvent::Reported(ProcessChange::Failed(message)) => {
                let state = if killing {
                    ExecutorState::Killed
                } else {
                    ExecutorState::Failed
                };
                self.ended(state, None, at, message)
            }
            ExecutorEvent::Lost { reason } => {
                self.ended(ExecutorState::Lost, None, at, format!("lost: {reason}"))
            }
            ExecutorEvent::KillRequested { reason } => {
                if killing {
                    return ExecutorStep::Repeated;
                }
                Self {
                    state: ExecutorState::Killing,
                    message: reason,
                    ..self.clone()
                }
            }
            ExecutorEvent::Drained { reason } => {
                if !self.state.is_wanted() {
                    return ExecutorStep::Repeated;
                }
                Self {
                    state: ExecutorState::Decommissioned,
                    drained: true,
                    message: reason,
                    ..self.clone()
                }
            }
        };
        ExecutorStep::Becomes(Box::new(next))
    }

    /// Over, for good.
    pub(crate) fn ended(
        &self,
        state: ExecutorState,
        exit: Option<Exit>,
        at: Timestamp,
        message: String,
    ) -> Self {
        Self {
            state,
            exit,
            message,
            finished_at: Some(at),
            ..self.clone()
        }
    }

    /// What the end of this executor (`self` is how it was before) means for its application.
    pub(crate) fn ending(&self, after: &Self) -> Ending {
        match after.state {
            ExecutorState::Exited if after.exit.and_then(|exit| exit.code) == Some(0) => {
                Ending::Completed
            }
            ExecutorState::Exited | ExecutorState::Failed | ExecutorState::Killed
                if self.drained =>
            {
                Ending::Neutral
            }
            ExecutorState::Exited | ExecutorState::Failed => Ending::Failure,
            ExecutorState::Killed if self.state != ExecutorState::Killing => Ending::Unasked,
            ExecutorState::Killed
            | ExecutorState::Lost
            | ExecutorState::Launching
            | ExecutorState::Running
            | ExecutorState::Killing
            | ExecutorState::Decommissioned => Ending::Neutral,
        }
    }

    /// How long it ran, as far as is known.
    pub(crate) fn ran(&self) -> Duration {
        match (self.started_at, self.finished_at) {
            (Some(started), Some(finished)) => finished.since(started),
            (Some(_) | None, Some(_) | None) => Duration::ZERO,
        }
    }
}

#[cfg(test)]
#[path = "executor_test.rs"]
mod tests;
