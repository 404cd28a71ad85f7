//! Launches and kills.

use std::collections::BTreeMap;

use interrex_proto::{
    trace::Traceparent,
    v1::{LaunchDriver, LaunchExecutor, ResourceAddresses},
};

use super::{Actions, Needs, Task, TaskState, WorkerMachine};
use crate::{
    metrics,
    outbox::REPORTS_MAX,
    process::{Launch, WorkKey},
    spark::submission,
    worker::{
        Now, WORK_MAX,
        report::{EndReason, Outcome},
    },
};

// === impl WorkerMachine ===

impl WorkerMachine {
    pub(super) fn launch_driver(
        &mut self,
        epoch: u64,
        order: LaunchDriver,
        now: Now,
        actions: &mut Actions,
    ) {
        let key = WorkKey::driver(&order.driver_id, order.attempt);
        if self.is_repeat(&key, now, actions) {
            return;
        }
        if let Some(later) = self.later_attempt(&order.driver_id, order.attempt) {
            metrics::stale("launch_driver");
            let message = format!("superseded: attempt {later} was ordered before");
            self.report(&key, Outcome::killed(message), now, actions);
            return;
        }
        let spec = order.spec.unwrap_or_default();
        let command = match (spec.command, &spec.spark) {
            (Some(command), _) => Ok(command),
            (None, Some(spark)) => submission::command(spark, &self.options.spec.capabilities),
            (None, None) => Err("field `spec.command` is missing".to_owned()),
        };
        let command = match command {
            Ok(command) => command,
            Err(message) => {
                self.report(&key, Outcome::failed(message), now, actions);
                return;
            }
        };
        let launch = Launch {
            key,
            name: spec.name,
            command,
            epoch,
            cores: spec.cores,
            memory_mib: spec.memory_mib,
            resources: resources(order.resources),
            masters: self.options.masters.clone(),
            resource_profile: 0,
            lease: None,
            trace: Traceparent::parse(&order.traceparent),
        };
        for earlier in self.attempts(&order.driver_id, order.attempt) {
            if earlier != launch.key {
                self.end(&earlier, EndReason::Superseded, now, actions);
            }
        }
        self.take(launch, spec.at_most_once, now, actions);
    }

    pub(super) fn launch_executor(
        &mut self,
        epoch: u64,
        order: LaunchExecutor,
        now: Now,
        actions: &mut Actions,
    ) {
        let key = WorkKey::executor(&order.app_id, order.executor_id);
        if self.is_repeat(&key, now, actions) {
            return;
        }
        let Some(command) = order.command else {
            let outcome = Outcome::failed("field `command` is missing");
            self.report(&key, outcome, now, actions);
            return;
        };
        let launch = Launch {
            key,
            name: order.app_name,
            command,
            epoch,
            cores: order.cores,
            memory_mib: order.memory_mib,
            resources: resources(order.resources),
            masters: self.options.masters.clone(),
            resource_profile: order.resource_profile,
            lease: None,
            trace: None,
        };
        self.take(launch, false, now, actions);
    }

    /// Ends `attempt` and every smaller one. An attempt that is unknown here has no process here, and the master is
    /// told so: it may be waiting for just that.
    pub(super) fn kill_driver(
        &mut self,
        driver_id: &str,
        attempt: u32,
        now: Now,
        actions: &mut Actions,
    ) {
        let key = WorkKey::driver(driver_id, attempt);
        self.kill_unknown(&key, now, actions);
        for known in self.attempts(driver_id, attempt) {
            self.end(&known, EndReason::Order, now, actions);
        }
    }

    pub(super) fn kill_executor(
        &mut self,
        app_id: &str,
        executor_id: u32,
        now: Now,
        actions: &mut Actions,
    ) {
        let key = WorkKey::executor(app_id, executor_id);
        self.kill_unknown(&key, now, actions);
        self.end(&key, EndReason::Order, now, actions);
    }

