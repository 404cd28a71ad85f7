//! When the leader was last heard of, as a follower knows it.
//!
//! openraft keeps naming a leader until another term begins, and with pre-votes none begins while there is no quorum: the
//! last masters of a lost quorum would name a dead leader for ever, and call themselves ready. What must never happen: that
//! a busy machine takes a living leader for gone, so this is far longer than the leader's lease.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use super::options::RaftTiming;

/// So many of the longest election timeouts without a word from it, and a leader counts as unknown.
const TIMEOUTS: u32 = 4;

/// Written by the peer service with each append, read with each look at who leads.
#[derive(Debug)]
pub(super) struct Hearing {
    start: Instant,
    last_ms: AtomicU64,
}

// === impl Hearing ===

impl Hearing {
    /// Heard of just now, so that a start is no silence.
    pub(super) fn start() -> Self {
        Self {
            start: Instant::now(),
            last_ms: AtomicU64::new(0),
        }
    }

    /// A leader has sent something.
    pub(super) fn heard(&self) {
        self.last_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// Whether the silence is so long that nobody is to be sent to that leader.
    pub(super) fn is_silent(&self, timing: &RaftTiming) -> bool {
        let ago = self
            .now_ms()
            .saturating_sub(self.last_ms.load(Ordering::Relaxed));
        Duration::from_millis(ago) > timing.election_timeout_max.saturating_mul(TIMEOUTS)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_is_believed_in_for_some_timeouts_after_its_last_word() {
        let timing = RaftTiming::default();
        let long = timing.election_timeout_max * TIMEOUTS + Duration::from_secs(1);
        let start = Instant::now().checked_sub(long).unwrap();
        let hearing = Hearing {
            start,
            last_ms: AtomicU64::new(0),
        };
        assert!(hearing.is_silent(&timing));
        hearing.heard();
        assert!(!hearing.is_silent(&timing));
        assert!(!Hearing::start().is_silent(&timing));
    }
}
