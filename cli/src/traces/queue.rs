//! The bounded queue of spans that wait to be sent: what does not fit is dropped, and counted.
//!
//! The library's own queue drops as well, and tells nobody how much. So this counts what waits in there and keeps it below
//! that queue's bound, which is the same. What must never happen: that a span waits for room.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use interrex_proto::trace::{self, Dropped};
use opentelemetry::Context;
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{Span, SpanData, SpanProcessor},
};

/// Spans that wait where `OTEL_BSP_MAX_QUEUE_SIZE` does not say.
const WAITING_MAX: usize = 2_048;

/// How many spans wait. Cloning costs a reference count.
#[derive(Debug, Clone, Default)]
pub(super) struct Waiting(Arc<AtomicUsize>);

/// What hands spans on to `next` while fewer than `max` wait there.
#[derive(Debug)]
pub(super) struct Bounded<P> {
    next: P,
    waiting: Waiting,
    max: usize,
}

/// The most spans that may wait.
pub(super) fn waiting_max() -> usize {
    let given = std::env::var("OTEL_BSP_MAX_QUEUE_SIZE").ok();
    let given = given.and_then(|text| text.parse().ok());
    given.filter(|max| *max > 0).unwrap_or(WAITING_MAX)
}

// === impl Waiting ===

impl Waiting {
    /// One more waits, if fewer than `max` do.
    fn enter(&self, max: usize) -> bool {
        let enter = |waiting: usize| (waiting < max).then_some(waiting + 1);
        self.0
            .try_update(Ordering::Relaxed, Ordering::Relaxed, enter)
            .is_ok()
    }

    /// So many are being sent.
    pub(super) fn leave(&self, count: usize) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }
}

// === impl Bounded ===

impl<P> Bounded<P> {
    pub(super) fn new(next: P, waiting: Waiting, max: usize) -> Self {
        Self { next, waiting, max }
    }
}

impl<P: SpanProcessor> SpanProcessor for Bounded<P> {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.next.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        match self.waiting.enter(self.max) {
            true => self.next.on_end(span),
            false => trace::dropped(Dropped::NoRoom, 1),
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.next.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.next.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.next.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use opentelemetry::trace::{Tracer, TracerProvider};
    use opentelemetry_sdk::trace::SdkTracerProvider;

    use super::*;

    /// Keeps what comes.
    #[derive(Debug, Clone, Default)]
    struct Kept(Arc<Mutex<Vec<SpanData>>>);

    impl SpanProcessor for Kept {
        fn on_start(&self, _span: &mut Span, _context: &Context) {}

        fn on_end(&self, span: SpanData) {
            self.0.lock().expect("no panic before").push(span);
        }

        fn force_flush(&self) -> OTelSdkResult {
            Ok(())
        }

        fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
            Ok(())
        }
    }

    #[test]
    fn what_finds_no_room_is_dropped_and_counted() {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let (kept, waiting) = (Kept::default(), Waiting::default());
        let queue = Bounded::new(kept.clone(), waiting.clone(), 2);
        let provider = SdkTracerProvider::builder()
            .with_span_processor(queue)
            .build();
        let tracer = provider.tracer("test");
        let came = || kept.0.lock().expect("no panic before").len();
        metrics::with_local_recorder(&recorder, || {
            (0..5).for_each(|_| drop(tracer.start("a span")));
            assert_eq!(came(), 2);
            waiting.leave(1);
            (0..5).for_each(|_| drop(tracer.start("a span")));
            assert_eq!(came(), 3);
        });
        let line = "interrex_trace_spans_dropped_total{reason=\"no_room\"} 7\n";
        let scraped = recorder.handle().render();
        assert!(scraped.contains(line), "{scraped}");
    }
}
