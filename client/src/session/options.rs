//! What a session is given, with defaults and bounds.

use std::time::Duration;

use interrex_proto::{channel::ChannelOptions, limits};

use crate::{backoff::BackoffError, masters::MastersError};

/// Most masters learnt from hints and from the leader, beside those in the list.
pub const LEARNT_MASTERS_MAX: usize = 16;
/// How often in a row dialling a learnt master may fail before its address is forgotten, unless the leader's newest
/// list names it.
pub const LEARNT_FAILURES_MAX: u32 = 20;
/// Most frames waiting to be written to one stream; beyond that a send is answered `Busy`.
pub const STREAM_QUEUE_LEN: usize = 256;
/// Most frames read from all streams and not yet handled; beyond that the streams are not read.
pub const INBOUND_QUEUE_LEN: usize = 256;
/// Most commands of the role waiting for the session.
pub const MAILBOX_LEN: usize = 256;
/// Most events waiting for the role; beyond that the streams are not read.
pub const EVENT_QUEUE_LEN: usize = 256;

/// How a session is opened.
#[derive(Debug, Clone, Default)]
pub struct SessionOptions {
    /// Addresses of the masters: `host:port`, or lists as [`masters::parse`](crate::masters::parse) takes them.
    pub masters: Vec<String>,
    /// Addresses that a leader named in an earlier life (an agent keeps them on disk), dialled as well; those beyond
    /// [`LEARNT_MASTERS_MAX`], or that are no `host:port`, are left out.
    pub learnt: Vec<String>,
    /// The largest epoch observed before (an agent keeps it on disk); 0 at the first start.
    pub seen: u64,
    /// Seed of the jitter; different in each process, so that peers do not move in step.
    pub seed: u64,
    /// Deadlines and back-off.
    pub timings: SessionTimings,
    /// How connections are made and kept.
    pub channel: ChannelOptions,
}

/// Every wait of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionTimings {
    /// How long opening a stream may take. Default: twice the connect timeout.
    pub open_timeout: Duration,
    /// How long a registration may stay unanswered before its stream is closed and dialled again. Default 5 s.
    pub registration_timeout: Duration,
    /// How often a peer without a leader registers again on the open streams of standbys, in case an
    /// announcement was lost. Default 5 s, jittered.
    pub registration_interval: Duration,
    /// First wait before a lost stream is dialled again. Default 0.1 s, jittered.
    pub redial_min: Duration,
    /// Longest wait before a lost stream is dialled again. Default 5 s, jittered.
    pub redial_max: Duration,
    /// How long an orderly close waits for queued frames to be written. Default 1 s.
    pub close_timeout: Duration,
}

/// Why a session cannot be opened. Retrying does not help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The list of masters is bad.
    #[error(transparent)]
    Masters(#[from] MastersError),
    /// The redial bounds are bad.
    #[error("redial: {0}")]
    Redial(#[from] BackoffError),
    /// A deadline is zero.
    #[error("session timing `{0}` is zero: give a positive duration")]
    ZeroTiming(&'static str),
}

// === impl SessionTimings ===

impl Default for SessionTimings {
    fn default() -> Self {
        Self {
            open_timeout: limits::CONNECT_TIMEOUT * 2,
            registration_timeout: Duration::from_secs(5),
            registration_interval: Duration::from_secs(5),
            redial_min: Duration::from_millis(100),
            redial_max: Duration::from_secs(5),
            close_timeout: Duration::from_secs(1),
        }
    }
}

impl SessionTimings {
    pub(crate) fn validate(&self) -> Result<(), SessionError> {
        for (name, value) in [
            ("open_timeout", self.open_timeout),
            ("registration_timeout", self.registration_timeout),
            ("registration_interval", self.registration_interval),
            ("close_timeout", self.close_timeout),
        ] {
            if value.is_zero() {
                return Err(SessionError::ZeroTiming(name));
            }
        }
        Ok(())
    }
}
