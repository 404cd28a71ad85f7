//! How the cluster decides: limits, policies and waits. One struct, one place for the defaults.

use std::time::Duration;

use crate::resources::Cores;

/// Executors that one application can have at a time, whatever it asks for: all of them are told to it in one
/// message when it attaches.
pub const EXECUTORS_PER_APP_MAX: u64 = 10_000;

/// The largest total of executors of one profile that can be asked for.
pub const EXECUTORS_WANTED_MAX: u32 = 1_000_000;

/// Resource profiles of one application, besides its own description: all of them are part of its record, which is
/// written whenever it gets an executor.
pub const PROFILES_PER_APP_MAX: usize = 100;

/// In which order workers are tried for executors (Spark: `spark.deploy.workerSelectionPolicy`).
/// Descending orders are the ascending ones reversed, so equal workers come in descending id order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkerSelection {
    /// Most free cores first. Spark's default.
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

/// Limits, policies and waits of a cluster. The same on every master, or a failover changes behaviour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Cores of an application that names no maximum; `None`: no limit. Default `None`
    /// (Spark: `spark.deploy.defaultCores`).
    pub default_cores: Option<Cores>,
    /// Drivers placed at the same time; `None`: no limit. Default `None` (Spark: `spark.deploy.maxDrivers`).
    pub max_drivers: Option<u32>,
    /// Share, in percent, of the cores of all alive workers that drivers with `needs_executors` may hold together, so that
    /// drivers cannot starve their own applications (SPARK-27750); `None`: no limit. At least one such driver may
    /// always run. Default 50.
    pub driver_share_max: Option<u32>,
    /// Cores that one application may hold, whatever it asks for; `None`: no limit. Default `None`.
    pub app_cores_max: Option<Cores>,
    /// Cores that the applications and drivers of one user may hold together; `None`: no limit. Default `None`.
    pub user_cores_max: Option<Cores>,
    /// Spread drivers over workers, round robin by worker id; otherwise the first that fits by id. Default true.
    /// Spark shuffles the workers at each pass instead; a fixed order gives the same spread and can be replayed.
    pub spread_out_drivers: bool,
    /// Spread an application over workers; otherwise fill them one by one. Default true.
    pub spread_out_apps: bool,
    /// Order of workers for executors. Default: most free cores first.
    pub worker_selection: WorkerSelection,
    /// Executor failures in a row after which an application with no running executor fails; `None`: never.
    /// Default 10 (Spark: `spark.deploy.maxExecutorRetries`).
    pub executor_failures_max: Option<u32>,
    /// An executor that ran this long ends its application's row of failures. Default 60 s. (In Spark the mere
    /// fork ends it, so a crash loop runs for ever.)
    pub executor_stable_after: Duration,
    /// A driver that ran this long starts its back-off anew when it fails. Default 60 s.
    pub driver_stable_after: Duration,
    /// The shortest wait before something that failed is started again; doubles with each failure in a row.
    /// Default 1 s.
    pub relaunch_backoff_min: Duration,
    /// The longest such wait of a driver. Default 60 s.
    pub driver_backoff_max: Duration,
    /// The longest such wait of an application's executors. Default 30 s.
    pub executor_backoff_max: Duration,
    /// An order that a worker has not answered is sent again after this. Default 1 s.
    pub launch_resend_after: Duration,
    /// A worker that is silent for this long is dead. Default 20 s.
    pub worker_timeout: Duration,
    /// An agent ends its at-most-once attempts when no leader has acknowledged a heartbeat for this long; at most three
    /// quarters of `worker_timeout`, because ending them takes up to a quarter of the lease. `None`: half of
    /// `worker_timeout`. Default `None`.
    pub at_most_once_lease: Option<Duration>,
    /// An application whose session is away for this long is over. Default 10 s.
    pub app_timeout: Duration,
    /// After an election, what is known from the store gets this long to answer. Default 20 s.
    pub recovery_timeout: Duration,
    /// Drivers that are over, kept for display. Default 1,000.
    pub retained_drivers: u32,
    /// Applications that are over, kept for display. Default 1,000.
    pub retained_apps: u32,
    /// Ended executors kept in each application. Default 100.
    pub retained_executors_per_app: u32,
    /// What is over is forgotten after this in any case. Default 7 days.
    pub retained_for: Duration,
    /// A request id is remembered this long, and as long as what it created. Default 1 h.
    pub request_retention: Duration,
    /// A dead worker is shown for this long. Default 15 min.
    pub dead_worker_retention: Duration,
    /// Events kept; up to a batch's worth more, because they are forgotten as they were stored. Default 10,000.
    pub retained_events: u32,
}

