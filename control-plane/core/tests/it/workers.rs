//! Workers: registration at any time, reconciliation both ways, silence and death.

use interrex_core::{
    command::{Command, FullReport, ProcessChange, RunningDriver, RunningExecutor},
    config::ClusterConfig,
    ids::{Attempt, ExecutorId},
    resources::{Amounts, Cores, MemoryMib},
    spec::DriverSpec,
    state::{driver::DriverState, executor::ExecutorState, worker::WorkerState},
    time::Timestamp,
    transition::{Mutation, Reply, Transition},
};

use crate::{
    specs::{app, driver, gpu_worker, supervised, worker},
    support::{Cluster, exited, notices, orders, secs, told},
};

fn cluster() -> Cluster {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(4, 4096));
    cluster
}

fn expire(cluster: &mut Cluster, worker: &str) -> Transition {
    cluster.apply(Command::ExpireWorker {
        worker: worker.into(),
    })
}

#[test]
fn what_a_worker_reports_as_recorded_is_adopted() {
    let mut cluster = cluster();
    let d = cluster.submit("s1", driver(1, 1));
    let a = cluster.register_app("a1", app(1, Some(1), Some(1)));
    let report = cluster.honest_report("w1");
    let transition = cluster.register_with("w1", worker(4, 4096), report);
    assert!(orders(&transition).is_empty());
    assert_eq!(notices(&transition), ["0 RUNNING"]);
    assert_eq!(cluster.driver(&d).state, DriverState::Running);
    assert_eq!(cluster.executor(&a, 0).state, ExecutorState::Running);
}

#[test]
fn what_is_not_recorded_there_is_ended() {
    let mut cluster = cluster();
    let d = cluster.submit("s1", driver(1, 1));
    let started_at = Timestamp(0);
    let report = FullReport {
        number: 0,
        drivers: vec![
            RunningDriver {
                driver: d.clone(),
                attempt: Attempt(0),
                started_at,
            },
            RunningDriver {
                driver: "driver-x".into(),
                attempt: Attempt(2),
                started_at,
            },
        ],
        executors: vec![RunningExecutor {
            app: "app-x".into(),
            executor: ExecutorId(5),
            cores: Cores(1),
            memory: MemoryMib(1),
            started_at,
        }],
        unacknowledged: vec![],
    };
    let transition = cluster.register_with("w2", worker(4, 4096), report);
    let want = [
        format!("w2: kill {d}/0"),
        "w2: kill driver-x/2".to_owned(),
        "w2: kill executor 5".to_owned(),
    ];
    assert_eq!(orders(&transition), want);
    assert_eq!(cluster.driver(&d).worker, Some("w1".into()));
}

/// SPARK-4592, the other way round: the frame was held up on a connection that the agent has given up since.
#[test]
fn a_registration_that_a_newer_one_has_overtaken_disowns_nothing() {
    let mut cluster = cluster();
    let numbered = |number| FullReport {
        number,
        ..FullReport::default()
    };
    cluster.register_with("w1", worker(4, 4096), numbered(7));
    let d = cluster.submit("s1", driver(1, 1));
    cluster.report_driver("w1", &d, 1, ProcessChange::Running);
    let late = cluster.register_with("w1", worker(4, 4096), numbered(6));
    assert!(matches!(late.reply, Reply::Rejected(_)), "{:?}", late.reply);
    assert!(late.mutations.is_empty() && late.effects.is_empty());
    assert_eq!(cluster.driver(&d).state, DriverState::Running);
    // A newer one counts, and so does any of another work directory or of an agent that does not count them.
    for report in [numbered(8), numbered(0)] {
        let reply = cluster.register_with("w1", worker(4, 4096), report).reply;
        assert_eq!(reply, Reply::WorkerRegistered);
    }
}

