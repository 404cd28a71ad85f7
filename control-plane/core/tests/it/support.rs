//! A small cluster under test: every command is followed by `validate()`, and every mutation is folded into a store
//! of its own, so that a failover can be played at any time.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use interrex_core::{
    command::{
        Command, FullReport, ProcessChange, Report, RunningDriver, RunningExecutor, Subject,
        WorkersNamed,
    },
    config::ClusterConfig,
    effect::{AppNotice, Effect, WorkerOrder},
    event::{EventKind, Fact},
    ids::{AppId, Attempt, DriverId, ExecutorId, ProfileId, ReportSequence, RequestId, WorkerId},
    spec::{ApplicationSpec, DriverSpec, WorkerSpec},
    state::{
        app::Application,
        cluster::{ClusterState, RecoveredEntities},
        driver::{Driver, Exit},
        executor::Executor,
        meta::{Meta, Request},
        worker::{Worker, WorkerState},
    },
    time::Timestamp,
    transition::{Mutation, Reply, Transition},
};

use crate::specs::{register_app, submit};

/// 2026-11-29 14:32:00 UTC.
pub(crate) const START: u64 = 1_795_962_720_000;

/// What a store would hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Store {
    pub(crate) meta: Meta,
    pub(crate) workers: BTreeMap<WorkerId, Worker>,
    pub(crate) apps: BTreeMap<AppId, Application>,
    pub(crate) drivers: BTreeMap<DriverId, Driver>,
    pub(crate) executors: BTreeMap<(AppId, ExecutorId), Executor>,
    pub(crate) requests: BTreeMap<RequestId, Request>,
}

impl Store {
    pub(crate) fn fold(&mut self, mutation: &Mutation) {
        match mutation.clone() {
            Mutation::PutMeta(meta) => self.meta = meta,
            Mutation::PutWorker(x) => drop(self.workers.insert(x.id.clone(), (*x).clone())),
            Mutation::DeleteWorker(id) => assert!(self.workers.remove(&id).is_some()),
            Mutation::PutApp(x) => drop(self.apps.insert(x.id.clone(), (*x).clone())),
            Mutation::DeleteApp(id) => assert!(self.apps.remove(&id).is_some()),
            Mutation::PutDriver(x) => drop(self.drivers.insert(x.id.clone(), (*x).clone())),
            Mutation::DeleteDriver(id) => assert!(self.drivers.remove(&id).is_some()),
            Mutation::PutExecutor(x) => {
                drop(self.executors.insert((x.app.clone(), x.id), (*x).clone()));
            }
            Mutation::DeleteExecutor(app, id) => {
                assert!(self.executors.remove(&(app, id)).is_some());
            }
            Mutation::PutRequest(x) => drop(self.requests.insert(x.id.clone(), (*x).clone())),
            Mutation::DeleteRequest(id) => assert!(self.requests.remove(&id).is_some()),
            Mutation::PutEvents(_) | Mutation::DeleteEvents { .. } => {
                panic!("the leader's to make")
            }
        }
    }

    pub(crate) fn entities(&self) -> RecoveredEntities {
        RecoveredEntities {
            meta: self.meta.clone(),
            workers: self.workers.values().cloned().collect(),
            apps: self.apps.values().cloned().collect(),
            drivers: self.drivers.values().cloned().collect(),
            executors: self.executors.values().cloned().collect(),
            requests: self.requests.values().cloned().collect(),
            ..RecoveredEntities::default()
        }
    }
}

/// A state, its store and its clock.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    pub(crate) state: ClusterState,
    pub(crate) store: Store,
    pub(crate) now: u64,
    pub(crate) last: Transition,
    /// The last state that was told of each thing.
    pub(crate) told: BTreeMap<Arc<str>, EventKind>,
    sequence: u64,
}

impl Cluster {
    pub(crate) fn new(config: ClusterConfig) -> Self {
        let state = ClusterState::recover(config, RecoveredEntities::default(), Timestamp(START));
        Self {
            state,
            store: Store::default(),
            now: START,
            last: Transition {
                mutations: vec![],
                events: vec![],
                effects: vec![],
                reply: Reply::Done,
            },
            told: BTreeMap::new(),
            sequence: 0,
        }
    }

    /// Applies, validates, stores.
    pub(crate) fn apply(&mut self, command: Command) -> Transition {
        let shown = format!("{command:?}");
        let transition = self.state.apply(Timestamp(self.now), command);
        if let Err(faults) = self.state.validate() {
            panic!("after {shown}:\n{}", faults.join("\n"));
        }
        for mutation in &transition.mutations {
            self.store.fold(mutation);
        }
        if matches!(transition.reply, Reply::Rejected(_)) {
            assert!(
                transition.mutations.is_empty() && transition.effects.is_empty(),
                "{shown}"
            );
        }
        transition.events.iter().for_each(|fact| self.hear(fact));
        self.assert_gates(&transition);
        self.last = transition.clone();
        transition
    }

