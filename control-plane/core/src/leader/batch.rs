//! One batch: mutations that are stored together, and what may leave once they are.
//!
//! A batch is bounded in commands, mutations and bytes, so that no entry of a log grows with the backlog and
//! heartbeats of the store are never stuck behind one.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    effect::Effect,
    event::{Event, Fact, Who},
    leader::Ticket,
    resources::{Addresses, Amounts},
    spec::{CommandLine, DriverPayload, DriverSpec, WorkerSpec},
    state::{app::Application, meta::RecoveryState, worker::Worker},
    transition::{Mutation, Reply},
};

/// Names one batch of one leadership.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchId(pub u64);

/// How much one batch takes. One command may exceed the last two: then it is spread over several batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// Commands of one batch.
    pub commands: usize,
    /// Mutations of one batch.
    pub mutations: usize,
    /// Estimated bytes of one batch; the estimate is an upper bound of what is stored.
    pub bytes: usize,
}

/// What waits for a commit.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) ticket: Option<Ticket>,
    pub(super) reply: Reply,
    pub(super) effects: Vec<Effect>,
    /// An earlier batch carries a part of this command's mutations.
    pub(super) spans: bool,
}

/// A batch that is being filled or committed.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) id: BatchId,
    pub(super) mutations: Vec<Mutation>,
    /// What its commands made happen; a record of the event log when it is sealed.
    pub(super) facts: Vec<Fact>,
    pub(super) held: Vec<Held>,
    /// Workers whose shown state changed though their record did not.
    pub(super) shown: Vec<Arc<Worker>>,
    pub(super) recovery: Option<RecoveryState>,
    /// It is to be committed even with nothing in it, as a proof of leadership.
    pub(super) proof: bool,
    commands: usize,
    bytes: usize,
}

// === impl BatchLimits ===

impl Default for BatchLimits {
    /// 1024 commands, 8192 mutations, 4 MiB: half of what an engine takes, so that the estimate need not be exact.
    fn default() -> Self {
        Self {
            commands: 1024,
            mutations: 8192,
            bytes: 4 << 20,
        }
    }
}

// === impl Batch ===

impl Batch {
    pub(super) fn new(id: BatchId) -> Self {
        Self {
            id,
            ..Self::default()
        }
    }

    /// Whether committing it would do nothing for anybody.
    pub(super) fn is_idle(&self) -> bool {
        self.mutations.is_empty() && self.facts.is_empty() && self.held.is_empty() && !self.proof
    }

    /// Whether another command fits.
    pub(super) fn has_room(&self, limits: &BatchLimits) -> bool {
        self.commands < limits.commands
            && self.mutations.len() < limits.mutations
            && self.bytes < limits.bytes
    }

    /// Whether so many mutations of so many bytes fit; an empty batch takes anything.
    pub(super) fn fits(&self, mutations: usize, bytes: usize, limits: &BatchLimits) -> bool {
        self.mutations.is_empty()
            || (self.mutations.len() + mutations <= limits.mutations
                && self.bytes + bytes <= limits.bytes)
    }

    pub(super) fn store(&mut self, mutation: Mutation, bytes: usize) {
        self.mutations.push(mutation);
        self.bytes += bytes;
    }

    pub(super) fn tell(&mut self, facts: impl IntoIterator<Item = Fact>) {
        for fact in facts {
            self.bytes += fact_bytes(&fact);
            self.facts.push(fact);
        }
    }

    pub(super) fn hold(&mut self, held: Held) {
        self.held.push(held);
        self.commands += 1;
    }
}

/// Room for numbers, tags, lengths and the envelope of one record.
const RECORD_OVERHEAD: usize = 256;
/// Room for numbers, tags, lengths, the kind and the words around an id in one event.
const EVENT_OVERHEAD: usize = 128;
/// Room for the tags and lengths of one entry of a list or map.
const ENTRY_OVERHEAD: usize = 24;

