//! The options of a master that most operators never touch: policies, waits and bounds.
//!
//! Each has the default of [`MasterConfig`]; an option that is not given changes nothing.

use std::time::Duration;

use bytesize::ByteSize;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use interrex_control_plane::options::{MasterConfig, cluster::Selection};

/// How workers are ordered for executors, in Spark's words.
const SELECTIONS: [&str; 5] = [
    "CORES_FREE_DESC",
    "CORES_FREE_ASC",
    "MEMORY_FREE_DESC",
    "MEMORY_FREE_ASC",
    "WORKER_ID",
];

/// Policies, waits and bounds.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Tuning {
    #[command(flatten)]
    cluster: ClusterTuning,
    #[command(flatten)]
    raft: RaftTuning,
    #[command(flatten)]
    rest: RestTuning,
    #[command(flatten)]
    ui: UiTuning,
    /// From the first signal to the end, at most [default: 10s]
    #[arg(long, env = "INTERREX_MASTER_SHUTDOWN_GRACE", value_name = "TIME")]
    #[arg(value_parser = humantime::parse_duration)]
    shutdown_grace: Option<Duration>,
    /// Whether gRPC reflection is served [default: true]
    #[arg(long, env = "INTERREX_MASTER_REFLECTION", value_name = "BOOL")]
    reflection: Option<bool>,
}

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Cluster policy (the same on every master)")]
struct ClusterTuning {
    /// Cores of an application that names no maximum [default: no limit]
    #[arg(long, env = "INTERREX_MASTER_DEFAULT_CORES")]
    default_cores: Option<u32>,
    /// Drivers placed at the same time [default: no limit]
    #[arg(long, env = "INTERREX_MASTER_MAX_DRIVERS")]
    max_drivers: Option<u32>,
    /// Percent of all cores that drivers which need executors may hold together; 0: no limit [default: 50]
    #[arg(long, env = "INTERREX_MASTER_DRIVER_SHARE_MAX", value_name = "PERCENT")]
    driver_share_max: Option<u32>,
    /// Cores that one application may hold, whatever it asks for [default: no limit]
    #[arg(long, env = "INTERREX_MASTER_APP_CORES_MAX")]
    app_cores_max: Option<u32>,
    /// Cores that one user's drivers and applications may hold together [default: no limit]
    #[arg(long, env = "INTERREX_MASTER_USER_CORES_MAX")]
    user_cores_max: Option<u32>,
    /// Spread drivers over workers [default: true]
    #[arg(long, env = "INTERREX_MASTER_SPREAD_OUT_DRIVERS", value_name = "BOOL")]
    spread_out_drivers: Option<bool>,
    /// Spread an application over workers [default: true]
    #[arg(long, env = "INTERREX_MASTER_SPREAD_OUT_APPS", value_name = "BOOL")]
    spread_out_apps: Option<bool>,
    /// Order of workers for executors [default: `CORES_FREE_DESC`]
    #[arg(long, env = "INTERREX_MASTER_WORKER_SELECTION", value_parser = selection_parser())]
    worker_selection: Option<Selection>,
    /// Executor failures in a row after which an application fails; -1: never [default: 10]
    #[arg(
        long,
        env = "INTERREX_MASTER_EXECUTOR_FAILURES_MAX",
        allow_negative_numbers = true
    )]
    executor_failures_max: Option<i64>,
    /// An executor that ran this long ends its application's row of failures [default: 60s]
    #[arg(
        long,
        env = "INTERREX_MASTER_EXECUTOR_STABLE_AFTER",
        value_name = "TIME"
    )]
    #[arg(value_parser = humantime::parse_duration)]
    executor_stable_after: Option<Duration>,
    /// A worker that is silent for this long is dead [default: 20s]
    #[arg(long, env = "INTERREX_MASTER_WORKER_TIMEOUT", value_name = "TIME")]
    #[arg(value_parser = humantime::parse_duration)]
    worker_timeout: Option<Duration>,
    /// How long what was submitted with --at-most-once may run on without a leader; at most three quarters of
    /// --worker-timeout [default: half of --worker-timeout]
    #[arg(long, env = "INTERREX_MASTER_AT_MOST_ONCE_LEASE", value_name = "TIME")]
    #[arg(value_parser = humantime::parse_duration)]
    at_most_once_lease: Option<Duration>,
    /// An application whose session is away for this long is over [default: 10s]
    #[arg(long, env = "INTERREX_MASTER_APP_TIMEOUT", value_name = "TIME")]
    #[arg(value_parser = humantime::parse_duration)]
    app_timeout: Option<Duration>,
    /// After an election, what is known gets this long to answer [default: 20s]
    #[arg(long, env = "INTERREX_MASTER_RECOVERY_TIMEOUT", value_name = "TIME")]
    #[arg(value_parser = humantime::parse_duration)]
    recovery_timeout: Option<Duration>,
    /// Drivers that are over, kept for display [default: 1000]
    #[arg(long, env = "INTERREX_MASTER_RETAINED_DRIVERS")]
    retained_drivers: Option<u32>,
    /// Applications that are over, kept for display [default: 1000]
    #[arg(long, env = "INTERREX_MASTER_RETAINED_APPS")]
    retained_apps: Option<u32>,
    /// Entries of the event log kept [default: 10000]
    #[arg(long, env = "INTERREX_MASTER_RETAINED_EVENTS", value_name = "N")]
    retained_events: Option<u32>,
    /// What is over is forgotten after this in any case [default: 7days]
    #[arg(long, env = "INTERREX_MASTER_RETAINED_FOR", value_name = "TIME")]
    #[arg(value_parser = humantime::parse_duration)]
    retained_for: Option<Duration>,
    /// A request id is remembered at least this long [default: 1h]
    #[arg(long, env = "INTERREX_MASTER_REQUEST_RETENTION", value_name = "TIME")]
    #[arg(value_parser = humantime::parse_duration)]
    request_retention: Option<Duration>,
    /// A dead worker is shown for this long [default: 15m]
    #[arg(
        long,
        env = "INTERREX_MASTER_DEAD_WORKER_RETENTION",
        value_name = "TIME"
    )]
    #[arg(value_parser = humantime::parse_duration)]
    dead_worker_retention: Option<Duration>,
}

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Raft (the same on every master)")]
struct RaftTuning {
    /// How often a leader proves that it is alive [default: 50ms]
    #[arg(long, env = "INTERREX_MASTER_HEARTBEAT", value_name = "TIME")]
    #[arg(value_parser = humantime::parse_duration)]
    heartbeat: Option<Duration>,
    /// Shortest wait before an election [default: 150ms]
    #[arg(
        long,
        env = "INTERREX_MASTER_ELECTION_TIMEOUT_MIN",
        value_name = "TIME"
    )]
    #[arg(value_parser = humantime::parse_duration)]
    election_timeout_min: Option<Duration>,
    /// Longest wait before an election [default: 300ms]
    #[arg(
        long,
        env = "INTERREX_MASTER_ELECTION_TIMEOUT_MAX",
        value_name = "TIME"
    )]
    #[arg(value_parser = humantime::parse_duration)]
    election_timeout_max: Option<Duration>,
    /// How long one commit may take before its outcome counts as unknown; on etcd at least the lease [default: 2s]
    #[arg(long, env = "INTERREX_MASTER_COMMIT_DEADLINE", value_name = "TIME")]
    #[arg(value_parser = humantime::parse_duration)]
    commit_deadline: Option<Duration>,
    /// A leader with less left on its disk hands over to a master with more [default: 64MiB]
    #[arg(long, env = "INTERREX_MASTER_DISK_LOW", value_name = "SIZE")]
    disk_low: Option<ByteSize>,
    /// A leader whose disk takes longer to append, three seconds in a row, hands over [default: 500ms]
    #[arg(long, env = "INTERREX_MASTER_SLOW_APPEND", value_name = "TIME")]
    #[arg(value_parser = humantime::parse_duration)]
    slow_append: Option<Duration>,
}

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "REST API")]
struct RestTuning {
    /// Largest body; a larger one is refused with 413 [default: 4MiB]
    #[arg(long, env = "INTERREX_MASTER_REST_MAX_BODY", value_name = "SIZE")]
    rest_max_body: Option<ByteSize>,
    /// How long a body may take to arrive [default: 10s]
    #[arg(long, env = "INTERREX_MASTER_REST_BODY_TIMEOUT", value_name = "TIME")]
    #[arg(value_parser = humantime::parse_duration)]
    rest_body_timeout: Option<Duration>,
    /// Deadline of one try, here or at the leader [default: 4s]
    #[arg(long, env = "INTERREX_MASTER_REST_CALL_TIMEOUT", value_name = "TIME")]
    #[arg(value_parser = humantime::parse_duration)]
    rest_call_timeout: Option<Duration>,
    /// How long a request waits for a leader before it is answered 503 [default: 5s]
    #[arg(long, env = "INTERREX_MASTER_REST_LEADER_WAIT", value_name = "TIME")]
    #[arg(value_parser = humantime::parse_duration)]
    rest_leader_wait: Option<Duration>,
    /// Requests served at once; one more is answered 503 [default: 1024]
    #[arg(long, env = "INTERREX_MASTER_REST_CONCURRENT_REQUESTS_MAX")]
    rest_concurrent_requests_max: Option<usize>,
    /// What answers give as serverSparkVersion [default: 4.3.0]
    #[arg(
        long,
        env = "INTERREX_MASTER_REST_SERVER_SPARK_VERSION",
        value_name = "VERSION"
    )]
    rest_server_spark_version: Option<String>,
}

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Pages")]
struct UiTuning {
    /// Whether pages are served at --web; health and metrics are in any case [default: true]
    #[arg(long, env = "INTERREX_MASTER_UI_ENABLED", value_name = "BOOL")]
    ui_enabled: Option<bool>,
    /// Pages only show, and change nothing [default: false]
    #[arg(long, env = "INTERREX_MASTER_UI_READ_ONLY", value_name = "BOOL")]
    ui_read_only: Option<bool>,
    /// Further names under which browsers reach the pages, such as a proxy's, without port
    #[arg(
        long,
        env = "INTERREX_MASTER_UI_HOSTS",
        value_name = "A,B",
        value_delimiter = ','
    )]
    ui_hosts: Option<Vec<String>>,
}

