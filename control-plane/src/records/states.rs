//! States as text: Spark's names, so that a dump of a store reads like its pages.

use interrex_core::state::{
    app::ApplicationState, driver::DriverState, executor::ExecutorState, worker::WorkerState,
};

use crate::records::RecordError;

pub(super) const WORKER: [WorkerState; 3] =
    [WorkerState::Alive, WorkerState::Unknown, WorkerState::Dead];
pub(super) const APP: [ApplicationState; 5] = [
    ApplicationState::Waiting,
    ApplicationState::Running,
    ApplicationState::Finished,
    ApplicationState::Failed,
    ApplicationState::Killed,
];
pub(super) const DRIVER: [DriverState; 8] = [
    DriverState::Submitted,
    DriverState::Launching,
    DriverState::Running,
    DriverState::Relaunching,
    DriverState::Finished,
    DriverState::Killed,
    DriverState::Failed,
    DriverState::Error,
];
pub(super) const EXECUTOR: [ExecutorState; 8] = [
    ExecutorState::Launching,
    ExecutorState::Running,
    ExecutorState::Killing,
    ExecutorState::Decommissioned,
    ExecutorState::Killed,
    ExecutorState::Failed,
    ExecutorState::Lost,
    ExecutorState::Exited,
];

pub(super) fn worker(text: &str) -> Result<WorkerState, RecordError> {
    named(&WORKER, WorkerState::name, text)
}

pub(super) fn app(text: &str) -> Result<ApplicationState, RecordError> {
    named(&APP, ApplicationState::name, text)
}

pub(super) fn driver(text: &str) -> Result<DriverState, RecordError> {
    named(&DRIVER, DriverState::name, text)
}

pub(super) fn executor(text: &str) -> Result<ExecutorState, RecordError> {
    named(&EXECUTOR, ExecutorState::name, text)
}

fn named<S: Copy>(
    all: &[S],
    name: impl Fn(S) -> &'static str,
    text: &str,
) -> Result<S, RecordError> {
    all.iter()
        .copied()
        .find(|state| name(*state) == text)
        .ok_or_else(|| RecordError::Field {
            field: "state",
            value: text.to_owned(),
        })
}
