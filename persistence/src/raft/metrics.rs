//! The figures of the Raft backend. Seconds and counts; the only label is a peer's configured id.

use std::time::Duration;

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use super::log_store::LogSize;

const APPEND: &str = "interrex_raft_append_duration_seconds";
const COMMIT: &str = "interrex_raft_commit_duration_seconds";
const SNAPSHOT_BUILD: &str = "interrex_raft_snapshot_build_duration_seconds";
const TERM: &str = "interrex_raft_term";
const LAST: &str = "interrex_raft_last_index";
const COMMITTED: &str = "interrex_raft_committed_index";
const APPLIED: &str = "interrex_raft_applied_index";
const PURGED: &str = "interrex_raft_purged_index";
const SNAPSHOT: &str = "interrex_raft_snapshot_index";
const SNAPSHOT_AGE: &str = "interrex_snapshot_age_seconds";
const LOG_BYTES: &str = "interrex_raft_log_bytes";
const FSYNCS: &str = "interrex_raft_fsyncs_total";
const FSYNC_P99: &str = "interrex_raft_fsync_p99_seconds";
const QUORUM_AGE: &str = "interrex_last_quorum_ack_age_seconds";
const LAG: &str = "interrex_raft_replication_lag_entries";
const REOPENS: &str = "interrex_raft_reopens_total";
const MEMBERSHIP: &str = "interrex_raft_membership_changes_total";
const DISK_FREE: &str = "interrex_raft_disk_free_bytes";
const DISK_SLOW: &str = "interrex_raft_disk_slow";
const HAND_OVERS: &str = "interrex_raft_disk_hand_overs_total";
const LEADER_CHANGES: &str = "interrex_leader_changes_total";

/// Where the log stands.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Indexes {
    pub(super) term: u64,
    pub(super) last: Option<u64>,
    pub(super) committed: Option<u64>,
    pub(super) applied: Option<u64>,
    pub(super) purged: Option<u64>,
    pub(super) snapshot: Option<u64>,
}

/// Says what each figure means, for scrapers.
pub(super) fn describe() {
    describe_histogram!(
        APPEND,
        Unit::Seconds,
        "From handing entries to the log until they are synced"
    );
    describe_histogram!(
        COMMIT,
        Unit::Seconds,
        "From a commit's call until it is applied here, when acknowledged"
    );
    describe_histogram!(SNAPSHOT_BUILD, Unit::Seconds, "Writing one snapshot");
    describe_gauge!(TERM, "The Raft term; a leader's is its epoch");
    describe_gauge!(LAST, "Newest entry in the log");
    describe_gauge!(COMMITTED, "Newest entry known to be on a quorum");
    describe_gauge!(APPLIED, "Newest entry in the records");
    describe_gauge!(PURGED, "Newest entry removed from the log");
    describe_gauge!(SNAPSHOT, "Newest entry in the snapshot");
    describe_gauge!(
        SNAPSHOT_AGE,
        Unit::Seconds,
        "Age of the newest snapshot that raft took by itself; none yet: absent"
    );
    describe_gauge!(LOG_BYTES, Unit::Bytes, "Size of the log on the disk");
    describe_counter!(FSYNCS, "Syncs of the log");
    describe_gauge!(
        FSYNC_P99,
        Unit::Seconds,
        "99 of 100 syncs of the log took no longer"
    );
    describe_gauge!(
        QUORUM_AGE,
        Unit::Seconds,
        "How long ago a quorum last confirmed this leader; 0 on others"
    );
    describe_gauge!(LAG, "Entries a peer is behind this leader");
    describe_counter!(
        REOPENS,
        "Times that raft was opened again after the disk had failed"
    );
    describe_counter!(
        MEMBERSHIP,
        "Changes of the masters that were asked for here, by change"
    );
    describe_gauge!(
        DISK_FREE,
        Unit::Bytes,
        "What is left on the disk of the data directory"
    );
    describe_gauge!(DISK_SLOW, "1 while appends to the log take too long");
    describe_counter!(
        HAND_OVERS,
        "Leaderships handed over because of the disk, by reason"
    );
    describe_counter!(LEADER_CHANGES, "Leaders seen, after the first");
}

pub(super) fn appended(took: Duration) {
    histogram!(APPEND).record(took);
}

pub(super) fn committed(took: Duration) {
    histogram!(COMMIT).record(took);
}

pub(super) fn snapshot_built(took: Duration) {
    histogram!(SNAPSHOT_BUILD).record(took);
}

pub(super) fn leader_changed() {
    counter!(LEADER_CHANGES).increment(1);
}

pub(super) fn indexes(indexes: &Indexes) {
    gauge!(TERM).set(indexes.term as f64);
    for (name, value) in [
        (LAST, indexes.last),
        (COMMITTED, indexes.committed),
        (APPLIED, indexes.applied),
        (PURGED, indexes.purged),
        (SNAPSHOT, indexes.snapshot),
    ] {
        gauge!(name).set(value.unwrap_or(0) as f64);
    }
}

pub(super) fn log_size(size: LogSize) {
    gauge!(LOG_BYTES).set(size.bytes as f64);
    counter!(FSYNCS).absolute(size.fsyncs);
    gauge!(FSYNC_P99).set(size.fsync_p99.as_secs_f64());
}

pub(super) fn snapshot_age(age: Duration) {
    gauge!(SNAPSHOT_AGE).set(age.as_secs_f64());
}

pub(super) fn quorum_age(age: Duration) {
    gauge!(QUORUM_AGE).set(age.as_secs_f64());
}

pub(super) fn lag(peer: &str, entries: u64) {
    gauge!(LAG, "peer" => peer.to_owned()).set(entries as f64);
}

pub(super) fn reopened() {
    counter!(REOPENS).increment(1);
}

/// `change`: `added`, `removed` or `moved`.
pub(super) fn membership_changed(change: &'static str) {
    counter!(MEMBERSHIP, "change" => change).increment(1);
}

pub(super) fn disk_free(bytes: u64) {
    gauge!(DISK_FREE).set(bytes as f64);
}

pub(super) fn disk_slow(slow: bool) {
    gauge!(DISK_SLOW).set(if slow { 1.0 } else { 0.0 });
}

/// `reason`: `low_space` or `slow_disk`.
pub(super) fn handed_over(reason: &'static str) {
    counter!(HAND_OVERS, "reason" => reason).increment(1);
}
