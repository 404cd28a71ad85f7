//! The clock of leases: time since the machine started, its suspensions included.
//!
//! A lease promises something to other machines, so it must run out while this one sleeps; `Instant` stands still then.
//! All processes of a machine read the same clock, so an instant of it can be handed to another process as it is: a
//! message that was held up on its way gives nobody more time. Read by the pump and by supervisors, never by machines.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// The time since the machine started. It cannot fail on any kernel that Rust programs run on.
pub(crate) fn since_boot() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME)
        .map(Duration::from)
        .unwrap_or_default()
}
