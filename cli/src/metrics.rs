//! The recorder behind `/metrics` of a master or an agent.

use interrex_control_plane::metrics::BUCKETS;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::exit::Failure;

/// Installs the recorder of this process.
///
/// # Errors
/// When there is one already.
pub(crate) fn install() -> Result<PrometheusHandle, Failure> {
    let mut builder = Ok(PrometheusBuilder::new());
    for (suffix, bounds) in BUCKETS {
        let names = Matcher::Suffix((*suffix).to_owned());
        builder = builder.and_then(|builder| builder.set_buckets_for_metric(names, bounds));
    }
    let handle = builder.and_then(PrometheusBuilder::install_recorder);
    handle.map_err(|e| Failure::failed(format!("installing the metrics recorder: {e}")))
}
