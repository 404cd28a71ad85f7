//! What every engine reports of itself.

use std::{future::Future, time::Instant};

use interrex_proto::metric::{self, Label, Metric, Table};
use metrics::{counter, gauge, histogram};

use crate::options::EngineKind;

/// How long an operation of a store took.
pub const STORE_OP_DURATION_SECONDS: &str = "interrex_store_op_duration_seconds";
/// What a store occupies.
pub const STORE_SIZE_BYTES: &str = "interrex_store_size_bytes";

/// Requests that wait for a writer.
const STORE_QUEUE_DEPTH: &str = "interrex_store_queue_depth";
/// Requests that may wait.
const STORE_QUEUE_LIMIT: &str = "interrex_store_queue_limit";
/// Requests that were refused.
const STORE_QUEUE_REFUSED: &str = "interrex_store_requests_refused_total";

const ENGINE: Label = Label::of("engine", &["raft", "etcd", "sled", "memory"]);

/// What every engine reports.
pub const TABLE: Table = Table {
    title: "Store (every engine)",
    metrics: &[
        Metric::histogram(
            STORE_OP_DURATION_SECONDS,
            "Time of a store operation until it is durable or refused.",
        )
        .by(&[ENGINE, Label::of("op", &["open_epoch", "commit", "confirm"])])
        .when("once a master has led"),
        Metric::gauge(
            STORE_SIZE_BYTES,
            "What the records take: on the disk with sled, else in memory, where all engines hold them.",
        )
        .by(&[ENGINE])
        .when("shortly after the start; with etcd and memory once a master has led"),
        Metric::gauge(STORE_QUEUE_DEPTH, "Requests that waited for the store's writer when the newest one came.")
            .when("with etcd and sled, once a master has led"),
        Metric::gauge(STORE_QUEUE_LIMIT, "Requests that may wait for the store's writer.")
            .when("with etcd and sled, once a master has led"),
        Metric::counter(STORE_QUEUE_REFUSED, "Requests refused because the store's writer does not keep up."),
    ],
};

/// Every table of this crate; those of an engine are described when it is opened.
#[must_use]
pub fn tables() -> [&'static Table; 3] {
    [
        &TABLE,
        &crate::raft::metrics::TABLE,
        &crate::etcd::metrics::TABLE,
    ]
}

/// Tells the recorder what the metrics of this crate mean. Call once, after the recorder is installed.
pub fn describe() {
    metric::describe(TABLE.metrics);
}

/// Runs an operation and records how long it took, whatever its outcome.
pub(crate) async fn timed<T>(
    engine: EngineKind,
    op: &'static str,
    operation: impl Future<Output = T>,
) -> T {
    let began = Instant::now();
    let outcome = operation.await;
    histogram!(STORE_OP_DURATION_SECONDS, "engine" => engine.name(), "op" => op)
        .record(began.elapsed().as_secs_f64());
    outcome
}

/// So many requests wait for a writer, and so many may.
pub(crate) fn queue(depth: usize, limit: usize) {
    gauge!(STORE_QUEUE_DEPTH).set(depth as f64);
    gauge!(STORE_QUEUE_LIMIT).set(limit as f64);
}

/// A writer's queue was full.
pub(crate) fn queue_refused() {
    counter!(STORE_QUEUE_REFUSED).increment(1);
}

/// Records the size of a store.
pub(crate) fn store_size(engine: EngineKind, bytes: u64) {
    gauge!(STORE_SIZE_BYTES, "engine" => engine.name()).set(bytes as f64);
}
