//! Spark's own settings for a standalone master, and what becomes of each here.
//!
//! A table, so that an operator who brings a `spark-defaults.conf` is told about every `spark.deploy.*`,
//! `spark.master.*` and `spark.worker.*` key: taken over, not needed, or not supported yet. Nothing is dropped
//! in silence.

use super::{MasterConfig, cluster::Selection};

/// What becomes of one of Spark's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Sets this key of ours.
    Becomes(&'static str),
    /// Has no meaning here; the text says what takes its place.
    NotNeeded(&'static str),
    /// Has a meaning that is not built yet; the text says what happens instead.
    NotYet(&'static str),
}

/// What came of applying a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// Set, or already so.
    Set,
    /// Ignored, with the reason to show.
    Ignored(String),
    /// No key of a standalone cluster; it belongs to applications.
    Foreign,
}

use Fate::{Becomes, NotNeeded, NotYet};

/// Every key of a standalone master or worker, in Spark's order.
pub const SPARK_KEYS: &[(&str, Fate)] = &[
    (
        "spark.deploy.recoveryMode",
        NotNeeded("records are always kept; choose with `engine`"),
    ),
    (
        "spark.deploy.recoveryMode.factory",
        NotNeeded("an engine of your own implements PersistenceEngine"),
    ),
    ("spark.deploy.recoveryDirectory", Becomes("data_dir")),
    (
        "spark.deploy.recoveryCompressionCodec",
        NotNeeded("records are small and are not compressed"),
    ),
    (
        "spark.deploy.recoveryTimeout",
        Becomes("cluster.recovery_timeout"),
    ),
    (
        "spark.deploy.recoverySerializationFilter",
        NotNeeded("records are protobuf, nothing is deserialized into code"),
    ),
    (
        "spark.deploy.zookeeper.url",
        NotNeeded("masters replicate among themselves; list them in `peers`"),
    ),
    (
        "spark.deploy.zookeeper.dir",
        NotNeeded("masters replicate among themselves"),
    ),
    (
        "spark.deploy.retainedApplications",
        Becomes("cluster.retained_apps"),
    ),
    (
        "spark.deploy.retainedDrivers",
        Becomes("cluster.retained_drivers"),
    ),
    (
        "spark.dead.worker.persistence",
        NotNeeded("set cluster.dead_worker_retention"),
    ),
    (
        "spark.deploy.maxExecutorRetries",
        Becomes("cluster.executor_failures_max"),
    ),
    (
        "spark.deploy.spreadOutDrivers",
        Becomes("cluster.spread_out_drivers"),
    ),
    (
        "spark.deploy.spreadOutApps",
        Becomes("cluster.spread_out_apps"),
    ),
    ("spark.deploy.spreadOut", Becomes("cluster.spread_out_apps")),
    (
        "spark.deploy.workerSelectionPolicy",
        Becomes("cluster.worker_selection"),
    ),
    (
        "spark.deploy.defaultCores",
        Becomes("cluster.default_cores"),
    ),
    ("spark.deploy.maxDrivers", Becomes("cluster.max_drivers")),
    (
        "spark.deploy.appNumberModulo",
        NotYet("application numbers keep rising"),
    ),
    (
        "spark.deploy.driverIdPattern",
        NotYet("driver ids are driver-<time>-<number>"),
    ),
    (
        "spark.deploy.appIdPattern",
        NotYet("application ids are app-<time>-<number>"),
    ),
    ("spark.master.rest.enabled", Becomes("server.rest_enabled")),
    ("spark.master.rest.host", NotNeeded("set server.rest")),
    ("spark.master.rest.port", Becomes("server.rest")),
    (
        "spark.master.rest.maxThreads",
        NotNeeded("set rest.concurrent_requests_max"),
    ),
    (
        "spark.master.rest.virtualThread.enabled",
        NotNeeded("the server is asynchronous"),
    ),
    (
        "spark.master.rest.filters",
        NotYet("servlet filters are Java; tokens come with TLS"),
    ),
    (
        "spark.master.rest.maxRequestBodySize",
        Becomes("rest.max_body"),
    ),
    (
        "spark.master.rest.allowedAppResourcePatterns",
        NotYet("every appResource is accepted"),
    ),
    ("spark.master.ui.port", Becomes("server.web")),
    ("spark.master.ui.title", NotYet("there are no pages yet")),
    (
        "spark.master.ui.historyServerUrl",
        NotYet("there are no pages yet"),
    ),
    (
        "spark.master.ui.decommission.allow.mode",
        NotYet("workers are not decommissioned yet"),
    ),
    (
        "spark.master.ui.visibleEnvVarPrefixes",
        NotNeeded("no environment is ever shown"),
    ),
    (
        "spark.master.useAppNameAsAppId.enabled",
        NotYet("application ids are app-<time>-<number>"),
    ),
    (
        "spark.master.useDriverIdAsAppName.enabled",
        NotYet("application names stay as given"),
    ),
    ("spark.worker.timeout", Becomes("cluster.worker_timeout")),
    (
        "spark.worker.initialRegistrationRetries",
        NotNeeded("agents never give up"),
    ),
    (
        "spark.worker.maxRegistrationRetries",
        NotNeeded("agents never give up"),
    ),
    (
        "spark.worker.driverTerminateTimeout",
        NotNeeded("an option of the agent"),
    ),
    (
        "spark.worker.cleanup.enabled",
        NotYet("work directories are kept"),
    ),
    (
        "spark.worker.cleanup.interval",
        NotYet("work directories are kept"),
    ),
    (
        "spark.worker.cleanup.appDataTtl",
        NotYet("work directories are kept"),
    ),
    (
        "spark.worker.preferConfiguredMasterAddress",
        NotNeeded("agents keep a session to every master"),
    ),
    ("spark.worker.ui.port", NotNeeded("an option of the agent")),
    (
        "spark.worker.idPattern",
        NotNeeded("an agent's id is an option of the agent"),
    ),
    (
        "spark.worker.decommission.signal",
        NotYet("workers are not decommissioned yet"),
    ),
    (
        "spark.decommission.enabled",
        NotYet("workers are not decommissioned yet"),
    ),
    (
        "spark.shuffle.service.enabled",
        NotYet("agents host no shuffle service"),
    ),
    (
        "spark.port.maxRetries",
        NotNeeded("a busy port is an error, never another port in silence"),
    ),
    ("spark.ui.killEnabled", NotYet("there are no pages yet")),
    ("spark.ui.reverseProxy", NotYet("there are no pages yet")),
];

/// Prefixes that only a standalone cluster reads: an unknown key below them is worth a word.
const OWN_PREFIXES: [&str; 3] = ["spark.deploy.", "spark.master.", "spark.worker."];

/// What becomes of `key`; `None` for a key that is not in the table.
#[must_use]
pub fn fate(key: &str) -> Option<Fate> {
    SPARK_KEYS
        .iter()
        .find(|(name, _)| *name == key)
        .map(|(_, fate)| *fate)
}

/// Takes one of Spark's settings over into `config`.
///
/// # Errors
/// The key, its value and what would be right.
pub fn apply(config: &mut MasterConfig, key: &str, value: &str) -> Result<Applied, String> {
    let value = value.trim();
    match fate(key) {
        Some(Becomes(ours)) => {
            set(config, ours, value)
                .map_err(|wanted| format!("{key}: `{value}` is no {wanted}"))?;
            Ok(Applied::Set)
        }
        Some(NotNeeded(instead)) => Ok(Applied::Ignored(format!("{key} is not needed: {instead}"))),
        Some(NotYet(instead)) => Ok(Applied::Ignored(format!(
            "{key} is not supported yet: {instead}"
        ))),
        None if OWN_PREFIXES.iter().any(|prefix| key.starts_with(prefix)) => Ok(Applied::Ignored(
            format!("{key} is no setting of Spark that is known here"),
        )),
        None => Ok(Applied::Foreign),
    }
}

/// Sets one of our keys from Spark's form of its value; on failure says what the value should be.
fn set(config: &mut MasterConfig, ours: &str, value: &str) -> Result<(), &'static str> {
    let cluster = &mut config.cluster;
    match ours {
        "data_dir" => config.data_dir = value.into(),
        "cluster.recovery_timeout" => cluster.recovery_timeout = duration(value)?,
        "cluster.worker_timeout" => cluster.worker_timeout = duration(value)?,
        "cluster.retained_apps" => cluster.retained_apps = number(value)?,
        "cluster.retained_drivers" => cluster.retained_drivers = number(value)?,
        "cluster.executor_failures_max" => cluster.executor_failures_max = number(value)?,
        "cluster.spread_out_drivers" => cluster.spread_out_drivers = flag(value)?,
        "cluster.spread_out_apps" => cluster.spread_out_apps = flag(value)?,
        "cluster.worker_selection" => cluster.worker_selection = selection(value)?,
        "cluster.default_cores" => cluster.default_cores = unlimited(number(value)?),
        "cluster.max_drivers" => cluster.max_drivers = unlimited(number(value)?),
        "server.rest_enabled" => config.server.rest_enabled = flag(value)?,
        "server.rest" => config.server.rest.set_port(number(value)?),
        "server.web" => config.server.web.set_port(number(value)?),
        "rest.max_body" => config.rest.max_body = bytes(value)?,
        _not_in_the_table => return Err("setting that can be taken over"),
    }
    Ok(())
}