    pub(crate) fn drain(&mut self, worker: &str, deadline: Option<u64>) -> Transition {
        self.apply(Command::DrainWorkers {
            request: None,
            workers: WorkersNamed::Id(worker.into()),
            deadline: deadline.map(secs),
            reason: "maintenance".to_owned(),
        })
    }

    pub(crate) fn undrain(&mut self, worker: &str) -> Transition {
        self.apply(Command::UndrainWorkers {
            request: None,
            workers: WorkersNamed::Id(worker.into()),
        })
    }

    /// Whoever got an executor of its own description has as many as it needs at once, or all that it wants.
    fn assert_gates(&self, transition: &Transition) {
        for effect in &transition.effects {
            let Effect::App { app, notice } = effect else {
                continue;
            };
            let AppNotice::ExecutorAdded(added) = notice else {
                continue;
            };
            let app = self.app(app);
            if added.profile != ProfileId::default() {
                continue;
            }
            let there = self
                .state
                .executors_of(&app.id)
                .filter(|e| !e.state.is_final() && !e.drained && e.profile == added.profile)
                .count();
            let wanted = app.executors_wanted.unwrap_or(u32::MAX);
            let least = app.spec.min_executors.min(wanted);
            let least = least.saturating_sub(app.executors_completed);
            assert!(there >= least as usize, "{there} of {least}: {app:?}");
        }
    }

    /// Every transition is told once. A worker is UNKNOWN after a failover without being told so.
    fn hear(&mut self, fact: &Fact) {
        let is_state = matches!(
            fact.kind,
            EventKind::Driver(_)
                | EventKind::App(_)
                | EventKind::Executor(_)
                | EventKind::Worker(_)
        );
        if is_state {
            let before = self.told.insert(fact.subject.clone(), fact.kind.clone());
            let back = fact.kind == EventKind::Worker(WorkerState::Alive);
            assert!(
                back || before.as_ref() != Some(&fact.kind),
                "told twice: {fact:?}"
            );
        }
    }

    /// The last state that was told of everything is the state that it is in.
    pub(crate) fn assert_told(&self) {
        let told = |subject: &str| self.told.get(subject).cloned();
        for driver in self.state.drivers() {
            let state = EventKind::Driver(driver.state);
            assert_eq!(told(driver.id.as_str()), Some(state), "{driver:?}");
        }
        for app in self.state.apps() {
            assert_eq!(
                told(app.id.as_str()),
                Some(EventKind::App(app.state)),
                "{app:?}"
            );
        }
        for executor in self.state.executors() {
            let state = EventKind::Executor(executor.state);
            let subject = format!("{}/{}", executor.app, executor.id);
            assert_eq!(told(&subject), Some(state), "{executor:?}");
        }
        for worker in self
            .state
            .workers()
            .filter(|w| w.state != WorkerState::Unknown)
        {
            let state = EventKind::Worker(worker.state);
            assert_eq!(told(worker.id.as_str()), Some(state), "{worker:?}");
        }
    }

    /// Lets time pass and ticks once.
    pub(crate) fn tick_after(&mut self, wait: Duration) -> Transition {
        self.now += u64::try_from(wait.as_millis()).expect("short");
        self.apply(Command::Tick)
    }

    /// A new leader from the store.
    pub(crate) fn fail_over(&mut self) {
        let config = self.state.config().clone();
        self.state = ClusterState::recover(config, self.store.entities(), Timestamp(self.now));
        assert_eq!(self.state.validate(), Ok(()));
    }

    pub(crate) fn register(&mut self, id: &str, spec: WorkerSpec) -> Transition {
        self.register_with(id, spec, FullReport::default())
    }

    pub(crate) fn register_with(
        &mut self,
        id: &str,
        spec: WorkerSpec,
        report: FullReport,
    ) -> Transition {
        self.apply(Command::RegisterWorker {
            worker: WorkerId::from(id),
            spec: Arc::new(spec),
            report,
        })
    }

    pub(crate) fn submit(&mut self, request: &str, spec: DriverSpec) -> DriverId {
        let reply = self.apply(submit(request, spec)).reply;
        let Reply::DriverSubmitted { driver, .. } = reply else {
            panic!("{reply:?}")
        };
        driver.id.clone()
    }

    pub(crate) fn register_app(&mut self, request: &str, spec: ApplicationSpec) -> AppId {
        let reply = self.apply(register_app(request, spec)).reply;
        let Reply::AppRegistered { app, .. } = reply else {
            panic!("{reply:?}")
        };
        app.id.clone()
    }

    pub(crate) fn report_driver(
        &mut self,
        worker: &str,
        driver: &DriverId,
        attempt: u32,
        change: ProcessChange,
    ) -> Transition {
        let report = self.driver_report(driver, attempt, change);
        let worker = WorkerId::from(worker);
        self.apply(Command::Report { worker, report })
    }

