//! What the whole cluster's caps are measured by, said once for the scheduler, for explanations and for the published
//! view. Numbers only: who is held is the scheduler's matter.

use crate::{config::ClusterConfig, resources::Cores};

/// What drivers that need executors hold together, and of how much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// Cores of workers that are alive and not being drained.
    pub cores_offered: u64,
    /// Drivers that need executors and hold resources.
    pub drivers: u64,
    /// Their cores.
    pub cores: u64,
}

// === impl Share ===

impl Share {
    /// What workers offer has changed.
    pub fn offer(&mut self, before: u64, after: u64) {
        self.cores_offered = self
            .cores_offered
            .saturating_sub(before)
            .saturating_add(after);
    }

    /// One more driver holds so much.
    pub fn add(&mut self, cores: Cores) {
        self.drivers = self.drivers.saturating_add(1);
        self.cores = self.cores.saturating_add(u64::from(cores.0));
    }

    /// A driver that held so much holds nothing any more.
    pub fn take(&mut self, cores: Cores) {
        self.drivers = self.drivers.saturating_sub(1);
        self.cores = self.cores.saturating_sub(u64::from(cores.0));
    }

    /// Cores that these drivers may hold together, rounded down; one of them may run in any case. `None`: no limit.
    #[must_use]
    pub fn max(&self, config: &ClusterConfig) -> Option<u64> {
        let percent = config.driver_share_max?;
        Some(self.cores_offered.saturating_mul(u64::from(percent)) / 100)
    }

    /// Whether one more driver may have so many cores.
    #[must_use]
    pub fn allows(&self, cores: u64, config: &ClusterConfig) -> bool {
        let then = self.cores.saturating_add(cores);
        self.drivers == 0 || self.max(config).is_none_or(|max| then <= max)
    }
}

// === impl ClusterConfig ===

impl ClusterConfig {
    /// Whether a user who holds `held` cores may have so many more.
    #[must_use]
    pub fn user_may_have(&self, held: u64, more: u64) -> bool {
        let then = held.saturating_add(more);
        self.user_cores_max
            .is_none_or(|max| then <= u64::from(max.0))
    }
}
