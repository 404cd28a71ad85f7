//! What a control client is given, with defaults.

use std::time::Duration;

use interrex_proto::{channel::ChannelOptions, limits};

use crate::{
    backoff::{Backoff, BackoffError},
    masters::{self, MastersError},
};

/// How calls are made. Build it with [`ClientOptions::new`] and change what differs.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Addresses of the masters, as [`masters::parse`] takes them.
    pub masters: Vec<String>,
    /// How long one attempt at one master may take. Default 5 s.
    pub call_timeout: Duration,
    /// How long a call may take with all its attempts and waits. Default 30 s.
    pub total_deadline: Duration,
    /// How long to wait for a master's answer before another is asked as well, where that is safe. Default 0.3 s.
    pub hedge_after: Duration,
    /// First wait when no master could answer. Default 25 ms, jittered.
    pub backoff_min: Duration,
    /// Longest wait when no master could answer. Default 0.1 s, jittered: short against an election, and still only
    /// some thirty questions a second while there is no leader.
    pub backoff_max: Duration,
    /// How long a master that did not answer is tried last. Default 5 s.
    pub suspect_for: Duration,
    /// How long [`wait`](super::ControlClient::wait) goes on while no master can be asked. Default 10 minutes.
    pub outage_max: Duration,
    /// Seed of the jitter. Default: random.
    pub seed: u64,
    /// How connections are made and kept.
    pub channel: ChannelOptions,
}

/// Why a control client cannot be built. Retrying does not help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// The list of masters is bad.
    #[error(transparent)]
    Masters(#[from] MastersError),
    /// The bounds of the back-off are bad.
    #[error(transparent)]
    Backoff(#[from] BackoffError),
    /// A deadline is zero.
    #[error("client option `{0}` is zero: give a positive duration")]
    Zero(&'static str),
}

// === impl ClientOptions ===

impl ClientOptions {
    /// Calls to `masters`, everything else at its default.
    #[must_use]
    pub fn new(masters: Vec<String>) -> Self {
        Self {
            masters,
            call_timeout: limits::CALL_TIMEOUT,
            total_deadline: Duration::from_secs(30),
            hedge_after: Duration::from_millis(300),
            backoff_min: Duration::from_millis(25),
            backoff_max: Duration::from_millis(100),
            suspect_for: Duration::from_secs(5),
            outage_max: Duration::from_mins(10),
            seed: rand::random(),
            channel: ChannelOptions::default(),
        }
    }

    /// The addresses and the back-off, checked.
    pub(super) fn validate(&self) -> Result<(Vec<String>, Backoff), OptionsError> {
        for (name, value) in [
            ("call_timeout", self.call_timeout),
            ("total_deadline", self.total_deadline),
            ("hedge_after", self.hedge_after),
        ] {
            if value.is_zero() {
                return Err(OptionsError::Zero(name));
            }
        }
        let backoff = Backoff::new(self.backoff_min, self.backoff_max)?;
        Ok((masters::parse(&self.masters)?, backoff))
    }
}
