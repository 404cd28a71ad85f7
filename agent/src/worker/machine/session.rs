//! The machine towards the masters: registration, attachment, fencing, dispatch of orders.

use std::time::Duration;

use interrex_client::session::{LEARNT_MASTERS_MAX, StreamId};
use interrex_proto::v1::{
    Heartbeat, MasterAddress, RegisterWorker, Registered, RunningDriver, RunningExecutor,
    StaleEpoch, master_frame,
};

use super::{Actions, Attached, Task, WorkerMachine};
use crate::{
    metrics,
    process::WorkKey,
    worker::{Action, Now},
};

/// The shortest heartbeat interval that a master can ask for.
const HEARTBEAT_INTERVAL_MIN: Duration = Duration::from_millis(50);
/// The longest; also what an unset interval means (the default of a worker's heartbeat).
const HEARTBEAT_INTERVAL_MAX: Duration = Duration::from_secs(5);

// === impl WorkerMachine ===

impl WorkerMachine {
    /// The registration is the full report: everything that holds resources, and everything unacknowledged.
    ///
    /// Launches that wait are left out: they are not running, and a master that sends them again is ignored.
    pub(super) fn register(&mut self, stream: StreamId, actions: &mut Actions) {
        let mut registration = RegisterWorker {
            cluster_id: self.options.cluster_id.clone(),
            spec: Some(self.options.spec.clone()),
            unacknowledged: self.outbox.for_registration(),
            number: self.outbox.number(),
            seen_epoch: Some(self.options.epoch),
            dictionaries: self.options.dictionaries.clone(),
            ..RegisterWorker::default()
        };
        for (key, task) in self.tasks.iter().filter(|(_, task)| task.holds()) {
            match key {
                WorkKey::Driver { driver_id, attempt } => {
                    registration.drivers.push(RunningDriver {
                        driver_id: driver_id.clone(),
                        attempt: *attempt,
                        started_at_ms: task.started_at_ms,
                    });
                }
                WorkKey::Executor {
                    app_id,
                    executor_id,
                } => {
                    registration.executors.push(RunningExecutor {
                        app_id: app_id.clone(),
                        executor_id: *executor_id,
                        cores: task.needs.cores,
                        memory_mib: task.needs.memory_mib,
                        started_at_ms: task.started_at_ms,
                    });
                }
            }
        }
        actions.push(Action::Register {
            stream,
            registration: Box::new(registration),
        });
    }

    pub(super) fn on_attached(
        &mut self,
        epoch: u64,
        master: String,
        registered: Registered,
        now: Now,
        actions: &mut Actions,
    ) {
        if self.refuse_stale(epoch, "registered", actions) {
            return;
        }
        let ours = &self.options.cluster_id;
        // Ours was moved: the records that our work is in have been restored there.
        let moved = !ours.is_empty() && registered.formerly.contains(ours);
        let theirs = &registered.cluster_id;
        if !moved && !ours.is_empty() && !theirs.is_empty() && ours != theirs {
            let reason = format!(
                "it belongs to cluster {theirs}, this agent to {ours}: check --masters and --work-dir"
            );
            self.refusals.insert(master, reason);
            return;
        }
        if ours != theirs && !theirs.is_empty() {
            self.options.cluster_id.clone_from(&registered.cluster_id);
            actions.push(Action::PersistCluster(registered.cluster_id));
        }
        let leader = registered.masters.iter();
        let leader = leader.filter(|master| master.id == registered.master_id);
        let web = leader.map(|master| master.web.clone()).next();
        self.masters_named(registered.masters, actions);
        self.refusals.clear();
        let asked = match registered.heartbeat_interval_ms {
            0 => HEARTBEAT_INTERVAL_MAX,
            milliseconds => Duration::from_millis(milliseconds),
        };
        let heartbeat_interval = asked.clamp(HEARTBEAT_INTERVAL_MIN, HEARTBEAT_INTERVAL_MAX);
        self.lease
            .told(Duration::from_millis(registered.at_most_once_lease_ms));
        // What needs a lease, and what the leader has to know, does not wait for the interval.
        let soon = self.not_accepting.is_some() || self.tasks.values().any(|it| it.at_most_once);
        let next_heartbeat = if soon {
            now.elapsed
        } else {
            now.elapsed + heartbeat_interval
        };
        self.attached = Some(Attached {
            epoch,
            master,
            web: web.unwrap_or_default(),
            heartbeat_interval,
            next_heartbeat,
        });
    }

