//! An application with executors: register once, follow the leader, hear what happens to the executors.
//!
//! The owner of an [`AppHandle`] is the application's own program (Spark would call it the driver program). The
//! same request id goes into every registration, so however often it is sent there is one application; after a
//! failover the application attaches again under its id, and events that were missed are worked out from what the
//! leader knows and told once.

mod event;
mod handle;
mod options;
mod pump;
mod reader;
mod roster;
mod targets;

use tokio::sync::{mpsc, watch};

pub use event::{AppEnd, AppEvent, AppListener};
pub use handle::{AppHandle, RequestError, UnregisterError};
pub use options::{APP_EVENT_QUEUE_LEN, AppError, AppOptions};
pub use reader::AppEvents;
pub use targets::TargetError;

use crate::session::Session;

/// Starts applications.
#[derive(Debug)]
pub struct AppClient;

// === impl AppClient ===

impl AppClient {
    /// Registers the application and tells `listener` what happens, from a task of its own. Returns at once;
    /// [`AppHandle::connected`] waits for the registration.
    ///
    /// # Errors
    /// [`AppError`] when the options are bad; retrying does not help.
    ///
    /// # Panics
    /// When called outside a tokio runtime.
    pub fn start(
        options: AppOptions,
        mut listener: impl AppListener,
    ) -> Result<AppHandle, AppError> {
        let (handle, mut events) = Self::start_with_events(options)?;
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                event::tell(&mut listener, event);
            }
        });
        Ok(handle)
    }

    /// As [`AppClient::start`], with the events in a bounded queue. A reader that lags slows its own events
    /// only; a dropped receiver silences them. The application ends, without unregistering, when every handle
    /// is dropped.
    ///
    /// # Errors
    /// [`AppError`] when the options are bad; retrying does not help.
    ///
    /// # Panics
    /// When called outside a tokio runtime.
    pub fn start_with_events(options: AppOptions) -> Result<(AppHandle, AppEvents), AppError> {
        options.validate()?;
        let (session, session_events) =
            Session::spawn(options.session_options(), options.shutdown.child_token())?;
        let (commands, mailbox) = mpsc::channel(options::APP_MAILBOX_LEN);
        let (events, received) = mpsc::channel(APP_EVENT_QUEUE_LEN);
        let (received, reader) = AppEvents::new(received);
        let (app_id, app_id_seen) = watch::channel(None);
        let (end, end_seen) = watch::channel(None);
        let handle = AppHandle::new(commands, app_id_seen, end_seen);
        let channels = pump::Channels {
            session,
            session_events,
            mailbox,
            events,
            reader,
            app_id,
            end,
        };
        tokio::spawn(pump::AppPump::new(options, channels).run());
        Ok((handle, received))
    }
}
