//! Whether the master's loop still turns: written by the loop, read by `/livez` on another thread.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::Instant;

/// When the loop last turned.
#[derive(Debug)]
pub(crate) struct Pulse {
    start: Instant,
    last_ms: AtomicU64,
}

// === impl Pulse ===

impl Pulse {
    pub(crate) fn start() -> Self {
        Self {
            start: Instant::now(),
            last_ms: AtomicU64::new(0),
        }
    }

    /// The loop has turned.
    pub(crate) fn beat(&self) {
        let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(now, Ordering::Relaxed);
    }

    pub(crate) fn since_last(&self) -> Duration {
        let last = Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(last)
    }
}