fn selection_parser() -> impl TypedValueParser<Value = Selection> {
    PossibleValuesParser::new(SELECTIONS).try_map(|name| toml::Value::String(name).try_into())
}

/// Replaces `place` by what was given, if anything was.
pub(super) fn set<T: Clone>(place: &mut T, given: Option<&T>) {
    if let Some(given) = given {
        place.clone_from(given);
    }
}

// === impl Tuning ===

impl Tuning {
    /// Puts what was given into `config`.
    pub(super) fn apply(&self, config: &mut MasterConfig) {
        set(&mut config.shutdown_grace, self.shutdown_grace.as_ref());
        set(&mut config.server.reflection, self.reflection.as_ref());
        self.cluster.apply(config);
        let (raft, given) = (&mut config.raft, &self.raft);
        set(&mut raft.heartbeat, given.heartbeat.as_ref());
        set(
            &mut raft.election_timeout_min,
            given.election_timeout_min.as_ref(),
        );
        set(
            &mut raft.election_timeout_max,
            given.election_timeout_max.as_ref(),
        );
        set(&mut raft.commit_deadline, given.commit_deadline.as_ref());
        set(&mut raft.disk_low, given.disk_low.as_ref());
        set(&mut raft.slow_append, given.slow_append.as_ref());
        let (rest, given) = (&mut config.rest, &self.rest);
        set(&mut rest.max_body, given.rest_max_body.as_ref());
        set(&mut rest.body_timeout, given.rest_body_timeout.as_ref());
        set(&mut rest.call_timeout, given.rest_call_timeout.as_ref());
        set(&mut rest.leader_wait, given.rest_leader_wait.as_ref());
        set(
            &mut rest.concurrent_requests_max,
            given.rest_concurrent_requests_max.as_ref(),
        );
        set(
            &mut rest.server_spark_version,
            given.rest_server_spark_version.as_ref(),
        );
        let (ui, given) = (&mut config.ui, &self.ui);
        set(&mut ui.enabled, given.ui_enabled.as_ref());
        set(&mut ui.read_only, given.ui_read_only.as_ref());
        set(&mut ui.hosts, given.ui_hosts.as_ref());
    }
}

