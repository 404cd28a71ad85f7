//! Random commands for the property tests, hostile ones too.

use interrex_core::{
    command::{
        Command, ExecutorTarget, FullReport, ProcessChange, Report, RequestKey, RunningDriver,
        Subject, WorkersNamed,
    },
    config::{ClusterConfig, WorkerSelection},
    ids::{AppId, Attempt, ExecutorId, Fingerprint, ReportSequence, RequestId, WorkerId},
    resources::Cores,
    state::driver::Exit,
    time::Timestamp,
};
use proptest::prelude::*;

use crate::{
    specs::{app_spec, driver_spec, register_app, request, target, worker_spec},
    support::Cluster,
};

pub(crate) const WORKERS: [&str; 4] = ["w1", "w2", "w3", "w4"];

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Register(usize, usize, Told),
    Disconnect(usize),
    Expire(usize),
    Drain(usize, Option<u64>),
    Undrain(usize),
    Accepting(usize, bool),
    Submit(usize, usize, u8),
    RegisterApp(usize, usize),
    App(usize, AppStep),
    Kill(usize, Option<usize>),
    KillText(String),
    KillAll(Option<usize>),
    Clear(Option<usize>),
    Report(usize, usize, i32, Change, bool),
    ReportExecutor(usize, usize, Change, bool),
    Tick(u64),
    FailOver,
    Initialize,
}

#[derive(Debug, Clone)]
pub(crate) enum AppStep {
    Attach,
    Unregister(bool),
    Expire,
    Request(u32),
    Targets(Vec<ExecutorTarget>),
    KillExecutors(Vec<u32>),
}

