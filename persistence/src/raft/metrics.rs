//! The figures of the Raft backend. Seconds and counts; the only label that is not a word of this file is a peer's
//! configured id, of which there are six at most.

use std::time::Duration;

use interrex_proto::metric::{self, Label, Metric, Table};
use metrics::{counter, gauge, histogram};

use super::log_store::LogSize;

const APPEND: &str = "interrex_raft_append_duration_seconds";
const FSYNC: &str = "interrex_raft_fsync_duration_seconds";
const APPLY: &str = "interrex_raft_apply_duration_seconds";
const COMMIT: &str = "interrex_raft_commit_duration_seconds";
const SNAPSHOT_BUILD: &str = "interrex_raft_snapshot_build_duration_seconds";
const SNAPSHOT_INSTALL: &str = "interrex_raft_snapshot_install_duration_seconds";
const TERM: &str = "interrex_raft_term";
const LAST: &str = "interrex_raft_last_index";
const COMMITTED: &str = "interrex_raft_committed_index";
const APPLIED: &str = "interrex_raft_applied_index";
const PURGED: &str = "interrex_raft_purged_index";
const SNAPSHOT: &str = "interrex_raft_snapshot_index";
const SNAPSHOT_AGE: &str = "interrex_snapshot_age_seconds";
const LOG_BYTES: &str = "interrex_raft_log_bytes";
const FSYNCS: &str = "interrex_raft_fsyncs_total";
const QUORUM_AGE: &str = "interrex_last_quorum_ack_age_seconds";
const VOTERS: &str = "interrex_raft_voters";
const TOLERATED: &str = "interrex_raft_failures_tolerated";
const LAG: &str = "interrex_raft_replication_lag_entries";
const PEER_RTT: &str = "interrex_raft_peer_rtt_seconds";
const REOPENS: &str = "interrex_raft_reopens_total";
const MEMBERSHIP: &str = "interrex_raft_membership_changes_total";
const DISK_FREE: &str = "interrex_raft_disk_free_bytes";
const DISK_SLOW: &str = "interrex_raft_disk_slow";
const HAND_OVERS: &str = "interrex_raft_disk_hand_overs_total";

const PEER: &[Label] = &[Label::open("peer")];

/// What the Raft engine reports.
pub(crate) const TABLE: Table = Table {
    title: "Raft engine",
    metrics: &[
        Metric::histogram(
            APPEND,
            "From handing entries to the log until they are on the disk.",
        ),
        Metric::histogram(
            FSYNC,
            "One write and fsync of the log, which many appends share.",
        ),
        Metric::histogram(
            APPLY,
            "Applying what a quorum has, a group of entries at a time.",
        ),
        Metric::histogram(
            COMMIT,
            "From a commit's call until it is applied here, when acknowledged.",
        ),
        Metric::histogram(SNAPSHOT_BUILD, "Writing one snapshot."),
        Metric::histogram(SNAPSHOT_INSTALL, "Taking over one snapshot of the leader."),
        Metric::gauge(
            TERM,
            "The Raft term; a leader's epoch is this plus what a restored snapshot has raised it by.",
        ),
        Metric::gauge(LAST, "Newest entry in the log."),
        Metric::gauge(COMMITTED, "Newest entry known to be on a quorum."),
        Metric::gauge(APPLIED, "Newest entry in the records."),
        Metric::gauge(PURGED, "Newest entry removed from the log."),
        Metric::gauge(SNAPSHOT, "Newest entry in the snapshot."),
        Metric::gauge(
            SNAPSHOT_AGE,
            "Age of the newest snapshot that raft took by itself.",
        )
        .when("once there is one: a small log needs none"),
        Metric::gauge(LOG_BYTES, "Size of the log on the disk."),
        Metric::counter(FSYNCS, "Fsyncs of the log."),
        Metric::gauge(
            QUORUM_AGE,
            "How long ago a quorum last confirmed this leader; 0 on others.",
        ),
        Metric::gauge(
            VOTERS,
            "Masters that may vote, as this one knows the membership.",
        ),
        Metric::gauge(
            TOLERATED,
            "Masters that may still be lost before the quorum is, as the leader sees it; 0 on others.",
        ),
        Metric::gauge(
            LAG,
            "Entries that a peer is behind this leader; 0 on others.",
        )
        .by(PEER)
        .when("with other masters"),
        Metric::histogram(
            PEER_RTT,
            "From a heartbeat to a peer until the peer has taken it.",
        )
        .by(PEER)
        .when("once this master has led, with others"),
        Metric::counter(
            REOPENS,
            "Times that raft was opened again after the disk had failed.",
        ),
        Metric::counter(
            MEMBERSHIP,
            "Changes of the masters that were asked for here.",
        )
        .by(&[Label::of("change", &["added", "removed", "moved"])]),
        Metric::gauge(DISK_FREE, "What is left on the disk of the data directory."),
        Metric::gauge(DISK_SLOW, "1 while appends to the log take too long."),
        Metric::counter(HAND_OVERS, "Leaderships handed over because of the disk.")
            .by(&[Label::of("reason", &["low_space", "slow_disk"])]),
    ],
};

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
    metric::describe(TABLE.metrics);
}

pub(super) fn appended(took: Duration) {
    histogram!(APPEND).record(took);
}

pub(super) fn committed(took: Duration) {
    histogram!(COMMIT).record(took);
}

/// One write and fsync, whatever came of it.
pub(super) fn synced(took: Duration) {
    histogram!(FSYNC).record(took);
}

/// A group of entries is in the records.
pub(super) fn applied(took: Duration) {
    histogram!(APPLY).record(took);
}

pub(super) fn snapshot_installed(took: Duration) {
    histogram!(SNAPSHOT_INSTALL).record(took);
}

/// A peer has taken a heartbeat.
pub(super) fn peer_answered(peer: &str, took: Duration) {
    histogram!(PEER_RTT, "peer" => peer.to_owned()).record(took);
}

/// Who votes, and how many of them may still be lost.
pub(super) fn quorum(voters: usize, tolerated: usize) {
    gauge!(VOTERS).set(voters as f64);
    gauge!(TOLERATED).set(tolerated as f64);
}

pub(super) fn snapshot_built(took: Duration) {
    histogram!(SNAPSHOT_BUILD).record(took);
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
}

pub(super) fn snapshot_age(age: Duration) {
    gauge!(SNAPSHOT_AGE).set(age.as_secs_f64());
}

pub(super) fn quorum_age(age: Duration) {
    gauge!(QUORUM_AGE).set(age.as_secs_f64());
}

/// How far a peer is behind; `None`: this master does not lead, and what it said as the leader is over.
pub(super) fn lag(peer: &str, entries: Option<u64>) {
    gauge!(LAG, "peer" => peer.to_owned()).set(entries.unwrap_or(0) as f64);
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