// === impl ClusterTuning ===

impl ClusterTuning {
    fn apply(&self, config: &mut MasterConfig) {
        let cluster = &mut config.cluster;
        cluster.default_cores = self.default_cores.or(cluster.default_cores);
        cluster.max_drivers = self.max_drivers.or(cluster.max_drivers);
        set(
            &mut cluster.driver_share_max,
            self.driver_share_max.as_ref(),
        );
        cluster.app_cores_max = self.app_cores_max.or(cluster.app_cores_max);
        cluster.user_cores_max = self.user_cores_max.or(cluster.user_cores_max);
        set(
            &mut cluster.spread_out_drivers,
            self.spread_out_drivers.as_ref(),
        );
        set(&mut cluster.spread_out_apps, self.spread_out_apps.as_ref());
        set(
            &mut cluster.worker_selection,
            self.worker_selection.as_ref(),
        );
        set(
            &mut cluster.executor_failures_max,
            self.executor_failures_max.as_ref(),
        );
        set(
            &mut cluster.executor_stable_after,
            self.executor_stable_after.as_ref(),
        );
        set(&mut cluster.worker_timeout, self.worker_timeout.as_ref());
        if self.at_most_once_lease.is_some() {
            cluster.at_most_once_lease = self.at_most_once_lease;
        }
        set(&mut cluster.app_timeout, self.app_timeout.as_ref());
        set(
            &mut cluster.recovery_timeout,
            self.recovery_timeout.as_ref(),
        );
        set(
            &mut cluster.retained_drivers,
            self.retained_drivers.as_ref(),
        );
        set(&mut cluster.retained_apps, self.retained_apps.as_ref());
        set(&mut cluster.retained_events, self.retained_events.as_ref());
        set(&mut cluster.retained_for, self.retained_for.as_ref());
        set(
            &mut cluster.request_retention,
            self.request_retention.as_ref(),
        );
        set(
            &mut cluster.dead_worker_retention,
            self.dead_worker_retention.as_ref(),
        );
    }
}
