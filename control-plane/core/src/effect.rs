//! What the leader tells others. Every effect can be derived again from the records, so losing one is no fault,
//! and its receiver recognises a repeat.

use std::sync::Arc;

use crate::{
    ids::{AppId, Attempt, DriverId, ExecutorId, ProfileId, ReportSequence, WorkerId},
    resources::{Addresses, Cores, MemoryMib},
    spec::{CommandLine, DriverSpec},
    state::executor::Executor,
};

/// An order or a notice, sent after the commit that it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// To an agent.
    Worker {
        /// Who.
        worker: WorkerId,
        /// What.
        order: WorkerOrder,
    },
    /// To an application.
    App {
        /// Which.
        app: AppId,
        /// What.
        notice: AppNotice,
    },
}

/// To an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerOrder {
    /// Start this attempt; ignored by an agent that runs it, or has run it.
    LaunchDriver {
        /// Which driver.
        driver: DriverId,
        /// Which attempt.
        attempt: Attempt,
        /// What to run.
        spec: Arc<DriverSpec>,
        /// Its addresses of custom resources.
        resources: Addresses,
    },
    /// End this attempt and every smaller one. Repeated until it is answered: an agent that does not have the attempt
    /// reports it as killed, and one that knows its result reports that again.
    KillDriver {
        /// Which driver.
        driver: DriverId,
        /// Up to which attempt.
        attempt: Attempt,
    },
    /// Start this executor; ignored by an agent that runs it, or has run it.
    LaunchExecutor {
        /// Of which application.
        app: AppId,
        /// Which.
        executor: ExecutorId,
        /// The application's name.
        app_name: String,
        /// The resource profile that it was made for.
        profile: ProfileId,
        /// What to run.
        command: CommandLine,
        /// Cores that it holds.
        cores: Cores,
        /// Memory that it holds.
        memory: MemoryMib,
        /// Its addresses of custom resources.
        resources: Addresses,
    },
    /// End this executor. Repeated until it is answered, as [`Self::KillDriver`].
    KillExecutor {
        /// Of which application.
        app: AppId,
        /// Which.
        executor: ExecutorId,
    },
    /// These reports are recorded (or of no interest): drop them from the outbox.
    Acknowledge {
        /// Their numbers.
        sequences: Vec<ReportSequence>,
    },
}

/// To an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppNotice {
    /// A new executor was placed.
    ExecutorAdded(Executor),
    /// An executor changed.
    ExecutorUpdated(Executor),
    /// A worker is dead.
    WorkerRemoved {
        /// Which.
        worker: WorkerId,
        /// Where it was.
        host: String,
        /// Why.
        message: String,
    },
    /// The application is over.
    Removed {
        /// Its final state's name.
        state: &'static str,
        /// Why.
        message: String,
    },
}

// === impl Effect ===

impl Effect {
    /// Whether a driver is to be started.
    #[must_use]
    pub fn launches_driver(&self) -> bool {
        match self {
            Self::Worker { order, .. } => matches!(order, WorkerOrder::LaunchDriver { .. }),
            Self::App { .. } => false,
        }
    }
}