#[test]
fn what_was_ordered_and_is_not_there_is_ordered_again() {
    let mut cluster = cluster();
    let d = cluster.submit("s1", driver(1, 1));
    cluster.register_app("a1", app(1, Some(1), Some(1)));
    let transition = cluster.register("w1", worker(4, 4096));
    assert_eq!(
        orders(&transition),
        [
            format!("w1: launch {d}/1"),
            "w1: launch executor 0".to_owned()
        ]
    );
    assert!(transition.mutations.is_empty());
}

#[test]
fn what_ran_and_is_not_there_is_lost() {
    let mut cluster = cluster();
    let plain = cluster.submit("s1", driver(1, 1));
    let kept = cluster.submit("s2", supervised(1, 1));
    let ended = cluster.submit("s3", driver(1, 1));
    let a = cluster.register_app("a1", app(1, Some(1), Some(1)));
    let report = cluster.honest_report("w1");
    cluster.register_with("w1", worker(4, 4096), report);
    cluster.apply(Command::Kill {
        request: None,
        id: ended.to_string(),
    });
    let transition = cluster.register("w1", worker(4, 4096));
    let message = "lost: its worker answers, but does not run it";
    assert_eq!(cluster.driver(&plain).state, DriverState::Error);
    assert_eq!(cluster.driver(&plain).message, message);
    assert_eq!(cluster.driver(&ended).state, DriverState::Killed);
    assert_eq!(cluster.driver(&kept).attempt, Attempt(2));
    assert_eq!(cluster.executor(&a, 0).state, ExecutorState::Lost);
    assert_eq!(notices(&transition), ["0 LOST", "added 1"]);
    assert_eq!(
        orders(&transition),
        [
            format!("w1: launch {kept}/2"),
            "w1: launch executor 1".to_owned()
        ]
    );
}

#[test]
fn unacknowledged_results_count_before_what_is_missing() {
    // SPARK-46344: a driver that ended well while no master was there.
    let mut cluster = cluster();
    let d = cluster.submit("s1", driver(1, 1));
    cluster.report_driver("w1", &d, 1, ProcessChange::Running);
    cluster.fail_over();
    let ended = Timestamp(cluster.now);
    let result = cluster.driver_report(&d, 1, exited(0));
    cluster.now += 10_000;
    let report = FullReport {
        unacknowledged: vec![result],
        ..FullReport::default()
    };
    let transition = cluster.register_with("w1", worker(4, 4096), report);
    assert_eq!(orders(&transition), ["w1: acknowledge 1"]);
    assert_eq!(cluster.driver(&d).state, DriverState::Finished);
    assert_eq!(cluster.driver(&d).finished_at, Some(ended));
}

#[test]
fn disconnection_is_not_death() {
    let mut cluster = cluster();
    let d = cluster.submit("s1", driver(1, 1));
    cluster.report_driver("w1", &d, 1, ProcessChange::Running);
    cluster.apply(Command::WorkerDisconnected {
        worker: "w1".into(),
    });
    assert_eq!(cluster.driver(&d).state, DriverState::Running);
    let waiting = cluster.submit("s2", driver(1, 1));
    assert_eq!(cluster.driver(&waiting).state, DriverState::Submitted);
    let report = cluster.honest_report("w1");
    let back = cluster.register_with("w1", worker(4, 4096), report);
    assert_eq!(orders(&back), [format!("w1: launch {waiting}/1")]);
}

#[test]
fn nothing_is_sent_to_a_worker_that_is_away() {
    let mut cluster = cluster();
    cluster.submit("s1", driver(1, 1));
    cluster.apply(Command::WorkerDisconnected {
        worker: "w1".into(),
    });
    for _ in 0..5 {
        assert!(cluster.tick_after(secs(1)).effects.is_empty());
    }
}

