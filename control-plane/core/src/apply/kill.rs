//! `Kill`, `KillAllDrivers`, `ClearCompleted`.

use std::sync::Arc;

use crate::{
    apply::submit::not_found,
    effect::WorkerOrder,
    ids::{AppId, DriverId, RequestId},
    state::{
        app::ApplicationState,
        cluster::ClusterState,
        driver::{Driver, DriverState},
        meta::Created,
    },
    transition::Reply,
};

const REASON: &str = "killed by request";

// === impl ClusterState ===

impl ClusterState {
    /// By driver id, submission id or application id.
    pub(super) fn kill(&mut self, id: &str) -> Reply {
        let request = self
            .requests
            .get(&RequestId::from(id))
            .map(|request| &request.created);
        let (driver, app) = match request {
            Some(Created::Driver(driver)) => (driver.clone(), AppId::from(id)),
            Some(Created::App(app)) => (DriverId::from(id), app.clone()),
            None => (DriverId::from(id), AppId::from(id)),
        };
        if let Some(driver) = self.drivers.get(&driver).cloned() {
            let already_over = driver.state.is_final();
            self.kill_driver(&driver);
            return Reply::DriverKilled {
                driver,
                already_over,
            };
        }
        if let Some(app) = self.apps.get(&app).cloned() {
            let already_over = app.state.is_final();
            if !already_over {
                self.end_app(&app.id, ApplicationState::Killed, REASON.to_owned());
            }
            return Reply::AppKilled { app, already_over };
        }
        not_found(id.to_owned())
    }

    /// One transition for all, because an acknowledged kill is never lost. Costs the drivers that are not over.
    pub(super) fn kill_all_drivers(&mut self) -> Reply {
        let active: Vec<_> = self
            .drivers
            .values()
            .filter(|driver| !driver.state.is_final())
            .cloned()
            .collect();
        for driver in &active {
            self.kill_driver(driver);
        }
        Reply::Count(u32::try_from(active.len()).unwrap_or(u32::MAX))
    }

    fn kill_driver(&mut self, driver: &Arc<Driver>) {
        match driver.state {
            DriverState::Submitted | DriverState::Relaunching => {
                let mut next = driver.ended(DriverState::Killed, self.now, REASON.to_owned());
                next.kill_requested = true;
                self.put_driver(next);
            }
            DriverState::Launching | DriverState::Running => {
                let mut next = driver.as_ref().clone();
                next.kill_requested = true;
                self.put_driver(next);
                self.order_kill_driver(driver);
            }
            DriverState::Finished
            | DriverState::Killed
            | DriverState::Failed
            | DriverState::Error => {}
        }
    }

    pub(crate) fn order_kill_driver(&mut self, driver: &Driver) {
        if let Some(worker) = &driver.worker {
            let order = WorkerOrder::KillDriver {
                driver: driver.id.clone(),
                attempt: driver.attempt,
            };
            self.order(worker, order);
        }
    }

    /// Forgets what is over; what exceeds one command's bound follows with the next ticks.
    pub(super) fn clear_completed(&mut self) -> Reply {
        let count = self.index.ended_drivers.len() + self.index.ended_apps.len();
        self.clear_until = Some(self.now);
        self.trim_history();
        Reply::Count(u32::try_from(count).unwrap_or(u32::MAX))
    }
}
