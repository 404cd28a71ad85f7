//! `Kill`, `KillAllDrivers`, `ClearCompleted`, and the memory that makes a repeat of them harmless.

use std::sync::Arc;

use crate::{
    apply::submit::{conflict, not_found},
    command::RequestKey,
    effect::WorkerOrder,
    event::EventKind,
    ids::{AppId, DriverId, RequestId},
    machines::application::AppEvent,
    state::{
        cluster::ClusterState,
        driver::{Driver, DriverState},
        index::timers::Timer,
        meta::{Created, Request},
    },
    transition::Reply,
};

const REASON: &str = "killed by request";

// === impl ClusterState ===

impl ClusterState {
    /// Acts and remembers it under the request's id, or gives the answer of the first time again.
    pub(super) fn once(
        &mut self,
        request: Option<RequestKey>,
        act: impl FnOnce(&mut Self) -> Reply,
    ) -> Reply {
        let Some(RequestKey { id, fingerprint }) = request else {
            return act(self);
        };
        if let Some(known) = self.requests.get(&id) {
            self.scribe.replays += 1;
            return match &known.created {
                Created::Killed(target) if known.fingerprint == fingerprint => {
                    self.replay_kill(target)
                }
                Created::Count(count) if known.fingerprint == fingerprint => Reply::Count(*count),
                used @ (Created::Driver(_)
                | Created::App(_)
                | Created::Killed(_)
                | Created::Count(_)) => conflict(id, used),
            };
        }
        let reply = act(self);
        let Some(created) = deed(&reply) else {
            return reply;
        };
        let due = self.now.plus(self.config.request_retention);
        self.index.timers.set(Timer::Request(id.clone()), Some(due));
        self.put_request(Request {
            id,
            fingerprint,
            created,
            at: self.now,
        });
        reply
    }

    /// Only a kill of what was not over is remembered.
    fn replay_kill(&self, id: &str) -> Reply {
        if let Some(driver) = self.drivers.get(&DriverId::from(id)).cloned() {
            return Reply::DriverKilled {
                driver,
                already_over: false,
            };
        }
        match self.apps.get(&AppId::from(id)).cloned() {
            Some(app) => Reply::AppKilled {
                app,
                already_over: false,
            },
            None => not_found(id.to_owned()),
        }
    }

    /// By driver id, submission id or application id.
    pub(super) fn kill(&mut self, id: &str) -> Reply {
        let request = self
            .requests
            .get(&RequestId::from(id))
            .map(|request| &request.created);
        let (driver, app) = match request {
            Some(Created::Driver(driver)) => (driver.clone(), AppId::from(id)),
            Some(Created::App(app)) => (DriverId::from(id), app.clone()),
            Some(Created::Killed(_) | Created::Count(_)) | None => {
                (DriverId::from(id), AppId::from(id))
            }
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
                let message = REASON.to_owned();
                self.end_app(&app.id, AppEvent::Killed { message });
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
        self.scribe.write(EventKind::HistoryCleared, "cluster", || {
            format!("{count} drivers and applications")
        });
        self.trim_history();
        Reply::Count(u32::try_from(count).unwrap_or(u32::MAX))
    }
}

/// What is worth remembering: a repeat of what changed nothing changes nothing.
fn deed(reply: &Reply) -> Option<Created> {
    match reply {
        Reply::DriverKilled {
            driver,
            already_over: false,
        } => Some(Created::Killed(driver.id.to_string())),
        Reply::AppKilled {
            app,
            already_over: false,
        } => Some(Created::Killed(app.id.to_string())),
        Reply::Count(count) => Some(Created::Count(*count)),
        Reply::DriverKilled { .. }
        | Reply::AppKilled { .. }
        | Reply::Done
        | Reply::WorkerRegistered
        | Reply::AppRegistered { .. }
        | Reply::DriverSubmitted { .. }
        | Reply::Rejected(_) => None,
    }
}
