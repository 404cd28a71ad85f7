//! Exponential back-off with jitter. Randomness comes from a seed, so a run can be repeated; time is the
//! caller's matter.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};

/// Doubles the delay at each failure, from `min` up to `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    min: Duration,
    max: Duration,
}

/// Why a back-off cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackoffError {
    /// A delay of zero would turn retries into a busy loop.
    #[error("back-off minimum is zero: give a positive duration, such as 100ms")]
    ZeroMinimum,
    /// The bounds are in the wrong order.
    #[error(
        "back-off maximum {max:?} is below its minimum {min:?}: swap them or raise the maximum"
    )]
    MaximumBelowMinimum {
        /// The minimum that was given.
        min: Duration,
        /// The maximum that was given.
        max: Duration,
    },
}

/// A seeded source of jitter: the same seed gives the same delays.
#[derive(Debug)]
pub struct Jitter(StdRng);

// === impl Backoff ===

impl Backoff {
    /// A back-off between `min` and `max`.
    ///
    /// # Errors
    /// [`BackoffError`] when `min` is zero or `max` is smaller than `min`.
    pub fn new(min: Duration, max: Duration) -> Result<Self, BackoffError> {
        if min.is_zero() {
            return Err(BackoffError::ZeroMinimum);
        }
        if max < min {
            return Err(BackoffError::MaximumBelowMinimum { min, max });
        }
        Ok(Self { min, max })
    }

    /// The longest delay.
    #[must_use]
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The delay after `failures` failures in a row (0 is the first wait): between half of
    /// `min * 2^failures` and all of it, and never above `max`.
    pub fn delay(&self, failures: u32, jitter: &mut Jitter) -> Duration {
        let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
        let full = self.min.saturating_mul(factor).min(self.max);
        jitter.between(full / 2, full)
    }
}

// === impl Jitter ===

impl Jitter {
    /// Jitter that depends on `seed` alone.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// A duration in `low..=high`; `low` where the bounds are equal or reversed.
    pub fn between(&mut self, low: Duration, high: Duration) -> Duration {
        if low >= high {
            low
        } else {
            self.0.random_range(low..=high)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Duration = Duration::from_millis(100);
    const MAX: Duration = Duration::from_secs(5);

    #[test]
    fn delays_grow_to_the_maximum_and_never_beyond() {
        let backoff = Backoff::new(MIN, MAX).unwrap();
        let mut jitter = Jitter::from_seed(1);
        for failures in 0..100 {
            let delay = backoff.delay(failures, &mut jitter);
            assert!(delay <= MAX, "{failures}: {delay:?}");
            assert!(delay >= MIN / 2, "{failures}: {delay:?}");
        }
        assert!(backoff.delay(0, &mut jitter) <= MIN);
        assert!(backoff.delay(50, &mut jitter) >= MAX / 2);
    }

    #[test]
    fn the_same_seed_gives_the_same_delays() {
        let backoff = Backoff::new(MIN, MAX).unwrap();
        let delays = |seed| {
            let mut jitter = Jitter::from_seed(seed);
            (0..8)
                .map(|n| backoff.delay(n, &mut jitter))
                .collect::<Vec<_>>()
        };
        assert_eq!(delays(7), delays(7));
        assert_ne!(delays(7), delays(8));
    }

    #[test]
    fn impossible_bounds_are_refused_by_name() {
        assert_eq!(
            Backoff::new(Duration::ZERO, MAX),
            Err(BackoffError::ZeroMinimum)
        );
        let error = Backoff::new(MAX, MIN).unwrap_err();
        assert_eq!(
            error,
            BackoffError::MaximumBelowMinimum { min: MAX, max: MIN }
        );
    }
}
