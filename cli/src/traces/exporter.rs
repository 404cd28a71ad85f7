//! Tells once when the collector cannot be reached, and once when it can be again; counts what is lost meanwhile.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use interrex_proto::trace::{self, Dropped};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{SpanData, SpanExporter},
};

use super::{Endpoint, queue::Waiting};

/// An exporter that is looked at.
#[derive(Debug)]
pub(super) struct Watched<E> {
    inner: E,
    endpoint: Endpoint,
    waiting: Waiting,
    failing: AtomicBool,
}

// === impl Watched ===

impl<E> Watched<E> {
    /// Takes spans out of those that are `waiting`.
    pub(super) fn new(inner: E, endpoint: Endpoint, waiting: Waiting) -> Self {
        Self {
            inner,
            endpoint,
            waiting,
            failing: AtomicBool::new(false),
        }
    }

    fn note(&self, result: &OTelSdkResult) {
        let endpoint = self.endpoint.as_str();
        let before = self.failing.swap(result.is_err(), Ordering::Relaxed);
        match result {
            Err(error) if !before => tracing::warn!(
                event = "traces_not_sent",
                endpoint,
                %error,
                "traces cannot be sent and are dropped; said once"
            ),
            Ok(()) if before => {
                tracing::info!(
                    event = "traces_sent_again",
                    endpoint,
                    "traces are sent again"
                );
            }
            Ok(()) | Err(_) => {}
        }
    }
}

impl<E: SpanExporter> SpanExporter for Watched<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        self.waiting.leave(count);
        let result = self.inner.export(batch).await;
        if result.is_err() {
            trace::dropped(Dropped::NotSent, count);
        }
        self.note(&result);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}