#[test]
fn death_loses_what_ran_and_tells_only_whom_it_concerns() {
    let mut cluster = cluster();
    let plain = cluster.submit("s1", driver(1, 1));
    let kept = cluster.submit("s2", supervised(1, 1));
    let a = cluster.register_app("a1", app(1, Some(1), Some(2)));
    let b = cluster.register_app("b1", app(1, Some(1), Some(1)));
    assert!(cluster.placement(&b).is_empty());
    let transition = expire(&mut cluster, "w1");
    assert_eq!(
        notices(&transition),
        ["0 LOST", "1 LOST", "worker w1 removed"]
    );
    assert_eq!(cluster.driver(&plain).state, DriverState::Error);
    assert_eq!(cluster.driver(&kept).state, DriverState::Relaunching);
    assert!(cluster.placement(&a).is_empty());
    assert!(expire(&mut cluster, "w1").mutations.is_empty());
    // Nothing is lost twice; what waits goes on elsewhere with the next attempt.
    cluster.register("w2", worker(4, 4096));
    assert_eq!(cluster.driver(&kept).attempt, Attempt(2));
    assert_eq!(cluster.placement(&a), ["2@w2:1", "3@w2:1"]);
}

#[test]
fn death_is_one_transition() {
    let mut cluster = cluster();
    let d = cluster.submit("s1", driver(1, 1));
    let (worker, driver) = (
        cluster.state.worker(&"w1".into()).cloned(),
        cluster.driver(&d),
    );
    let mut dead = (*worker.expect("known")).clone();
    dead.state = WorkerState::Dead;
    let mut lost = (*driver).clone();
    lost.state = DriverState::Error;
    lost.finished_at = Some(Timestamp(cluster.now));
    lost.message = "lost: worker w1 was not heard of for 20s".to_owned();
    let want = Transition {
        mutations: vec![
            Mutation::PutWorker(dead.into()),
            Mutation::PutDriver(lost.into()),
        ],
        events: vec![],
        effects: vec![],
        reply: Reply::Done,
    };
    let mut dies = expire(&mut cluster, "w1");
    let death = ["WORKER_DEAD w1".to_owned(), format!("DRIVER_ERROR {d}")];
    assert_eq!(told(&dies), death);
    dies.events.clear();
    assert_eq!(dies, want);
}

#[test]
fn a_dead_worker_that_comes_back_ends_what_it_still_runs() {
    let mut cluster = cluster();
    cluster.register("w2", worker(4, 4096));
    let d = cluster.submit("s1", supervised(1, 1));
    cluster.report_driver("w1", &d, 1, ProcessChange::Running);
    let report = cluster.honest_report("w1");
    expire(&mut cluster, "w1");
    assert_eq!(cluster.driver(&d).worker, Some("w2".into()));
    let back = cluster.register_with("w1", worker(4, 4096), report);
    assert_eq!(orders(&back), [format!("w1: kill {d}/1")]);
    assert_eq!(
        cluster.state.worker(&"w1".into()).expect("known").state,
        WorkerState::Alive
    );
}

#[test]
fn a_given_up_attempt_that_did_its_work_is_not_run_again() {
    let mut cluster = cluster();
    let d = cluster.submit("s1", supervised(1, 1));
    cluster.report_driver("w1", &d, 1, ProcessChange::Running);
    expire(&mut cluster, "w1");
    assert_eq!(cluster.driver(&d).state, DriverState::Relaunching);
    let result = cluster.driver_report(&d, 1, exited(0));
    let report = FullReport {
        unacknowledged: vec![result],
        ..FullReport::default()
    };
    let back = cluster.register_with("w1", worker(4, 4096), report);
    assert_eq!(orders(&back), ["w1: acknowledge 1"]);
    assert_eq!(cluster.driver(&d).state, DriverState::Finished);
}

#[test]
fn a_dead_worker_is_forgotten_after_a_while() {
    let mut cluster = cluster();
    expire(&mut cluster, "w1");
    cluster.tick_after(secs(899));
    assert!(cluster.state.worker(&"w1".into()).is_some());
    cluster.tick_after(secs(1));
    assert!(cluster.state.worker(&"w1".into()).is_none());
}

