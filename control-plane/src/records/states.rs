//! States as text: Spark's names, so that a dump of a store reads like its pages.

use interrex_core::state::{
    app::ApplicationState, driver::DriverState, executor::ExecutorState, worker::WorkerState,
};

use crate::records::RecordError;

pub(super) fn worker(text: &str) -> Result<WorkerState, RecordError> {
    named(&WorkerState::ALL, WorkerState::name, text)
}

pub(super) fn app(text: &str) -> Result<ApplicationState, RecordError> {
    named(&ApplicationState::ALL, ApplicationState::name, text)
}

pub(super) fn driver(text: &str) -> Result<DriverState, RecordError> {
    named(&DriverState::ALL, DriverState::name, text)
}

pub(super) fn executor(text: &str) -> Result<ExecutorState, RecordError> {
    named(&ExecutorState::ALL, ExecutorState::name, text)
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
