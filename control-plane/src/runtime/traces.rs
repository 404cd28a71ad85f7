//! The leader's part of traces: how long a submission's commit took, and how long its driver waited for a worker.
//!
//! Owned by the leader's loop, in memory alone and bounded: with the leadership it is gone. The next leader places and
//! launches a driver all the same, outside its trace.

use std::collections::BTreeMap;

use interrex_core::{
    command::Command,
    effect::{Effect, WorkerOrder},
    ids::DriverId,
    leader::{Answer, Ticket},
    state::driver::{Driver, DriverState},
    transition::{Mutation, Reply},
};
use interrex_proto::trace::{self, TARGET, Traceparent};
use tracing::{Span, field::Empty};

/// Traced drivers that may wait for their first process; the traces of further ones end with the commit.
const DRIVERS_MAX: usize = 10_000;

/// What is open.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    commits: BTreeMap<Ticket, Commit>,
    drivers: BTreeMap<DriverId, Schedule>,
}

/// A submission whose commit is under way.
#[derive(Debug)]
struct Commit {
    /// Where the submission came in.
    place: Traceparent,
    span: Span,
}

/// An accepted driver, up to its first process.
#[derive(Debug)]
struct Schedule {
    /// Until its first order is sent.
    span: Option<Span>,
    /// Where every order to launch it belongs.
    place: Option<Traceparent>,
}

/// The span of a submission's call, from its arrival to its answer. `name`: by what it came; `caller`: where that stands.
pub(crate) fn submission(name: &'static str, caller: Option<&Traceparent>) -> Span {
    let span = tracing::trace_span!(
        target: TARGET,
        parent: None,
        "submission",
        otel.name = name,
        otel.kind = "server",
        interrex.submission_id = Empty,
        interrex.outcome = Empty,
    );
    trace::below(caller, span)
}

/// Says which submission the call is about in whose span this is called.
pub(crate) fn named(submission: &str) {
    Span::current().record("interrex.submission_id", submission);
}

/// Says what the call has come to in whose span this is called.
pub(crate) fn came_to(outcome: &'static str) {
    Span::current().record("interrex.outcome", outcome);
}

// === impl Traces ===

impl Traces {
    /// A traced command goes to the machine. Only submissions have more to tell.
    pub(crate) fn taken(&mut self, ticket: Ticket, command: &Command, place: Traceparent) {
        if !matches!(command, Command::SubmitDriver { .. }) {
            return;
        }
        let span = tracing::trace_span!(
            target: TARGET,
            parent: None,
            "commit",
            interrex.outcome = Empty,
            interrex.driver_id = Empty,
        );
        let span = trace::below(Some(&place), span);
        self.commits.insert(ticket, Commit { place, span });
    }

    /// A request is answered: what it changed is durable.
    pub(crate) fn answered(&mut self, ticket: Ticket, answer: &Answer) {
        let Some(Commit { place, span }) = self.commits.remove(&ticket) else {
            return;
        };
        let (outcome, driver) = match answer {
            Answer::Reply(Reply::DriverSubmitted { driver, replayed }) => match replayed {
                true => ("replayed", None),
                false => ("accepted", Some(driver)),
            },
            Answer::Reply(_) => ("rejected", None),
            Answer::NotLeader => ("not_leader", None),
            Answer::OutcomeUnknown => ("unknown", None),
            Answer::DeadlineExceeded => ("late", None),
            Answer::Busy => ("busy", None),
        };
        span.record("interrex.outcome", outcome);
        if let Some(driver) = driver {
            span.record("interrex.driver_id", driver.id.as_str());
            self.accepted(driver, &place);
        }
    }

    fn accepted(&mut self, driver: &Driver, place: &Traceparent) {
        if self.drivers.len() >= DRIVERS_MAX {
            return;
        }
        let span = tracing::trace_span!(
            target: TARGET,
            parent: None,
            "schedule",
            interrex.driver_id = driver.id.as_str(),
            interrex.worker_id = Empty,
            interrex.outcome = Empty,
        );
        let span = trace::below(Some(place), span);
        let schedule = Schedule {
            place: trace::place(&span),
            span: Some(span),
        };
        self.drivers.insert(driver.id.clone(), schedule);
    }

    /// Where `effect` belongs, if it launches a traced driver. The first such order ends the wait for a worker.
    pub(crate) fn order(&mut self, effect: &Effect) -> Option<Traceparent> {
        if self.drivers.is_empty() {
            return None;
        }
        let Effect::Worker { worker, order } = effect else {
            return None;
        };
        let WorkerOrder::LaunchDriver { driver, .. } = order else {
            return None;
        };
        let schedule = self.drivers.get_mut(driver)?;
        if let Some(span) = schedule.span.take() {
            span.record("interrex.worker_id", worker.as_str());
            span.record("interrex.outcome", "launching");
        }
        schedule.place.clone()
    }

    /// What readers see now. A driver that runs, or never will, has no more to tell.
    pub(crate) fn shown(&mut self, mutation: &Mutation) {
        if self.drivers.is_empty() {
            return;
        }
        match mutation {
            Mutation::PutDriver(driver) if !is_on_its_way(driver.state) => {
                let schedule = self.drivers.remove(&driver.id);
                if let Some(span) = schedule.and_then(|schedule| schedule.span) {
                    span.record("interrex.outcome", driver.state.name());
                }
            }
            Mutation::DeleteDriver(id) => drop(self.drivers.remove(id)),
            Mutation::PutDriver(_)
            | Mutation::PutMeta(_)
            | Mutation::PutWorker(_)
            | Mutation::DeleteWorker(_)
            | Mutation::PutApp(_)
            | Mutation::DeleteApp(_)
            | Mutation::PutExecutor(_)
            | Mutation::DeleteExecutor(..)
            | Mutation::PutRequest(_)
            | Mutation::DeleteRequest(_)
            | Mutation::PutEvents(_)
            | Mutation::DeleteEvents { .. } => {}
        }
    }
}

/// Whether its first process is still to come.
fn is_on_its_way(state: DriverState) -> bool {
    match state {
        DriverState::Submitted | DriverState::Launching => true,
        DriverState::Running
        | DriverState::Relaunching
        | DriverState::Finished
        | DriverState::Killed
        | DriverState::Failed
        | DriverState::Error => false,
    }
}