    pub(crate) fn driver_report(
        &mut self,
        driver: &DriverId,
        attempt: u32,
        change: ProcessChange,
    ) -> Report {
        self.sequence += 1;
        Report {
            sequence: ReportSequence(self.sequence),
            at: Timestamp(self.now),
            subject: Subject::Driver {
                driver: driver.clone(),
                attempt: Attempt(attempt),
            },
            change,
        }
    }

    pub(crate) fn report_executor(
        &mut self,
        app: &AppId,
        executor: u32,
        change: ProcessChange,
    ) -> Transition {
        self.sequence += 1;
        let worker = self.executor(app, executor).worker.clone();
        let report = Report {
            sequence: ReportSequence(self.sequence),
            at: Timestamp(self.now),
            subject: Subject::Executor {
                app: app.clone(),
                executor: ExecutorId(executor),
            },
            change,
        };
        self.apply(Command::Report { worker, report })
    }

    pub(crate) fn driver(&self, id: &DriverId) -> Arc<Driver> {
        self.state.driver(id).expect("driver is known").clone()
    }

    pub(crate) fn app(&self, id: &AppId) -> Arc<Application> {
        self.state.app(id).expect("application is known").clone()
    }

    pub(crate) fn executor(&self, app: &AppId, id: u32) -> Arc<Executor> {
        self.state
            .executor(app, ExecutorId(id))
            .expect("executor is known")
            .clone()
    }

    /// `id@worker:cores` of the executors that are not over, with their resources if they hold any.
    pub(crate) fn placement(&self, app: &AppId) -> Vec<String> {
        self.state
            .executors_of(app)
            .filter(|executor| !executor.state.is_final())
            .map(|e| {
                let held: String = e
                    .resources
                    .iter()
                    .map(|(n, a)| format!(" {n}{}", a.join(",")))
                    .collect();
                format!("{}@{}:{}{held}", e.id, e.worker, e.cores.0)
            })
            .collect()
    }

    /// What a worker that has carried out every order would report.
    pub(crate) fn honest_report(&self, worker: &str) -> FullReport {
        let worker = WorkerId::from(worker);
        FullReport {
            number: 0,
            drivers: self
                .state
                .drivers()
                .filter(|d| d.state.is_placed() && d.worker.as_ref() == Some(&worker))
                .map(|d| RunningDriver {
                    driver: d.id.clone(),
                    attempt: d.attempt,
                    started_at: Timestamp(self.now),
                })
                .collect(),
            executors: self
                .state
                .executors()
                .filter(|e| !e.state.is_final() && e.worker == worker)
                .map(|e| RunningExecutor {
                    app: e.app.clone(),
                    executor: e.id,
                    cores: e.cores,
                    memory: e.memory,
                    started_at: Timestamp(self.now),
                })
                .collect(),
            unacknowledged: vec![],
        }
    }
}

pub(crate) fn exited(code: i32) -> ProcessChange {
    ProcessChange::Exited(Exit {
        code: Some(code),
        signal: None,
    })
}

pub(crate) fn killed() -> ProcessChange {
    ProcessChange::Killed(Exit {
        code: None,
        signal: Some(15),
    })
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// What was told, in words: kind and subject.
pub(crate) fn told(transition: &Transition) -> Vec<String> {
    let events = transition.events.iter();
    events
        .map(|fact| format!("{} {}", fact.kind, fact.subject))
        .collect()
}

/// Orders to workers, in words.
pub(crate) fn orders(transition: &Transition) -> Vec<String> {
    let word = |effect: &Effect| match effect {
        Effect::App { .. } => None,
        Effect::Worker { worker, order } => Some(match order {
            WorkerOrder::LaunchDriver {
                driver, attempt, ..
            } => {
                format!("{worker}: launch {driver}/{attempt}")
            }
            WorkerOrder::KillDriver { driver, attempt } => {
                format!("{worker}: kill {driver}/{attempt}")
            }
            WorkerOrder::LaunchExecutor { executor, .. } => {
                format!("{worker}: launch executor {executor}")
            }
            WorkerOrder::KillExecutor { executor, .. } => {
                format!("{worker}: kill executor {executor}")
            }
            WorkerOrder::Acknowledge { sequences } => {
                format!("{worker}: acknowledge {}", sequences.len())
            }
        }),
    };
    transition.effects.iter().filter_map(word).collect()
}

/// Notices to applications, in words.
pub(crate) fn notices(transition: &Transition) -> Vec<String> {
    let word = |effect: &Effect| match effect {
        Effect::Worker { .. } => None,
        Effect::App { notice, .. } => Some(match notice {
            AppNotice::ExecutorAdded(e) => format!("added {}", e.id),
            AppNotice::ExecutorUpdated(e) => format!("{} {}", e.id, e.state.name()),
            AppNotice::WorkerRemoved { worker, .. } => format!("worker {worker} removed"),
            AppNotice::Removed { state, .. } => format!("removed {state}"),
        }),
    };
    transition.effects.iter().filter_map(word).collect()
}
