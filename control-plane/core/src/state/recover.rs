//! From the store's records to a state, at an election.
//!
//! Recovery is not a pause: what workers have answered is scheduled at once. [`RecoveryState`] only says how far it
//! is. Records that do not fit together are named and repaired, never fatal (SPARK-20305: an exception here left a
//! leader that scheduled nothing for ever).

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    apply::notes::Notes,
    config::ClusterConfig,
    ids::{AppId, ExecutorId, QueuePosition, WorkerId},
    machines::recovery::RecoveryEvent,
    state::{
        changes::Changes,
        cluster::{ClusterState, Ignored, PassState, RecoveredEntities},
        facts::Scribe,
        index::{Index, timers::Timer},
        meta::{Created, Meta, RecoveryState},
        worker::WorkerState,
        write::Reach,
    },
    time::Timestamp,
};

/// Who has not answered since the election.
#[derive(Debug, Clone)]
pub(crate) struct Recovery {
    pub(crate) state: RecoveryState,
    /// When this leadership began: nothing that happened before is known by its own clock.
    pub(crate) since: Timestamp,
    pub(crate) deadline: Timestamp,
    pub(crate) workers: BTreeSet<WorkerId>,
    pub(crate) apps: BTreeSet<AppId>,
}

// === impl Recovery ===

impl Recovery {
    /// Ends recovery if everybody has answered.
    pub(crate) fn settle(&mut self) {
        if self.workers.is_empty() && self.apps.is_empty() {
            self.state = self.state.after(RecoveryEvent::AllAnswered);
        }
    }

    /// At the deadline recovery is completing, and over at the next tick: what is still silent then is a matter of
    /// its own timeout and holds nobody up.
    pub(crate) fn tick(&mut self, now: Timestamp) {
        match self.state {
            RecoveryState::Recovering if now >= self.deadline => {
                self.state = self.state.after(RecoveryEvent::TimeIsUp);
            }
            RecoveryState::CompletingRecovery => {
                self.workers.clear();
                self.apps.clear();
                self.state = self.state.after(RecoveryEvent::GivenUp);
            }
            RecoveryState::Recovering | RecoveryState::Alive => {}
        }
    }
}

// === impl ClusterState ===

impl ClusterState {
    /// The state of a new leader. Workers that were alive are `Unknown` until they have registered; everything else is
    /// as stored. Nothing is to be stored or sent for it: orders are sent again as workers answer.
    #[must_use]
    pub fn recover(config: ClusterConfig, entities: RecoveredEntities, now: Timestamp) -> Self {
        let mut state = Self {
            recovery: Recovery {
                state: RecoveryState::Recovering,
                since: now,
                deadline: now.plus(config.recovery_timeout),
                workers: BTreeSet::new(),
                apps: BTreeSet::new(),
            },
            config,
            meta: Meta::default(),
            workers: BTreeMap::new(),
            apps: BTreeMap::new(),
            drivers: BTreeMap::new(),
            executors: BTreeMap::new(),
            requests: BTreeMap::new(),
            index: Index::default(),
            shrunk: BTreeSet::new(),
            pass: PassState::default(),
            ignored: Ignored::default(),
            inconsistencies: Vec::new(),
            clear_until: None,
            registrations: BTreeMap::new(),
            now,
            changes: Changes::default(),
            scribe: Scribe::default(),
            notes: Notes::default(),
            effects: Vec::new(),
            #[cfg(feature = "planted-bugs")]
            counts_repeats: false,
        };
        state.load(entities);
        state.note_inconsistencies();
        state.mark_shrunk();
        state.recovery.settle();
        state.changes = Changes::default();
        state
    }

