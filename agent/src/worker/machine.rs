//! The worker machine: what to start, end and report. Pure: no clock, no I/O, no randomness.
//!
//! The pump (or the simulator) calls [`WorkerMachine::handle`] with everything that happens and carries out the
//! [`Action`]s in order. Between events it sleeps until [`WorkerMachine::next_deadline`], and then hands in a
//! [`Event::Tick`].
//!
//! What must never happen here: an order of an older epoch is obeyed; two attempts of a driver, or more cores, memory
//! or addresses than offered, are in use at once; a result is forgotten before a master has acknowledged it.

mod lease;
mod orders;
mod session;
mod task;
mod work;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use interrex_proto::v1::{SparkDictionary, WorkReport, WorkerSpec, work_report};

use crate::{
    metrics::Usage,
    outbox::Outbox,
    process::{LogOwner, WorkKey, record::AttemptRecord},
    worker::{
        Action, Event, Now,
        memory::Finished,
        report::{self, EndReason, Outcome},
        view::{ProcessView, WorkerView},
    },
};

use lease::LeaseKeeper;
use task::{Needs, Task, TaskState};

/// Executors that are over and still shown.
const EXECUTORS_OVER_MAX: usize = 200;

/// What a machine is made with.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineOptions {
    /// What this worker offers.
    pub spec: WorkerSpec,
    /// Builds of Spark that are not built into masters; told with each registration. Default none.
    pub dictionaries: Vec<SparkDictionary>,
    /// The masters that a leader named last, in an earlier life; else the addresses that the operator gave.
    pub masters: Vec<String>,
    /// The cluster this worker belongs to; empty until the first one has taken it.
    pub cluster_id: String,
    /// The largest epoch it has ever seen.
    pub epoch: u64,
    /// From SIGTERM to SIGKILL. Default 10 s.
    pub kill_grace: Duration,
    /// How long a launch may wait for room, or for the end of an earlier attempt. Default 30 s: the grace, what a
    /// supervisor may take beyond it, and some.
    pub launch_wait: Duration,
}

/// Decides for one worker.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerMachine {
    options: MachineOptions,
    attached: Option<Attached>,
    refusals: BTreeMap<String, String>,
    tasks: BTreeMap<WorkKey, Task>,
    /// Counts launches, so that those that wait are started in the order in which they came.
    arrivals: u64,
    outbox: Outbox,
    finished: Finished,
    /// The executors that ended last, for people.
    executors_over: VecDeque<ProcessView>,
    stopping: bool,
    /// Why no new work is taken.
    not_accepting: Option<String>,
    lease: LeaseKeeper,
    /// When something was heard last, on the clock of leases, and how far that is ahead of the machine's own.
    boot: Duration,
    boot_ahead: Duration,
    /// Rises when work comes or goes, or an end is acknowledged.
    generation: u64,
}

#[derive(Debug, Clone, PartialEq)]
struct Attached {
    epoch: u64,
    master: String,
    /// Where it shows its pages.
    web: String,
    heartbeat_interval: Duration,
    next_heartbeat: Duration,
}

/// Collects the actions of one event.
type Actions = Vec<Action>;

// === impl WorkerMachine ===

impl WorkerMachine {
    /// A machine with what an earlier life has left: results that no master has acknowledged, and attempts of which
    /// nothing is known but that they were started. The latter are taken as being ended; the runner tells when they
    /// are gone. Report numbers rise from `first_sequence`.
    #[must_use]
    pub fn new(
        options: MachineOptions,
        first_sequence: u64,
        results: Vec<WorkReport>,
        former: Vec<AttemptRecord>,
    ) -> Self {
        let mut outbox = Outbox::new(first_sequence);
        results
            .into_iter()
            .for_each(|report| outbox.restore(report));
        let tasks = former
            .into_iter()
            .filter(|record| !outbox.contains(&record.key))
            .map(|record| (record.key.clone(), Task::former(&record)))
            .collect();
        Self {
            options,
            attached: None,
            refusals: BTreeMap::new(),
            tasks,
            arrivals: 0,
            outbox,
            finished: Finished::default(),
            executors_over: VecDeque::new(),
            stopping: false,
            not_accepting: None,
            lease: LeaseKeeper::default(),
            boot: Duration::ZERO,
            boot_ahead: Duration::ZERO,
            generation: 1,
        }
    }

    /// Takes one event and says what to do, in order.
    #[must_use]
    pub fn handle(&mut self, event: Event, now: Now) -> Vec<Action> {
        let mut actions = Vec::new();
        self.boot = now.boot;
        self.boot_ahead = now.boot.saturating_sub(now.elapsed);
        // Before anything is heard: an acknowledgement that comes too late gives nothing.
        self.heed_lease(now, &mut actions);
        match event {
            Event::RegistrationWanted { stream, seen } => {
                self.raise_epoch(seen, &mut actions);
                self.register(stream, &mut actions);
            }
            Event::Attached {
                epoch,
                master,
                registered,
            } => {
                self.on_attached(epoch, master, *registered, now, &mut actions);
            }
            Event::Frame { epoch, body } => self.on_frame(epoch, *body, now, &mut actions),
            Event::Detached { reason: _ } => {
                self.attached = None;
                self.lease.detached();
            }
            Event::Refused {
                master,
                reason,
                permanent: _,
            } => {
                self.refusals.insert(master, reason);
            }
            Event::Process(event) => self.on_process(event, now, &mut actions),
            Event::Stored { sequence, stored } => {
                self.outbox.stored(sequence, stored, now.elapsed);
            }
            Event::NotSent { sequence } => self.outbox.not_sent(sequence, now.elapsed),
            Event::Disk { trouble } => {
                self.not_accepting = trouble;
                self.beat_soon(now);
            }
            Event::Tick => self.on_tick(now, &mut actions),
            Event::Stop => self.on_stop(now, &mut actions),
        }
        self.flush(now, &mut actions);
        actions
    }

