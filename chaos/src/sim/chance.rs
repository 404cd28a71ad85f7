//! Randomness from one seed. Everything that is not decided by the machines is decided here, so that a seed repeats a
//! world bit for bit.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};

/// The world's dice.
#[derive(Debug)]
pub(crate) struct Chance {
    rng: StdRng,
}

// === impl Chance ===

impl Chance {
    /// The dice of a seed.
    #[must_use]
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            rng: StdRng::seed_from_u64(seed),
        }
    }

    /// True in `percent` of all cases.
    pub(crate) fn percent(&mut self, percent: f64) -> bool {
        self.rng.random::<f64>() * 100.0 < percent
    }

    /// A number from `from` to `to`, both included.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        self.rng.random_range(from..=to.max(from))
    }

    /// An index below `len`; 0 if there is none.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.rng.random_range(0..len.max(1))
    }

    /// A time between two, to the microsecond.
    pub(crate) fn time(&mut self, from: Duration, to: Duration) -> Duration {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.between(micros(from), micros(to)))
    }

    /// A seed for somebody who has dice of their own.
    pub(crate) fn seed(&mut self) -> u64 {
        self.rng.random()
    }
}
