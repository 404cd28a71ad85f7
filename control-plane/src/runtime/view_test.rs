use super::*;
use interrex_core::{
    command::{Command, ProcessChange, Report, Subject},
    config::ClusterConfig,
    explain::{Facts, Topic, explain},
    ids::{Attempt, Fingerprint, QueuePosition, ReportSequence},
    resources::{Cores, MemoryMib},
    spec::{ApplicationSpec, CommandLine, DriverPayload, DriverSpec, WorkerSpec},
    state::{cluster::ClusterState, driver::Exit},
};

fn worker(id: &str, state: WorkerState) -> Mutation {
    Mutation::PutWorker(Arc::new(Worker {
        drain: None,
        not_accepting: String::new(),
        id: WorkerId::new(id),
        spec: Arc::new(WorkerSpec {
            cores: Cores(4),
            memory: MemoryMib(1024),
            ..WorkerSpec::default()
        }),
        state,
        registered_at: Timestamp(1),
    }))
}

fn driver(id: &str, state: DriverState, on: Option<&str>) -> Mutation {
    let spec = Arc::new(DriverSpec {
        at_most_once: false,
        needs_executors: false,
        priority: 0,
        name: "n".into(),
        user: "u".into(),
        payload: DriverPayload::Command(CommandLine::default()),
        cores: Cores(2),
        memory: MemoryMib(100),
        resources: BTreeMap::new(),
        supervise: false,
    });
    Mutation::PutDriver(Arc::new(Driver {
        state,
        attempt: Attempt(1),
        worker: on.map(WorkerId::new),
        ..Driver::accepted(
            DriverId::new(id),
            RequestId::new(format!("sub-{id}")),
            spec,
            QueuePosition(1),
            Timestamp(1),
        )
    }))
}

#[test]
fn counts_and_loads_follow_each_change() {
    let mut view = ClusterView::new(Epoch(3), Arc::default());
    view.apply(&[
        worker("w1", WorkerState::Alive),
        worker("w2", WorkerState::Alive),
        driver("d1", DriverState::Submitted, None),
        driver("d1", DriverState::Launching, Some("w1")),
        driver("d1", DriverState::Running, Some("w1")),
    ]);
    assert_eq!(view.counts().cores_offered, 8);
    assert_eq!(view.counts().cores_used, 2);
    assert_eq!(view.load(&WorkerId::new("w1")).cores, Cores(2));
    assert_eq!(view.counts().drivers.get(&DriverState::Running), Some(&1));
    assert_eq!(view.counts().drivers.get(&DriverState::Submitted), Some(&0));

    view.apply(&[
        driver("d1", DriverState::Launching, Some("w2")),
        worker("w1", WorkerState::Dead),
    ]);
    assert!(view.load(&WorkerId::new("w1")).is_idle());
    assert_eq!(view.load(&WorkerId::new("w2")).cores, Cores(2));
    assert_eq!(view.counts().cores_offered, 4);

    view.apply(&[driver("d1", DriverState::Finished, Some("w2"))]);
    assert!(view.load(&WorkerId::new("w2")).is_idle());
    assert_eq!(view.counts().cores_used, 0);
    assert!(view.loads.is_empty(), "idle workers are not kept");
    view.apply(&[Mutation::DeleteDriver(DriverId::new("d1"))]);
    assert_eq!(view.counts().drivers.get(&DriverState::Finished), Some(&0));
}

#[test]
fn a_clone_keeps_what_it_showed() {
    let mut view = ClusterView::new(Epoch(3), Arc::default());
    view.apply(&[driver("d1", DriverState::Submitted, None)]);
    let before = view.clone();
    view.apply(&[Mutation::DeleteDriver(DriverId::new("d1"))]);
    assert!(before.driver(&DriverId::new("d1")).is_some());
    assert!(view.driver(&DriverId::new("d1")).is_none());
}

#[test]
fn pages_continue_after_an_id() {
    let mut view = ClusterView::new(Epoch(3), Arc::default());
    view.apply(&[
        driver("d1", DriverState::Submitted, None),
        driver("d2", DriverState::Submitted, None),
        driver("d3", DriverState::Submitted, None),
    ]);
    let page = view
        .drivers_after(Some(&DriverId::new("d1")))
        .map(|d| d.id.to_string());
    assert_eq!(page.collect::<Vec<_>>(), vec!["d2", "d3"]);
    assert_eq!(view.drivers_after(None).count(), 3);
}

/// What changes who holds how much: drivers, an application, an end, and a worker that comes back with nothing.
fn commands_about_caps() -> Vec<Command> {
    let submit = |n: usize, user: &str| Command::SubmitDriver {
        request: RequestId::new(format!("r{n}")),
        fingerprint: Fingerprint([0; 32]),
        spec: Arc::new(DriverSpec {
            at_most_once: false,
            needs_executors: true,
            priority: 0,
            name: "n".into(),
            user: user.into(),
            payload: DriverPayload::Command(CommandLine::default()),
            cores: Cores(2),
            memory: MemoryMib(1),
            resources: BTreeMap::new(),
            supervise: false,
        }),
    };
    let register = || Command::RegisterWorker {
        worker: "w1".into(),
        spec: Arc::new(WorkerSpec {
            cores: Cores(8),
            memory: MemoryMib(1024),
            ..WorkerSpec::default()
        }),
        report: Default::default(),
    };
    let application = Command::RegisterApplication {
        request: "a".into(),
        fingerprint: Fingerprint([0; 32]),
        app: None,
        spec: Arc::new(ApplicationSpec {
            user: "ann".into(),
            cores_per_executor: Some(Cores(1)),
            ..ApplicationSpec::default()
        }),
    };
    let report = Report {
        sequence: ReportSequence(1),
        at: Timestamp(1),
        subject: Subject::Driver {
            driver: "driver-19700101000000-0000".into(),
            attempt: Attempt(1),
        },
        change: ProcessChange::Exited(Exit {
            code: Some(0),
            signal: None,
        }),
    };
    let worker = WorkerId::from("w1");
    vec![
        register(),
        submit(0, "ann"),
        submit(1, "ann"),
        submit(2, "bob"),
        application,
        Command::Report { worker, report },
        register(),
        Command::KillAllDrivers { request: None },
    ]
}

#[test]
fn the_view_knows_what_the_leader_knows_about_caps() {
    let config = ClusterConfig {
        user_cores_max: Some(Cores(6)),
        ..ClusterConfig::default()
    };
    let mut state = ClusterState::recover(config.clone(), Default::default(), Timestamp(1));
    let mut view = ClusterView::new(Epoch(1), Arc::default());
    view.set_config(config);
    for command in commands_about_caps() {
        view.apply(&state.apply(Timestamp(1), command).mutations);
        assert_eq!(Facts::share(&view), Facts::share(&state));
        assert_eq!(view.drivers_placed(), state.drivers_placed());
        for user in ["ann", "bob", ""] {
            assert_eq!(view.user_cores(user), state.user_cores(user), "{user}");
        }
        let drivers = state.drivers().map(|x| Topic::Driver(x.id.clone()));
        let apps = state.apps().map(|x| Topic::App(x.id.clone()));
        let workers = state.workers().map(|x| Topic::Worker(x.id.clone()));
        for topic in drivers.chain(apps).chain(workers) {
            let now = Timestamp(1);
            assert_eq!(explain(&view, &topic, now), explain(&state, &topic, now));
        }
    }
    assert!(view.share().cores_offered > 0);
}
