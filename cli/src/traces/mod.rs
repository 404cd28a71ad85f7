//! Traces, sent to a collector over OTLP (gRPC) where one is named: `--otlp-endpoint`.
//!
//! Spans are gathered in a bounded queue and sent by threads of their own. What must never happen: that a collector which
//! is slow, gone or full of errors costs anybody anything. A full queue drops spans, which are
//! counted, and a failure is logged once.

mod exporter;
mod places;
mod queue;

use std::{str::FromStr, sync::OnceLock, time::Duration};

use interrex_proto::trace::{self, TARGET};
use opentelemetry::{KeyValue, trace::TracerProvider};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::{
    Resource,
    trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider},
};
use tokio::runtime::{Builder, Runtime};
use tracing_subscriber::{Layer, filter::LevelFilter, filter::Targets};

use self::{
    exporter::Watched,
    places::Places,
    queue::{Bounded, Waiting, waiting_max},
};
use crate::{
    exit::{Failure, chain},
    logging::Beside,
};

/// How long the collector may take for one batch.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a process that ends waits until its last spans are sent.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);
/// The name of the library in every span.
const LIBRARY: &str = "interrex";

/// What sends spans, for the life of this process.
static SENDING: OnceLock<(SdkTracerProvider, Runtime)> = OnceLock::new();

/// The options of traces, shared by every command.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TraceArgs {
    /// Send traces to this collector (OTLP over gRPC), such as `http://127.0.0.1:4317`; none are made if not given
    #[arg(
        long,
        global = true,
        env = "OTEL_EXPORTER_OTLP_ENDPOINT",
        value_name = "URL"
    )]
    #[arg(help_heading = "Global options")]
    pub(crate) otlp_endpoint: Option<Endpoint>,
}

/// Where a collector listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint(String);

/// Who makes the spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Service {
    /// `service.name`, unless `OTEL_SERVICE_NAME` says another.
    pub(crate) name: &'static str,
    /// `service.instance.id`; unset where this is one of many short runs.
    pub(crate) instance: Option<String>,
}

// === impl Endpoint ===

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = |why: &str| {
            format!("{why}; write http://HOST:PORT, such as http://127.0.0.1:4317 (OTLP over gRPC)")
        };
        let uri: http::Uri = text.parse().map_err(|e| fault(&format!("{e}")))?;
        match (uri.scheme_str(), uri.host()) {
            (Some("http"), Some(_)) => Ok(Self(text.to_owned())),
            (Some("https"), _) => Err(fault(
                "TLS is not spoken: run a collector beside this process, which sends on",
            )),
            (Some(_) | None, _) => Err(fault("this is no address of a collector")),
        }
    }
}

impl Endpoint {
    /// As it was given.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Makes `service` send its traces, if a collector is named and `OTEL_SDK_DISABLED` does not say otherwise. What is returned
/// has to be installed beside the log.
///
/// # Errors
/// When the threads that send cannot be started.
pub(crate) fn start(args: &TraceArgs, service: Option<Service>) -> Result<Option<Beside>, Failure> {
    let disabled = std::env::var("OTEL_SDK_DISABLED").is_ok_and(|v| v.eq_ignore_ascii_case("true"));
    let (Some(endpoint), Some(service), false) = (&args.otlp_endpoint, service, disabled) else {
        return Ok(None);
    };
    // Not that of the command: clients block their only thread when they end, and a busy master must not wait for this.
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("interrex-traces")
        .enable_all()
        .build();
    let runtime = runtime.map_err(|e| Failure::io("starting what sends traces", &e))?;
    let exporter = {
        let _inside = runtime.enter();
        SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint.as_str())
            .with_timeout(EXPORT_TIMEOUT)
            .build()
    };
    let exporter =
        exporter.map_err(|e| Failure::usage(format!("--otlp-endpoint: {}", chain(&e))))?;
    let mut facts = vec![KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))];
    facts.extend(
        service
            .instance
            .map(|id| KeyValue::new("service.instance.id", id)),
    );
    if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
        facts.push(KeyValue::new("service.name", service.name));
    }
    let (waiting, max) = (Waiting::default(), waiting_max());
    let watched = Watched::new(exporter, endpoint.clone(), waiting.clone());
    let batches = BatchSpanProcessor::builder(watched)
        .with_batch_config(
            BatchConfigBuilder::default()
                .with_max_queue_size(max)
                .build(),
        )
        .build();
    let provider = SdkTracerProvider::builder()
        .with_resource(Resource::builder().with_attributes(facts).build())
        .with_span_processor(Bounded::new(batches, waiting, max))
        .build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer(LIBRARY))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_filter(Targets::new().with_target(TARGET, LevelFilter::TRACE));
    trace::install(Places);
    // A process runs one command.
    drop(SENDING.set((provider, runtime)));
    Ok(Some(layer.boxed()))
}

/// Sends what is left, for a bounded time. To be called when the command is over.
pub(crate) fn finish() {
    if let Some((provider, _)) = SENDING.get()
        && let Err(error) = provider.shutdown_with_timeout(FINISH_TIMEOUT)
    {
        tracing::debug!(%error, "the last spans are not sent");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_an_address_without_tls() {
        for good in ["http://127.0.0.1:4317", "http://collector:4317/"] {
            assert_eq!(good.parse(), Ok(Endpoint(good.to_owned())));
        }
        for (bad, word) in [
            ("https://collector:4317", "TLS"),
            ("collector:4317", "http://HOST:PORT"),
            ("127.0.0.1:4317", "http://HOST:PORT"),
            ("", "http://HOST:PORT"),
        ] {
            let error = bad.parse::<Endpoint>().expect_err(bad);
            assert!(error.contains(word), "{bad}: {error}");
        }
    }
}
