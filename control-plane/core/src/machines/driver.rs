//! What becomes of a driver. Pure: a driver and an event in, a driver out.

use std::time::Duration;

use crate::{
    command::ProcessChange,
    config::ClusterConfig,
    ids::{Attempt, WorkerId},
    machines::backoff::wait_after,
    resources::Addresses,
    state::driver::{Driver, DriverState, Exit},
    time::Timestamp,
};

/// Something that happens to the newest attempt of a driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DriverEvent {
    /// Its worker says so.
    Reported(ProcessChange),
    /// Its worker is dead, or does not have it any more.
    Lost {
        /// Why, for people.
        reason: String,
    },
    /// The drain of its worker is over.
    Evicted {
        /// Why, for people.
        reason: String,
    },
}

/// What the event means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DriverStep {
    /// The driver is this now.
    Becomes(Box<Driver>),
    /// Nothing new.
    Repeated,
    /// About an attempt that is over.
    Stale,
}

// === impl Driver ===

impl Driver {
    /// Places the driver: the next attempt, on this worker.
    pub(crate) fn placed(&self, worker: WorkerId, resources: Addresses) -> Self {
        Self {
            state: DriverState::Launching,
            attempt: Attempt(self.attempt.0.saturating_add(1)),
            worker: Some(worker),
            resources,
            started_at: None,
            exit: None,
            not_before: None,
            evicted: false,
            message: String::new(),
            ..self.clone()
        }
    }

    /// What becomes of it. `at` is when it happened, `now` is when we hear of it.
    pub(crate) fn after(
        &self,
        event: DriverEvent,
        at: Timestamp,
        now: Timestamp,
        config: &ClusterConfig,
    ) -> DriverStep {
        match self.state {
            DriverState::Launching | DriverState::Running => {
                self.after_placed(event, at, now, config)
            }
            DriverState::Relaunching => self.after_relaunching(&event, at),
            DriverState::Submitted
            | DriverState::Finished
            | DriverState::Killed
            | DriverState::Failed
            | DriverState::Error => DriverStep::Stale,
        }
    }

    /// Ended for good.
    pub(crate) fn ended(&self, state: DriverState, at: Timestamp, message: String) -> Self {
        Self {
            state,
            resources: Addresses::new(),
            finished_at: Some(at),
            not_before: None,
            message,
            ..self.clone()
        }
    }

    fn after_placed(
        &self,
        event: DriverEvent,
        at: Timestamp,
        now: Timestamp,
        config: &ClusterConfig,
    ) -> DriverStep {
        let next = match event {
            DriverEvent::Reported(ProcessChange::Running) => {
                if self.state == DriverState::Running {
                    return DriverStep::Repeated;
                }
                Self {
                    state: DriverState::Running,
                    started_at: Some(at),
                    ..self.clone()
                }
            }
            DriverEvent::Reported(ProcessChange::Exited(exit)) => {
                self.exited(exit, at, now, config)
            }
            DriverEvent::Reported(ProcessChange::Killed(exit)) => {
                let next = Self {
                    exit: Some(exit),
                    ..self.clone()
                };
                // What ended has run, though its start was not reported.
                let never_ran = self.state == DriverState::Launching && exit == Exit::default();
                let reason = if self.is_to_end() {
                    exit.describe()
                } else {
                    "ended by its worker without a request".to_owned()
                };
                next.lost(reason, never_ran, at, now, config)
            }
            DriverEvent::Reported(ProcessChange::Failed(message)) => {
                if self.is_to_end() {
                    self.lost(message, false, at, now, config)
                } else if self.spec.supervise {
                    self.relaunching(self.failures_with(at, config), true, now, config, message)
                } else {
                    self.ended(DriverState::Error, at, message)
                }
            }
            DriverEvent::Lost { reason } => {
                // Unconfirmed is not "never ran": the order may have arrived.
                self.lost(format!("lost: {reason}"), false, at, now, config)
            }
            DriverEvent::Evicted { reason } => {
                if self.is_to_end() {
                    return DriverStep::Repeated;
                }
                Self {
                    evicted: true,
                    message: reason,
                    ..self.clone()
                }
            }
        };
        DriverStep::Becomes(Box::new(next))
    }

