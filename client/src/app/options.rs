//! What an application is started with.

use std::time::Duration;

use interrex_proto::{channel::ChannelOptions, limits, v1::ApplicationSpec};
use tokio_util::sync::CancellationToken;

use crate::{
    new_request_id,
    session::{SessionError, SessionOptions, SessionTimings},
};

/// Most events waiting for the application's reader.
pub const APP_EVENT_QUEUE_LEN: usize = 256;
/// Most commands waiting for the application's pump.
pub(super) const APP_MAILBOX_LEN: usize = 64;

/// An application that works on one event for a minute is rare enough to be looked at.
const PROGRESS_WITHIN: Duration = Duration::from_secs(60);
const PROGRESS_WITHIN_MIN: Duration = Duration::from_millis(100);

/// How an application is started.
#[derive(Debug, Clone)]
pub struct AppOptions {
    /// Addresses of the masters, as [`masters::parse`](crate::masters::parse) takes them. Name all of them.
    pub masters: Vec<String>,
    /// What the application asks for.
    pub spec: ApplicationSpec,
    /// Names this registration: the same id gets the same application. Default: a new UUID.
    pub request_id: String,
    /// How long to go on without any leader before the application is told that it is dead. Default: for ever.
    pub give_up_after: Option<Duration>,
    /// How long the application may stay away from its events before it is shown as `heartbeating, no progress`, which is
    /// all that comes of it. Default: a minute.
    pub progress_within: Duration,
    /// Ends the application without unregistering it. Default: a token of its own.
    pub shutdown: CancellationToken,
    /// Seed of the jitter. Default: random.
    pub seed: u64,
    /// Deadlines and back-off of the session.
    pub timings: SessionTimings,
    /// How connections are made and kept.
    pub channel: ChannelOptions,
}

/// Why an application cannot be started. Retrying does not help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppError {
    /// The session's options are bad.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The request id is empty or too long.
    #[error(
        "request_id has {bytes} bytes: give 1 to {} bytes",
        limits::NAME_BYTES_MAX
    )]
    RequestId {
        /// Its length.
        bytes: usize,
    },
    /// `give_up_after` is zero.
    #[error("give_up_after is zero: give a positive duration, or none to go on for ever")]
    ZeroGiveUp,
    /// `progress_within` is too short to be looked after.
    #[error("progress_within is {given:?}: give at least {PROGRESS_WITHIN_MIN:?}")]
    Progress {
        /// What was given.
        given: Duration,
    },
}

// === impl AppOptions ===

impl AppOptions {
    /// An application at `masters` that asks for `spec`; everything else at its default.
    #[must_use]
    pub fn new(masters: Vec<String>, spec: ApplicationSpec) -> Self {
        Self {
            masters,
            spec,
            request_id: new_request_id(),
            give_up_after: None,
            progress_within: PROGRESS_WITHIN,
            shutdown: CancellationToken::new(),
            seed: rand::random(),
            timings: SessionTimings::default(),
            channel: ChannelOptions::default(),
        }
    }

    pub(super) fn validate(&self) -> Result<(), AppError> {
        let bytes = self.request_id.len();
        if bytes == 0 || bytes > limits::NAME_BYTES_MAX {
            return Err(AppError::RequestId { bytes });
        }
        if self.give_up_after.is_some_and(|wait| wait.is_zero()) {
            return Err(AppError::ZeroGiveUp);
        }
        if self.progress_within < PROGRESS_WITHIN_MIN {
            let given = self.progress_within;
            return Err(AppError::Progress { given });
        }
        Ok(())
    }

    pub(super) fn session_options(&self) -> SessionOptions {
        SessionOptions {
            masters: self.masters.clone(),
            learnt: Vec::new(),
            seen: 0,
            seed: self.seed,
            timings: self.timings,
            channel: self.channel.clone(),
        }
    }
}
