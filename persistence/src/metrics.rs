//! What every engine reports of itself.

use std::{future::Future, time::Instant};

use metrics::{Unit, describe_gauge, describe_histogram, gauge, histogram};

use crate::options::EngineKind;

/// How long an operation of a store took, by `engine` and `op`; seconds.
pub const STORE_OP_DURATION_SECONDS: &str = "interrex_store_op_duration_seconds";
/// What a store occupies, by `engine`: on disk where it has one, else in memory; bytes.
pub const STORE_SIZE_BYTES: &str = "interrex_store_size_bytes";

/// Tells the recorder what the metrics of this crate mean. Call once, after the recorder is installed.
pub fn describe() {
    describe_histogram!(
        STORE_OP_DURATION_SECONDS,
        Unit::Seconds,
        "Time of a store operation until it is durable or refused, by engine and op"
    );
    describe_gauge!(
        STORE_SIZE_BYTES,
        Unit::Bytes,
        "Size of the store: on disk where it has one, else in memory"
    );
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
