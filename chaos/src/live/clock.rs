//! The clock of a live run: microseconds since it began, the same in every process of the machine.
//!
//! Histories of several processes are put together by time, so all of them read the kernel's clock since boot, which no
//! step of the wall clock moves. Logs have the wall clock only: [`Clock::of_wall`] brings it over.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

/// Microseconds since the machine started. It cannot fail on any kernel that Rust programs run on.
#[must_use]
pub fn since_boot_us() -> u64 {
    micros(read(ClockId::CLOCK_BOOTTIME))
}

/// When a run began, by two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    boot_us: u64,
    wall_us: u64,
}

// === impl Clock ===

impl Clock {
    /// A run that begins now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            boot_us: since_boot_us(),
            wall_us: micros(read(ClockId::CLOCK_REALTIME)),
        }
    }

    /// A run that began at that many microseconds since boot, as another process says.
    #[must_use]
    pub fn began_at(boot_us: u64) -> Self {
        Self {
            boot_us,
            wall_us: 0,
        }
    }

    /// When it began, in microseconds since boot: for other processes.
    #[must_use]
    pub fn began_us(&self) -> u64 {
        self.boot_us
    }

    /// Microseconds of the run until now.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.of_boot(since_boot_us())
    }

    /// The same of an instant of the clock since boot; 0 for what was before.
    #[must_use]
    pub fn of_boot(&self, boot_us: u64) -> u64 {
        boot_us.saturating_sub(self.boot_us)
    }

    /// The same of an instant of the wall clock.
    #[must_use]
    pub fn of_wall(&self, at: SystemTime) -> u64 {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        micros(since).saturating_sub(self.wall_us)
    }
}

fn read(clock: ClockId) -> Duration {
    clock_gettime(clock).map(Duration::from).unwrap_or_default()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_on_and_another_process_agrees() {
        let clock = Clock::start();
        let other = Clock::began_at(clock.began_us());
        let before = clock.now();
        let there = other.now();
        assert!(before <= there && there <= clock.now());
    }

    #[test]
    fn what_was_before_the_run_is_its_beginning() {
        let clock = Clock::start();
        assert_eq!(clock.of_boot(0), 0);
        assert_eq!(clock.of_wall(UNIX_EPOCH), 0);
    }
}
