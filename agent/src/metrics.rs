//! The names that the agent counts under, each written once.

use std::time::Duration;

use interrex_client::metrics::STALE_MESSAGES;
use interrex_proto::metric::{self, Label, Metric, Table};
use metrics::{counter, gauge, histogram};

use crate::cleanup::plan::Reason;

const BUILD_INFO: &str = "interrex_build_info";
const PROCESSES: &str = "interrex_agent_processes";
const LAUNCH_DURATION: &str = "interrex_agent_launch_duration_seconds";
const LAUNCHES: &str = "interrex_agent_launches_total";
const OUTBOX_DEPTH: &str = "interrex_agent_outbox_depth";
const CORES: &str = "interrex_agent_cores";
const MEMORY: &str = "interrex_agent_memory_bytes";
const WORK_BYTES: &str = "interrex_agent_work_bytes";
const DISK_FREE: &str = "interrex_agent_disk_free_bytes";
const WORK_DIRS_REMOVED: &str = "interrex_agent_work_dirs_removed_total";
const ACCEPTING: &str = "interrex_agent_accepting";
const LEASE_ENDS: &str = "interrex_agent_lease_ends_total";
const QUEUE_DEPTH: &str = "interrex_queue_depth";
const QUEUE_LIMIT: &str = "interrex_queue_limit";
const REFUSED: &str = "interrex_requests_refused_total";

const USED_OR_FREE: &[Label] = &[Label::of("state", &["used", "free"])];
const QUEUES: &[Label] = &[Label::of(
    "queue",
    &[
        "process_events",
        "questions",
        "results",
        "log_readers",
        "web_connections",
    ],
)];

/// Everything that an agent counts, beside its session.
pub const TABLE: Table = Table {
    title: "Agents",
    metrics: &[
        Metric::gauge(BUILD_INFO, "Always 1; the labels say what was built.").by(&[
            Label::open("version"),
            Label::open("commit"),
            Label::of("component", &["agent"]),
        ]),
        Metric::gauge(PROCESSES, "Processes of this agent by state.").by(&[Label::of(
            "state",
            &["waiting", "starting", "running", "ending"],
        )]),
        Metric::histogram(
            LAUNCH_DURATION,
            "From the decision to start a process until it runs.",
        ),
        Metric::counter(
            LAUNCHES,
            "Processes that were to be started, by what came of it.",
        )
        .by(&[Label::of("result", &["running", "failed"])]),
        Metric::gauge(OUTBOX_DEPTH, "Reports that no master has acknowledged yet."),
        Metric::gauge(CORES, "Cores of this agent by state.").by(USED_OR_FREE),
        Metric::gauge(MEMORY, "Memory of this agent by state.").by(USED_OR_FREE),
        Metric::gauge(
            WORK_BYTES,
            "What the directories of drivers and executors hold, as last measured.",
        ),
        Metric::gauge(DISK_FREE, "What is left where the work directory is."),
        Metric::counter(WORK_DIRS_REMOVED, "Work directories removed, by reason.")
            .by(&[Label::of("reason", &["age", "budget", "free"])]),
        Metric::gauge(
            ACCEPTING,
            "1 while this agent accepts new work, 0 while its disk is too full.",
        ),
        Metric::counter(
            LEASE_ENDS,
            "At-most-once attempts that were ended because their lease was over.",
        ),
        Metric::gauge(
            QUEUE_DEPTH,
            "What waits in, or holds a place of, a bounded queue.",
        )
        .by(QUEUES),
        Metric::gauge(
            QUEUE_LIMIT,
            "The most that may wait in, or hold a place of, a bounded queue.",
        )
        .by(QUEUES),
        Metric::counter(
            REFUSED,
            "What was refused because a bounded queue was full; it is tried again.",
        )
        .by(QUEUES),
    ],
};

/// What an agent holds, for the gauges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Launches that wait for room or for an earlier attempt to end.
    pub waiting: usize,
    /// Launches whose program is not running yet.
    pub starting: usize,
    /// Processes that run.
    pub running: usize,
    /// Processes that were told to end and have not yet.
    pub ending: usize,
    /// Cores offered.
    pub cores: u32,
    /// Cores held by everything that is not waiting.
    pub cores_used: u32,
    /// Memory offered, in MiB.
    pub memory_mib: u64,
    /// Memory held by everything that is not waiting, in MiB.
    pub memory_mib_used: u64,
    /// Reports that no master has acknowledged.
    pub outbox: usize,
}

