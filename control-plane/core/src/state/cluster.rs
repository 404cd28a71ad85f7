//! The cluster as its leader knows it: entities, indexes and the one entry point for change,
//! [`ClusterState::apply`].
//!
//! Owned by the leader machine; made by [`ClusterState::recover`] at an election and thrown away with the leadership.
//! What must never happen: a panic, a change without a mutation, a placement beyond what a worker offers, an accepted
//! driver that is forgotten before it is over.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    apply::notes::Notes,
    config::ClusterConfig,
    effect::Effect,
    event::{Event, EventSequence},
    ids::{AppId, DriverId, ExecutorId, RequestId, WorkerId},
    resources::{Cores, MemoryMib},
    state::{
        app::Application,
        changes::Changes,
        driver::Driver,
        executor::Executor,
        facts::Scribe,
        index::{Index, load::Load},
        meta::{Meta, RecoveryState, Request},
        recover::Recovery,
        worker::Worker,
    },
    time::Timestamp,
};

/// Everything that the leader decides upon.
#[derive(Debug, Clone)]
pub struct ClusterState {
    pub(crate) config: ClusterConfig,
    pub(crate) meta: Meta,
    pub(crate) workers: BTreeMap<WorkerId, Arc<Worker>>,
    pub(crate) apps: BTreeMap<AppId, Arc<Application>>,
    pub(crate) drivers: BTreeMap<DriverId, Arc<Driver>>,
    pub(crate) executors: BTreeMap<(AppId, ExecutorId), Arc<Executor>>,
    pub(crate) requests: BTreeMap<RequestId, Arc<Request>>,

    pub(crate) index: Index,
    /// Workers whose specification shrank below what they hold: they get nothing until it fits again.
    pub(crate) shrunk: BTreeSet<WorkerId>,
    pub(crate) pass: PassState,
    pub(crate) recovery: Recovery,
    pub(crate) ignored: Ignored,
    /// What `recover` found that does not fit together.
    pub(crate) inconsistencies: Vec<String>,
    /// History up to this time is to be cleared, as far as it is not yet.
    pub(crate) clear_until: Option<Timestamp>,
    /// The newest registration of each worker in this leadership: its work directory, and its number there.
    pub(crate) registrations: BTreeMap<WorkerId, (String, u64)>,

    /// The largest time seen: a caller's clock that steps back does not turn ours back.
    pub(crate) now: Timestamp,
    /// Of the command that is being applied.
    pub(crate) changes: Changes,
    /// Of the command that is being applied.
    pub(crate) scribe: Scribe,
    /// How many more events without a change may be told.
    pub(crate) notes: Notes,
    /// Of the command that is being applied.
    pub(crate) effects: Vec<Effect>,
    /// A bug on purpose (`apply/planted.rs`).
    #[cfg(feature = "planted-bugs")]
    pub(crate) counts_repeats: bool,
}

/// What the scheduler keeps from one pass to the next.
#[derive(Debug, Clone, Default)]
pub(crate) struct PassState {
    /// Workers that have got room since the last pass.
    pub(crate) grown: BTreeSet<WorkerId>,
    /// The last pass stopped at its bound: the next one looks at everything.
    pub(crate) unfinished: bool,
    /// `max_drivers` kept drivers back that may fit.
    pub(crate) held_back: bool,
    /// Where the last driver went, for the round robin. Not stored: after a failover it begins at the first worker.
    pub(crate) cursor: Option<WorkerId>,
}

/// Reports, kills of executors and other events that changed nothing, counted since this leadership began. For metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ignored {
    /// About an attempt that is over or superseded, or from a worker that does not have it.
    pub stale: u64,
    /// About something that is not recorded.
    pub unknown: u64,
    /// Said before.
    pub repeated: u64,
    /// Not a report: an event that does not fit the state of what it is about.
    pub refused: u64,
}

/// What a worker has in use, as recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerUsage {
    /// Cores held by its drivers and executors.
    pub cores: Cores,
    /// Memory held by its drivers and executors.
    pub memory: MemoryMib,
    /// Drivers that it has, or is to have.
    pub drivers: usize,
    /// Executors that it has, or is to have.
    pub executors: usize,
}

