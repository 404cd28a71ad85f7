//! One command at a time: dispatch, one scheduling pass over what became possible, and the list of changes.

mod application;
mod drain;
mod executors;
mod kill;
pub(crate) mod notes;
#[cfg(feature = "planted-bugs")]
mod planted;
mod reconcile;
mod report;
mod submit;
mod targets;
mod tick;
mod worker;

use crate::{
    command::Command,
    state::cluster::ClusterState,
    time::Timestamp,
    transition::{Reply, Transition},
};

// === impl ClusterState ===

impl ClusterState {
    /// Applies a command and schedules what it made possible. Deterministic; never panics; costs what changes. A
    /// refused command changes nothing.
    pub fn apply(&mut self, now: Timestamp, command: Command) -> Transition {
        self.now = self.now.max(now);
        let cause = self.begin_notes(&command);
        let mut reply = self.dispatch(command);
        self.note_outcome(cause, &reply);
        if !matches!(reply, Reply::Rejected(_)) {
            self.schedule();
            self.refresh_reply(&mut reply);
        }
        let changes = std::mem::take(&mut self.changes);
        Transition {
            mutations: changes.into_mutations(self),
            events: self.scribe.take(),
            effects: std::mem::take(&mut self.effects),
            reply,
        }
    }

    fn dispatch(&mut self, command: Command) -> Reply {
        match command {
            Command::RegisterWorker {
                worker,
                spec,
                report,
            } => self.register_worker(worker, spec, report),
            Command::Report { worker, report } => self.report(&worker, report),
            Command::WorkerDisconnected { worker } => self.worker_disconnected(&worker),
            Command::ExpireWorker { worker } => self.expire_worker(&worker),
            Command::RegisterApplication {
                request,
                fingerprint,
                app,
                spec,
            } => self.register_application(request, fingerprint, app.as_ref(), spec),
            Command::UnregisterApplication {
                app,
                failed,
                message,
            } => self.unregister_application(&app, failed, message),
            Command::ExpireApplication { app } => self.expire_application(&app),
            Command::RequestExecutors { app, targets } => self.request_executors(&app, &targets),
            Command::KillExecutors { app, executors } => self.kill_executors(&app, &executors),
            Command::SubmitDriver {
                request,
                fingerprint,
                spec,
            } => self.submit_driver(request, fingerprint, spec),
            Command::Kill { request, id } => self.once(request, |state| state.kill(&id)),
            Command::KillAllDrivers { request } => self.once(request, Self::kill_all_drivers),
            Command::ClearCompleted { request } => self.once(request, Self::clear_completed),
            Command::DrainWorkers {
                request,
                workers,
                deadline,
                reason,
            } => self.once(request, |state| {
                state.drain_workers(&workers, deadline, &reason)
            }),
            Command::UndrainWorkers { request, workers } => {
                self.once(request, |state| state.undrain_workers(&workers))
            }
            Command::AcceptingChanged {
                worker,
                not_accepting,
            } => self.accepting_changed(&worker, not_accepting),
            Command::Tick => self.tick(),
            Command::Initialize { cluster_id } => self.initialize(cluster_id),
            Command::TakeOver {
                master,
                found,
                quarantined,
            } => self.take_over(&master, found, quarantined),
        }
    }

    /// The reply shows a driver as it is after scheduling, like Spark's.
    fn refresh_reply(&self, reply: &mut Reply) {
        match reply {
            Reply::DriverSubmitted { driver, .. } | Reply::DriverKilled { driver, .. } => {
                if let Some(current) = self.drivers.get(&driver.id) {
                    driver.clone_from(current);
                }
            }
            Reply::AppKilled { app, .. } => {
                if let Some(current) = self.apps.get(&app.id) {
                    app.clone_from(current);
                }
            }
            // An application's new executors follow as notices.
            Reply::AppRegistered { .. }
            | Reply::Done
            | Reply::WorkerRegistered
            | Reply::Count(_)
            | Reply::Rejected(_) => {}
        }
    }

    fn initialize(&mut self, cluster_id: String) -> Reply {
        let mut meta = self.meta.clone();
        if meta.cluster_id.is_empty() {
            meta.cluster_id = cluster_id;
        }
        if meta.created_at == Timestamp::default() {
            meta.created_at = self.now;
        }
        self.put_meta(meta);
        Reply::Done
    }
}