    /// When the machine wants a [`Event::Tick`], on its own clock; `None`: only after something else has happened.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        let heartbeat = self
            .attached
            .as_ref()
            .map(|attached| attached.next_heartbeat);
        let launches = self.tasks.values().filter_map(|task| match &task.state {
            TaskState::Waiting { until, .. } => Some(*until),
            TaskState::Starting | TaskState::Running | TaskState::Ending(_) => None,
        });
        let outbox = self.outbox.next_due(self.attached.is_some());
        let lease = self
            .tasks
            .values()
            .any(Task::needs_lease)
            .then(|| self.lease.until().saturating_sub(self.boot_ahead));
        heartbeat
            .into_iter()
            .chain(launches)
            .chain(outbox)
            .chain(lease)
            .min()
    }

    /// Whether no work is left.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Whether a leader has taken this worker.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.attached.is_some()
    }

    /// Whether every report is acknowledged.
    #[must_use]
    pub fn has_reported_all(&self) -> bool {
        self.outbox.is_empty()
    }

    /// Whose results no master has acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> BTreeSet<LogOwner> {
        self.outbox.result_keys().map(WorkKey::owner).collect()
    }

    /// Rises when work comes or goes, or an end is acknowledged.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The largest epoch ever seen.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.options.epoch
    }

    /// What the worker holds.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let used = self.used();
        let mut usage = Usage {
            cores: self.options.spec.cores,
            cores_used: used.cores,
            memory_mib: self.options.spec.memory_mib,
            memory_mib_used: used.memory_mib,
            outbox: self.outbox.len(),
            ..Usage::default()
        };
        for task in self.tasks.values() {
            match task.state {
                TaskState::Waiting { .. } => usage.waiting += 1,
                TaskState::Starting => usage.starting += 1,
                TaskState::Running => usage.running += 1,
                TaskState::Ending(_) => usage.ending += 1,
            }
        }
        usage
    }

    /// Everything that people may want to see.
    #[must_use]
    pub fn view(&self) -> WorkerView {
        WorkerView {
            worker_id: self.options.spec.id.clone(),
            host: self.options.spec.host.clone(),
            cores: self.options.spec.cores,
            memory_mib: self.options.spec.memory_mib,
            resources: self
                .options
                .spec
                .resources
                .iter()
                .map(|it| (it.name.clone(), it.addresses.clone()))
                .collect(),
            masters: self.options.masters.clone(),
            cluster_id: self.options.cluster_id.clone(),
            epoch: self.options.epoch,
            leader: self
                .attached
                .as_ref()
                .map(|attached| attached.master.clone()),
            leader_web: self
                .attached
                .as_ref()
                .map_or_else(String::new, |attached| attached.web.clone()),
            refusals: self.refusals.clone(),
            stopping: self.stopping,
            not_accepting: self.not_accepting.clone(),
            unacknowledged: self.outbox.len(),
            processes: self
                .tasks
                .iter()
                .map(|(key, task)| task.view(key))
                .collect(),
            executors_over: self.executors_over.iter().cloned().collect(),
        }
    }

    /// What is in use: everything but what waits.
    fn used(&self) -> Needs {
        let mut used = Needs::default();
        for task in self.tasks.values().filter(|task| task.holds()) {
            used.cores = used.cores.saturating_add(task.needs.cores);
            used.memory_mib = used.memory_mib.saturating_add(task.needs.memory_mib);
            used.addresses.extend(task.needs.addresses.iter().cloned());
        }
        used
    }

    /// Adds a report about `key`, and what the disk has to know of it.
    fn report(&mut self, key: &WorkKey, outcome: Outcome, now: Now, actions: &mut Actions) {
        self.report_body(report::body(key, outcome, now.wall_ms), now, actions);
    }

    fn report_body(&mut self, body: work_report::Body, now: Now, actions: &mut Actions) {
        let (store, replaced) = self.outbox.add(body, now.elapsed);
        actions.extend(store.map(Action::Store));
        actions.extend(replaced.map(Action::Forget));
    }

    /// Ends work with a result.
    fn finish(&mut self, key: &WorkKey, outcome: Outcome, now: Now, actions: &mut Actions) {
        self.generation += 1;
        if let (Some(task), WorkKey::Executor { .. }) = (self.tasks.remove(key), key) {
            if self.executors_over.len() >= EXECUTORS_OVER_MAX {
                self.executors_over.pop_front();
            }
            self.executors_over.push_back(task.view(key));
        }
        self.report(key, outcome, now, actions);
    }

    /// Sends whatever is due, where there is somebody to send it to.
    fn flush(&mut self, now: Now, actions: &mut Actions) {
        if self.attached.is_some() {
            actions.extend(
                self.outbox
                    .take_due(now.elapsed)
                    .into_iter()
                    .map(Action::Report),
            );
        }
    }

    fn on_tick(&mut self, now: Now, actions: &mut Actions) {
        if let Some(attached) = &mut self.attached
            && attached.next_heartbeat <= now.elapsed
        {
            attached.next_heartbeat = now.elapsed + attached.heartbeat_interval;
            actions.push(Action::Heartbeat(self.heartbeat(now)));
        }
        self.give_up_waiting(now, actions);
        actions.extend(
            self.outbox
                .take_unstored(now.elapsed)
                .into_iter()
                .map(Action::Store),
        );
    }

    fn on_stop(&mut self, now: Now, actions: &mut Actions) {
        self.stopping = true;
        let keys: Vec<WorkKey> = self.tasks.keys().cloned().collect();
        for key in keys {
            self.end(&key, EndReason::AgentStops, now, actions);
        }
    }
}