    /// The leader says who the masters are: for what is started from now on, and for the next start of this agent.
    fn masters_named(&mut self, named: Vec<MasterAddress>, actions: &mut Actions) {
        let masters: Vec<String> = named
            .into_iter()
            .map(|master| master.rpc)
            .filter(|address| !address.is_empty())
            .take(LEARNT_MASTERS_MAX)
            .collect();
        if !masters.is_empty() && masters != self.options.masters {
            self.options.masters.clone_from(&masters);
            actions.push(Action::PersistMasters(masters));
        }
    }

    pub(super) fn on_frame(
        &mut self,
        epoch: u64,
        body: master_frame::Body,
        now: Now,
        actions: &mut Actions,
    ) {
        use master_frame::Body;
        if self.refuse_stale(epoch, body.kind(), actions) {
            return;
        }
        match body {
            Body::LaunchDriver(order) => self.launch_driver(epoch, order, now, actions),
            Body::LaunchExecutor(order) => self.launch_executor(epoch, order, now, actions),
            Body::KillDriver(order) => {
                self.kill_driver(&order.driver_id, order.attempt, now, actions);
            }
            Body::KillExecutor(order) => {
                self.kill_executor(&order.app_id, order.executor_id, now, actions);
            }
            Body::ReportAck(ack) => {
                for sequence in ack.sequences {
                    self.acknowledged(sequence, actions);
                }
            }
            Body::Masters(named) => self.masters_named(named.masters, actions),
            Body::HeartbeatAck(ack) => self.heard(ack.sequence, actions),
            // The session's own business, or an application's.
            Body::Standby(_)
            | Body::Registered(_)
            | Body::MasterChanged(_)
            | Body::Refused(_)
            | Body::Reregister(_)
            | Body::ExecutorAdded(_)
            | Body::ExecutorUpdated(_)
            | Body::WorkerRemoved(_)
            | Body::ApplicationRemoved(_) => {}
        }
    }

    /// The second look (the session has fenced already): true where the epoch is too old. A newer one is written to
    /// disk before anything is done in it.
    fn refuse_stale(&mut self, epoch: u64, frame: &'static str, actions: &mut Actions) -> bool {
        let seen = self.options.epoch;
        if epoch < seen {
            metrics::stale(frame);
            let frame = frame.to_owned();
            actions.push(Action::Stale(StaleEpoch {
                seen,
                refused: epoch,
                frame,
            }));
            return true;
        }
        self.raise_epoch(epoch, actions);
        false
    }

    /// Orders of smaller epochs count no more. What is told from here on holds whatever those have ordered.
    pub(super) fn raise_epoch(&mut self, epoch: u64, actions: &mut Actions) {
        if epoch > self.options.epoch {
            self.options.epoch = epoch;
            actions.push(Action::PersistEpoch(epoch));
        }
    }

    /// The next heartbeat: how this worker stands.
    pub(super) fn heartbeat(&mut self, now: Now) -> Heartbeat {
        Heartbeat {
            digest: self.digest(),
            sequence: self.lease.sent(now.boot),
            not_accepting: self.not_accepting.clone().unwrap_or_default(),
        }
    }

    /// The next heartbeat does not wait for its interval.
    pub(super) fn beat_soon(&mut self, now: Now) {
        if let Some(attached) = &mut self.attached {
            attached.next_heartbeat = now.elapsed;
        }
    }

    /// Everything taken whose end is not acknowledged; see `Heartbeat.digest`.
    fn digest(&self) -> u64 {
        let ended = self
            .outbox
            .result_keys()
            .filter(|key| !self.tasks.contains_key(key));
        self.tasks
            .keys()
            .chain(ended)
            .fold(0, |digest, key| digest ^ key.digest())
    }

    /// The leader has heard a heartbeat: leases go on. (What was under one that is over is being ended already.)
    fn heard(&mut self, sequence: u64, actions: &mut Actions) {
        if !self.lease.acknowledged(sequence) {
            return;
        }
        if self.tasks.values().any(Task::needs_lease) {
            actions.push(Action::Renew(self.lease.lease()));
        }
    }

    fn acknowledged(&mut self, sequence: u64, actions: &mut Actions) {
        if let Some(report) = self.outbox.acknowledge(sequence)
            && report.result
        {
            self.generation += 1;
            actions.push(Action::Forget(report.sequence));
            self.finished.remember(report.key, report.body);
        }
    }
}
