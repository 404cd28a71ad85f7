//! The application's side: commands to the task that owns it, and waiting for what comes of them.

use std::time::Duration;

use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

use super::event::AppEnd;

/// Commands one application. Clones share it; it ends, without unregistering, when the last is dropped.
#[derive(Debug, Clone)]
pub struct AppHandle {
    commands: mpsc::Sender<AppCommand>,
    app_id: watch::Receiver<Option<String>>,
    end: watch::Receiver<Option<AppEnd>>,
}

/// The application is over; [`AppHandle::wait`] says how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the application is over")]
pub struct AppClosed;

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
    RequestExecutors { total: u32 },
    KillExecutors { ids: Vec<u32> },
    Unregister { failed: bool, message: String },
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

    /// Sets the total of executors wanted from now on. It is kept and told to every later leader; lowering it
    /// kills nothing.
    ///
    /// # Errors
    /// [`AppClosed`].
    ///
    /// # Cancel safety
    /// A call dropped before it returns has had no effect.
    pub async fn request_executors(&self, total: u32) -> Result<(), AppClosed> {
        self.command(AppCommand::RequestExecutors { total }).await
    }

    /// Ends executors. Told again to later leaders until each of them is over.
    ///
    /// # Errors
    /// [`AppClosed`].
    ///
    /// # Cancel safety
    /// A call dropped before it returns has had no effect.
    pub async fn kill_executors(&self, ids: Vec<u32>) -> Result<(), AppClosed> {
        self.command(AppCommand::KillExecutors { ids }).await
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

    async fn command(&self, command: AppCommand) -> Result<(), AppClosed> {
        self.commands
            .send(command)
            .await
            .map_err(|_closed| AppClosed)
    }
}
