//! The cluster under measurement, and the events that happen to it. The same every time: nothing is drawn at random.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use interrex_core::{
    command::{Command, FullReport, ProcessChange, Report, Subject},
    config::ClusterConfig,
    ids::{AppId, Fingerprint, ReportSequence, RequestId, WorkerId},
    resources::{Amounts, Cores, MemoryMib},
    spec::{ApplicationSpec, CommandLine, DriverPayload, DriverSpec, WorkerSpec},
    state::{
        cluster::{ClusterState, RecoveredEntities},
        driver::Exit,
        executor::Executor,
    },
    time::Timestamp,
    transition::{Reply, Transition},
};

use super::Size;

/// Cores of a worker.
pub(super) const CORES_PER_WORKER: u32 = 16;
/// Memory of a worker, in MiB.
const MEMORY_PER_WORKER: u64 = 65_536;
/// Cores of an executor.
pub(super) const CORES_PER_EXECUTOR: u32 = 2;
/// Memory of an executor, in MiB.
const MEMORY_PER_EXECUTOR: u64 = 1_024;
/// 2026-01-01 in UTC.
const START: Timestamp = Timestamp(1_767_225_600_000);
/// So long an executor runs before it ends: not so short that its application waits before it gets another one.
const EXECUTOR_RUNS: Duration = Duration::from_secs(5);

/// A cluster and its clock.
#[derive(Debug)]
pub(super) struct Load {
    state: ClusterState,
    now: Timestamp,
    /// Executors as they were when everything was built, application by application in turn.
    executors: Vec<Arc<Executor>>,
    submitted: u32,
}

// === impl Load ===

impl Load {
    /// Registers workers and applications, places every executor and queues the drivers.
    pub(super) fn build(size: Size) -> Self {
        let config = ClusterConfig::default();
        let mut load = Self {
            state: ClusterState::recover(config, RecoveredEntities::default(), START),
            now: START,
            executors: Vec::new(),
            submitted: 0,
        };
        for number in 0..size.workers {
            load.apply(register_worker(number));
        }
        for number in 0..size.apps {
            load.apply(register_app(number, size));
        }
        load.executors = load.in_turns(size);
        for _ in 0..size.queued {
            let command = load.submit_unplaceable();
            load.apply(command);
        }
        load
    }

    /// Applies a command at the time of this cluster.
    pub(super) fn apply(&mut self, command: Command) -> Transition {
        self.state.apply(self.now, command)
    }

    /// How many executors there are.
    pub(super) fn executors(&self) -> usize {
        self.executors.len()
    }

    /// An executor's process exists.
    pub(super) fn report_running(&mut self, number: u32) -> Option<Command> {
        self.report(number, ProcessChange::Running)
    }

    /// An executor has ended with exit code 0 after some seconds: it is replaced at once.
    pub(super) fn report_ended(&mut self, number: u32) -> Option<Command> {
        if number == 0 {
            self.now = self.now.plus(EXECUTOR_RUNS);
        }
        let exit = Exit {
            code: Some(0),
            signal: None,
        };
        self.report(number, ProcessChange::Exited(exit))
    }

    /// Whether a small driver finds a place.
    pub(super) fn has_room(&self) -> bool {
        let mut workers = self.state.workers();
        workers.any(|worker| self.state.usage(&worker.id).cores < worker.spec.cores)
    }

    /// A driver that fits where there is a core.
    pub(super) fn submit_small(&mut self) -> Command {
        self.submit(1, 512, Amounts::new())
    }

    /// A driver that fits on no worker: too many cores, too much memory, or a resource that nobody has; of a thousand
    /// different sizes.
    pub(super) fn submit_unplaceable(&mut self) -> Command {
        let number = self.submitted;
        let size = number / 3 % 1_000;
        match number % 3 {
            0 => self.submit(CORES_PER_WORKER + 1 + size, 512, Amounts::new()),
            1 => self.submit(1, MEMORY_PER_WORKER + 1 + u64::from(size), Amounts::new()),
            _ => {
                let gpu = Amounts::from([("gpu".to_owned(), 1)]);
                self.submit(1, 512 + u64::from(size), gpu)
            }
        }
    }

