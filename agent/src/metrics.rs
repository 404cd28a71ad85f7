//! The names that the agent counts under, each written once.

use std::time::Duration;

use crate::cleanup::plan::Reason;
use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

const PROCESSES: &str = "interrex_agent_processes";
const LAUNCH_DURATION: &str = "interrex_agent_launch_duration_seconds";
const OUTBOX_DEPTH: &str = "interrex_agent_outbox_depth";
const CORES: &str = "interrex_agent_cores";
const MEMORY: &str = "interrex_agent_memory_bytes";
const WORK_BYTES: &str = "interrex_agent_work_bytes";
const DISK_FREE: &str = "interrex_agent_disk_free_bytes";
const WORK_DIRS_REMOVED: &str = "interrex_agent_work_dirs_removed_total";
const ACCEPTING: &str = "interrex_agent_accepting";
const LEASE_ENDS: &str = "interrex_agent_lease_ends_total";
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
    describe_gauge!(
        WORK_BYTES,
        Unit::Bytes,
        "What the directories of drivers and executors hold, as last measured"
    );
    describe_gauge!(
        DISK_FREE,
        Unit::Bytes,
        "What is left where the work directory is"
    );
    describe_counter!(
        WORK_DIRS_REMOVED,
        "Work directories removed, by reason (age, budget, free)"
    );
    describe_gauge!(
        ACCEPTING,
        "1 while this agent accepts new work, 0 while its disk is too full"
    );
    describe_counter!(
        LEASE_ENDS,
        "At-most-once attempts that were ended because their lease was over"
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
