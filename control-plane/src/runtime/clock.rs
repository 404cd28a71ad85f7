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
        Self::starting_at(Timestamp(interrex_proto::clock::now_ms()))
    }

    /// A clock that shows `wall_at_start` now. From here on nothing but the monotonic clock moves it.
    fn starting_at(wall_at_start: Timestamp) -> Self {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_moves_with_the_monotonic_clock_whatever_the_wall_clock_shows() {
        // The wall clock of these tests runs on and shows another year; time that is paused does not.
        let clock = MonotonicClock::starting_at(Timestamp(1_000));
        assert_eq!(clock.now(), Timestamp(1_000));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(clock.now(), Timestamp(31_000));
        let deadline = Instant::now() + Duration::from_secs(5);
        assert_eq!(clock.at(deadline), Timestamp(36_000));
        assert_eq!(clock.at(clock.start), Timestamp(1_000));
    }
}