/// An upper bound of the bytes that `mutation` takes in a store.
pub(super) fn estimated_bytes(mutation: &Mutation) -> usize {
    let text = match mutation {
        Mutation::PutMeta(meta) => {
            let former = meta.formerly.iter().map(|id| ENTRY_OVERHEAD + id.len());
            meta.cluster_id.len()
                + meta.restoring.len()
                + meta.restored.len()
                + former.sum::<usize>()
        }
        Mutation::PutWorker(worker) => 2 * worker.id.as_str().len() + worker_spec(&worker.spec),
        Mutation::PutApp(app) => application(app),
        Mutation::PutDriver(driver) => {
            2 * driver.id.as_str().len()
                + driver.submission.as_str().len()
                + driver
                    .worker
                    .as_ref()
                    .map_or(0, |worker| worker.as_str().len())
                + driver.message.len()
                + addresses(&driver.resources)
                + driver_spec(&driver.spec)
        }
        Mutation::PutExecutor(executor) => {
            2 * executor.app.as_str().len()
                + executor.worker.as_str().len()
                + executor.message.len()
                + addresses(&executor.resources)
        }
        Mutation::PutRequest(request) => 2 * request.id.as_str().len(),
        Mutation::DeleteWorker(id) => id.as_str().len(),
        Mutation::DeleteApp(id) | Mutation::DeleteExecutor(id, _) => id.as_str().len(),
        Mutation::DeleteDriver(id) => id.as_str().len(),
        Mutation::DeleteRequest(id) => id.as_str().len(),
        Mutation::PutEvents(events) => events
            .iter()
            .map(|Event { fact, .. }| fact_bytes(fact))
            .sum(),
        Mutation::DeleteEvents { .. } => 0,
    };
    RECORD_OVERHEAD + text
}

/// An upper bound of what an event takes in its record.
pub(super) fn fact_bytes(fact: &Fact) -> usize {
    let who = match &fact.who {
        Who::Client(Some(id)) => id.as_str().len(),
        Who::Agent(id) => id.as_str().len(),
        Who::Application(id) => id.as_str().len(),
        Who::Other(text) => text.len(),
        Who::Client(None) | Who::Leader => 0,
    };
    let worker = fact.worker.as_ref().map_or(0, |id| id.as_str().len());
    EVENT_OVERHEAD + fact.subject.len() + worker + who + fact.why.len()
}

fn application(app: &Application) -> usize {
    let spec = &app.spec;
    2 * app.id.as_str().len()
        + app.request.as_str().len()
        + app.message.len()
        + spec.name.len()
        + spec.user.len()
        + spec.ui_url.len()
        + command_line(&spec.command)
        + amounts(&spec.resources_per_executor)
        + spec.spark.as_ref().map_or(0, |s| {
            s.line.len() + s.host.len() + s.endpoint.len() + s.main_class.len()
        })
}

fn driver_spec(spec: &DriverSpec) -> usize {
    let payload = match &spec.payload {
        DriverPayload::Command(command) => command_line(command),
        DriverPayload::Spark(spark) => {
            spark.app_resource.len()
                + spark.main_class.len()
                + spark.client_version.len()
                + list(&spark.app_args)
                + map(&spark.properties)
                + map(&spark.environment)
        }
    };
    spec.name.len() + spec.user.len() + payload + amounts(&spec.resources)
}

fn worker_spec(spec: &WorkerSpec) -> usize {
    spec.host.len()
        + spec.web.len()
        + spec.incarnation.len()
        + spec.work_dir_id.len()
        + list(&spec.capabilities)
        + addresses(&spec.resources)
        + spec
            .spark
            .as_ref()
            .map_or(0, |s| s.line.len() + s.host.len() + s.endpoint.len())
}

fn command_line(command: &CommandLine) -> usize {
    command.program.len() + list(&command.args) + map(&command.env)
}

fn list(entries: &[String]) -> usize {
    entries
        .iter()
        .map(|entry| entry.len() + ENTRY_OVERHEAD)
        .sum()
}

fn map(entries: &BTreeMap<String, String>) -> usize {
    entries
        .iter()
        .map(|(key, value)| key.len() + value.len() + ENTRY_OVERHEAD)
        .sum()
}

fn addresses(resources: &Addresses) -> usize {
    resources
        .iter()
        .map(|(name, held)| name.len() + ENTRY_OVERHEAD + list(held))
        .sum()
}

fn amounts(resources: &Amounts) -> usize {
    resources
        .keys()
        .map(|name| name.len() + ENTRY_OVERHEAD)
        .sum()
}
