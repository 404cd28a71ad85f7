//! Dynamic allocation: how many executors of each profile an application wants, and which it wants to end.

use crate::{
    apply::{application::app_over, submit::not_found},
    command::ExecutorTarget,
    config::{EXECUTORS_WANTED_MAX, PROFILES_PER_APP_MAX},
    ids::{AppId, ExecutorId, ProfileId},
    resources::Cores,
    state::{
        app::{Application, Profile},
        cluster::ClusterState,
    },
    transition::{Rejection, Reply},
};

// === impl ClusterState ===

impl ClusterState {
    /// All of the targets are taken, or none.
    pub(super) fn request_executors(&mut self, id: &AppId, targets: &[ExecutorTarget]) -> Reply {
        let Some(app) = self.apps.get(id) else {
            return not_found(id.to_string());
        };
        if app.state.is_final() {
            return app_over(app);
        }
        let mut app = app.as_ref().clone();
        for target in targets {
            if let Err(rejection) = app.take_target(target) {
                return Reply::Rejected(rejection);
            }
        }
        self.put_app(app);
        Reply::Done
    }

    /// Ends executors of an application. It gets others in their place, unless it has lowered its total before. What
    /// it names and does not have is counted, and hurts nobody.
    pub(super) fn kill_executors(&mut self, id: &AppId, executors: &[ExecutorId]) -> Reply {
        let Some(app) = self.apps.get(id) else {
            return not_found(id.to_string());
        };
        if app.state.is_final() {
            return app_over(app);
        }
        let mut count = 0;
        for executor in executors {
            let Some(executor) = self.executors.get(&(id.clone(), *executor)).cloned() else {
                self.ignored.unknown += 1;
                continue;
            };
            if self.kill_executor(&executor, "killed by its application") {
                count += 1;
            } else {
                self.ignored.repeated += 1;
            }
        }
        Reply::Count(count)
    }
}

// === impl Application ===

impl Application {
    fn take_target(&mut self, target: &ExecutorTarget) -> Result<(), Rejection> {
        let id = target.profile;
        if target.total > EXECUTORS_WANTED_MAX {
            return Err(invalid(format!(
                "profile {id}: {} executors; at most {EXECUTORS_WANTED_MAX} can be asked for",
                target.total
            )));
        }
        if id == ProfileId::default() {
            if target.needs.is_some() {
                let reason =
                    "profile 0 is the application's own description; give another one another id";
                return Err(invalid(reason.to_owned()));
            }
            self.executors_wanted = Some(target.total);
            return Ok(());
        }
        if let Some(known) = self.profiles.get_mut(&id) {
            if target
                .needs
                .as_ref()
                .is_some_and(|needs| *needs != known.needs)
            {
                let app = self.id.clone();
                return Err(Rejection::ProfileConflict { app, profile: id });
            }
            known.wanted = target.total;
            return Ok(());
        }
        let Some(needs) = target.needs.clone() else {
            return Err(invalid(format!(
                "profile {id} is not known; describe what one of its executors needs"
            )));
        };
        if needs.cores == Some(Cores(0)) {
            return Err(invalid(format!(
                "profile {id}: 0 cores; give at least 1, or leave it out"
            )));
        }
        if self.profiles.len() >= PROFILES_PER_APP_MAX {
            return Err(Rejection::LimitReached {
                what: "resource profiles of one application",
                max: PROFILES_PER_APP_MAX as u64,
            });
        }
        let wanted = target.total;
        self.profiles.insert(id, Profile { needs, wanted });
        Ok(())
    }
}

fn invalid(reason: String) -> Rejection {
    Rejection::Invalid {
        field: "targets",
        reason,
    }
}