    /// An attempt that we gave up and have not replaced yet may still say that it did its work.
    fn after_relaunching(&self, event: &DriverEvent, at: Timestamp) -> DriverStep {
        match event {
            DriverEvent::Reported(ProcessChange::Exited(exit))
                if exit.code == Some(0) && self.exit.is_none() =>
            {
                let next = Self {
                    exit: Some(*exit),
                    ..self.ended(DriverState::Finished, at, String::new())
                };
                DriverStep::Becomes(Box::new(next))
            }
            DriverEvent::Reported(_) | DriverEvent::Lost { .. } | DriverEvent::Evicted { .. } => {
                DriverStep::Stale
            }
        }
    }

    fn exited(&self, exit: Exit, at: Timestamp, now: Timestamp, config: &ClusterConfig) -> Self {
        let next = Self {
            exit: Some(exit),
            ..self.clone()
        };
        if exit.code == Some(0) {
            // Even while a kill is under way, as in Spark: it ended by itself, before the order came. What an order
            // ended is reported as killed, whatever its exit code.
            return next.ended(DriverState::Finished, at, String::new());
        }
        let message = exit.describe();
        if self.kill_requested {
            return next.ended(DriverState::Killed, at, message);
        }
        if !self.spec.supervise {
            return next.ended(DriverState::Failed, at, message);
        }
        if self.evicted {
            return next.evicted(message, now, config);
        }
        next.relaunching(self.failures_with(at, config), true, now, config, message)
    }

    /// Failures in a row when the newest attempt ends at `at`: a run that was long enough begins a new row.
    fn failures_with(&self, at: Timestamp, config: &ClusterConfig) -> u32 {
        let ran = self
            .started_at
            .map_or(Duration::ZERO, |started| at.since(started));
        let before = if ran >= config.driver_stable_after {
            0
        } else {
            self.failures
        };
        before.saturating_add(1)
    }

    /// Its worker ended it unasked, or is gone, or does not know it.
    fn lost(
        &self,
        message: String,
        never_ran: bool,
        at: Timestamp,
        now: Timestamp,
        config: &ClusterConfig,
    ) -> Self {
        if self.kill_requested {
            self.ended(DriverState::Killed, at, message)
        } else if self.evicted && (self.spec.supervise || never_ran) {
            self.evicted(message, now, config)
        } else if self.evicted {
            let message = format!("{} ({message})", self.message);
            self.ended(DriverState::Killed, at, message)
        } else if self.spec.supervise || never_ran {
            // The first loss is nobody's fault; a worker that ends everything at once must not spin us.
            let failures = self.failures_with(at, config);
            self.relaunching(failures, failures > 1, now, config, message)
        } else {
            self.ended(DriverState::Error, at, message)
        }
    }

    /// Ended by a drain: it goes on elsewhere at once, and its row of failures stays as it was.
    fn evicted(&self, how: String, now: Timestamp, config: &ClusterConfig) -> Self {
        let message = format!("{} ({how})", self.message);
        Self {
            evicted: false,
            ..self.relaunching(self.failures, false, now, config, message)
        }
    }

    fn relaunching(
        &self,
        failures: u32,
        wait: bool,
        now: Timestamp,
        config: &ClusterConfig,
        message: String,
    ) -> Self {
        let delay = wait_after(
            failures,
            config.relaunch_backoff_min,
            config.driver_backoff_max,
        );
        Self {
            state: DriverState::Relaunching,
            resources: Addresses::new(),
            failures,
            not_before: wait.then(|| now.plus(delay)),
            message,
            ..self.clone()
        }
    }
}

// === impl Exit ===

impl Exit {
    /// In words, for people.
    #[must_use]
    pub fn describe(self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("ended by signal {signal}"),
            (None, None) => "ended for an unknown reason".to_owned(),
        }
    }
}

#[cfg(test)]
#[path = "driver_test.rs"]
mod tests;
