//! The agent's part of traces: from the decision to start a driver until its process runs, or never will.
//!
//! Owned by the pump. Holds one span for each process that is being started, so it is bounded as those are.

use std::collections::BTreeMap;

use interrex_proto::trace::{self, TARGET, Traceparent};
use tracing::{Span, field::Empty};

use crate::process::{Launch, ProcessEvent, WorkKey};

/// The launches that are under way and traced.
#[derive(Debug, Default)]
pub(crate) struct Launches {
    open: BTreeMap<WorkKey, Span>,
}

/// A span of the agent about `key`; below `parent`.
pub(crate) fn span(name: &'static str, key: &WorkKey, parent: &Traceparent) -> Span {
    let span = tracing::trace_span!(
        target: TARGET,
        parent: None,
        "process",
        otel.name = name,
        interrex.work = %key,
        interrex.outcome = Empty,
        process.pid = Empty,
    );
    trace::below(Some(parent), span)
}

// === impl Launches ===

impl Launches {
    /// `launch` goes to the runner; what it does belongs below this.
    pub(crate) fn begin(&mut self, launch: &mut Launch) {
        let Some(place) = launch.trace.clone().filter(|_| trace::is_on()) else {
            return;
        };
        let span = span("launch", &launch.key, &place);
        launch.trace = trace::place(&span).or(Some(place));
        self.open.insert(launch.key.clone(), span);
    }

    /// The runner has told how it went.
    pub(crate) fn heard(&mut self, event: &ProcessEvent) {
        if let Some(span) = self.open.remove(event.key()) {
            came_to(&span, event);
        }
    }
}

/// Writes into `span` what came of a start.
pub(crate) fn came_to(span: &Span, event: &ProcessEvent) {
    match event {
        ProcessEvent::Started { pid, .. } => {
            span.record("process.pid", pid);
            span.record("interrex.outcome", "running");
        }
        ProcessEvent::NotStarted { .. } => {
            span.record("interrex.outcome", "failed");
        }
        ProcessEvent::Ended { .. } => {
            span.record("interrex.outcome", "ended");
        }
    }
}
