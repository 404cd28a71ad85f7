//! The application's side: commands to the task that owns it, and waiting for what comes of them.

use std::time::Duration;

use interrex_proto::v1::ExecutorTarget;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};

use super::{event::AppEnd, targets::TargetError};

/// Commands one application. Clones share it; it ends, without unregistering, when the last is dropped.
#[derive(Debug, Clone)]
pub struct AppHandle {
    commands: mpsc::Sender<AppCommand>,
    app_id: watch::Receiver<Option<String>>,
    end: watch::Receiver<Option<AppEnd>>,
}

/// Why a request of an application was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No leader has taken the application yet: [`AppHandle::connected`] waits for that.
    #[error("the application is not registered yet")]
    NotRegistered,
    /// [`AppHandle::wait`] says how it ended.
    #[error("the application is over")]
    Over,
    /// A total that no leader would take.
    #[error(transparent)]
    Target(#[from] TargetError),
}

/// Why an application was not unregistered as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnregisterError {
    /// No leader has confirmed it in time. Repeating it does no harm; without it the cluster ends the application
    /// some time after its stream is gone.
    #[error("no master has confirmed within {waited:?} that the application is unregistered")]
    Unconfirmed {
        /// The deadline that passed.
        waited: Duration,
    },
    /// It had ended in another way before.
    #[error("the application had ended before: {0:?}")]
    Over(AppEnd),
}

#[derive(Debug)]
pub(super) enum AppCommand {
    RequestExecutors {
        targets: Vec<ExecutorTarget>,
        taken: oneshot::Sender<Result<(), TargetError>>,
    },
    KillExecutors {
        ids: Vec<u32>,
        /// Lower the totals by as many first.
        replace: bool,
    },
    Unregister {
        failed: bool,
        message: String,
    },
    GiveUpUnregistering,
}

// === impl AppHandle ===

impl AppHandle {
    pub(super) fn new(
        commands: mpsc::Sender<AppCommand>,
        app_id: watch::Receiver<Option<String>>,
        end: watch::Receiver<Option<AppEnd>>,
    ) -> Self {
        Self {
            commands,
            app_id,
            end,
        }
    }

    /// The application's id, once a leader has given it one.
    #[must_use]
    pub fn app_id(&self) -> Option<String> {
        self.app_id.borrow().clone()
    }

    /// Waits until a leader has taken the application for the first time; returns its id.
    ///
    /// # Errors
    /// The way the application ended, when it ended first.
    ///
    /// # Cancel safety
    /// Only waits.
    pub async fn connected(&self) -> Result<String, AppEnd> {
        let mut app_id = self.app_id.clone();
        let known = app_id
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|id| id.clone());
        match known {
            Some(app_id) => Ok(app_id),
            None => Err(self.wait().await),
        }
    }

    /// Sets the total of executors wanted from now on, of the application's own description. It is kept and told to
    /// every later leader; lowering it kills nothing.
    ///
    /// # Errors
    /// [`RequestError`], at once: before a leader has taken the application, after its end, or for an absurd total.
    ///
    /// # Cancel safety
    /// A call dropped after its first poll may have taken effect.
    pub async fn request_executors(&self, total: u32) -> Result<(), RequestError> {
        let own = ExecutorTarget {
            profile_id: 0,
            profile: None,
            total,
        };
        self.request_targets(vec![own]).await
    }

    /// As [`Self::request_executors`] for several resource profiles at once: all of them are taken, or none. A profile
    /// must be described the first time that it is named; one that is not named keeps its total.
    ///
    /// # Errors
    /// [`RequestError`], at once; its [`TargetError`] names the profile.
    ///
    /// # Cancel safety
    /// A call dropped after its first poll may have taken effect.
    pub async fn request_targets(&self, targets: Vec<ExecutorTarget>) -> Result<(), RequestError> {
        let (taken, answer) = oneshot::channel();
        self.request(AppCommand::RequestExecutors { targets, taken })
            .await?;
        answer
            .await
            .map_err(|_gone| RequestError::Over)?
            .map_err(RequestError::from)
    }

    /// Ends executors; others are started in their place, as far as the totals ask for them. Told again to later
    /// leaders until each of them is over. What the application does not have is left out.
    ///
    /// # Errors
    /// [`RequestError`], at once.
    ///
    /// # Cancel safety
    /// A call dropped before it returns has had no effect.
    pub async fn kill_executors(&self, ids: Vec<u32>) -> Result<(), RequestError> {
        let replace = true;
        self.request(AppCommand::KillExecutors { ids, replace })
            .await
    }

    /// Ends executors for good: lowers the totals of their profiles by as many, then kills as
    /// [`Self::kill_executors`] does. (Spark's scheduler back end does so when an executor is idle.)
    ///
    /// # Errors
    /// [`RequestError`], at once.
    ///
    /// # Cancel safety
    /// A call dropped before it returns has had no effect.
    pub async fn release_executors(&self, ids: Vec<u32>) -> Result<(), RequestError> {
        let replace = false;
        self.request(AppCommand::KillExecutors { ids, replace })
            .await
    }

    /// Ends the application in the cluster and waits for the confirmation, through failovers, for at most
    /// `deadline`. The session is closed in either case, and events that nobody reads may be dropped.
    ///
    /// # Errors
    /// [`UnregisterError`].
    ///
    /// # Cancel safety
    /// A call dropped after its first poll may have unregistered the application.
    pub async fn unregister(
        &self,
        failed: bool,
        message: impl Into<String>,
        deadline: Duration,
    ) -> Result<(), UnregisterError> {
        let command = AppCommand::Unregister {
            failed,
            message: message.into(),
        };
        let asked_and_over = async {
            // A closed mailbox means that it is over already: `wait` says how.
            self.command(command).await.unwrap_or_default();
            self.wait().await
        };
        match timeout(deadline, asked_and_over).await {
            Ok(AppEnd::Unregistered { confirmed: true }) => Ok(()),
            Ok(AppEnd::Unregistered { confirmed: false }) => {
                Err(UnregisterError::Unconfirmed { waited: deadline })
            }
            Ok(end @ (AppEnd::Finished { .. } | AppEnd::Dead { .. } | AppEnd::Closed)) => {
                Err(UnregisterError::Over(end))
            }
            Err(_) => {
                self.command(AppCommand::GiveUpUnregistering)
                    .await
                    .unwrap_or_default();
                Err(UnregisterError::Unconfirmed { waited: deadline })
            }
        }
    }

    /// Waits until the application is over, however it ends. No deadline of its own.
    ///
    /// # Cancel safety
    /// Only waits.
    pub async fn wait(&self) -> AppEnd {
        let mut end = self.end.clone();
        // The sender is gone without a word only when the runtime is being shut down.
        let known = end
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|end| end.clone());
        known.unwrap_or(AppEnd::Closed)
    }

    /// Nothing is kept for a registration that may never come: the caller learns at once that it is too early.
    async fn request(&self, command: AppCommand) -> Result<(), RequestError> {
        if self.end.borrow().is_some() {
            return Err(RequestError::Over);
        }
        if self.app_id.borrow().is_none() {
            return Err(RequestError::NotRegistered);
        }
        self.command(command).await
    }

    async fn command(&self, command: AppCommand) -> Result<(), RequestError> {
        self.commands
            .send(command)
            .await
            .map_err(|_closed| RequestError::Over)
    }
}
