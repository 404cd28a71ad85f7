//! Any sequence of commands, hostile ones too: the invariants hold, the store holds what the state holds, what is
//! accepted is not lost, what is over stays as it was; and when faults stop, everything comes to an end.

use std::collections::{BTreeMap, BTreeSet};

use interrex_core::{
    command::{Command, FullReport, ProcessChange, Report, RunningDriver, Subject},
    config::{ClusterConfig, WorkerSelection},
    ids::{Attempt, DriverId, ExecutorId, Fingerprint, ReportSequence, RequestId, WorkerId},
    resources::{Amounts, Cores, MemoryMib},
    spec::{ApplicationSpec, DriverSpec, WorkerSpec},
    state::{
        driver::{Driver, DriverState, Exit},
        worker::WorkerState,
    },
    time::Timestamp,
    transition::Reply,
};
use proptest::prelude::*;

use crate::{
    agents::Agents,
    support::{Cluster, app, driver, gpu_worker, register_app, submit, worker},
};

const WORKERS: [&str; 4] = ["w1", "w2", "w3", "w4"];

#[derive(Debug, Clone)]
enum Step {
    Register(usize, usize, Told),
    Disconnect(usize),
    Expire(usize),
    Submit(usize, usize, u8),
    RegisterApp(usize, usize),
    Attach(usize),
    Unregister(usize, bool),
    ExpireApp(usize),
    Request(usize, u32),
    KillExecutors(usize, Vec<u32>),
    Kill(usize),
    KillText(String),
    KillAll,
    Clear,
    Report(usize, usize, i32, Change, bool),
    ReportExecutor(usize, usize, Change, bool),
    Tick(u64),
    FailOver,
    Initialize,
}

#[derive(Debug, Clone)]
enum Told {
    Nothing,
    Truth,
    /// Everything that anybody has.
    Everything,
    /// The truth, and results of some of it.
    Results(Change),
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Running,
    Exited(i32),
    Signal,
    Killed,
    Failed,
}

