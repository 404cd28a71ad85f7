//! The Grafana dashboards, as code: what each panel shows, and why one would look at it.
//!
//! `make dashboards` writes them to `grafana/dashboards/*.json`, which is what Grafana reads; a test holds the two
//! together. What must never happen: a query that names a metric which nothing sets (a test of the `interrex` package
//! asks a real Prometheus each of them), a panel without a word about what is normal, or a fixed datasource.

mod board;
mod chaos;
mod internals;
mod overview;
mod panel;

use serde_json::Value;

pub use self::board::Board;

/// Every dashboard: the name of its file, and its JSON as Grafana imports it.
#[must_use]
pub fn dashboards() -> Vec<(&'static str, Value)> {
    [overview::board(), internals::board(), chaos::board()]
        .into_iter()
        .map(|board| (board.file, board.json()))
        .collect()
}

/// A dashboard's file, to the byte.
#[must_use]
pub fn text(dashboard: &Value) -> String {
    format!("{dashboard:#}\n")
}
