//! The recorder behind `/metrics` of a master or an agent.

use std::{thread, time::Duration};

use interrex_proto::{
    metric::{self, BUCKETS},
    trace,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::exit::Failure;

/// How often samples are put into their buckets. Until then each of them is kept, so that a process which nobody scrapes
/// would grow for ever.
const UPKEEP: Duration = Duration::from_secs(5);

/// Installs the recorder of this process, and looks after it for as long as the process lives.
///
/// # Errors
/// When there is one already, or no thread can be started.
pub(crate) fn install() -> Result<PrometheusHandle, Failure> {
    let failed = |e: &dyn std::fmt::Display| {
        Failure::failed(format!("installing the metrics recorder: {e}"))
    };
    let handle = builder().and_then(PrometheusBuilder::install_recorder);
    let handle = handle.map_err(|e| failed(&e))?;
    // The others are described where they are set: whoever sets these may run in a process without a recorder.
    metric::describe(trace::TABLE.metrics);
    let kept = handle.clone();
    let upkeep = move || -> ! {
        loop {
            thread::sleep(UPKEEP);
            kept.run_upkeep();
        }
    };
    let thread = thread::Builder::new().name("interrex-metrics".to_owned());
    drop(thread.spawn(upkeep).map_err(|e| failed(&e))?);
    Ok(handle)
}

fn builder() -> Result<PrometheusBuilder, metrics_exporter_prometheus::BuildError> {
    let mut builder = PrometheusBuilder::new();
    for (name, bounds) in BUCKETS {
        let names = match name.starts_with('_') {
            true => Matcher::Suffix((*name).to_owned()),
            false => Matcher::Full((*name).to_owned()),
        };
        builder = builder.set_buckets_for_metric(names, bounds)?;
    }
    Ok(builder)
}