/// Spark's largest number stands for "no limit".
fn unlimited(value: u32) -> Option<u32> {
    Some(value).filter(|value| *value < i32::MAX.unsigned_abs())
}

fn number<T: std::str::FromStr>(value: &str) -> Result<T, &'static str> {
    value.parse().map_err(|_error| "whole number that fits")
}

fn flag(value: &str) -> Result<bool, &'static str> {
    value
        .to_ascii_lowercase()
        .parse()
        .map_err(|_error| "flag; use true or false")
}

/// Spark's master reads these in seconds; a unit is understood too. Spark's `m` is minutes and `ms` milliseconds.
fn duration(value: &str) -> Result<std::time::Duration, &'static str> {
    let split = value
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(value.len());
    let (digits, unit) = value.split_at_checked(split).ok_or("time")?;
    let amount: u64 = digits.parse().map_err(|_error| "time, such as 60 or 60s")?;
    let millis = match unit.trim().to_ascii_lowercase().as_str() {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _unknown => return Err("time, such as 60 or 60s"),
    };
    Ok(std::time::Duration::from_millis(
        amount.saturating_mul(millis),
    ))
}

/// Spark's sizes are powers of two, whatever the unit's spelling.
fn bytes(value: &str) -> Result<bytesize::ByteSize, &'static str> {
    let split = value
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(value.len());
    let (digits, unit) = value.split_at_checked(split).ok_or("size")?;
    let amount: u64 = digits.parse().map_err(|_error| "size, such as 100m")?;
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        _unknown => return Err("size, such as 100m"),
    };
    Ok(bytesize::ByteSize::b(amount.saturating_mul(1 << shift)))
}

