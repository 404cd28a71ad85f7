//! What explanations are made from.

use std::sync::Arc;

use crate::{
    caps::Share,
    config::ClusterConfig,
    ids::{AppId, DriverId, ExecutorId, WorkerId},
    resources::{Cores, MemoryMib},
    state::{
        app::Application, cluster::ClusterState, driver::Driver, executor::Executor, worker::Worker,
    },
    time::Timestamp,
};

/// A cluster at one moment, as a leader knows or has published it.
pub trait Facts {
    /// What the leader decides by.
    fn config(&self) -> &ClusterConfig;
    /// One worker.
    fn worker(&self, id: &WorkerId) -> Option<&Arc<Worker>>;
    /// All workers, by id.
    fn workers(&self) -> impl Iterator<Item = &Arc<Worker>>;
    /// One driver.
    fn driver(&self, id: &DriverId) -> Option<&Arc<Driver>>;
    /// All drivers.
    fn drivers(&self) -> impl Iterator<Item = &Arc<Driver>>;
    /// One application.
    fn app(&self, id: &AppId) -> Option<&Arc<Application>>;
    /// All applications.
    fn apps(&self) -> impl Iterator<Item = &Arc<Application>>;
    /// One executor.
    fn executor(&self, app: &AppId, id: ExecutorId) -> Option<&Arc<Executor>>;
    /// The recorded executors of an application, by number.
    fn executors_of(&self, app: &AppId) -> impl Iterator<Item = &Arc<Executor>>;
    /// Cores and memory that are in use on a worker.
    fn in_use(&self, worker: &WorkerId) -> (Cores, MemoryMib);
    /// Drivers that hold resources of a worker.
    fn drivers_on(&self, worker: &WorkerId) -> Vec<DriverId>;
    /// Executors that hold resources of a worker.
    fn executors_on(&self, worker: &WorkerId) -> Vec<(AppId, ExecutorId)>;
    /// Drivers that hold resources.
    fn drivers_placed(&self) -> u64;
    /// What drivers that need executors hold, and of how much.
    fn share(&self) -> Share;
    /// Cores that one user's drivers and applications hold.
    fn user_cores(&self, user: &str) -> u64;
    /// Since when the program behind an application has not come for its events, though its session is here. Never stored:
    /// a bare state does not know.
    fn stalled_since(&self, _app: &AppId) -> Option<Timestamp> {
        None
    }
}

// === impl ClusterState ===

impl Facts for ClusterState {
    fn config(&self) -> &ClusterConfig {
        &self.config
    }

    fn worker(&self, id: &WorkerId) -> Option<&Arc<Worker>> {
        self.workers.get(id)
    }

    fn workers(&self) -> impl Iterator<Item = &Arc<Worker>> {
        self.workers.values()
    }

    fn driver(&self, id: &DriverId) -> Option<&Arc<Driver>> {
        self.drivers.get(id)
    }

    fn drivers(&self) -> impl Iterator<Item = &Arc<Driver>> {
        self.drivers.values()
    }

    fn app(&self, id: &AppId) -> Option<&Arc<Application>> {
        self.apps.get(id)
    }

    fn apps(&self) -> impl Iterator<Item = &Arc<Application>> {
        self.apps.values()
    }

    fn executor(&self, app: &AppId, id: ExecutorId) -> Option<&Arc<Executor>> {
        self.executors.get(&(app.clone(), id))
    }

    fn executors_of(&self, app: &AppId) -> impl Iterator<Item = &Arc<Executor>> {
        Self::executors_of(self, app)
    }

    fn in_use(&self, worker: &WorkerId) -> (Cores, MemoryMib) {
        let usage = self.usage(worker);
        (usage.cores, usage.memory)
    }

    fn drivers_on(&self, worker: &WorkerId) -> Vec<DriverId> {
        let load = self.index.loads.get(worker);
        load.map_or_else(Vec::new, |load| load.drivers.keys().cloned().collect())
    }

    fn executors_on(&self, worker: &WorkerId) -> Vec<(AppId, ExecutorId)> {
        let load = self.index.loads.get(worker);
        load.map_or_else(Vec::new, |load| load.executors.keys().cloned().collect())
    }

    fn drivers_placed(&self) -> u64 {
        self.index.placed_drivers.len() as u64
    }

    fn share(&self) -> Share {
        self.index.sums.share
    }

    fn user_cores(&self, user: &str) -> u64 {
        self.index.sums.of_user(user)
    }
}
