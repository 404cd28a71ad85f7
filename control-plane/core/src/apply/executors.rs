//! What follows from a change of an executor: its application is told, counts a failure or a completion, and may be
//! over.

use crate::{
    effect::{AppNotice, Effect, WorkerOrder},
    ids::AppId,
    machines::{
        application::AppEvent,
        backoff::wait_after,
        executor::{Ending, ExecutorEvent, ExecutorStep},
    },
    state::{app::Application, cluster::ClusterState, executor::Executor},
    time::Timestamp,
};

// === impl ClusterState ===

impl ClusterState {
    /// Stores an executor's change and lets its application know and feel it.
    pub(crate) fn executor_becomes(&mut self, before: &Executor, after: Executor) {
        let over = after.state.is_final();
        let app = self.apps.get(&after.app).cloned();
        self.put_executor(after.clone());
        let Some(app) = app else {
            if over {
                // Its application is not recorded, so nobody will ever ask for it.
                self.delete_executor(&after.app, after.id);
            }
            return;
        };
        if !app.state.is_final() {
            self.tell(&app.id, AppNotice::ExecutorUpdated(after.clone()));
        }
        if over {
            self.trim_executors(&app.id);
            if !app.state.is_final() {
                self.count_ending(&app, before, &after);
            }
        }
    }

    /// Tells an executor to end; its resources stay booked until its worker says that it is gone.
    pub(crate) fn kill_executor(&mut self, executor: &Executor, reason: &str) -> bool {
        let reason = reason.to_owned();
        match executor.after(ExecutorEvent::KillRequested { reason }, self.now) {
            ExecutorStep::Becomes(next) => {
                self.put_executor(*next);
                self.order_kill_executor(executor);
                true
            }
            ExecutorStep::Repeated | ExecutorStep::Stale => false,
        }
    }

    pub(crate) fn lose_executor(&mut self, executor: &Executor, reason: &str) {
        let reason = reason.to_owned();
        match executor.after(ExecutorEvent::Lost { reason }, self.now) {
            ExecutorStep::Becomes(next) => self.executor_becomes(executor, *next),
            ExecutorStep::Repeated | ExecutorStep::Stale => self.ignored.refused += 1,
        }
    }

    fn count_ending(&mut self, app: &Application, before: &Executor, after: &Executor) {
        let mut next = app.clone();
        let floor = self.config.relaunch_backoff_min;
        match before.ending(after) {
            Ending::Completed if app.spec.completes => {
                next.executors_completed = next.executors_completed.saturating_add(1);
            }
            Ending::Completed => {
                // Spark replaces it at once and without end; one that ends at once must not spin us.
                if after.ran() < floor {
                    next.hold(self.now.plus(floor));
                }
            }
            Ending::Unasked => next.hold(self.now.plus(floor)),
            Ending::Neutral => {}
            Ending::Failure => {
                let stable = after.ran() >= self.config.executor_stable_after;
                let row = if stable { 0 } else { next.executor_failures };
                next.executor_failures = row.saturating_add(1);
                if next.executor_failures > 1 {
                    let max = self.config.executor_backoff_max;
                    let wait = wait_after(next.executor_failures - 1, floor, max);
                    next.hold(self.now.plus(wait));
                }
            }
        }
        let gives_up = before.ending(after) == Ending::Failure
            && self
                .config
                .executor_failures_max
                .is_some_and(|max| next.executor_failures >= max)
            && !self
                .index
                .app_loads
                .get(&app.id)
                .is_some_and(|load| load.any_running());
        let failures = next.executor_failures;
        self.put_app(next);
        if gives_up {
            let message = format!(
                "{failures} executors failed in a row; the last one, {}: {}",
                after.id, after.message
            );
            self.end_app(&app.id, AppEvent::Failed { message });
        }
    }

    /// Forgets the oldest ended executors of an application beyond the bound.
    fn trim_executors(&mut self, app: &AppId) {
        let max = usize::try_from(self.config.retained_executors_per_app).unwrap_or(usize::MAX);
        while let Some(load) = self.index.app_loads.get(app)
            && load.ended().len() > max
            && let Some((_, oldest)) = load.ended().first().cloned()
        {
            self.delete_executor(app, oldest);
        }
    }

    /// Tells an application something once this command is durable.
    pub(crate) fn tell(&mut self, app: &AppId, notice: AppNotice) {
        self.effects.push(Effect::App {
            app: app.clone(),
            notice,
        });
    }

    pub(crate) fn order_kill_executor(&mut self, executor: &Executor) {
        let order = WorkerOrder::KillExecutor {
            app: executor.app.clone(),
            executor: executor.id,
        };
        self.order(&executor.worker, order);
    }

    pub(crate) fn order_launch_executor(&mut self, executor: &Executor) {
        if let Some(app) = self.apps.get(&executor.app) {
            let order = WorkerOrder::LaunchExecutor {
                app: executor.app.clone(),
                executor: executor.id,
                app_name: app.spec.name.clone(),
                profile: executor.profile,
                command: app.spec.command.clone(),
                cores: executor.cores,
                memory: executor.memory,
                resources: executor.resources.clone(),
            };
            self.order(&executor.worker, order);
        }
    }
}

// === impl Application ===

impl Application {
    /// No new executor before this time; a longer wait stays.
    fn hold(&mut self, until: Timestamp) {
        self.not_before = self.not_before.max(Some(until));
    }
}