// === impl ClusterConfig ===

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            default_cores: None,
            max_drivers: None,
            driver_share_max: Some(50),
            app_cores_max: None,
            user_cores_max: None,
            spread_out_drivers: true,
            spread_out_apps: true,
            worker_selection: WorkerSelection::CoresFreeDesc,
            executor_failures_max: Some(10),
            executor_stable_after: Duration::from_secs(60),
            driver_stable_after: Duration::from_secs(60),
            relaunch_backoff_min: Duration::from_secs(1),
            driver_backoff_max: Duration::from_secs(60),
            executor_backoff_max: Duration::from_secs(30),
            launch_resend_after: Duration::from_secs(1),
            worker_timeout: Duration::from_secs(20),
            at_most_once_lease: None,
            app_timeout: Duration::from_secs(10),
            recovery_timeout: Duration::from_secs(20),
            retained_drivers: 1_000,
            retained_apps: 1_000,
            retained_executors_per_app: 100,
            retained_for: Duration::from_secs(7 * 24 * 3_600),
            request_retention: Duration::from_secs(3_600),
            dead_worker_retention: Duration::from_secs(900),
            retained_events: 10_000,
        }
    }
}

impl ClusterConfig {
    /// The lease of at-most-once attempts.
    #[must_use]
    pub fn at_most_once_lease(&self) -> Duration {
        self.at_most_once_lease.unwrap_or(self.worker_timeout / 2)
    }

    /// Checks every value.
    ///
    /// # Errors
    /// All faults at once, each naming its field, its value and what would be right.
    pub fn validate(&self) -> Result<(), Vec<String>> {
        let mut faults = Vec::new();
        if self.default_cores == Some(Cores(0)) {
            faults
                .push("default_cores: 0; give at least 1, or leave it out for no limit".to_owned());
        }
        if self.max_drivers == Some(0) {
            faults.push("max_drivers: 0; give at least 1, or leave it out for no limit".to_owned());
        }
        if let Some(percent) = self
            .driver_share_max
            .filter(|percent| !(1..=100).contains(percent))
        {
            faults.push(format!(
                "driver_share_max: {percent} percent; give 1 to 100"
            ));
        }
        for (field, value) in [
            ("app_cores_max", self.app_cores_max),
            ("user_cores_max", self.user_cores_max),
        ] {
            if value == Some(Cores(0)) {
                faults.push(format!(
                    "{field}: 0; give at least 1, or leave it out for no limit"
                ));
            }
        }
        let longest = self.worker_timeout.mul_f64(0.75);
        if self.at_most_once_lease() > longest {
            faults.push(format!(
                "at_most_once_lease: {:?}; give at most {longest:?}, three quarters of worker_timeout, or leave it out",
                self.at_most_once_lease()
            ));
        }
        if self.executor_failures_max == Some(0) {
            faults.push(
                "executor_failures_max: 0; give at least 1, or leave it out for no limit"
                    .to_owned(),
            );
        }
        for (field, value) in [
            ("executor_stable_after", self.executor_stable_after),
            ("driver_stable_after", self.driver_stable_after),
            ("relaunch_backoff_min", self.relaunch_backoff_min),
            ("launch_resend_after", self.launch_resend_after),
            ("worker_timeout", self.worker_timeout),
            ("app_timeout", self.app_timeout),
            ("recovery_timeout", self.recovery_timeout),
        ] {
            if value < Duration::from_millis(1) {
                faults.push(format!("{field}: {value:?}; give at least 1 ms"));
            }
        }
        for (field, value) in [
            ("driver_backoff_max", self.driver_backoff_max),
            ("executor_backoff_max", self.executor_backoff_max),
        ] {
            if value < self.relaunch_backoff_min {
                faults.push(format!(
                    "{field}: {value:?}; give at least relaunch_backoff_min ({:?})",
                    self.relaunch_backoff_min
                ));
            }
        }
        if faults.is_empty() {
            Ok(())
        } else {
            Err(faults)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(ClusterConfig::default().validate(), Ok(()));
    }

    #[test]
    fn every_fault_is_named_at_once() {
        let faults = ClusterConfig {
            default_cores: Some(Cores(0)),
            max_drivers: Some(0),
            worker_timeout: Duration::ZERO,
            driver_backoff_max: Duration::ZERO,
            ..ClusterConfig::default()
        }
        .validate()
        .expect_err("four faults");
        let fields: Vec<_> = faults.iter().filter_map(|f| f.split(':').next()).collect();
        assert_eq!(
            fields,
            [
                "default_cores",
                "max_drivers",
                "worker_timeout",
                "driver_backoff_max"
            ]
        );
    }
}
