//! What happens in the cluster, told in the leader's log and in a metric: the event log in other clothes. Only what is
//! durable is told.
//!
//! Submissions are told at DEBUG only: there may be thousands a second, and their caller has the answer.

use interrex_core::{
    event::{Event, EventKind},
    state::{
        app::{Application, ApplicationState},
        driver::{Driver, DriverState},
        executor::ExecutorState,
        worker::WorkerState,
    },
    time::Timestamp,
    transition::Mutation,
};
use tracing::{debug, info, warn};

use crate::{metrics, runtime::view::ClusterView};

/// How loud an event is told.
enum Tone {
    Warn,
    Info,
    Debug,
}

/// Tells what `mutation` makes durable; `before` is the view that it has not been applied to yet.
pub(super) fn tell(before: &ClusterView, mutation: &Mutation, now: Timestamp) {
    match mutation {
        Mutation::PutEvents(events) => events.iter().for_each(tell_event),
        Mutation::DeleteWorker(worker) => {
            info!(epoch = before.epoch().0, %worker, "a worker is forgotten");
        }
        Mutation::PutDriver(driver) => first_process_of_driver(before, driver),
        Mutation::PutApp(app) => first_process_of_app(before, app, now),
        Mutation::PutWorker(_)
        | Mutation::PutExecutor(_)
        | Mutation::PutMeta(_)
        | Mutation::DeleteApp(_)
        | Mutation::DeleteDriver(_)
        | Mutation::DeleteExecutor(..)
        | Mutation::PutRequest(_)
        | Mutation::DeleteRequest(_)
        | Mutation::DeleteEvents { .. } => {}
    }
}

fn first_process_of_driver(before: &ClusterView, driver: &Driver) {
    let (DriverState::Running, Some(started)) = (driver.state, driver.started_at) else {
        return;
    };
    let was = before.driver(&driver.id);
    if was.is_none_or(|was| was.started_at.is_none()) {
        metrics::first_process("driver", started.since(driver.submitted_at));
    }
}

fn first_process_of_app(before: &ClusterView, app: &Application, now: Timestamp) {
    let was = before.app(&app.id).map(|was| was.state);
    if app.state == ApplicationState::Running && was != Some(ApplicationState::Running) {
        metrics::first_process("app", now.since(app.registered_at));
    }
}

fn tell_event(event: &Event) {
    let fact = &event.fact;
    metrics::event(&fact.kind);
    let (epoch, sequence) = (event.epoch.0, event.sequence.0);
    let (subject, who, why) = (&*fact.subject, &fact.who, fact.why.as_str());
    let worker = fact.worker.as_ref().map(|worker| worker.as_str());
    let attempt = fact.attempt.map(|attempt| attempt.0);
    let meaning = fact.kind.meaning();
    // The level of a log line is fixed where the line is, so there are three of them.
    match tone(&fact.kind) {
        Tone::Warn => {
            warn!(epoch, sequence, subject, worker, attempt, %who, why, "{meaning}");
        }
        Tone::Info => {
            info!(epoch, sequence, subject, worker, attempt, %who, why, "{meaning}");
        }
        Tone::Debug => {
            debug!(epoch, sequence, subject, worker, attempt, %who, why, "{meaning}");
        }
    }
}

fn tone(kind: &EventKind) -> Tone {
    match kind {
        EventKind::Worker(WorkerState::Dead)
        | EventKind::WorkerRefused
        | EventKind::WorkerNotAccepting => Tone::Warn,
        EventKind::Driver(DriverState::Submitted | DriverState::Running)
        | EventKind::Executor(ExecutorState::Running)
        | EventKind::App(ApplicationState::Running)
        // The rest is logged by those who did it, or answered to a caller.
        | EventKind::LeaderElected
        | EventKind::RecoveryEnded
        | EventKind::RecordQuarantined
        | EventKind::RequestReplayed
        | EventKind::RequestConflict
        | EventKind::RequestRefused => Tone::Debug,
        EventKind::Driver(_)
        | EventKind::DriverKillRequested
        | EventKind::Executor(_)
        | EventKind::App(_)
        | EventKind::AppTarget
        | EventKind::Worker(_)
        | EventKind::WorkerDrain
        | EventKind::WorkerUndrain
        | EventKind::WorkerAccepting
        | EventKind::HistoryCleared
        | EventKind::ReportStale
        | EventKind::ReportUnknown
        | EventKind::Other(_) => Tone::Info,
    }
}
