//! Time for the machines: the wall clock at the start, and the monotonic clock from there.
//!
//! A stepped wall clock must not expire every worker at once, so it is read only once. The monotonic clock is
//! tokio's, which tests can pause.

use interrex_core::time::Timestamp;
use tokio::time::Instant;

/// A clock that never goes back and never jumps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MonotonicClock {
    wall_at_start: Timestamp,
    start: Instant,
}

// === impl MonotonicClock ===

impl MonotonicClock {
    pub(crate) fn start() -> Self {
        let wall_at_start = Timestamp(interrex_proto::clock::now_ms());
        Self {
            wall_at_start,
            start: Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.wall_at_start.plus(self.start.elapsed())
    }

    /// The time of `instant` by this clock; for deadlines.
    pub(crate) fn at(&self, instant: Instant) -> Timestamp {
        self.wall_at_start
            .plus(instant.saturating_duration_since(self.start))
    }
}
