//! One trace from a submission to its process, through every program on the way.
//!
//! A program marks its part with a span of [`TARGET`], and hands on where it is as a W3C `traceparent`: in the metadata of
//! a call, in an order. Spans of different tasks and programs are held together by that text alone, so none keeps
//! another one open. Where spans go is the affair of the program, which [installs](install) a [`Propagation`]; without
//! one nothing is recorded, and a span costs a comparison.
//!
//! What must never happen: that a trace decides anything, or is stored. It may end anywhere.

use std::{fmt, sync::OnceLock};

use tonic::metadata::MetadataMap;
use tracing::Span;

use crate::metric::{Label, Metric, Table};

/// The target of all spans that belong to traces; their level is TRACE, so that no log shows them by chance.
pub const TARGET: &str = "interrex::trace";
/// The name under which a place in a trace travels: a key of gRPC metadata, a header of HTTP.
pub const TRACEPARENT: &str = "traceparent";
/// The variable under which a process finds its place in a trace.
pub const TRACEPARENT_VARIABLE: &str = "TRACEPARENT";
/// Length of a place in a trace: `00-<32 hex digits>-<16 hex digits>-<2 hex digits>`.
const LENGTH: usize = 55;

const SPANS_DROPPED: &str = "interrex_trace_spans_dropped_total";

/// What is counted of traces.
pub const TABLE: Table = Table {
    title: "Traces",
    metrics: &[Metric::counter(
        SPANS_DROPPED,
        "Spans that no collector got: the queue was full (`no_room`), or the collector did not take them (`not_sent`).",
    )
    .by(&[Label::of("reason", &[Dropped::NoRoom.name(), Dropped::NotSent.name()])])],
};

/// Why a span is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// So many waited that it found no room.
    NoRoom,
    /// The collector could not be reached, was late, or refused it.
    NotSent,
}

/// A place in a trace: which one, and below which span.
#[derive(Clone, PartialEq, Eq)]
pub struct Traceparent(String);

/// Knows the places of spans. Installed by a program that sends its spans somewhere.
pub trait Propagation: Send + Sync + 'static {
    /// Where `span` is, if it is recorded.
    fn place(&self, span: &Span) -> Option<Traceparent>;

    /// Puts `span`, which has not been entered yet, below `parent`.
    fn follow(&self, span: &Span, parent: &Traceparent);
}

static PROPAGATION: OnceLock<Box<dyn Propagation>> = OnceLock::new();

/// Has spans recorded from now on, for the life of this program. The first one stays.
pub fn install(propagation: impl Propagation) {
    drop(PROPAGATION.set(Box::new(propagation)));
}

/// Whether spans are recorded.
#[must_use]
pub fn is_on() -> bool {
    PROPAGATION.get().is_some()
}

/// Where `span` is, if it is recorded.
#[must_use]
pub fn place(span: &Span) -> Option<Traceparent> {
    PROPAGATION.get()?.place(span)
}

/// Where the span is in which this is called.
#[must_use]
pub fn here() -> Option<Traceparent> {
    PROPAGATION.get()?.place(&Span::current())
}

/// `span` below `parent`; without one it begins a trace. To be called before `span` is entered.
#[must_use]
pub fn below(parent: Option<&Traceparent>, span: Span) -> Span {
    if let (Some(propagation), Some(parent)) = (PROPAGATION.get(), parent) {
        propagation.follow(&span, parent);
    }
    span
}

/// Writes where `span` is into the metadata of a call.
pub fn inject(span: &Span, metadata: &mut MetadataMap) {
    let value = place(span).and_then(|place| place.0.parse().ok());
    if let Some(value) = value {
        metadata.insert(TRACEPARENT, value);
    }
}

/// Where the caller is, as the metadata of its call says.
#[must_use]
pub fn extract(metadata: &MetadataMap) -> Option<Traceparent> {
    is_on().then_some(())?;
    Traceparent::parse(metadata.get(TRACEPARENT)?.to_str().ok()?)
}

/// So many spans are lost.
pub fn dropped(why: Dropped, count: usize) {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    metrics::counter!(SPANS_DROPPED, "reason" => why.name()).increment(count);
}

// === impl Dropped ===

impl Dropped {
    /// As the label has it.
    const fn name(self) -> &'static str {
        match self {
            Self::NoRoom => "no_room",
            Self::NotSent => "not_sent",
        }
    }
}

// === impl Traceparent ===

impl Traceparent {
    /// Reads the text of version 00. What is malformed, or all zeros, is no place.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let version = parts.next()?;
        let (trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?);
        let hex = |part: &str, length: usize| {
            let digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
            part.len() == length && part.bytes().all(digit)
        };
        let some = |part: &str| part.bytes().any(|c| c != b'0');
        let fits = text.len() == LENGTH
            && version == "00"
            && hex(trace, 32)
            && hex(span, 16)
            && hex(flags, 2);
        (fits && some(trace) && some(span)).then(|| Self(text.to_owned()))
    }

    /// As it travels.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_well_formed_place_is_taken() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let place = Traceparent::parse(good).expect("it is one");
        assert_eq!(place.as_str(), good);
        for bad in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333-001",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0\n",
        ] {
            assert_eq!(Traceparent::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn nothing_travels_where_nothing_is_recorded() {
        let mut metadata = MetadataMap::new();
        inject(&Span::none(), &mut metadata);
        assert!(metadata.is_empty());
        assert_eq!((is_on(), here()), (false, None));
    }
}
