//! Spark's own workers: an unmodified `start-worker.sh` that registers here.
//!
//! Such a worker is a [`Peer::Worker`] like one of our agents: it gets the same orders and its reports become the same
//! commands. What it lacks is made up for here as far as that goes:
//!
//! | our agents | Spark's workers |
//! |---|---|
//! | refuse orders of an older epoch | compare the master's URL for executors (so does this module with the epoch before it sends), and nothing for drivers: leadership is confirmed by a quorum right before each of those |
//! | answer an order that comes twice, or about nothing they have | fail or stay silent: this module knows what a worker [has](KnownWorker) and answers for it |
//! | know attempts | are given them in the driver's name |
//! | keep results until they are acknowledged | repeat those of executors for a while, and tell the end of a driver once |
//! | send heartbeats every few seconds | every 15 s: this module asks more often whether the process is there |
//!
//! What must never happen: that an order of a leadership that has ended leaves here, or that a driver that may run at
//! most once gets here at all (the scheduler keeps it away, [`launches`] refuses it).

mod launches;
mod orders;
mod registering;
mod reports;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use interrex_core::{
    command::Subject,
    ids::{AppId, WorkerId},
    spec::WorkerSpec,
};
use interrex_spark_wire::{Address, Outbound, message::ToWorker};

use tokio::time::Instant;

pub(crate) use self::launches::driver_name;
use crate::edge::spark_rpc::connection::{Connection, KnownPeer, Step, one_way, request};
#[cfg(doc)]
use crate::runtime::peers::Peer;

/// Where a peer's RPC environment answers whether an endpoint exists.
const VERIFIER: &str = "endpoint-verifier";
/// How long a worker may take to say what it runs before it is asked again.
const SAYS_WITHIN: Duration = Duration::from_secs(10);
/// The name of a worker's endpoint.
const WORKER_ENDPOINT: &str = "Worker";
/// Applications whose files on a worker are remembered, to have them removed.
const APPS_MAX: usize = 10_000;

/// A worker, as it said itself.
#[derive(Debug)]
pub(super) struct KnownWorker {
    pub(super) id: WorkerId,
    /// Nothing on a connection that this master has opened: the record has it.
    spec: Option<Arc<WorkerSpec>>,
    /// Where it is spoken to.
    peer: KnownPeer,
    /// What it calls this master; it wants that back.
    master: Address,
    /// What it was told to start on this connection, or has said that it runs.
    has: BTreeSet<Subject>,
    /// Applications that have had executors there.
    apps: BTreeSet<AppId>,
    /// Numbers its reports.
    sequence: u64,
    /// Numbers our questions.
    asked: i64,
    /// When it was last told to follow this master, and to say what it runs.
    told: Option<Instant>,
}

// === impl KnownWorker ===

impl KnownWorker {
    pub(super) fn new(id: WorkerId, peer: KnownPeer, master: Address) -> Self {
        Self {
            id,
            spec: None,
            peer,
            master,
            has: BTreeSet::new(),
            apps: BTreeSet::new(),
            sequence: 0,
            asked: 0,
            told: None,
        }
    }

    /// Where it listens.
    pub(super) fn address(&self) -> &Address {
        &self.peer.address
    }

    fn note(&mut self, subject: Subject) {
        if let Subject::Executor { app, .. } = &subject
            && self.apps.len() < APPS_MAX
        {
            self.apps.insert(app.clone());
        }
        self.has.insert(subject);
    }

    fn has_executors_of(&self, wanted: &AppId) -> bool {
        self.has.iter().any(|subject| match subject {
            Subject::Executor { app, .. } => app == wanted,
            Subject::Driver { .. } => false,
        })
    }
}

// === impl Connection ===

impl Connection {
    /// Something for the worker of this connection.
    fn to_worker(&self, message: ToWorker) -> Step {
        self.tell_worker(&Outbound::ToWorker(message))
    }

    fn tell_worker(&self, message: &Outbound) -> Step {
        let (Some(dictionary), Some(worker)) = (self.dictionary(), &self.worker) else {
            return Step::default();
        };
        let name = message.name();
        match one_way(&self.rpc, &dictionary, &worker.peer, message) {
            Ok(frame) => {
                tracing::debug!(worker = %worker.id, message = name, "told a worker of Spark");
                Step::send(frame)
            }
            Err(error) => {
                let line = &dictionary.line;
                tracing::error!(worker = %worker.id, message = name, line, error, "cannot be written");
                Step::default()
            }
        }
    }

    /// From time to time: asks whether the worker is there, and has it remove what is left of applications that are
    /// over.
    pub(super) fn look_after_worker(&mut self) -> Step {
        if self.rpc.handle.port().is_err() {
            return Step::default();
        }
        let mut step = self.ask_worker();
        for app in self.apps_over() {
            let app_id = app.to_string();
            let told = self.to_worker(ToWorker::ApplicationFinished { app_id });
            step.frames.extend(told.frames);
            if let Some(worker) = &mut self.worker {
                worker.apps.remove(&app);
            }
        }
        step
    }

    fn ask_worker(&mut self) -> Step {
        let (Some(dictionary), Some(worker)) = (self.dictionary(), &mut self.worker) else {
            return Step::default();
        };
        worker.asked = worker.asked.wrapping_add(1);
        let verifier = KnownPeer {
            endpoint: VERIFIER.to_owned(),
            ..worker.peer.clone()
        };
        let name = WORKER_ENDPOINT.to_owned();
        let message = Outbound::ToWorker(ToWorker::CheckExistence { name });
        match request(&self.rpc, &dictionary, &verifier, worker.asked, &message) {
            Ok(frame) => Step::send(frame),
            Err(error) => {
                tracing::error!(worker = %worker.id, error, "cannot be asked");
                Step::default()
            }
        }
    }

    fn apps_over(&self) -> Vec<AppId> {
        let Some(worker) = &self.worker else {
            return Vec::new();
        };
        let view = self.rpc.handle.view();
        if view.is_empty() {
            return Vec::new();
        }
        let is_over = |app: &&AppId| {
            view.app(app).is_none_or(|app| app.state.is_final()) && !worker.has_executors_of(app)
        };
        worker.apps.iter().filter(is_over).cloned().collect()
    }

    /// The worker has answered a question: it is there.
    pub(super) fn worker_answered(&mut self) -> Step {
        if self.worker.is_some() {
            self.worker_lives()
        } else {
            Step::default()
        }
    }

    /// The URL by which a worker knows this master.
    fn master_url(&self) -> String {
        format!("spark://{}", self.rpc.me)
    }
}

/// Frames of one step after those of another.
fn then(mut first: Step, second: Step) -> Step {
    first.frames.extend(second.frames);
    first.reports.extend(second.reports);
    first.close |= second.close;
    first
}
