//! What a command does: mutations to store, effects and a reply to release after the commit.

use std::sync::Arc;

use crate::{
    effect::Effect,
    event::{Event, EventSequence, Fact},
    ids::{AppId, DriverId, ExecutorId, ProfileId, RequestId, WorkerId},
    state::{
        app::Application,
        driver::Driver,
        executor::Executor,
        meta::{Meta, Request},
        worker::Worker,
    },
};

/// One change of one record. Entities are shared, so a mutation costs one reference count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mutation {
    /// The cluster's identity and counters.
    PutMeta(Meta),
    /// A worker.
    PutWorker(Arc<Worker>),
    /// A worker is forgotten.
    DeleteWorker(WorkerId),
    /// An application.
    PutApp(Arc<Application>),
    /// An application is forgotten.
    DeleteApp(AppId),
    /// A driver.
    PutDriver(Arc<Driver>),
    /// A driver is forgotten.
    DeleteDriver(DriverId),
    /// An executor.
    PutExecutor(Arc<Executor>),
    /// An executor is forgotten.
    DeleteExecutor(AppId, ExecutorId),
    /// An accepted request.
    PutRequest(Arc<Request>),
    /// A request is forgotten, some time after it was accepted and after what it created.
    DeleteRequest(RequestId),
    /// The next entries of the event log, one record of it. Never empty.
    PutEvents(Arc<[Event]>),
    /// The oldest record of the event log is forgotten.
    DeleteEvents {
        /// Its first event.
        first: EventSequence,
        /// Its last event.
        last: EventSequence,
    },
}

/// The outcome of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// To be stored, in order. Empty: nothing changed.
    pub mutations: Vec<Mutation>,
    /// What it made happen, to be stored with the mutations and told once that is durable.
    pub events: Vec<Fact>,
    /// To be sent once that is durable.
    pub effects: Vec<Effect>,
    /// To be answered once that is durable.
    pub reply: Reply,
}

/// The answer to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Done; nothing to tell.
    Done,
    /// A worker is registered.
    WorkerRegistered,
    /// An application is registered or attached.
    AppRegistered {
        /// Which.
        app: Arc<Application>,
        /// All its executors that are not over, and those that ended lately.
        executors: Vec<Arc<Executor>>,
    },
    /// A driver is accepted.
    DriverSubmitted {
        /// As it is now.
        driver: Arc<Driver>,
        /// This request had been accepted before.
        replayed: bool,
    },
    /// A kill is accepted.
    DriverKilled {
        /// As it is now.
        driver: Arc<Driver>,
        /// It was over before.
        already_over: bool,
    },
    /// A kill is accepted.
    AppKilled {
        /// As it is now.
        app: Arc<Application>,
        /// It was over before.
        already_over: bool,
    },
    /// How many were touched (kill all, clear, drain).
    Count(u32),
    /// Refused; nothing changed.
    Rejected(Rejection),
}

/// Why a command was refused. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// No such thing.
    #[error("no driver, submission or application `{id}`")]
    NotFound {
        /// What was asked for.
        id: String,
    },
    /// No such worker.
    #[error("no worker `{id}` is known")]
    UnknownWorker {
        /// What was asked for.
        id: WorkerId,
    },
    /// A dead worker runs nothing that could be drained.
    #[error("worker `{id}` is dead: it runs nothing")]
    WorkerDead {
        /// Which.
        id: WorkerId,
    },
    /// The request id has been used for something else.
    #[error("request id `{id}` was already used with another body (for {created})")]
    Conflict {
        /// The id.
        id: RequestId,
        /// What the first use created or did.
        created: String,
    },
    /// A field has an unusable value.
    #[error("{field}: {reason}")]
    Invalid {
        /// Which.
        field: &'static str,
        /// Its value and what would be right.
        reason: String,
    },
    /// The application is over.
    #[error("application {app} is over ({state})")]
    AppOver {
        /// Which.
        app: AppId,
        /// Its state.
        state: &'static str,
    },
    /// The application has described this profile otherwise before.
    #[error(
        "application {app}: profile {profile} was described otherwise before; give another description another id"
    )]
    ProfileConflict {
        /// Which application.
        app: AppId,
        /// Which of its profiles.
        profile: ProfileId,
    },
    /// A bound of the cluster is reached.
    #[error("{what}: at most {max}")]
    LimitReached {
        /// Of what.
        what: &'static str,
        /// The bound.
        max: u64,
    },
}