#[derive(Debug, Clone)]
pub(crate) enum Told {
    Nothing,
    Truth,
    /// Everything that anybody has.
    Everything,
    /// The truth, and results of some of it.
    Results(Change),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
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

fn app_step() -> impl Strategy<Value = AppStep> {
    prop_oneof![
        2 => Just(AppStep::Attach),
        2 => any::<bool>().prop_map(AppStep::Unregister),
        1 => Just(AppStep::Expire),
        3 => (0..6_u32).prop_map(AppStep::Request),
        4 => proptest::collection::vec(executor_target(), 0..4).prop_map(AppStep::Targets),
        2 => proptest::collection::vec(0..9_u32, 0..4).prop_map(AppStep::KillExecutors),
    ]
}

/// Most are of a few profiles that are described always alike; some are not described, or absurd.
fn executor_target() -> impl Strategy<Value = ExecutorTarget> {
    let total = prop_oneof![8 => 0..5_u32, 1 => Just(u32::MAX)];
    (0..5_u32, total, 0..8_u32).prop_map(|(profile, total, kind)| {
        let needs = match (profile, kind) {
            (0, 1..) | (_, 0) => None,
            (_, 1) => Some((3, 7)),
            (profile, _) => Some((profile.min(2), 64 * u64::from(profile))),
        };
        target(profile, needs, total)
    })
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let many = 0..1_000_usize;
    let request = prop::option::of(20..70_usize);
    prop_oneof![
        6 => (0..4_usize, 0..5_usize, told()).prop_map(|(w, s, t)| Step::Register(w, s, t)),
        2 => (0..4_usize).prop_map(Step::Disconnect),
        2 => (0..4_usize).prop_map(Step::Expire),
        10 => (0..40_usize, 0..11_usize, 0..6_u8).prop_map(|(r, s, f)| Step::Submit(r, s, f / 5)),
        5 => (30..60_usize, 0..11_usize).prop_map(|(r, s)| Step::RegisterApp(r, s)),
        3 => (0..4_usize, prop::option::of(0..40_u64)).prop_map(|(w, s)| Step::Drain(w, s)),
        2 => (0..4_usize).prop_map(Step::Undrain),
        1 => (0..4_usize, any::<bool>()).prop_map(|(w, yes)| Step::Accepting(w, yes)),
        10 => (many.clone(), app_step()).prop_map(|(a, s)| Step::App(a, s)),
        3 => (many.clone(), request.clone()).prop_map(|(k, r)| Step::Kill(k, r)),
        1 => "[a-z0-9-]{0,12}".prop_map(Step::KillText),
        1 => request.clone().prop_map(Step::KillAll),
        1 => request.prop_map(Step::Clear),
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

pub(crate) fn config() -> impl Strategy<Value = ClusterConfig> {
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
        prop::option::weighted(0.7, 10..101_u32),
        // A driver of 3 cores must fit.
        prop::option::weighted(0.4, 3..12_u32),
        prop::option::weighted(0.2, (1..6_u32).prop_map(Cores)),
    )
        .prop_map(
            |([drivers, apps], worker_selection, max_drivers, share, user, app)| ClusterConfig {
                driver_share_max: share,
                user_cores_max: user.map(Cores),
                app_cores_max: app,
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
                number: 0,
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
    match step.clone() {
        Step::Register(w, spec, told) => Some(Command::RegisterWorker {
            worker: WORKERS[w].into(),
            report: report_of(cluster, WORKERS[w], &told),
            spec: worker_spec(spec).into(),
        }),
        Step::Disconnect(w) => Some(Command::WorkerDisconnected {
            worker: WORKERS[w].into(),
        }),
        Step::Expire(w) => Some(Command::ExpireWorker {
            worker: WORKERS[w].into(),
        }),
        Step::Drain(w, seconds) => Some(Command::DrainWorkers {
            request: None,
            workers: WorkersNamed::Id(WORKERS[w].into()),
            deadline: seconds.map(crate::support::secs),
            reason: "maintenance".to_owned(),
        }),
        Step::Undrain(w) => Some(Command::UndrainWorkers {
            request: None,
            workers: WorkersNamed::Id(WORKERS[w].into()),
        }),
        Step::Accepting(w, yes) => Some(Command::AcceptingChanged {
            worker: WORKERS[w].into(),
            not_accepting: if yes { "" } else { "disk full" }.to_owned(),
        }),
        Step::Submit(request, spec, fingerprint) => Some(Command::SubmitDriver {
            request: RequestId::new(format!("r{request}")),
            fingerprint: Fingerprint([fingerprint; 32]),
            spec: driver_spec(spec).into(),
        }),
        Step::RegisterApp(request, spec) => {
            Some(register_app(&format!("r{request}"), app_spec(spec)))
        }
        Step::App(index, step) => {
            let app = pick(cluster.state.apps().map(|app| app.id.clone()), index)?;
            Some(app_command(app, step))
        }
        Step::Kill(index, request) => {
            let drivers = cluster.state.drivers().map(|driver| driver.id.to_string());
            let requests = cluster
                .state
                .requests()
                .map(|request| request.id.to_string());
            let apps = cluster.state.apps().map(|app| app.id.to_string());
            let id = pick(drivers.chain(requests).chain(apps), index)?;
            let request = request_key(request, 2);
            Some(Command::Kill { request, id })
        }
        Step::KillText(id) => Some(Command::Kill { request: None, id }),
        Step::KillAll(request) => Some(Command::KillAllDrivers {
            request: request_key(request, 3),
        }),
        Step::Clear(request) => Some(Command::ClearCompleted {
            request: request_key(request, 4),
        }),
        Step::Report(w, index, newer, change, own) => {
            driver_report(cluster, WORKERS[w], index, newer, change, own)
        }
        Step::ReportExecutor(w, index, change, own) => {
            executor_report(cluster, WORKERS[w], index, change, own)
        }
        Step::Tick(_) => Some(Command::Tick),
        Step::FailOver => None,
        Step::Initialize => Some(Command::Initialize {
            cluster_id: "c".to_owned(),
        }),
    }
}

/// Ids that submissions and registrations use too.
fn request_key(request: Option<usize>, fingerprint: u8) -> Option<RequestKey> {
    request.map(|request| RequestKey {
        id: RequestId::new(format!("r{request}")),
        fingerprint: Fingerprint([fingerprint; 32]),
    })
}

fn app_command(app: AppId, step: AppStep) -> Command {
    match step {
        AppStep::Attach => Command::RegisterApplication {
            request: "again".into(),
            fingerprint: Fingerprint([0; 32]),
            app: Some(app),
            spec: app_spec(0).into(),
        },
        AppStep::Unregister(failed) => Command::UnregisterApplication {
            app,
            failed,
            message: "bye".to_owned(),
        },
        AppStep::Expire => Command::ExpireApplication { app },
        AppStep::Request(total) => Command::RequestExecutors {
            app,
            targets: vec![ExecutorTarget::of_default(total)],
        },
        AppStep::Targets(targets) => request(&app, &targets),
        AppStep::KillExecutors(executors) => Command::KillExecutors {
            app,
            executors: executors.into_iter().map(ExecutorId).collect(),
        },
    }
}

fn driver_report(
    cluster: &Cluster,
    other: &str,
    index: usize,
    newer: i32,
    change: Change,
    own: bool,
) -> Option<Command> {
    let driver = pick(cluster.state.drivers(), index)?;
    let attempt = driver
        .attempt
        .0
        .saturating_add_signed(if own { 0 } else { newer });
    let worker = driver
        .worker
        .clone()
        .filter(|_| own)
        .unwrap_or(other.into());
    let subject = Subject::Driver {
        driver: driver.id.clone(),
        attempt: Attempt(attempt),
    };
    Some(process_report(cluster, worker, subject, change))
}

fn executor_report(
    cluster: &Cluster,
    other: &str,
    index: usize,
    change: Change,
    own: bool,
) -> Option<Command> {
    let executor = pick(cluster.state.executors(), index)?;
    let worker = if own {
        executor.worker.clone()
    } else {
        other.into()
    };
    let subject = Subject::Executor {
        app: executor.app.clone(),
        executor: executor.id,
    };
    Some(process_report(cluster, worker, subject, change))
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

pub(crate) fn run(cluster: &mut Cluster, step: &Step) {
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