    fn kill_unknown(&mut self, key: &WorkKey, now: Now, actions: &mut Actions) {
        if self.tasks.contains_key(key) || self.repeat_result(key, now, actions) || self.is_full() {
            return;
        }
        self.report(
            key,
            Outcome::killed("nothing of it runs on this worker"),
            now,
            actions,
        );
    }

    /// A launch that this worker has taken already is not taken again; the master is told how it stands.
    fn is_repeat(&mut self, key: &WorkKey, now: Now, actions: &mut Actions) -> bool {
        let Some(task) = self.tasks.get(key) else {
            // Where there is no room for it or its reports, the order is left unanswered: the master will repeat it.
            return self.repeat_result(key, now, actions)
                || self.is_full()
                || self.tasks.len() >= WORK_MAX;
        };
        let running = task.state == TaskState::Running;
        if running && !self.outbox.send_again(key, now.elapsed) {
            self.report(key, Outcome::running(), now, actions);
        }
        true
    }

    /// Sends a result again, where there is one, acknowledged or not.
    fn repeat_result(&mut self, key: &WorkKey, now: Now, actions: &mut Actions) -> bool {
        if self.outbox.has_result(key) {
            return self.outbox.send_again(key, now.elapsed);
        }
        let Some(result) = self.finished.result(key).cloned() else {
            return false;
        };
        self.report_body(result, now, actions);
        true
    }

    /// Takes a new launch: starts it now, or lets it wait.
    ///
    /// Whatever is refused is told: an order that is dropped in silence would be sent again for ever.
    fn take(&mut self, launch: Launch, at_most_once: bool, now: Now, actions: &mut Actions) {
        let key = launch.key.clone();
        if at_most_once && self.lease.is_over(now.boot) {
            // The order may have been on its way for long, and the attempt been started elsewhere meanwhile. If it is still to
            // run here, the leader orders it again.
            return self.beat_soon(now);
        }
        let refusal = if self.stopping {
            Some(Outcome::killed(EndReason::AgentStops.words()))
        } else if let Some(reason) = &self.not_accepting {
            Some(Outcome::killed(format!("not accepting new work: {reason}")))
        } else if let Err(error) = key.file_stem() {
            Some(Outcome::failed(error.to_string()))
        } else {
            self.arrivals += 1;
            let task = Task::waiting(
                launch,
                at_most_once,
                self.arrivals,
                now.elapsed + self.options.launch_wait,
            );
            match task.needs.fits(&Needs::default(), &self.options.spec) {
                Ok(()) => {
                    self.generation += 1;
                    self.tasks.insert(key.clone(), task);
                    None
                }
                Err(reason) => Some(Outcome::failed(format!("it can never fit: {reason}"))),
            }
        };
        match refusal {
            Some(outcome) => self.report(&key, outcome, now, actions),
            None => self.start_waiting(actions),
        }
    }

    /// The keys of everything known to run or wait of a driver, up to `attempt`.
    fn attempts(&self, driver_id: &str, attempt: u32) -> Vec<WorkKey> {
        let range = WorkKey::driver(driver_id, 0)..=WorkKey::driver(driver_id, attempt);
        self.tasks
            .range(range)
            .map(|(key, _)| key.clone())
            .collect()
    }

    fn later_attempt(&self, driver_id: &str, attempt: u32) -> Option<u32> {
        use crate::outbox::{ByWorkKey, later_attempt};
        let running = later_attempt(self.tasks.keys_range(driver_id, attempt));
        let reported = self.outbox.later_attempt(driver_id, attempt);
        running
            .max(reported)
            .max(self.finished.later_attempt(driver_id, attempt))
    }

    fn is_full(&self) -> bool {
        self.outbox.len() >= REPORTS_MAX
    }
}

fn resources(assigned: Vec<ResourceAddresses>) -> BTreeMap<String, Vec<String>> {
    assigned
        .into_iter()
        .map(|resource| (resource.name, resource.addresses))
        .collect()
}
