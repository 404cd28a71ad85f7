//! How the cluster decides: limits, policies and waits. Becomes the core's [`ClusterConfig`].
//!
//! The defaults are the core's own; here they only get the names and forms of a file.

use std::time::Duration;

use interrex_core::{
    config::{ClusterConfig, WorkerSelection},
    resources::Cores,
};
use serde::{Deserialize, Serialize};

/// Limits, policies and waits. The same on every master, or a failover changes behaviour. The meaning of each
/// is told at [`ClusterConfig`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterOptions {
    /// Cores of an application that names no maximum. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_cores: Option<u32>,
    /// Drivers placed at the same time. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_drivers: Option<u32>,
    /// Percent of all alive workers' cores that drivers which ask for executors may hold together; 0: no limit.
    /// Default 50.
    pub driver_share_max: u32,
    /// Cores that one application may hold. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_cores_max: Option<u32>,
    /// Cores that one user's applications and drivers may hold together. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_cores_max: Option<u32>,
    /// Spread drivers over workers. Default true.
    pub spread_out_drivers: bool,
    /// Spread an application over workers. Default true.
    pub spread_out_apps: bool,
    /// Order of workers for executors, in Spark's words. Default `CORES_FREE_DESC`.
    pub worker_selection: Selection,
    /// Executor failures in a row after which an application fails; negative: never. Default 10.
    pub executor_failures_max: i64,
    /// An executor that ran this long ends its application's row of failures. Default 60 s.
    #[serde(with = "humantime_serde")]
    pub executor_stable_after: Duration,
    /// A worker that is silent for this long is dead. Default 20 s.
    #[serde(with = "humantime_serde")]
    pub worker_timeout: Duration,
    /// An agent ends its at-most-once attempts when no leader has answered it for this long. Default: half of
    /// `worker_timeout`.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub at_most_once_lease: Option<Duration>,
    /// An application whose session is away for this long is over. Default 10 s.
    #[serde(with = "humantime_serde")]
    pub app_timeout: Duration,
    /// After an election, what is known gets this long to answer. Default 20 s.
    #[serde(with = "humantime_serde")]
    pub recovery_timeout: Duration,
    /// Drivers that are over, kept for display. Default 1,000.
    pub retained_drivers: u32,
    /// Applications that are over, kept for display. Default 1,000.
    pub retained_apps: u32,
    /// What is over is forgotten after this in any case. Default 7 days.
    #[serde(with = "humantime_serde")]
    pub retained_for: Duration,
    /// A request id is remembered at least this long. Default 1 h.
    #[serde(with = "humantime_serde")]
    pub request_retention: Duration,
    /// Events kept. Default 10,000.
    pub retained_events: u32,
    /// A dead worker is shown for this long. Default 15 min.
    #[serde(with = "humantime_serde")]
    pub dead_worker_retention: Duration,
}

/// [`WorkerSelection`] in Spark's words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Selection {
    /// Most free cores first.
    #[default]
    CoresFreeDesc,
    /// Fewest free cores first.
    CoresFreeAsc,
    /// Most free memory first.
    MemoryFreeDesc,
    /// Least free memory first.
    MemoryFreeAsc,
    /// By id.
    WorkerId,
}

// === impl ClusterOptions ===

impl Default for ClusterOptions {
    fn default() -> Self {
        let core = ClusterConfig::default();
        Self {
            default_cores: core.default_cores.map(|cores| cores.0),
            max_drivers: core.max_drivers,
            driver_share_max: core.driver_share_max.unwrap_or(0),
            app_cores_max: core.app_cores_max.map(|cores| cores.0),
            user_cores_max: core.user_cores_max.map(|cores| cores.0),
            spread_out_drivers: core.spread_out_drivers,
            spread_out_apps: core.spread_out_apps,
            worker_selection: Selection::default(),
            executor_failures_max: core.executor_failures_max.map_or(-1, i64::from),
            executor_stable_after: core.executor_stable_after,
            worker_timeout: core.worker_timeout,
            at_most_once_lease: core.at_most_once_lease,
            app_timeout: core.app_timeout,
            recovery_timeout: core.recovery_timeout,
            retained_drivers: core.retained_drivers,
            retained_apps: core.retained_apps,
            retained_for: core.retained_for,
            request_retention: core.request_retention,
            retained_events: core.retained_events,
            dead_worker_retention: core.dead_worker_retention,
        }
    }
}

impl ClusterOptions {
    /// The same for the core; what a file cannot set stays at the core's default.
    #[must_use]
    pub fn to_core(&self) -> ClusterConfig {
        ClusterConfig {
            default_cores: self.default_cores.map(Cores),
            max_drivers: self.max_drivers,
            driver_share_max: Some(self.driver_share_max).filter(|percent| *percent > 0),
            app_cores_max: self.app_cores_max.map(Cores),
            user_cores_max: self.user_cores_max.map(Cores),
            spread_out_drivers: self.spread_out_drivers,
            spread_out_apps: self.spread_out_apps,
            worker_selection: self.worker_selection.into(),
            executor_failures_max: match self.executor_failures_max {
                ..0 => None,
                max => Some(u32::try_from(max).unwrap_or(u32::MAX)),
            },
            executor_stable_after: self.executor_stable_after,
            worker_timeout: self.worker_timeout,
            at_most_once_lease: self.at_most_once_lease,
            app_timeout: self.app_timeout,
            recovery_timeout: self.recovery_timeout,
            retained_drivers: self.retained_drivers,
            retained_apps: self.retained_apps,
            retained_for: self.retained_for,
            request_retention: self.request_retention,
            retained_events: self.retained_events,
            dead_worker_retention: self.dead_worker_retention,
            ..ClusterConfig::default()
        }
    }

    /// Adds every fault to `faults`: the core judges.
    pub(super) fn validate(&self, faults: &mut Vec<String>) {
        if let Err(found) = self.to_core().validate() {
            faults.extend(found.into_iter().map(|fault| format!("cluster.{fault}")));
        }
    }
}

// === impl Selection ===

impl From<Selection> for WorkerSelection {
    fn from(selection: Selection) -> Self {
        match selection {
            Selection::CoresFreeDesc => Self::CoresFreeDesc,
            Selection::CoresFreeAsc => Self::CoresFreeAsc,
            Selection::MemoryFreeDesc => Self::MemoryFreeDesc,
            Selection::MemoryFreeAsc => Self::MemoryFreeAsc,
            Selection::WorkerId => Self::WorkerId,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_cores() {
        assert_eq!(
            ClusterOptions::default().to_core(),
            ClusterConfig::default()
        );
    }

    #[test]
    fn a_negative_number_of_failures_means_never() {
        let options = ClusterOptions {
            executor_failures_max: -1,
            ..Default::default()
        };
        assert_eq!(options.to_core().executor_failures_max, None);
    }

    #[test]
    fn a_fault_has_the_name_of_its_section() {
        let mut faults = Vec::new();
        ClusterOptions {
            max_drivers: Some(0),
            ..Default::default()
        }
        .validate(&mut faults);
        assert_eq!(
            faults,
            ["cluster.max_drivers: 0; give at least 1, or leave it out for no limit"]
        );
    }
}
