//! What becomes of an application. Pure: an application and an event in, an application out.

use crate::{
    state::app::{Application, ApplicationState},
    time::Timestamp,
};

/// Something that happens to an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AppEvent {
    /// An executor of it has been placed.
    Placed,
    /// It said that it is done.
    Finished {
        /// In its words.
        message: String,
    },
    /// It said that it failed, too many of its executors did, or it was not heard of any more.
    Failed {
        /// Which of these.
        message: String,
    },
    /// It is to end.
    Killed {
        /// Why.
        message: String,
    },
}

/// What the event means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AppStep {
    /// The application is this now.
    Becomes(Box<Application>),
    /// Nothing new.
    Repeated,
    /// It is over: nothing changes.
    Refused,
}

// === impl Application ===

impl Application {
    /// What becomes of it.
    pub(crate) fn after(&self, event: AppEvent, now: Timestamp) -> AppStep {
        let running = match self.state {
            ApplicationState::Waiting => false,
            ApplicationState::Running => true,
            ApplicationState::Finished | ApplicationState::Failed | ApplicationState::Killed => {
                return AppStep::Refused;
            }
        };
        let next = match event {
            AppEvent::Placed if running => return AppStep::Repeated,
            AppEvent::Placed => Self {
                state: ApplicationState::Running,
                ..self.clone()
            },
            AppEvent::Finished { message } => self.ended(ApplicationState::Finished, message, now),
            AppEvent::Failed { message } => self.ended(ApplicationState::Failed, message, now),
            AppEvent::Killed { message } => self.ended(ApplicationState::Killed, message, now),
        };
        AppStep::Becomes(Box::new(next))
    }

    fn ended(&self, state: ApplicationState, message: String, at: Timestamp) -> Self {
        Self {
            state,
            finished_at: Some(at),
            message,
            not_before: None,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use super::*;
    use crate::ids::{ExecutorId, QueuePosition};

    fn app(state: ApplicationState) -> Application {
        Application {
            id: "a1".into(),
            request: "r1".into(),
            spec: Arc::default(),
            state,
            queue: QueuePosition(1),
            executors_wanted: None,
            profiles: BTreeMap::new(),
            next_executor: ExecutorId(0),
            executors_completed: 0,
            executor_failures: 0,
            registered_at: Timestamp(1),
            finished_at: None,
            message: String::new(),
            not_before: Some(Timestamp(5)),
        }
    }

    #[test]
    fn every_event_in_every_state() {
        let step = |state, event| match app(state).after(event, Timestamp(9)) {
            AppStep::Becomes(next) => next.state.name(),
            AppStep::Repeated => "repeated",
            AppStep::Refused => "refused",
        };
        let events = || {
            let message = String::new();
            [
                AppEvent::Placed,
                AppEvent::Finished {
                    message: message.clone(),
                },
                AppEvent::Failed {
                    message: message.clone(),
                },
                AppEvent::Killed { message },
            ]
        };
        let over = ["refused"; 4];
        let table = [
            (
                ApplicationState::Waiting,
                ["RUNNING", "FINISHED", "FAILED", "KILLED"],
            ),
            (
                ApplicationState::Running,
                ["repeated", "FINISHED", "FAILED", "KILLED"],
            ),
            (ApplicationState::Finished, over),
            (ApplicationState::Failed, over),
            (ApplicationState::Killed, over),
        ];
        for (state, outcomes) in table {
            assert_eq!(
                events().map(|event| step(state, event)),
                outcomes,
                "{state:?}"
            );
        }
    }

    #[test]
    fn an_end_is_dated_and_takes_every_wait_away() {
        let message = "bye".to_owned();
        let AppStep::Becomes(ended) =
            app(ApplicationState::Running).after(AppEvent::Finished { message }, Timestamp(9))
        else {
            panic!("it is not over")
        };
        assert_eq!(ended.finished_at, Some(Timestamp(9)));
        assert_eq!((ended.message.as_str(), ended.not_before), ("bye", None));
    }
}
