//! What the etcd backend reports of itself, beside what every engine reports.

use std::time::Duration;

use interrex_proto::metric::{self, Label, Metric, Table};
use metrics::{counter, gauge, histogram};

use super::failure::{CallError, Kind};

const CALL_FAILURES: &str = "interrex_etcd_call_failures_total";
const DISCONNECTS: &str = "interrex_etcd_disconnects_total";
const RENEWAL: &str = "interrex_etcd_lease_renewal_seconds";
const LEASE_LEFT: &str = "interrex_etcd_lease_left_seconds";
const LEASES_LOST: &str = "interrex_etcd_leases_lost_total";
const LOG_ENTRIES: &str = "interrex_etcd_log_entries";
const LOG_BYTES: &str = "interrex_etcd_log_bytes";
const SNAPSHOT_BUILD: &str = "interrex_etcd_snapshot_build_seconds";

/// What the etcd engine reports.
pub(crate) const TABLE: Table = Table {
    title: "etcd engine",
    metrics: &[
        Metric::counter(
            CALL_FAILURES,
            "Calls to etcd that failed, by what is known of their outcome.",
        )
        .by(&[
            Label::open("op"),
            Label::of("reason", &["unsent", "refused", "unknown"]),
        ])
        .when("once one failed"),
        Metric::counter(DISCONNECTS, "Connections to etcd that were given up."),
        Metric::histogram(
            RENEWAL,
            "From sending a keep-alive of the lease to its answer.",
        ),
        Metric::gauge(
            LEASE_LEFT,
            "How long the lease is good for, as this master counts; 0 when it is over.",
        )
        .when("once this master has campaigned"),
        Metric::counter(LEASES_LOST, "Leases that were lost."),
        Metric::gauge(
            LOG_ENTRIES,
            "Entries of the log since the snapshot, at the leader.",
        )
        .when("once this master has led"),
        Metric::gauge(
            LOG_BYTES,
            "Bytes of the log since the snapshot, at the leader.",
        )
        .when("once this master has led"),
        Metric::histogram(SNAPSHOT_BUILD, "Writing one snapshot."),
    ],
};

/// Says what each figure means, for scrapers.
pub(super) fn describe() {
    metric::describe(TABLE.metrics);
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