/// A bounded queue of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queue {
    /// What runners say of their processes.
    ProcessEvents,
    /// The web server's questions.
    Questions,
    /// Results on their way to the disk.
    Results,
    /// Readers of logs.
    LogReaders,
    /// Connections to the web server.
    WebConnections,
}

/// Describes every metric of the agent, and of its session, to the installed recorder.
pub fn describe() {
    interrex_client::metrics::describe();
    metric::describe(TABLE.metrics);
    let (version, commit) = (env!("CARGO_PKG_VERSION"), interrex_proto::version::commit());
    gauge!(BUILD_INFO, "version" => version, "commit" => commit, "component" => "agent").set(1.0);
}

// === impl Queue ===

impl Queue {
    fn name(self) -> &'static str {
        match self {
            Self::ProcessEvents => "process_events",
            Self::Questions => "questions",
            Self::Results => "results",
            Self::LogReaders => "log_readers",
            Self::WebConnections => "web_connections",
        }
    }
}

/// How full a queue is, and how full it may be.
pub(crate) fn queue(queue: Queue, depth: usize, limit: usize) {
    gauge!(QUEUE_DEPTH, "queue" => queue.name()).set(depth as f64);
    gauge!(QUEUE_LIMIT, "queue" => queue.name()).set(limit as f64);
}

/// A full queue refused something.
pub(crate) fn refused(queue: Queue) {
    counter!(REFUSED, "queue" => queue.name()).increment(1);
}

/// A process runs, so long after the decision to start it.
pub(crate) fn launched(after: Duration) {
    histogram!(LAUNCH_DURATION).record(after);
    counter!(LAUNCHES, "result" => "running").increment(1);
}

/// A process could not be started.
pub(crate) fn launch_failed() {
    counter!(LAUNCHES, "result" => "failed").increment(1);
}

/// A message of an older epoch or attempt was refused.
pub(crate) fn stale(kind: &'static str) {
    counter!(STALE_MESSAGES, "kind" => kind).increment(1);
}

/// What the file system has left, and what the work directories hold.
pub(crate) fn disk(free_bytes: u64, work_bytes: u64) {
    gauge!(DISK_FREE).set(free_bytes as f64);
    gauge!(WORK_BYTES).set(work_bytes as f64);
}

/// Whether the disk has room for new work.
pub(crate) fn accepting(accepting: bool) {
    gauge!(ACCEPTING).set(if accepting { 1.0 } else { 0.0 });
}

/// A work directory was removed.
pub(crate) fn work_dir_removed(reason: Reason) {
    counter!(WORK_DIRS_REMOVED, "reason" => reason.name()).increment(1);
}

/// An at-most-once attempt was ended because its lease was over.
pub(crate) fn lease_ended() {
    counter!(LEASE_ENDS).increment(1);
}

/// Publishes what the agent holds.
#[expect(
    clippy::cast_precision_loss,
    reason = "gauges are floats; the values are far below 2^52"
)]
pub(crate) fn publish(usage: &Usage) {
    for (state, count) in [
        ("waiting", usage.waiting),
        ("starting", usage.starting),
        ("running", usage.running),
        ("ending", usage.ending),
    ] {
        gauge!(PROCESSES, "state" => state).set(count as f64);
    }
    let free = usage.cores.saturating_sub(usage.cores_used);
    gauge!(CORES, "state" => "used").set(f64::from(usage.cores_used));
    gauge!(CORES, "state" => "free").set(f64::from(free));
    let bytes = |mib: u64| mib.saturating_mul(1 << 20) as f64;
    let free = usage.memory_mib.saturating_sub(usage.memory_mib_used);
    gauge!(MEMORY, "state" => "used").set(bytes(usage.memory_mib_used));
    gauge!(MEMORY, "state" => "free").set(bytes(free));
    gauge!(OUTBOX_DEPTH).set(usage.outbox as f64);
}
