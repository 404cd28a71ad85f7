//! Where spans are, in OpenTelemetry's terms and in those of the wire.

use interrex_proto::trace::{Propagation, Traceparent};
use opentelemetry::{
    Context,
    trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState},
};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Translates both ways.
#[derive(Debug)]
pub(super) struct Places;

impl Propagation for Places {
    fn place(&self, span: &Span) -> Option<Traceparent> {
        if span.is_disabled() {
            return None;
        }
        let context = span.context();
        let here = context.span().span_context().clone();
        let text = format!(
            "00-{}-{}-{:02x}",
            here.trace_id(),
            here.span_id(),
            here.trace_flags() & TraceFlags::SAMPLED
        );
        // What is not recorded has the id 0, which is no place.
        Traceparent::parse(&text)
    }

    fn follow(&self, span: &Span, parent: &Traceparent) {
        let mut parts = parent.as_str().split('-').skip(1);
        let mut next = || parts.next().unwrap_or_default();
        let (trace, above, flags) = (next(), next(), next());
        let flags = u8::from_str_radix(flags, 16).unwrap_or_default();
        let parent = SpanContext::new(
            TraceId::from_hex(trace).unwrap_or(TraceId::INVALID),
            SpanId::from_hex(above).unwrap_or(SpanId::INVALID),
            TraceFlags::new(flags) & TraceFlags::SAMPLED,
            true,
            TraceState::default(),
        );
        let set = span.set_parent(Context::new().with_remote_span_context(parent));
        if let Err(error) = set {
            tracing::debug!(%error, "a span begins a trace of its own");
        }
    }
}