impl Change {
    fn real(self) -> ProcessChange {
        let by_signal = Exit {
            code: None,
            signal: Some(9),
        };
        match self {
            Self::Running => ProcessChange::Running,
            Self::Exited(code) => crate::support::exited(code),
            Self::Signal => ProcessChange::Exited(by_signal),
            Self::Killed => ProcessChange::Killed(by_signal),
            Self::Failed => ProcessChange::Failed("no such file".to_owned()),
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => Just(Change::Running),
        2 => (0..2_i32).prop_map(Change::Exited),
        1 => Just(Change::Signal),
        1 => Just(Change::Killed),
        1 => Just(Change::Failed),
    ]
}

fn told() -> impl Strategy<Value = Told> {
    prop_oneof![
        2 => Just(Told::Nothing),
        4 => Just(Told::Truth),
        1 => Just(Told::Everything),
        2 => change().prop_map(Told::Results),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let many = 0..1_000_usize;
    prop_oneof![
        6 => (0..4_usize, 0..5_usize, told()).prop_map(|(w, s, t)| Step::Register(w, s, t)),
        2 => (0..4_usize).prop_map(Step::Disconnect),
        2 => (0..4_usize).prop_map(Step::Expire),
        10 => (0..40_usize, 0..8_usize, 0..6_u8).prop_map(|(r, s, f)| Step::Submit(r, s, f / 5)),
        5 => (30..60_usize, 0..7_usize).prop_map(|(r, s)| Step::RegisterApp(r, s)),
        2 => many.clone().prop_map(Step::Attach),
        2 => (many.clone(), any::<bool>()).prop_map(|(a, f)| Step::Unregister(a, f)),
        1 => many.clone().prop_map(Step::ExpireApp),
        3 => (many.clone(), 0..6_u32).prop_map(|(a, n)| Step::Request(a, n)),
        2 => (many.clone(), proptest::collection::vec(0..9_u32, 0..4))
            .prop_map(|(a, e)| Step::KillExecutors(a, e)),
        3 => many.clone().prop_map(Step::Kill),
        1 => "[a-z0-9-]{0,12}".prop_map(Step::KillText),
        1 => Just(Step::KillAll),
        1 => Just(Step::Clear),
        14 => (0..4_usize, many.clone(), -1..2_i32, change(), prop::bool::weighted(0.8))
            .prop_map(|(w, d, a, c, own)| Step::Report(w, d, a, c, own)),
        14 => (0..4_usize, many, change(), prop::bool::weighted(0.8))
            .prop_map(|(w, e, c, own)| Step::ReportExecutor(w, e, c, own)),
        12 => prop_oneof![Just(100_u64), Just(1_000), Just(30_000), Just(4_000_000)]
            .prop_map(Step::Tick),
        2 => Just(Step::FailOver),
        1 => Just(Step::Initialize),
    ]
}

fn config() -> impl Strategy<Value = ClusterConfig> {
    let selection = prop_oneof![
        Just(WorkerSelection::CoresFreeDesc),
        Just(WorkerSelection::CoresFreeAsc),
        Just(WorkerSelection::MemoryFreeDesc),
        Just(WorkerSelection::MemoryFreeAsc),
        Just(WorkerSelection::WorkerId),
    ];
    (
        any::<[bool; 2]>(),
        selection,
        prop::option::weighted(0.3, 1..4_u32),
    )
        .prop_map(
            |([drivers, apps], worker_selection, max_drivers)| ClusterConfig {
                spread_out_drivers: drivers,
                spread_out_apps: apps,
                worker_selection,
                max_drivers,
                executor_failures_max: Some(3),
                retained_drivers: 4,
                retained_apps: 2,
                retained_executors_per_app: 3,
                ..ClusterConfig::default()
            },
        )
}

fn worker_spec(kind: usize) -> WorkerSpec {
    match kind {
        0 => worker(4, 4096),
        1 => worker(2, 512),
        2 => gpu_worker(8, 8192, &["0", "1", "10", "2"]),
        3 => gpu_worker(4, 4096, &["1"]),
        _ => worker(0, 0),
    }
}

fn driver_spec(kind: usize) -> DriverSpec {
    let base = driver(1, 256);
    match kind {
        0 | 1 => base,
        2 => DriverSpec {
            supervise: true,
            ..base
        },
        3 => driver(3, 1024),
        4 => DriverSpec {
            resources: Amounts::from([("gpu".to_owned(), 1)]),
            ..base
        },
        5 => driver(u32::MAX, u64::MAX),
        6 => driver(0, 1),
        _ => DriverSpec {
            supervise: true,
            ..driver(2, 128)
        },
    }
}

fn app_spec(kind: usize) -> ApplicationSpec {
    match kind {
        0 => app(128, None, Some(3)),
        1 => app(128, Some(1), Some(6)),
        2 => ApplicationSpec {
            resources_per_executor: Amounts::from([("gpu".to_owned(), 1)]),
            ..app(64, Some(1), None)
        },
        3 => ApplicationSpec {
            completes: true,
            executor_limit: Some(3),
            ..app(64, Some(1), None)
        },
        4 => ApplicationSpec {
            executor_limit: Some(2),
            ..app(u64::MAX, Some(u32::MAX), Some(u32::MAX))
        },
        5 => ApplicationSpec {
            executor_limit: Some(0),
            ..app(0, None, None)
        },
        _ => ApplicationSpec {
            memory_per_executor: MemoryMib(0),
            cores_per_executor: Some(Cores(2)),
            ..app(0, None, None)
        },
    }
}

fn pick<T: Clone>(items: impl Iterator<Item = T>, index: usize) -> Option<T> {
    let items: Vec<_> = items.collect();
    (!items.is_empty()).then(|| items[index % items.len()].clone())
}

fn report_of(cluster: &Cluster, worker: &str, told: &Told) -> FullReport {
    match told {
        Told::Nothing => FullReport::default(),
        Told::Truth => cluster.honest_report(worker),
        Told::Everything => {
            let drivers = cluster.state.drivers().map(|d| RunningDriver {
                driver: d.id.clone(),
                attempt: d.attempt,
                started_at: Timestamp(u64::MAX),
            });
            FullReport {
                drivers: drivers.collect(),
                executors: WORKERS
                    .iter()
                    .flat_map(|worker| cluster.honest_report(worker).executors)
                    .collect(),
                unacknowledged: vec![],
            }
        }
        Told::Results(change) => {
            let mut report = cluster.honest_report(worker);
            let results: Vec<_> = report.drivers.iter().step_by(2).cloned().collect();
            report.unacknowledged = results
                .into_iter()
                .enumerate()
                .map(|(n, running)| Report {
                    sequence: ReportSequence(n as u64),
                    at: Timestamp(cluster.now),
                    subject: Subject::Driver {
                        driver: running.driver,
                        attempt: running.attempt,
                    },
                    change: change.real(),
                })
                .collect();
            report
        }
    }
}

/// The command of a step, if there is something that it can be about.
fn command(cluster: &Cluster, step: &Step) -> Option<Command> {
    let some_app = |index: usize| pick(cluster.state.apps().map(|app| app.id.clone()), index);
    Some(match step.clone() {
        Step::Register(w, spec, told) => Command::RegisterWorker {
            worker: WORKERS[w].into(),
            report: report_of(cluster, WORKERS[w], &told),
            spec: worker_spec(spec).into(),
        },
        Step::Disconnect(w) => Command::WorkerDisconnected {
            worker: WORKERS[w].into(),
        },
        Step::Expire(w) => Command::ExpireWorker {
            worker: WORKERS[w].into(),
        },
        Step::Submit(request, spec, fingerprint) => Command::SubmitDriver {
            request: RequestId::new(format!("r{request}")),
            fingerprint: Fingerprint([fingerprint; 32]),
            spec: driver_spec(spec).into(),
        },
        Step::RegisterApp(request, spec) => register_app(&format!("r{request}"), app_spec(spec)),
        Step::Attach(app) => Command::RegisterApplication {
            request: "again".into(),
            fingerprint: Fingerprint([0; 32]),
            app: some_app(app),
            spec: app_spec(0).into(),
        },
        Step::Unregister(app, failed) => Command::UnregisterApplication {
            app: some_app(app)?,
            failed,
            message: "bye".to_owned(),
        },
        Step::ExpireApp(app) => Command::ExpireApplication {
            app: some_app(app)?,
        },
        Step::Request(app, total) => Command::RequestExecutors {
            app: some_app(app)?,
            total,
        },
        Step::KillExecutors(app, executors) => Command::KillExecutors {
            app: some_app(app)?,
            executors: executors.into_iter().map(ExecutorId).collect(),
        },
        Step::Kill(index) => {
            let drivers = cluster.state.drivers().map(|driver| driver.id.to_string());
            let requests = cluster
                .state
                .requests()
                .map(|request| request.id.to_string());
            let apps = cluster.state.apps().map(|app| app.id.to_string());
            Command::Kill {
                id: pick(drivers.chain(requests).chain(apps), index)?,
            }
        }
        Step::KillText(id) => Command::Kill { id },
        Step::KillAll => Command::KillAllDrivers,
        Step::Clear => Command::ClearCompleted,
        Step::Report(w, index, newer, change, own) => {
            let driver = pick(cluster.state.drivers(), index)?;
            let attempt = driver
                .attempt
                .0
                .saturating_add_signed(if own { 0 } else { newer });
            let worker = driver
                .worker
                .clone()
                .filter(|_| own)
                .unwrap_or(WORKERS[w].into());
            let subject = Subject::Driver {
                driver: driver.id.clone(),
                attempt: Attempt(attempt),
            };
            process_report(cluster, worker, subject, change)
        }
        Step::ReportExecutor(w, index, change, own) => {
            let executor = pick(cluster.state.executors(), index)?;
            let worker = if own {
                executor.worker.clone()
            } else {
                WORKERS[w].into()
            };
            let subject = Subject::Executor {
                app: executor.app.clone(),
                executor: executor.id,
            };
            process_report(cluster, worker, subject, change)
        }
        Step::Tick(_) => Command::Tick,
        Step::FailOver => return None,
        Step::Initialize => Command::Initialize {
            cluster_id: "c".to_owned(),
        },
    })
}

fn process_report(
    cluster: &Cluster,
    worker: WorkerId,
    subject: Subject,
    change: Change,
) -> Command {
    Command::Report {
        worker,
        report: Report {
            sequence: ReportSequence(7),
            at: Timestamp(cluster.now),
            subject,
            change: change.real(),
        },
    }
}

fn run(cluster: &mut Cluster, step: &Step) {
    let Some(command) = command(cluster, step) else {
        if matches!(step, Step::FailOver) {
            cluster.fail_over();
        }
        return;
    };
    if let Step::Tick(ms) = step {
        cluster.now += ms;
    }
    cluster.apply(command);
}

/// The store holds exactly what the state holds. UNKNOWN of a worker is not stored.
fn assert_stored(cluster: &Cluster) {
    let known = |mut worker: interrex_core::state::worker::Worker| {
        if worker.state == WorkerState::Unknown {
            worker.state = WorkerState::Alive;
        }
        worker
    };
    let (state, store) = (&cluster.state, &cluster.store);
    let workers: Vec<_> = state.workers().map(|x| known((**x).clone())).collect();
    let stored: Vec<_> = store.workers.values().cloned().map(known).collect();
    assert_eq!(workers, stored);
    assert!(state.apps().map(|x| &**x).eq(store.apps.values()));
    assert!(state.drivers().map(|x| &**x).eq(store.drivers.values()));
    assert!(state.executors().map(|x| &**x).eq(store.executors.values()));
    assert!(state.requests().map(|x| &**x).eq(store.requests.values()));
    assert_eq!(*state.meta(), store.meta);
}

/// What was accepted, as last seen.
#[derive(Default)]
struct Promises(BTreeMap<DriverId, Driver>);

impl Promises {
    fn check(&mut self, cluster: &Cluster, killed: bool) {
        for (id, before) in &self.0 {
            match cluster.state.driver(id) {
                None => assert!(before.state.is_final(), "{id} was lost: {before:?}"),
                Some(now) if before.state.is_final() => assert_eq!(**now, *before),
                Some(now) => {
                    assert!(now.attempt >= before.attempt, "{before:?} became {now:?}");
                    let never_placed = now.attempt == Attempt(0);
                    let over = now.state.is_final() && !killed;
                    assert!(!(never_placed && over), "{before:?} became {now:?}");
                }
            }
        }
        self.0 = cluster
            .state
            .drivers()
            .map(|x| (x.id.clone(), (**x).clone()))
            .collect();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_commands_keeps_every_promise(
        config in config(),
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let mut cluster = Cluster::new(config);
        let mut promises = Promises::default();
        for step in &steps {
            run(&mut cluster, step);
            assert_stored(&cluster);
            let kill = matches!(step, Step::Kill(_) | Step::KillText(_) | Step::KillAll);
            promises.check(&cluster, kill);
        }
    }

    #[test]
    fn the_same_commands_give_the_same_transitions(
        config in config(),
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        let (mut one, mut two) = (Cluster::new(config.clone()), Cluster::new(config));
        for step in &steps {
            run(&mut one, step);
            run(&mut two, step);
            prop_assert_eq!(&one.last, &two.last);
        }
    }

    #[test]
    fn a_second_registration_changes_nothing(
        config in config(),
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let mut cluster = Cluster::new(config);
        for step in &steps {
            run(&mut cluster, step);
        }
        for worker in WORKERS {
            cluster.register(worker, worker_spec(0));
            let report = cluster.honest_report(worker);
            cluster.register_with(worker, worker_spec(0), report);
            let report = cluster.honest_report(worker);
            let again = cluster.register_with(worker, worker_spec(0), report);
            prop_assert_eq!(again.mutations, vec![]);
            prop_assert_eq!(again.reply, Reply::WorkerRegistered);
        }
    }

    #[test]
    fn when_faults_stop_everything_comes_to_an_end(
        config in config(),
        steps in proptest::collection::vec(step(), 1..80),
        lossy in proptest::collection::vec(any::<bool>(), 0..60),
    ) {
        let mut cluster = Cluster::new(config);
        for step in &steps {
            run(&mut cluster, step);
        }
        let mut agents = Agents::default();
        for worker in WORKERS {
            agents.join(&mut cluster, worker, gpu_worker(16, 65_536, &["0", "1", "2", "3"]));
        }
        // Losses first: orders and reports vanish, and are sent again.
        for lost in &lossy {
            agents.round(&mut cluster, *lost);
        }
        let apps: Vec<_> = cluster.state.apps().map(|app| app.id.clone()).collect();
        for app in apps {
            cluster.apply(Command::UnregisterApplication { app, failed: false, message: String::new() });
            agents.obey(&cluster.last.effects.clone());
        }
        for _ in 0..400 {
            agents.round(&mut cluster, false);
        }
        let unfit = |driver: &Driver| driver.spec.cores == Cores(u32::MAX);
        let left: Vec<_> = cluster
            .state
            .drivers()
            .filter(|x| !x.state.is_final() && !unfit(x))
            .collect();
        prop_assert!(left.is_empty(), "{:?}", left);
        for driver in cluster.state.drivers().filter(|x| unfit(x) && !x.state.is_final()) {
            prop_assert_eq!(driver.state, DriverState::Submitted);
        }
        prop_assert!(cluster.state.executors().all(|x| x.state.is_final()));
        prop_assert_eq!(agents.running(), 0);
        let starts: BTreeSet<_> = agents.starts.iter().collect();
        prop_assert_eq!(starts.len(), agents.starts.len(), "an attempt was started twice");
        assert_stored(&cluster);
    }
}

#[test]
fn a_submission_after_a_refused_one_is_accepted() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    let refused = cluster.apply(submit("r1", driver(0, 1)));
    assert!(matches!(refused.reply, Reply::Rejected(_)));
    cluster.submit("r1", driver(1, 1));
}
