//! A collector of traces in the test: takes what comes over OTLP, and keeps it.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
};
use tokio::runtime::Runtime;
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

/// A span that has arrived.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) service: String,
    pub(super) instance: String,
    pub(super) name: String,
    pub(super) trace: String,
    pub(super) id: String,
    /// Empty: it begins its trace.
    pub(super) parent: String,
    pub(super) began: u64,
    pub(super) ended: u64,
    attributes: Vec<KeyValue>,
}

/// A running collector.
pub(super) struct Collector {
    address: SocketAddr,
    seen: Kept,
    // Ends the server.
    _runtime: Runtime,
}

#[derive(Debug, Clone, Default)]
struct Kept(Arc<Mutex<Vec<Seen>>>);

// === impl Seen ===

impl Seen {
    /// An attribute as text; empty where it has none of the name.
    pub(super) fn attribute(&self, name: &str) -> String {
        value(&self.attributes, name)
    }
}

// === impl Collector ===

impl Collector {
    pub(super) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let seen = Kept::default();
        let service = TraceServiceServer::new(seen.clone());
        let (address, incoming) = {
            let _inside = runtime.enter();
            let incoming = TcpIncoming::bind(SocketAddr::from(([127, 0, 0, 1], 0)));
            let incoming = incoming.expect("a port");
            (incoming.local_addr().expect("an address"), incoming)
        };
        let server = Server::builder().add_service(service);
        runtime.spawn(server.serve_with_incoming(incoming));
        Self {
            address,
            seen,
            _runtime: runtime,
        }
    }

    /// As `--otlp-endpoint` takes it.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything that has come so far.
    pub(super) fn seen(&self) -> Vec<Seen> {
        let seen = self.seen.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clone()
    }
}

#[tonic::async_trait]
impl TraceService for Kept {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for of_process in request.into_inner().resource_spans {
            let process = of_process.resource.unwrap_or_default().attributes;
            for span in of_process.scope_spans.into_iter().flat_map(|s| s.spans) {
                all.push(Seen {
                    service: value(&process, "service.name"),
                    instance: value(&process, "service.instance.id"),
                    name: span.name,
                    trace: hex(&span.trace_id),
                    id: hex(&span.span_id),
                    parent: hex(&span.parent_span_id),
                    began: span.start_time_unix_nano,
                    ended: span.end_time_unix_nano,
                    attributes: span.attributes,
                });
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn value(attributes: &[KeyValue], name: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == name);
    match found.and_then(|a| a.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(other) => format!("{other:?}"),
        None => String::new(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