fn selection(value: &str) -> Result<Selection, &'static str> {
    match value.to_ascii_uppercase().as_str() {
        "CORES_FREE_DESC" => Ok(Selection::CoresFreeDesc),
        "CORES_FREE_ASC" => Ok(Selection::CoresFreeAsc),
        "MEMORY_FREE_DESC" => Ok(Selection::MemoryFreeDesc),
        "MEMORY_FREE_ASC" => Ok(Selection::MemoryFreeAsc),
        "WORKER_ID" => Ok(Selection::WorkerId),
        _unknown => Err(
            "policy; use CORES_FREE_DESC, CORES_FREE_ASC, MEMORY_FREE_DESC, MEMORY_FREE_ASC or WORKER_ID",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_key_that_becomes_one_of_ours_can_be_set() {
        for (key, fate) in SPARK_KEYS {
            let Becomes(ours) = fate else { continue };
            let values = ["7", "true", "WORKER_ID"];
            let mut config = MasterConfig::default();
            let taken = values
                .iter()
                .any(|value| set(&mut config, ours, value).is_ok());
            assert!(taken, "{key} becomes {ours}, which cannot be set");
        }
    }

    #[test]
    fn no_key_is_listed_twice() {
        let mut names: Vec<_> = SPARK_KEYS.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn settings_of_spark_are_taken_over() {
        let mut config = MasterConfig::default();
        for (key, value) in [
            ("spark.worker.timeout", "60"),
            ("spark.deploy.recoveryTimeout", "2m"),
            ("spark.deploy.defaultCores", "2147483647"),
            ("spark.deploy.maxDrivers", "5"),
            ("spark.deploy.maxExecutorRetries", "-1"),
            ("spark.deploy.workerSelectionPolicy", "memory_free_asc"),
            ("spark.master.rest.port", "6067"),
            ("spark.master.rest.maxRequestBodySize", "8m"),
        ] {
            assert_eq!(apply(&mut config, key, value), Ok(Applied::Set), "{key}");
        }
        assert_eq!(config.cluster.worker_timeout, Duration::from_secs(60));
        assert_eq!(config.cluster.recovery_timeout, Duration::from_secs(120));
        assert_eq!(
            (config.cluster.default_cores, config.cluster.max_drivers),
            (None, Some(5))
        );
        assert_eq!(config.cluster.to_core().executor_failures_max, None);
        assert_eq!(config.cluster.worker_selection, Selection::MemoryFreeAsc);
        assert_eq!(config.server.rest.port(), 6067);
        assert_eq!(config.rest.body_bytes_max(), 8 << 20);
    }

    #[test]
    fn what_is_not_taken_over_is_said_in_words() {
        let mut config = MasterConfig::default();
        let said = |config: &mut MasterConfig, key| match apply(config, key, "x") {
            Ok(Applied::Ignored(text)) => text,
            other => panic!("{other:?}"),
        };
        assert!(said(&mut config, "spark.deploy.zookeeper.url").contains("list them in `peers`"));
        assert!(said(&mut config, "spark.deploy.appIdPattern").contains("not supported yet"));
        assert!(said(&mut config, "spark.deploy.unheardOf").contains("no setting of Spark"));
        assert_eq!(
            apply(&mut config, "spark.executor.memory", "1g"),
            Ok(Applied::Foreign)
        );
        assert_eq!(
            apply(&mut config, "spark.worker.timeout", "soon"),
            Err("spark.worker.timeout: `soon` is no time, such as 60 or 60s".into())
        );
    }
}
