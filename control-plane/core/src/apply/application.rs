//! Registration, wishes and the end of applications.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    apply::submit::{conflict, not_found},
    config::EXECUTORS_PER_APP_MAX,
    effect::AppNotice,
    ids::{AppId, ExecutorId, Fingerprint, QueuePosition, RequestId},
    machines::application::{AppEvent, AppStep},
    spec::ApplicationSpec,
    state::{
        app::{Application, ApplicationState},
        cluster::ClusterState,
        meta::{Created, Request},
    },
    transition::{Rejection, Reply},
};

// === impl ClusterState ===

impl ClusterState {
    /// A repeat with the same request id, or with the application's id after a disconnection, attaches again. The id
    /// alone is not enough: it is shown to everybody, the request that created it is known to its client only, and
    /// another one that attaches has been started with the wrong id.
    pub(super) fn register_application(
        &mut self,
        request: RequestId,
        fingerprint: Fingerprint,
        app: Option<&AppId>,
        spec: Arc<ApplicationSpec>,
    ) -> Reply {
        if let Some(id) = app {
            return match self.apps.get(id) {
                Some(known) if known.request != request => Reply::Rejected(Rejection::Invalid {
                    field: "app_id",
                    reason: format!(
                        "{id} was not created by request `{request}`; attach with the request id that registered it"
                    ),
                }),
                Some(_) | None => self.attach_application(id),
            };
        }
        if let Some(known) = self.requests.get(&request).cloned() {
            return match &known.created {
                Created::App(id) if known.fingerprint == fingerprint => self.attach_application(id),
                used @ (Created::Driver(_)
                | Created::App(_)
                | Created::Killed(_)
                | Created::Count(_)) => conflict(request, used),
            };
        }
        if spec.cores_per_executor.is_some_and(|cores| cores.0 == 0) {
            return Reply::Rejected(Rejection::Invalid {
                field: "cores_per_executor",
                reason: "0; give at least 1, or leave it out".to_owned(),
            });
        }
        if let Some(rejection) = self.refuse_gate(&spec) {
            return Reply::Rejected(rejection);
        }
        let app = self.new_application(request.clone(), spec);
        self.put_request(Request {
            id: request,
            fingerprint,
            created: Created::App(app.id.clone()),
            at: self.now,
        });
        self.put_app(app.clone());
        Reply::AppRegistered {
            app: Arc::new(app),
            executors: Vec::new(),
        }
    }

    /// A minimum that the application could never reach: it would wait for ever.
    fn refuse_gate(&self, spec: &ApplicationSpec) -> Option<Rejection> {
        let min = u64::from(spec.min_executors);
        let each = spec.cores_per_executor.map_or(1, |cores| cores.0);
        let cores = min.saturating_mul(u64::from(each));
        let reason = if min > EXECUTORS_PER_APP_MAX {
            format!("{min}; at most {EXECUTORS_PER_APP_MAX} executors are possible")
        } else {
            let own = spec.cores_limit(&self.config);
            let users = self.config.user_cores_max;
            if let Some(max) = own.filter(|max| cores > u64::from(max.0)) {
                format!(
                    "{min} executors need {cores} cores, the application may have {}; lower it, or raise cores_max",
                    max.0
                )
            } else {
                let max = users.filter(|max| cores > u64::from(max.0))?;
                format!(
                    "{min} executors need {cores} cores, a user may have {} (user_cores_max); lower it",
                    max.0
                )
            }
        };
        Some(Rejection::Invalid {
            field: "min_executors",
            reason,
        })
    }

    fn attach_application(&mut self, id: &AppId) -> Reply {
        let Some(app) = self.apps.get(id) else {
            return not_found(id.to_string());
        };
        if app.state.is_final() {
            return app_over(app);
        }
        self.recovery.apps.remove(id);
        self.recovery.settle();
        Reply::AppRegistered {
            app: Arc::clone(app),
            executors: self.executors_of(id).cloned().collect(),
        }
    }

    fn new_application(&mut self, request: RequestId, spec: Arc<ApplicationSpec>) -> Application {
        let mut meta = self.meta.clone();
        let id = format!("app-{}-{:04}", self.now.compact_utc(), meta.next_app);
        let queue = meta.next_queue;
        meta.next_app = meta.next_app.saturating_add(1);
        meta.next_queue = QueuePosition(queue.0.saturating_add(1));
        self.put_meta(meta);
        Application {
            id: AppId::new(id),
            request,
            executors_wanted: spec.executor_limit,
            profiles: BTreeMap::new(),
            spec,
            state: ApplicationState::Waiting,
            queue,
            next_executor: ExecutorId(0),
            executors_completed: 0,
            executor_failures: 0,
            registered_at: self.now,
            finished_at: None,
            message: String::new(),
            not_before: None,
        }
    }

    /// A repeat is confirmed again.
    pub(super) fn unregister_application(
        &mut self,
        id: &AppId,
        failed: bool,
        message: String,
    ) -> Reply {
        let Some(app) = self.apps.get(id) else {
            return not_found(id.to_string());
        };
        if app.state.is_final() {
            let notice = AppNotice::Removed {
                state: app.state.name(),
                message: app.message.clone(),
            };
            self.tell(id, notice);
            return Reply::Done;
        }
        let event = if failed {
            AppEvent::Failed { message }
        } else {
            AppEvent::Finished { message }
        };
        self.end_app(id, event);
        Reply::Done
    }

    /// Its session stayed away too long. Spark calls such an application FINISHED; it did not say that it was, so we
    /// call it FAILED and tell it, should it come back.
    pub(super) fn expire_application(&mut self, id: &AppId) -> Reply {
        let Some(app) = self.apps.get(id) else {
            return Reply::Done;
        };
        if !app.state.is_final() {
            let message = format!("not heard of for more than {:?}", self.config.app_timeout);
            self.end_app(id, AppEvent::Failed { message });
        }
        Reply::Done
    }

    /// Ends an application: its executors are told to end, it is told that it is over.
    pub(crate) fn end_app(&mut self, id: &AppId, event: AppEvent) {
        let Some(app) = self.apps.get(id) else { return };
        let ended = match app.after(event, self.now) {
            AppStep::Becomes(ended) => *ended,
            AppStep::Repeated | AppStep::Refused => {
                self.ignored.refused += 1;
                return;
            }
        };
        let (state, message) = (ended.state.name(), ended.message.clone());
        self.put_app(ended);
        let active: Vec<_> = self
            .index
            .app_loads
            .get(id)
            .map_or_else(Vec::new, |load| load.active().collect());
        for executor in active {
            if let Some(executor) = self.executors.get(&(id.clone(), executor)).cloned() {
                self.kill_executor(&executor, "its application is over");
            }
        }
        self.recovery.apps.remove(id);
        self.recovery.settle();
        self.tell(id, AppNotice::Removed { state, message });
    }
}

pub(super) fn app_over(app: &Application) -> Reply {
    Reply::Rejected(Rejection::AppOver {
        app: app.id.clone(),
        state: app.state.name(),
    })
}
