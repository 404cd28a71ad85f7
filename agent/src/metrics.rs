//! The names that the agent counts under, each written once.

use std::time::Duration;

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

const PROCESSES: &str = "interrex_agent_processes";
const LAUNCH_DURATION: &str = "interrex_agent_launch_duration_seconds";
const OUTBOX_DEPTH: &str = "interrex_agent_outbox_depth";
const CORES: &str = "interrex_agent_cores";
const MEMORY: &str = "interrex_agent_memory_bytes";
const STALE: &str = "interrex_stale_messages_total";

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

/// Describes every metric of the agent, and of its session, to the installed recorder.
pub fn describe() {
    interrex_client::metrics::describe();
    describe_gauge!(PROCESSES, "Processes of this agent by state");
    describe_histogram!(
        LAUNCH_DURATION,
        Unit::Seconds,
        "From the decision to start a process until it runs"
    );
    describe_gauge!(OUTBOX_DEPTH, "Reports not yet acknowledged by a master");
    describe_gauge!(CORES, "Cores of this agent by state (used, free)");
    describe_gauge!(
        MEMORY,
        Unit::Bytes,
        "Memory of this agent by state (used, free)"
    );
    describe_counter!(
        STALE,
        "Messages of an older epoch or attempt that were refused"
    );
}

/// A process runs, so long after the decision to start it.
pub(crate) fn launched(after: Duration) {
    histogram!(LAUNCH_DURATION).record(after);
}

/// A message of an older epoch or attempt was refused.
pub(crate) fn stale(kind: &'static str) {
    counter!(STALE, "kind" => kind).increment(1);
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
