//! The wall clock. Pumps read it and hand the value on; pure code takes time as an argument.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch; 0 where the clock stands before it.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the wall clock"
)]
pub fn now_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
