//! The recorder behind `/metrics` of a master or an agent.

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::exit::Failure;

/// Bounds of every histogram of times, in seconds: from a local fsync to a slow start.
const SECONDS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// Installs the recorder of this process.
///
/// # Errors
/// When there is one already.
pub(crate) fn install() -> Result<PrometheusHandle, Failure> {
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS);
    let handle = builder.and_then(PrometheusBuilder::install_recorder);
    handle.map_err(|e| Failure::failed(format!("installing the metrics recorder: {e}")))
}
