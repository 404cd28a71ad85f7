//! What the leader has committed, for everybody who reads: status calls, pages, metrics, `Wait`.
//!
//! Owned by the leader's loop, which applies the mutations of each commit and publishes a clone **before** the
//! replies of that commit leave, so an acknowledged write is always visible. Every map is persistent, so a
//! clone costs O(1) and applying costs O(change). A view never shows what is not durable.

mod caps;
mod events;
mod facts;
mod load;
mod waiting;

use std::{collections::BTreeMap, ops::Bound, sync::Arc, time::Duration};

use imbl::OrdMap;
use interrex_core::{
    config::ClusterConfig,
    ids::{AppId, DriverId, Epoch, ExecutorId, RequestId, WorkerId},
    state::{
        app::{Application, ApplicationState},
        driver::{Driver, DriverState},
        executor::{Executor, ExecutorState},
        meta::{Created, RecoveryState},
        worker::{Worker, WorkerState},
    },
    time::Timestamp,
    transition::Mutation,
};

use self::{
    caps::CapUse,
    load::{Booking, driver_booking, executor_booking},
    waiting::Waiting,
};
pub use self::{events::EventLog, load::WorkerLoad};
use crate::runtime::heartbeats::Heartbeats;

/// The committed state of the cluster at one moment.
///
/// On a master that does not lead it is [empty](ClusterView::is_empty) and says nothing about the cluster.
#[derive(Debug, Clone, Default)]
pub struct ClusterView {
    epoch: Epoch,
    cluster_id: Arc<str>,
    formerly: Arc<[String]>,
    /// Records that are kept and not used.
    quarantined: usize,
    recovery: RecoveryState,
    workers: OrdMap<WorkerId, Arc<Worker>>,
    apps: OrdMap<AppId, Arc<Application>>,
    drivers: OrdMap<DriverId, Arc<Driver>>,
    executors: OrdMap<(AppId, ExecutorId), Arc<Executor>>,
    requests: OrdMap<RequestId, Created>,
    loads: OrdMap<WorkerId, WorkerLoad>,
    counts: Counts,
    caps: CapUse,
    waiting: Waiting,
    config: Arc<ClusterConfig>,
    events: EventLog,
    heartbeats: Arc<Heartbeats>,
}

/// How many there are of each, by state. States that nothing is in may be absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Workers by the name of their state: those that are being drained are `DECOMMISSIONED`.
    pub workers: BTreeMap<&'static str, u64>,
    /// Applications by state.
    pub apps: BTreeMap<ApplicationState, u64>,
    /// Drivers by state.
    pub drivers: BTreeMap<DriverState, u64>,
    /// Executors that are still recorded, by state.
    pub executors: BTreeMap<ExecutorState, u64>,
    /// Cores offered by workers that are alive.
    pub cores_offered: u64,
    /// Memory offered by workers that are alive, in MiB.
    pub memory_mib_offered: u64,
    /// Cores held on all workers.
    pub cores_used: u64,
    /// Memory held on all workers, in MiB.
    pub memory_mib_used: u64,
}

/// What an id names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A driver, by its own id or its submission id.
    Driver(Arc<Driver>),
    /// An application, by its own id or its request id.
    App(Arc<Application>),
}

// === impl ClusterView ===

impl ClusterView {
    /// A view of `epoch` with nothing in it yet.
    #[must_use]
    pub fn new(epoch: Epoch, heartbeats: Arc<Heartbeats>) -> Self {
        Self {
            epoch,
            heartbeats,
            ..Self::default()
        }
    }

