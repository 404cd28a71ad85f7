//! What every engine reports of itself.

use std::{future::Future, time::Instant};

use interrex_proto::metric::{self, Label, Metric, Table};
use metrics::{gauge, histogram};

use crate::options::EngineKind;

/// How long an operation of a store took.
pub const STORE_OP_DURATION_SECONDS: &str = "interrex_store_op_duration_seconds";
/// What a store occupies.
pub const STORE_SIZE_BYTES: &str = "interrex_store_size_bytes";

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

/// Records the size of a store.
pub(crate) fn store_size(engine: EngineKind, bytes: u64) {
    gauge!(STORE_SIZE_BYTES, "engine" => engine.name()).set(bytes as f64);
}
