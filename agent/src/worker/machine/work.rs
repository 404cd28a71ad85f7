//! The life of work: waiting for room, starting, running, ending.

use super::{Actions, TaskState, WorkerMachine};
use crate::{
    metrics,
    process::{EndCause, ProcessEvent, WorkKey},
    worker::{
        Action, Now,
        report::{EndReason, Outcome},
    },
};

// === impl WorkerMachine ===

impl WorkerMachine {
    pub(super) fn on_process(&mut self, event: ProcessEvent, now: Now, actions: &mut Actions) {
        let Some(task) = self.tasks.get_mut(event.key()) else {
            return;
        };
        match event {
            ProcessEvent::Started { key, pid } => {
                task.pid = Some(pid);
                task.started_at_ms = now.wall_ms;
                if task.state == TaskState::Starting {
                    task.state = TaskState::Running;
                    self.report(&key, Outcome::running(), now, actions);
                }
            }
            ProcessEvent::NotStarted { key, message } => {
                let outcome = match task.state {
                    TaskState::Ending(EndReason::Order) => Outcome::killed(message),
                    TaskState::Ending(reason @ (EndReason::Superseded | EndReason::NoLeader)) => {
                        Outcome::killed(reason.words())
                    }
                    TaskState::Ending(reason @ (EndReason::AgentStops | EndReason::FormerLife)) => {
                        Outcome::lost(&key, reason)
                    }
                    TaskState::Waiting { .. } | TaskState::Starting | TaskState::Running => {
                        Outcome::failed(message)
                    }
                };
                self.finish(&key, outcome, now, actions);
                self.start_waiting(actions);
            }
            ProcessEvent::Ended { key, exit, cause } => {
                let reason = match task.state {
                    TaskState::Ending(reason) => Some(reason),
                    TaskState::Waiting { .. } | TaskState::Starting | TaskState::Running => None,
                };
                if cause == EndCause::LeaseOver || reason == Some(EndReason::NoLeader) {
                    metrics::lease_ended();
                }
                let outcome = Outcome::of_end(&key, reason, cause, exit);
                self.finish(&key, outcome, now, actions);
                self.start_waiting(actions);
            }
        }
    }

    /// Ends work for `reason`. Never waits: the runner tells when it is gone.
    pub(super) fn end(
        &mut self,
        key: &WorkKey,
        reason: EndReason,
        now: Now,
        actions: &mut Actions,
    ) {
        let Some(task) = self.tasks.get_mut(key) else {
            return;
        };
        match task.state {
            // It never ran, and may be started anywhere else.
            TaskState::Waiting { .. } => {
                self.finish(key, Outcome::killed(reason.words()), now, actions);
            }
            TaskState::Starting | TaskState::Running => {
                task.state = TaskState::Ending(reason);
                let grace = match reason {
                    EndReason::NoLeader => self.lease.grace(),
                    EndReason::Order
                    | EndReason::Superseded
                    | EndReason::AgentStops
                    | EndReason::FormerLife => self.options.kill_grace,
                };
                actions.push(Action::Kill {
                    key: key.clone(),
                    grace,
                });
            }
            // It is being ended already, and SIGKILL comes by itself. A kill that a user wanted stays one.
            TaskState::Ending(current) => {
                if reason == EndReason::Order && current != EndReason::FormerLife {
                    task.state = TaskState::Ending(reason);
                }
            }
        }
    }

    /// Ends the attempts that may run at most once, where the lease is over.
    pub(super) fn heed_lease(&mut self, now: Now, actions: &mut Actions) {
        if !self.lease.is_over(now.boot) {
            return;
        }
        // One that waits may have been started elsewhere before the next lease begins: its order counts no more. If it is
        // still to run here, the leader orders it again.
        self.tasks.retain(|_, task| {
            !(task.at_most_once && matches!(task.state, TaskState::Waiting { .. }))
        });
        let over: Vec<WorkKey> = self
            .tasks
            .iter()
            .filter(|(_, task)| task.needs_lease())
            .map(|(key, _)| key.clone())
            .collect();
        for key in over {
            self.end(&key, EndReason::NoLeader, now, actions);
        }
    }

    /// Starts what can be started, in the order in which it came. A launch that does not fit yet does not keep
    /// others back; its own deadline bounds its wait.
    pub(super) fn start_waiting(&mut self, actions: &mut Actions) {
        let mut waiting: Vec<(u64, WorkKey)> = Vec::new();
        for (key, task) in &self.tasks {
            if let TaskState::Waiting { arrival, .. } = task.state {
                waiting.push((arrival, key.clone()));
            }
        }
        waiting.sort();
        for (_, key) in waiting {
            if self.hindrance(&key).is_some() {
                continue;
            }
            let Some(task) = self.tasks.get_mut(&key) else {
                continue;
            };
            if let TaskState::Waiting { mut launch, .. } =
                std::mem::replace(&mut task.state, TaskState::Starting)
            {
                launch.lease = task.at_most_once.then(|| self.lease.lease());
                actions.push(Action::Start(launch));
            }
        }
    }

    /// Fails the launches whose wait is over.
    pub(super) fn give_up_waiting(&mut self, now: Now, actions: &mut Actions) {
        let mut over: Vec<WorkKey> = Vec::new();
        for (key, task) in &self.tasks {
            if let TaskState::Waiting { until, .. } = task.state
                && until <= now.elapsed
            {
                over.push(key.clone());
            }
        }
        for key in over {
            let reason = self.hindrance(&key).unwrap_or_default();
            let waited = self.options.launch_wait.as_secs_f64();
            let outcome = Outcome::failed(format!("not started within {waited} s: {reason}"));
            self.finish(&key, outcome, now, actions);
        }
    }

    /// Why waiting work cannot start now.
    fn hindrance(&self, key: &WorkKey) -> Option<String> {
        let task = self.tasks.get(key)?;
        if let WorkKey::Driver { driver_id, attempt } = key {
            let earlier = WorkKey::driver(driver_id, 0)..WorkKey::driver(driver_id, *attempt);
            if let Some((earlier, _)) = self.tasks.range(earlier).next() {
                return Some(format!("{earlier} has not ended"));
            }
        }
        if task.at_most_once && self.lease.is_over(self.boot) {
            return Some("no leader has acknowledged a heartbeat of this agent".to_owned());
        }
        task.needs.fits(&self.used(), &self.options.spec).err()
    }
}