    /// Ends the driver that has just been submitted.
    pub(super) fn end_driver(&mut self, transition: &Transition) {
        let Reply::DriverSubmitted { driver, .. } = &transition.reply else {
            return;
        };
        let command = match &driver.worker {
            None => Command::Kill {
                request: None,
                id: driver.id.to_string(),
            },
            Some(worker) => {
                let exit = Exit {
                    code: Some(0),
                    signal: None,
                };
                let subject = Subject::Driver {
                    driver: driver.id.clone(),
                    attempt: driver.attempt,
                };
                self.report_of(worker.clone(), subject, ProcessChange::Exited(exit))
            }
        };
        self.apply(command);
    }

    fn submit(&mut self, cores: u32, memory: u64, resources: Amounts) -> Command {
        self.submitted += 1;
        let spec = DriverSpec {
            name: "bench".to_owned(),
            user: "bench".to_owned(),
            payload: DriverPayload::Command(program()),
            cores: Cores(cores),
            memory: MemoryMib(memory),
            resources,
            supervise: false,
            priority: 0,
            needs_executors: false,
            at_most_once: false,
        };
        Command::SubmitDriver {
            request: RequestId::new(format!("d{}", self.submitted)),
            fingerprint: Fingerprint([0; 32]),
            spec: Arc::new(spec),
        }
    }

    /// The first executor of each application, then the second of each, and so on.
    fn in_turns(&self, size: Size) -> Vec<Arc<Executor>> {
        let mut turns: BTreeMap<(u32, AppId), Arc<Executor>> = BTreeMap::new();
        let at_most = usize::try_from(size.executors_per_app()).unwrap_or(usize::MAX);
        for app in self.state.apps() {
            for (turn, executor) in (0..).zip(self.state.executors_of(&app.id).take(at_most)) {
                turns.insert((turn, app.id.clone()), Arc::clone(executor));
            }
        }
        turns.into_values().collect()
    }

    fn report(&self, number: u32, change: ProcessChange) -> Option<Command> {
        let executor = self.executors.get(usize::try_from(number).ok()?)?;
        let subject = Subject::Executor {
            app: executor.app.clone(),
            executor: executor.id,
        };
        Some(self.report_of(executor.worker.clone(), subject, change))
    }

    fn report_of(&self, worker: WorkerId, subject: Subject, change: ProcessChange) -> Command {
        let report = Report {
            sequence: ReportSequence(1),
            at: self.now,
            subject,
            change,
        };
        Command::Report { worker, report }
    }
}

fn register_worker(number: u32) -> Command {
    let spec = WorkerSpec {
        host: format!("host{number}"),
        cores: Cores(CORES_PER_WORKER),
        memory: MemoryMib(MEMORY_PER_WORKER),
        ..WorkerSpec::default()
    };
    Command::RegisterWorker {
        worker: WorkerId::new(format!("w{number:06}")),
        spec: Arc::new(spec),
        report: FullReport::default(),
    }
}

fn register_app(number: u32, size: Size) -> Command {
    let each = size.executors_per_app();
    // Each hungry application asks for something else, so that none speaks for another.
    let memory = MEMORY_PER_EXECUTOR + if size.hungry { u64::from(number) } else { 0 };
    let spec = ApplicationSpec {
        name: "bench".to_owned(),
        user: "bench".to_owned(),
        command: program(),
        cores_max: Some(Cores(each.saturating_mul(CORES_PER_EXECUTOR * 2))),
        cores_per_executor: Some(Cores(CORES_PER_EXECUTOR)),
        memory_per_executor: MemoryMib(memory),
        executor_limit: Some(if size.hungry { each * 2 } else { each }),
        ..ApplicationSpec::default()
    };
    Command::RegisterApplication {
        request: RequestId::new(format!("a{number}")),
        fingerprint: Fingerprint([0; 32]),
        app: None,
        spec: Arc::new(spec),
    }
}

fn program() -> CommandLine {
    CommandLine {
        program: "true".to_owned(),
        ..CommandLine::default()
    }
}
