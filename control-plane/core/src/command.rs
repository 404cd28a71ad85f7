//! Everything that can change the cluster. One command is one [`Transition`](crate::transition::Transition).

use std::{sync::Arc, time::Duration};

use crate::{
    ids::{
        AppId, Attempt, DriverId, ExecutorId, Fingerprint, ProfileId, ReportSequence, RequestId,
        WorkerId,
    },
    resources::{Cores, MemoryMib},
    spec::{ApplicationSpec, DriverSpec, ResourceProfile, WorkerSpec},
    state::driver::Exit,
    time::Timestamp,
};

/// A request to the leader's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// From an agent: registration and full report in one. Makes the worker alive and reconciles.
    RegisterWorker {
        /// Who.
        worker: WorkerId,
        /// What it offers.
        spec: Arc<WorkerSpec>,
        /// All that it runs and every result that was not acknowledged.
        report: FullReport,
    },
    /// From an agent: one change of one process. Acknowledged in any case, so that the outbox empties.
    Report {
        /// Who says so.
        worker: WorkerId,
        /// What.
        report: Report,
    },
    /// From the runtime: an agent's session ended. Disconnection is not death: only expiry is.
    WorkerDisconnected {
        /// Who.
        worker: WorkerId,
    },
    /// From the runtime: the worker was silent for longer than its timeout (the runtime re-checks before).
    ExpireWorker {
        /// Who.
        worker: WorkerId,
    },
    /// From an application: register, or attach again with `app` set.
    RegisterApplication {
        /// Made by the client.
        request: RequestId,
        /// Of the specification.
        fingerprint: Fingerprint,
        /// Set when attaching again.
        app: Option<AppId>,
        /// What it asks for.
        spec: Arc<ApplicationSpec>,
    },
    /// From an application: it is done.
    UnregisterApplication {
        /// Which.
        app: AppId,
        /// It says that it failed.
        failed: bool,
        /// Why, for people.
        message: String,
    },
    /// From the runtime: an application's session stayed away longer than the grace.
    ExpireApplication {
        /// Which.
        app: AppId,
    },
    /// From an application: how many executors of each profile it wants in total. A profile that is not named keeps its
    /// total. Lowering never kills.
    RequestExecutors {
        /// Which.
        app: AppId,
        /// For these profiles.
        targets: Vec<ExecutorTarget>,
    },
    /// From an application: end these executors (they are replaced unless the total is lowered first).
    KillExecutors {
        /// Which.
        app: AppId,
        /// These.
        executors: Vec<ExecutorId>,
    },
    /// From a client: run this driver.
    SubmitDriver {
        /// Made by the client; also the submission id.
        request: RequestId,
        /// Of the specification.
        fingerprint: Fingerprint,
        /// What to run.
        spec: Arc<DriverSpec>,
    },
    /// From a client: end a driver (by driver id or submission id) or an application.
    Kill {
        /// Makes a repeat harmless; `None`: a repeat is a new request.
        request: Option<RequestKey>,
        /// Any of the three ids.
        id: String,
    },
    /// From a client: end every driver that is not over.
    KillAllDrivers {
        /// As for `Kill`.
        request: Option<RequestKey>,
    },
    /// From a client: forget what is over.
    ClearCompleted {
        /// As for `Kill`.
        request: Option<RequestKey>,
    },
    /// From a client: empty these workers. Again: with another deadline or reason.
    DrainWorkers {
        /// As for `Kill`.
        request: Option<RequestKey>,
        /// Which.
        workers: WorkersNamed,
        /// From now; what still runs then is ended. `None`: it may end by itself.
        deadline: Option<Duration>,
        /// Why, for people.
        reason: String,
    },
    /// From a client: these workers get work again.
    UndrainWorkers {
        /// As for `Kill`.
        request: Option<RequestKey>,
        /// Which.
        workers: WorkersNamed,
    },
    /// From the runtime: the heartbeats of a worker say something new about whether it wants work.
    AcceptingChanged {
        /// Who.
        worker: WorkerId,
        /// Why not; empty: it does.
        not_accepting: String,
    },
    /// From the runtime, about every 100 ms while leading: deadlines, back-offs, re-sent orders, retention.
    Tick,
    /// From the runtime, once in each epoch: the cluster's id, kept only when there is none yet.
    Initialize {
        /// A fresh random id.
        cluster_id: String,
    },
    /// From the runtime, once in each epoch: for the event log only.
    TakeOver {
        /// The master that leads.
        master: String,
        /// What it found stored, in words.
        found: String,
        /// Records that cannot be used, each with the reason.
        quarantined: Vec<String>,
    },
}

/// How many executors of one profile an application wants in total.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutorTarget {
    /// Which profile; 0 is the application's own description.
    pub profile: ProfileId,
    /// What one executor needs. Must be there the first time that a profile is named and cannot change; never for 0.
    pub needs: Option<Arc<ResourceProfile>>,
    /// In total; at most [`EXECUTORS_WANTED_MAX`](crate::config::EXECUTORS_WANTED_MAX).
    pub total: u32,
}

/// Workers that an operator means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkersNamed {
    /// This one.
    Id(WorkerId),
    /// All on this host, in whatever letters it is written.
    Host(String),
}

/// What a kill or a clear is recognized by when it is repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKey {
    /// Made by the client.
    pub id: RequestId,
    /// Of the verb and what it is about.
    pub fingerprint: Fingerprint,
}

// === impl ExecutorTarget ===

impl ExecutorTarget {
    /// A total for the application's own description.
    #[must_use]
    pub fn of_default(total: u32) -> Self {
        Self {
            profile: ProfileId::default(),
            needs: None,
            total,
        }
    }
}

/// One process that an agent runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningDriver {
    /// Which driver.
    pub driver: DriverId,
    /// Which attempt.
    pub attempt: Attempt,
    /// Since when.
    pub started_at: Timestamp,
}

/// One executor that an agent runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningExecutor {
    /// Of which application.
    pub app: AppId,
    /// Which.
    pub executor: ExecutorId,
    /// Cores that it holds.
    pub cores: Cores,
    /// Memory that it holds.
    pub memory: MemoryMib,
    /// Since when.
    pub started_at: Timestamp,
}

/// All that an agent runs, and what it has not had acknowledged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FullReport {
    /// Rises with each registration from one work directory; 0: unknown.
    pub number: u64,
    /// Drivers whose process exists.
    pub drivers: Vec<RunningDriver>,
    /// Executors whose process exists.
    pub executors: Vec<RunningExecutor>,
    /// Reports in the agent's outbox, oldest first.
    pub unacknowledged: Vec<Report>,
}

/// One entry of an agent's outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Its number in the outbox, for the acknowledgement.
    pub sequence: ReportSequence,
    /// When it happened, by the agent's clock.
    pub at: Timestamp,
    /// About which process.
    pub subject: Subject,
    /// What happened.
    pub change: ProcessChange,
}

/// A process of an agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// An attempt of a driver.
    Driver {
        /// Which driver.
        driver: DriverId,
        /// Which attempt.
        attempt: Attempt,
    },
    /// An executor.
    Executor {
        /// Of which application.
        app: AppId,
        /// Which.
        executor: ExecutorId,
    },
}

/// What happened to a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessChange {
    /// It exists.
    Running,
    /// It ended by itself.
    Exited(Exit),
    /// It was ended by an order.
    Killed(Exit),
    /// It could not be started.
    Failed(String),
}