    /// The leadership that published this; zero on a master that does not lead.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether this master does not lead: then nothing here says anything about the cluster.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.epoch == Epoch::default()
    }

    /// The cluster's id; empty before it has been minted.
    #[must_use]
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    /// Ids of the clusters whose records this one has taken over.
    #[must_use]
    pub fn formerly(&self) -> &[String] {
        &self.formerly
    }

    /// How many stored records could not be read when this leadership began.
    #[must_use]
    pub fn quarantined(&self) -> usize {
        self.quarantined
    }

    /// How far recovery is.
    #[must_use]
    pub fn recovery(&self) -> RecoveryState {
        self.recovery
    }

    /// One worker.
    #[must_use]
    pub fn worker(&self, id: &WorkerId) -> Option<&Arc<Worker>> {
        self.workers.get(id)
    }

    /// One application.
    #[must_use]
    pub fn app(&self, id: &AppId) -> Option<&Arc<Application>> {
        self.apps.get(id)
    }

    /// One driver.
    #[must_use]
    pub fn driver(&self, id: &DriverId) -> Option<&Arc<Driver>> {
        self.drivers.get(id)
    }

    /// One executor.
    #[must_use]
    pub fn executor(&self, app: &AppId, id: ExecutorId) -> Option<&Arc<Executor>> {
        self.executors.get(&(app.clone(), id))
    }

    /// What a request created or did: a submission id finds its driver.
    #[must_use]
    pub fn created_by(&self, request: &RequestId) -> Option<&Created> {
        self.requests.get(request)
    }

    /// What `id` names: a driver id, a submission id, an application id or its request id, in this order.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<Found> {
        if let Some(driver) = self.drivers.get(&DriverId::new(id)) {
            return Some(Found::Driver(Arc::clone(driver)));
        }
        if let Some(app) = self.apps.get(&AppId::new(id)) {
            return Some(Found::App(Arc::clone(app)));
        }
        match self.requests.get(&RequestId::new(id))? {
            Created::Driver(driver) => self.drivers.get(driver).cloned().map(Found::Driver),
            Created::App(app) => self.apps.get(app).cloned().map(Found::App),
            Created::Killed(_) | Created::Count(_) => None,
        }
    }

    /// All workers, ordered by id.
    pub fn workers(&self) -> impl Iterator<Item = &Arc<Worker>> {
        self.workers.values()
    }

    /// Workers after `id` (exclusive; from the first if `None`), ordered by id.
    pub fn workers_after(
        &self,
        id: Option<&WorkerId>,
    ) -> impl Iterator<Item = &Arc<Worker>> + use<'_> {
        self.workers.range(after(id)).map(|(_, worker)| worker)
    }

    /// All applications, ordered by id.
    pub fn apps(&self) -> impl Iterator<Item = &Arc<Application>> {
        self.apps.values()
    }

    /// Applications after `id` (exclusive; from the first if `None`), ordered by id.
    pub fn apps_after(
        &self,
        id: Option<&AppId>,
    ) -> impl Iterator<Item = &Arc<Application>> + use<'_> {
        self.apps.range(after(id)).map(|(_, app)| app)
    }

    /// All drivers, ordered by id.
    pub fn drivers(&self) -> impl Iterator<Item = &Arc<Driver>> {
        self.drivers.values()
    }

    /// Drivers after `id` (exclusive; from the first if `None`), ordered by id.
    pub fn drivers_after(
        &self,
        id: Option<&DriverId>,
    ) -> impl Iterator<Item = &Arc<Driver>> + use<'_> {
        self.drivers.range(after(id)).map(|(_, driver)| driver)
    }

    /// The recorded executors of one application, ordered by number; those that ended are forgotten in time.
    pub fn executors_of(&self, app: &AppId) -> impl Iterator<Item = &Arc<Executor>> + use<'_> {
        let first = (app.clone(), ExecutorId(0));
        let last = (app.clone(), ExecutorId(u32::MAX));
        self.executors
            .range(first..=last)
            .map(|(_, executor)| executor)
    }

    /// What is booked on a worker.
    #[must_use]
    pub fn load(&self, worker: &WorkerId) -> WorkerLoad {
        self.loads.get(worker).cloned().unwrap_or_default()
    }

    /// How many there are of each, by state.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How long the driver and the application that have waited longest for their first process have done so; zero
    /// where none waits.
    #[must_use]
    pub fn longest_waiting(&self, now: Timestamp) -> (Duration, Duration) {
        self.waiting.longest(now)
    }

    /// The event log.
    #[must_use]
    pub fn events(&self) -> &EventLog {
        &self.events
    }

    /// Sets the event log as it was recovered.
    pub fn set_events(&mut self, events: EventLog) {
        self.events = events;
    }

    /// When a worker was last heard of in this epoch, by the leader's clock. Newer than the view itself.
    #[must_use]
    pub fn last_heartbeat(&self, worker: &WorkerId) -> Option<Timestamp> {
        self.heartbeats.last(worker)
    }

    /// How many applications have a session, and a program that does not come for its events. Newer than the view itself.
    #[must_use]
    pub fn stalled_apps(&self) -> usize {
        self.heartbeats.stalled_count()
    }

    pub(crate) fn heartbeats(&self) -> &Heartbeats {
        &self.heartbeats
    }

    /// Sets how many stored records could not be read.
    pub(crate) fn set_quarantined(&mut self, quarantined: usize) {
        self.quarantined = quarantined;
    }

    /// Sets what the leader decides by, for explanations.
    pub fn set_config(&mut self, config: ClusterConfig) {
        self.config = Arc::new(config);
    }

    /// Sets how far recovery is.
    pub fn set_recovery(&mut self, recovery: RecoveryState) {
        self.recovery = recovery;
    }

    /// Takes over committed mutations, in order.
    pub fn apply(&mut self, mutations: &[Mutation]) {
        for mutation in mutations {
            self.apply_one(mutation);
        }
    }

    fn apply_one(&mut self, mutation: &Mutation) {
        match mutation {
            Mutation::PutMeta(meta) => {
                if *self.cluster_id != *meta.cluster_id {
                    self.cluster_id = Arc::from(meta.cluster_id.as_str());
                }
                if *self.formerly != *meta.formerly {
                    self.formerly = Arc::from(meta.formerly.as_slice());
                }
            }
            Mutation::PutWorker(worker) => {
                let old = self.workers.insert(worker.id.clone(), Arc::clone(worker));
                self.count_worker(old.as_deref(), Some(worker));
            }
            Mutation::DeleteWorker(id) => {
                let old = self.workers.remove(id);
                self.count_worker(old.as_deref(), None);
            }
            Mutation::PutApp(app) => {
                let old = self.apps.insert(app.id.clone(), Arc::clone(app));
                self.waiting.app(old.as_deref(), Some(app));
                recount(
                    &mut self.counts.apps,
                    old.map(|old| old.state),
                    Some(app.state),
                );
            }
            Mutation::DeleteApp(id) => {
                let old = self.apps.remove(id);
                self.waiting.app(old.as_deref(), None);
                recount(&mut self.counts.apps, old.map(|old| old.state), None);
            }
            Mutation::PutDriver(driver) => {
                let old = self.drivers.insert(driver.id.clone(), Arc::clone(driver));
                self.rebook_driver(old.as_deref(), Some(driver));
            }
            Mutation::DeleteDriver(id) => {
                let old = self.drivers.remove(id);
                self.rebook_driver(old.as_deref(), None);
            }
            Mutation::PutExecutor(executor) => {
                let key = (executor.app.clone(), executor.id);
                let old = self.executors.insert(key, Arc::clone(executor));
                self.rebook_executor(old.as_deref(), Some(executor));
            }
            Mutation::DeleteExecutor(app, id) => {
                let old = self.executors.remove(&(app.clone(), *id));
                self.rebook_executor(old.as_deref(), None);
            }
            Mutation::PutRequest(request) => {
                self.requests
                    .insert(request.id.clone(), request.created.clone());
            }
            Mutation::DeleteRequest(id) => {
                self.requests.remove(id);
            }
            Mutation::PutEvents(record) => self.events.put(record),
            Mutation::DeleteEvents { first, .. } => self.events.delete(*first),
        }
    }

    fn count_worker(&mut self, old: Option<&Worker>, new: Option<&Worker>) {
        recount(
            &mut self.counts.workers,
            old.map(Worker::state_name),
            new.map(Worker::state_name),
        );
        for (worker, joins) in [(old, false), (new, true)] {
            if let Some(worker) = worker.filter(|worker| worker.state == WorkerState::Alive) {
                let (cores, memory) = (u64::from(worker.spec.cores.0), worker.spec.memory.0);
                adjust(&mut self.counts.cores_offered, cores, joins);
                adjust(&mut self.counts.memory_mib_offered, memory, joins);
            }
        }
        self.caps.worker(old, new);
    }

    fn rebook_driver(&mut self, old: Option<&Driver>, new: Option<&Driver>) {
        recount(
            &mut self.counts.drivers,
            old.map(|old| old.state),
            new.map(|new| new.state),
        );
        self.caps.driver(old, new);
        self.waiting.driver(old, new);
        self.rebook(old.and_then(driver_booking), new.and_then(driver_booking));
    }

    fn rebook_executor(&mut self, old: Option<&Executor>, new: Option<&Executor>) {
        recount(
            &mut self.counts.executors,
            old.map(|old| old.state),
            new.map(|new| new.state),
        );
        // An executor that holds something keeps its application from being forgotten.
        let app = old
            .or(new)
            .and_then(|executor| self.apps.get(&executor.app));
        if let Some(app) = app {
            self.caps.executor(&app.spec.user, old, new);
        }
        self.rebook(
            old.and_then(executor_booking),
            new.and_then(executor_booking),
        );
    }

    fn rebook(&mut self, old: Option<Booking<'_>>, new: Option<Booking<'_>>) {
        for (booking, joins) in [(old, false), (new, true)] {
            let Some(booking) = booking else { continue };
            adjust(
                &mut self.counts.cores_used,
                u64::from(booking.cores.0),
                joins,
            );
            adjust(&mut self.counts.memory_mib_used, booking.memory.0, joins);
            let worker = booking.worker.clone();
            let load = self.loads.entry(worker.clone()).or_default();
            load.book(booking, joins);
            if load.is_idle() {
                // Else every worker that ever was would be kept.
                self.loads.remove(&worker);
            }
        }
    }
}

fn recount<S: Ord>(counts: &mut BTreeMap<S, u64>, old: Option<S>, new: Option<S>) {
    if old == new {
        return;
    }
    if let Some(count) = old.and_then(|old| counts.get_mut(&old)) {
        *count = count.saturating_sub(1);
    }
    if let Some(new) = new {
        *counts.entry(new).or_default() += 1;
    }
}

fn adjust(total: &mut u64, amount: u64, joins: bool) {
    *total = if joins {
        total.saturating_add(amount)
    } else {
        total.saturating_sub(amount)
    };
}

fn after<K: Clone>(id: Option<&K>) -> (Bound<K>, Bound<K>) {
    (
        id.cloned().map_or(Bound::Unbounded, Bound::Excluded),
        Bound::Unbounded,
    )
}

#[cfg(test)]
#[path = "view_test.rs"]
mod tests;