#[test]
fn a_worker_that_offers_less_than_it_holds_gets_nothing_until_it_fits() {
    let mut cluster = cluster();
    let ids: Vec<_> = (0..4)
        .map(|n| cluster.submit(&format!("s{n}"), driver(1, 1)))
        .collect();
    let report = cluster.honest_report("w1");
    cluster.register_with("w1", worker(2, 4096), report);
    let waiting = cluster.submit("s9", driver(1, 1));
    for id in &ids[..2] {
        cluster.report_driver("w1", id, 1, exited(0));
        assert_eq!(cluster.driver(&waiting).state, DriverState::Submitted);
    }
    cluster.report_driver("w1", &ids[2], 1, exited(0));
    assert_eq!(cluster.driver(&waiting).state, DriverState::Launching);
}

#[test]
fn addresses_that_are_not_offered_any_more_are_not_handed_out_again() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", gpu_worker(8, 4096, &["0", "1"]));
    let spec = || DriverSpec {
        resources: Amounts::from([("gpu".to_owned(), 1)]),
        ..driver(1, 1)
    };
    let first = cluster.submit("s1", spec());
    assert_eq!(cluster.driver(&first).resources["gpu"], ["0"]);
    let report = cluster.honest_report("w1");
    cluster.register_with("w1", gpu_worker(8, 4096, &["1"]), report);
    // It holds what is not offered: nothing new until that is over.
    let second = cluster.submit("s2", spec());
    assert_eq!(cluster.driver(&second).state, DriverState::Submitted);
    cluster.report_driver("w1", &first, 1, exited(0));
    assert_eq!(cluster.driver(&second).resources["gpu"], ["1"]);
}

#[test]
fn a_plain_worker_gets_no_spark_driver() {
    let mut cluster = cluster();
    let spec = DriverSpec {
        payload: interrex_core::spec::DriverPayload::Spark(Default::default()),
        ..driver(1, 1)
    };
    let d = cluster.submit("s1", spec);
    assert_eq!(cluster.driver(&d).state, DriverState::Submitted);
    let able = interrex_core::spec::WorkerSpec {
        capabilities: vec!["spark".to_owned()],
        ..worker(4, 4096)
    };
    cluster.register("w2", able);
    assert_eq!(cluster.driver(&d).worker, Some("w2".into()));
}

#[test]
fn one_of_sparks_own_workers_gets_jars_of_its_line_and_nothing_else() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    let own = interrex_core::spec::WorkerSpec {
        capabilities: vec!["spark-3.5".to_owned()],
        spark: Some(interrex_core::spec::SparkWorker {
            line: "3.5".to_owned(),
            ..Default::default()
        }),
        ..worker(8, 4096)
    };
    cluster.register("w1", own);
    let spark = |resource: &str| interrex_core::spec::SparkSubmission {
        app_resource: resource.to_owned(),
        main_class: "org.example.Main".to_owned(),
        client_version: "3.5.9".to_owned(),
        ..Default::default()
    };
    let of_spark = |resource: &str, at_most_once| DriverSpec {
        payload: interrex_core::spec::DriverPayload::Spark(spark(resource)),
        at_most_once,
        ..driver(1, 1)
    };
    let waits = [
        driver(1, 1),
        of_spark("file:/job.py", false),
        of_spark("file:/a.jar", true),
    ];
    let waiting: Vec<_> = waits
        .into_iter()
        .enumerate()
        .map(|(n, spec)| cluster.submit(&format!("s{n}"), spec))
        .collect();
    let plain = cluster.register_app("r1", app(1, Some(1), Some(1)));
    let jar = cluster.submit("jar", of_spark("file:/a.jar", false));
    assert_eq!(cluster.driver(&jar).worker, Some("w1".into()));
    for id in &waiting {
        assert_eq!(cluster.driver(id).state, DriverState::Submitted, "{id}");
    }
    assert!(cluster.placement(&plain).is_empty());
    let agent = interrex_core::spec::WorkerSpec {
        capabilities: vec!["spark-3.5".to_owned()],
        ..worker(8, 4096)
    };
    cluster.register("w2", agent);
    for id in &waiting {
        assert_eq!(cluster.driver(id).worker, Some("w2".into()), "{id}");
    }
}

