//! The messages of Spark's standalone protocol, typed: what comes in, and what goes out.

mod description;
mod inbound;
mod outbound;
mod states;
mod to_worker;
mod worker;

use crate::view::ViewError;

pub use self::{
    description::{AppDescription, Command, DriverDescription, EndpointRef, ResourceProfile},
    inbound::Inbound,
    outbound::{DriverStatus, ExecutorChange, Outbound},
    states::{DriverState, ExecutorState},
    to_worker::{ExecutorLaunch, ToWorker},
    worker::{ExecutorReport, WorkerDescription, WorkerExecutor},
};

/// Why a message cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// No message that comes to a master or a worker.
    #[error("{class} is no message that is understood here")]
    Unknown {
        /// What it is.
        class: String,
    },
    /// A field is not what it should be.
    #[error("{message}: {source}")]
    View {
        /// Which message.
        message: &'static str,
        /// What is wrong.
        source: ViewError,
    },
}