/// What a store holds, decoded. Order does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoveredEntities {
    /// The cluster's identity and counters; default for an empty store.
    pub meta: Meta,
    /// Workers.
    pub workers: Vec<Worker>,
    /// Applications.
    pub apps: Vec<Application>,
    /// Drivers.
    pub drivers: Vec<Driver>,
    /// Executors.
    pub executors: Vec<Executor>,
    /// Accepted requests.
    pub requests: Vec<Request>,
    /// The records of the event log that can be read, oldest first.
    pub events: Vec<Arc<[Event]>>,
    /// Where the event log goes on: behind every number that any record of it names.
    pub next_event: EventSequence,
}

// === impl ClusterState ===

impl ClusterState {
    /// The configuration that this state decides by.
    #[must_use]
    pub fn config(&self) -> &ClusterConfig {
        &self.config
    }

    /// The cluster's identity and counters.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// How far recovery is.
    #[must_use]
    pub fn recovery_state(&self) -> RecoveryState {
        self.recovery.state
    }

    /// Reports that changed nothing.
    #[must_use]
    pub fn ignored(&self) -> Ignored {
        self.ignored
    }

    /// What did not fit together in the store, for the log: each line names the records. The state repairs itself.
    #[must_use]
    pub fn inconsistencies(&self) -> &[String] {
        &self.inconsistencies
    }

    /// A worker by id.
    #[must_use]
    pub fn worker(&self, id: &WorkerId) -> Option<&Arc<Worker>> {
        self.workers.get(id)
    }

    /// All workers by id, dead ones too.
    pub fn workers(&self) -> impl Iterator<Item = &Arc<Worker>> {
        self.workers.values()
    }

    /// What is recorded on a worker, as its heartbeats sum it up; 0 for nothing.
    #[must_use]
    pub fn digest(&self, worker: &WorkerId) -> u64 {
        self.index.loads.get(worker).map_or(0, |load| load.digest())
    }

    /// Whether an order to a worker, or what it is about, waits for the worker's answer. Costs what is on it.
    #[must_use]
    pub fn awaits_answer(&self, worker: &WorkerId) -> bool {
        let load = self.index.loads.get(worker);
        load.is_some_and(Load::awaits_answer)
    }

    /// What a worker has in use. Zero for an unknown one.
    #[must_use]
    pub fn usage(&self, worker: &WorkerId) -> WorkerUsage {
        self.index
            .loads
            .get(worker)
            .map_or_else(WorkerUsage::default, |load| WorkerUsage {
                cores: Cores(u32::try_from(load.used.cores()).unwrap_or(u32::MAX)),
                memory: MemoryMib(load.used.memory()),
                drivers: load.drivers.len(),
                executors: load.executors.len(),
            })
    }

    /// An application by id.
    #[must_use]
    pub fn app(&self, id: &AppId) -> Option<&Arc<Application>> {
        self.apps.get(id)
    }

    /// All applications by id, those that are over too.
    pub fn apps(&self) -> impl Iterator<Item = &Arc<Application>> {
        self.apps.values()
    }

    /// A driver by id.
    #[must_use]
    pub fn driver(&self, id: &DriverId) -> Option<&Arc<Driver>> {
        self.drivers.get(id)
    }

    /// All drivers by id, those that are over too.
    pub fn drivers(&self) -> impl Iterator<Item = &Arc<Driver>> {
        self.drivers.values()
    }

    /// An executor.
    #[must_use]
    pub fn executor(&self, app: &AppId, executor: ExecutorId) -> Option<&Arc<Executor>> {
        self.executors.get(&(app.clone(), executor))
    }

    /// All executors by application and number.
    pub fn executors(&self) -> impl Iterator<Item = &Arc<Executor>> {
        self.executors.values()
    }

    /// The executors of an application by number, ended ones that are still kept too.
    pub fn executors_of<'a>(
        &'a self,
        app: &AppId,
    ) -> impl Iterator<Item = &'a Arc<Executor>> + use<'a> {
        let range = (app.clone(), ExecutorId(0))..=(app.clone(), ExecutorId(u32::MAX));
        self.executors.range(range).map(|(_, executor)| executor)
    }

    /// An accepted request by id.
    #[must_use]
    pub fn request(&self, id: &RequestId) -> Option<&Arc<Request>> {
        self.requests.get(id)
    }

    /// All accepted requests by id.
    pub fn requests(&self) -> impl Iterator<Item = &Arc<Request>> {
        self.requests.values()
    }

    /// Drivers that could be placed now, if there were room.
    #[must_use]
    pub fn waiting_drivers(&self) -> usize {
        self.index
            .waiting
            .groups()
            .values()
            .map(BTreeMap::len)
            .sum()
    }
}
