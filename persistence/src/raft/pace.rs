//! When a disk counts as slow, and when no longer. Pure: it is told once a second.

use std::time::Duration;

/// Seconds in a row, each with an append that took too long, after which the disk is slow.
const SLOW_SECONDS: u32 = 3;
/// Seconds in a row without one, after which it no longer is.
const CALM_SECONDS: u32 = 30;

/// The pace of one disk.
#[derive(Debug, Default)]
pub(super) struct Pace {
    slow: bool,
    /// Seconds in a row that speak against what `slow` says.
    against: u32,
}

// === impl Pace ===

impl Pace {
    /// The slowest append of the last second took this long; whether the disk is slow. A single slow second (a busy
    /// machine, a burst) changes nothing, and a disk that was slow has to prove itself.
    pub(super) fn second(&mut self, slowest: Duration, limit: Duration) -> bool {
        let too_long = slowest > limit;
        if too_long == self.slow {
            self.against = 0;
            return self.slow;
        }
        self.against += 1;
        let needed = if self.slow {
            CALM_SECONDS
        } else {
            SLOW_SECONDS
        };
        if self.against >= needed {
            self.slow = too_long;
            self.against = 0;
        }
        self.slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(500);

    #[test]
    fn a_disk_is_slow_after_three_slow_seconds_and_quick_after_thirty() {
        let mut pace = Pace::default();
        let (slow, quick) = (LIMIT * 2, LIMIT / 2);
        for second in [slow, slow, quick, slow, slow] {
            assert!(!pace.second(second, LIMIT));
        }
        assert!(pace.second(slow, LIMIT));
        for _ in 0..CALM_SECONDS - 1 {
            assert!(pace.second(quick, LIMIT));
        }
        assert!(pace.second(slow, LIMIT));
        for _ in 0..CALM_SECONDS - 1 {
            assert!(pace.second(quick, LIMIT));
        }
        assert!(!pace.second(quick, LIMIT));
    }
}