#[test]
fn a_twin_is_refused_until_the_first_one_is_dead() {
    let mut cluster = cluster();
    let d = cluster.submit("s1", driver(1, 1));
    let report = cluster.honest_report("w1");
    cluster.register_with("w1", worker(4, 4096), report);
    let twin = interrex_core::spec::WorkerSpec {
        work_dir_id: "2".to_owned(),
        ..worker(4, 4096)
    };
    // Attached or not: what the first one runs is not the twin's to disown.
    for _ in 0..2 {
        let refused = cluster.register("w1", twin.clone());
        let Reply::Rejected(rejection) = &refused.reply else {
            panic!("{:?}", refused.reply)
        };
        assert!(rejection.to_string().contains("--id"), "{rejection}");
        assert!(refused.mutations.is_empty() && orders(&refused).is_empty());
        assert_eq!(cluster.driver(&d).state, DriverState::Running);
        cluster.apply(Command::WorkerDisconnected {
            worker: "w1".into(),
        });
    }
    expire(&mut cluster, "w1");
    assert_eq!(cluster.register("w1", twin).reply, Reply::WorkerRegistered);
}

#[test]
fn a_restarted_agent_takes_its_own_place_before_anybody_noticed_that_it_was_gone() {
    // W33: Spark refuses it, and the worker exits. W14: Spark accepts it, and kills everything that it runs.
    let mut cluster = cluster();
    let d = cluster.submit("s1", driver(1, 1));
    cluster.report_driver("w1", &d, 1, ProcessChange::Running);
    let report = cluster.honest_report("w1");
    let restarted = interrex_core::spec::WorkerSpec {
        incarnation: "2".to_owned(),
        web: "host:8082".to_owned(),
        ..worker(4, 4096)
    };
    let back = cluster.register_with("w1", restarted, report);
    assert_eq!(back.reply, Reply::WorkerRegistered);
    assert!(orders(&back).is_empty(), "{:?}", orders(&back));
    assert_eq!(cluster.driver(&d).state, DriverState::Running);
    let w1 = cluster.state.worker(&"w1".into()).expect("known");
    assert_eq!(w1.spec.web, "host:8082");
}

#[test]
fn what_does_not_fit_a_workers_state_is_counted_and_changes_nothing() {
    let mut cluster = cluster();
    expire(&mut cluster, "w1");
    let not_accepting = "disk full".to_owned();
    let late = cluster.apply(Command::AcceptingChanged {
        worker: "w1".into(),
        not_accepting,
    });
    assert!(late.mutations.is_empty());
    assert_eq!(cluster.state.ignored().refused, 1);
}

#[test]
fn the_end_of_an_executor_waits_for_a_worker_that_is_away() {
    let mut cluster = cluster();
    let a = cluster.register_app("a1", app(1, Some(1), Some(1)));
    cluster.report_executor(&a, 0, ProcessChange::Running);
    cluster.apply(Command::KillExecutors {
        app: a.clone(),
        executors: vec![ExecutorId(0)],
    });
    let report = cluster.honest_report("w1");
    cluster.apply(Command::WorkerDisconnected {
        worker: "w1".into(),
    });
    for _ in 0..5 {
        assert!(cluster.tick_after(secs(1)).effects.is_empty());
    }
    let back = cluster.register_with("w1", worker(4, 4096), report);
    assert_eq!(orders(&back), ["w1: kill executor 0"]);
}