    fn load(&mut self, entities: RecoveredEntities) {
        self.meta = entities.meta;
        for mut worker in entities.workers {
            if worker.state != WorkerState::Dead {
                worker.state = WorkerState::Unknown;
                self.recovery.workers.insert(worker.id.clone());
            }
            self.put_worker(worker);
        }
        let (mut seen, mut positions) = (BTreeSet::new(), BTreeSet::new());
        for mut app in entities.apps {
            self.meta.next_app = self.meta.next_app.max(number_after(app.id.as_str()));
            app.queue = self.unique(app.queue, app.id.as_str(), &mut positions);
            if !app.state.is_final() {
                self.recovery.apps.insert(app.id.clone());
            }
            self.put_app(app);
        }
        for executor in entities.executors {
            let next = ExecutorId(executor.id.0.saturating_add(1));
            if let Some(app) = self.apps.get(&executor.app)
                && app.next_executor < next
            {
                let mut app = app.as_ref().clone();
                app.next_executor = next;
                self.put_app(app);
            }
            self.put_executor(executor);
            self.changes = Changes::default();
        }
        for mut driver in entities.drivers {
            self.meta.next_driver = self.meta.next_driver.max(number_after(driver.id.as_str()));
            driver.queue = self.unique(driver.queue, driver.id.as_str(), &mut seen);
            self.put_driver(driver);
            // Nothing of this is to be stored again, and a large store should not be noted twice.
            self.changes = Changes::default();
        }
        for request in entities.requests {
            let orphan = match &request.created {
                Created::Driver(id) => !self.drivers.contains_key(id),
                Created::App(id) => !self.apps.contains_key(id),
                Created::Killed(_) | Created::Count(_) => true,
            };
            if orphan {
                let at = request.at.plus(self.config.request_retention);
                self.index
                    .timers
                    .set(Timer::Request(request.id.clone()), Some(at));
            }
            self.put_request(request);
            self.changes = Changes::default();
        }
    }

    /// A place in the queue that nobody else has: two equal ones come only from a damaged store, and would hide one
    /// of the two.
    fn unique(
        &mut self,
        queue: QueuePosition,
        id: &str,
        seen: &mut BTreeSet<QueuePosition>,
    ) -> QueuePosition {
        self.meta.next_queue = self
            .meta
            .next_queue
            .max(QueuePosition(queue.0.saturating_add(1)));
        if seen.insert(queue) {
            return queue;
        }
        self.inconsistencies
            .push(format!("{id}: queue position {} is taken twice", queue.0));
        let free = self.meta.next_queue;
        self.meta.next_queue = QueuePosition(free.0.saturating_add(1));
        seen.insert(free);
        free
    }

    fn note_inconsistencies(&mut self) {
        let mut notes = Vec::new();
        for driver in self.drivers.values() {
            if driver.state.is_placed()
                && !driver
                    .worker
                    .as_ref()
                    .is_some_and(|w| self.reach(w) != Reach::Gone)
            {
                notes.push(format!(
                    "driver {}: its worker {:?} is not recorded, or dead",
                    driver.id, driver.worker
                ));
            }
            if !self.requests.contains_key(&driver.submission) {
                notes.push(format!(
                    "driver {}: its request {} is not recorded",
                    driver.id, driver.submission
                ));
            }
        }
        for app in self
            .apps
            .values()
            .filter(|app| !self.requests.contains_key(&app.request))
        {
            notes.push(format!(
                "application {}: its request {} is not recorded",
                app.id, app.request
            ));
        }
        for executor in self.executors.values() {
            let name = format!("executor {}/{}", executor.app, executor.id);
            match self.apps.get(&executor.app) {
                None => notes.push(format!("{name}: its application is not recorded")),
                Some(app) if app.state.is_final() && executor.state.may_run() => {
                    notes.push(format!("{name}: its application is over"));
                }
                Some(_) => {}
            }
            if !executor.state.is_final() && self.reach(&executor.worker) == Reach::Gone {
                notes.push(format!(
                    "{name}: its worker {} is not recorded, or dead",
                    executor.worker
                ));
            }
        }
        self.inconsistencies.extend(notes);
    }

    fn mark_shrunk(&mut self) {
        for (id, load) in &self.index.loads {
            if let Some(worker) = self.workers.get(id)
                && !load.used.is_within(&worker.spec)
            {
                self.shrunk.insert(id.clone());
            }
        }
    }
}

/// One more than the number at the end of `driver-20261129143200-0001`; 0 if there is none.
fn number_after(id: &str) -> u64 {
    id.rsplit('-')
        .next()
        .and_then(|n| n.parse::<u64>().ok())
        .map_or(0, |n| n.saturating_add(1))
}
