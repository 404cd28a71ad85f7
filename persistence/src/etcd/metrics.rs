//! What the etcd backend reports of itself, beside what every engine reports.

use std::time::Duration;

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use super::failure::{CallError, Kind};

/// Calls to etcd that failed, by `op` and `reason` (`unsent`, `refused`, `unknown`).
const CALL_FAILURES: &str = "interrex_etcd_call_failures_total";
/// Connections to etcd that were given up.
const DISCONNECTS: &str = "interrex_etcd_disconnects_total";
/// From sending a keep-alive of the lease to its answer; seconds.
const RENEWAL: &str = "interrex_etcd_lease_renewal_seconds";
/// How long the lease is good for, as this master counts; 0 when it is over.
const LEASE_LEFT: &str = "interrex_etcd_lease_left_seconds";
/// Leases that were lost.
const LEASES_LOST: &str = "interrex_etcd_leases_lost_total";
/// Entries of the log since the snapshot, at the leader.
const LOG_ENTRIES: &str = "interrex_etcd_log_entries";
/// Bytes of the log since the snapshot, at the leader.
const LOG_BYTES: &str = "interrex_etcd_log_bytes";
/// Writing one snapshot; seconds.
const SNAPSHOT_BUILD: &str = "interrex_etcd_snapshot_build_seconds";

/// Says what each figure means, for scrapers.
pub(super) fn describe() {
    describe_counter!(CALL_FAILURES, "Calls to etcd that failed, by op and reason");
    describe_counter!(DISCONNECTS, "Connections to etcd that were given up");
    describe_histogram!(
        RENEWAL,
        Unit::Seconds,
        "From sending a keep-alive of the lease to its answer"
    );
    describe_gauge!(
        LEASE_LEFT,
        Unit::Seconds,
        "How long the lease is good for, as this master counts; 0 when it is over"
    );
    describe_counter!(LEASES_LOST, "Leases that were lost");
    describe_gauge!(
        LOG_ENTRIES,
        "Entries of the log since the snapshot, at the leader"
    );
    describe_gauge!(
        LOG_BYTES,
        Unit::Bytes,
        "Bytes of the log since the snapshot, at the leader"
    );
    describe_histogram!(SNAPSHOT_BUILD, Unit::Seconds, "Writing one snapshot");
}

pub(super) fn called<T>(op: &'static str, outcome: &Result<T, CallError>) {
    let Err(error) = outcome else { return };
    let reason = match error.kind {
        Kind::Unsent => "unsent",
        Kind::Refused(_) => "refused",
        Kind::Unknown => "unknown",
    };
    counter!(CALL_FAILURES, "op" => op, "reason" => reason).increment(1);
}

pub(super) fn disconnected() {
    counter!(DISCONNECTS).increment(1);
}

pub(super) fn renewed(took: Duration) {
    histogram!(RENEWAL).record(took);
}

pub(super) fn lease_left(left: Duration) {
    gauge!(LEASE_LEFT).set(left.as_secs_f64());
}

pub(super) fn lease_lost() {
    counter!(LEASES_LOST).increment(1);
}

pub(super) fn log_size(entries: u64, bytes: u64) {
    gauge!(LOG_ENTRIES).set(entries as f64);
    gauge!(LOG_BYTES).set(bytes as f64);
}

pub(super) fn snapshot_built(took: Duration) {
    histogram!(SNAPSHOT_BUILD).record(took);
}
