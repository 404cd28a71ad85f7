//! The view as a source of explanations: a question never reaches the leader's loop.

use std::sync::Arc;

use interrex_core::{
    caps::Share,
    config::ClusterConfig,
    explain::Facts,
    ids::{AppId, DriverId, ExecutorId, WorkerId},
    resources::{Cores, MemoryMib},
    state::{
        app::Application,
        driver::{Driver, DriverState},
        executor::Executor,
        worker::Worker,
    },
    time::Timestamp,
};

use super::ClusterView;

// === impl ClusterView ===

impl Facts for ClusterView {
    fn config(&self) -> &ClusterConfig {
        &self.config
    }

    fn worker(&self, id: &WorkerId) -> Option<&Arc<Worker>> {
        self.worker(id)
    }

    fn workers(&self) -> impl Iterator<Item = &Arc<Worker>> {
        self.workers()
    }

    fn driver(&self, id: &DriverId) -> Option<&Arc<Driver>> {
        self.driver(id)
    }

    fn drivers(&self) -> impl Iterator<Item = &Arc<Driver>> {
        self.drivers()
    }

    fn app(&self, id: &AppId) -> Option<&Arc<Application>> {
        self.app(id)
    }

    fn apps(&self) -> impl Iterator<Item = &Arc<Application>> {
        self.apps()
    }

    fn executor(&self, app: &AppId, id: ExecutorId) -> Option<&Arc<Executor>> {
        self.executor(app, id)
    }

    fn executors_of(&self, app: &AppId) -> impl Iterator<Item = &Arc<Executor>> {
        self.executors_of(app)
    }

    fn in_use(&self, worker: &WorkerId) -> (Cores, MemoryMib) {
        let load = self.loads.get(worker);
        load.map_or_else(Default::default, |load| (load.cores, load.memory))
    }

    fn drivers_on(&self, worker: &WorkerId) -> Vec<DriverId> {
        let load = self.loads.get(worker);
        load.map_or_else(Vec::new, |load| load.drivers.iter().cloned().collect())
    }

    fn executors_on(&self, worker: &WorkerId) -> Vec<(AppId, ExecutorId)> {
        let load = self.loads.get(worker);
        load.map_or_else(Vec::new, |load| load.executors.iter().cloned().collect())
    }

    fn drivers_placed(&self) -> u64 {
        let of = |state| self.counts.drivers.get(&state).copied().unwrap_or_default();
        of(DriverState::Launching) + of(DriverState::Running)
    }

    fn share(&self) -> Share {
        self.caps.share
    }

    fn user_cores(&self, user: &str) -> u64 {
        self.caps.of_user(user)
    }

    fn stalled_since(&self, app: &AppId) -> Option<Timestamp> {
        self.heartbeats.stalled_since(app)
    }
}
