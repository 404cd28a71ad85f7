//! Drains: no new work, replacements at once, a deadline that holds whatever happens, and no success by killing.

use interrex_core::{
    command::{Command, FullReport, ProcessChange, RequestKey, WorkersNamed},
    config::ClusterConfig,
    ids::{Attempt, DriverId, Fingerprint},
    spec::{ApplicationSpec, WorkerSpec},
    state::{
        driver::{DriverState, Exit},
        executor::ExecutorState,
        worker::WorkerState,
    },
    transition::{Rejection, Reply, Transition},
};

use crate::{
    specs::{app, driver, supervised, worker},
    support::{Cluster, exited, killed, notices, orders, secs},
};

/// One worker, w1.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(4, 4096));
    cluster
}

/// A driver that runs on w1.
fn running(cluster: &mut Cluster, request: &str, supervise: bool) -> DriverId {
    let spec = if supervise {
        supervised(1, 1)
    } else {
        driver(1, 1)
    };
    let id = cluster.submit(request, spec);
    cluster.report_driver("w1", &id, 1, ProcessChange::Running);
    id
}

fn drain_host(host: &str) -> Command {
    Command::DrainWorkers {
        request: None,
        workers: WorkersNamed::Host(host.to_owned()),
        deadline: None,
        reason: String::new(),
    }
}

fn state_of(cluster: &Cluster, worker: &str) -> &'static str {
    let worker = cluster.state.worker(&worker.into());
    worker.expect("known").state_name()
}

/// Killed by an order, which a program may answer with exit code 0.
fn killed_politely() -> ProcessChange {
    ProcessChange::Killed(Exit {
        code: Some(0),
        signal: None,
    })
}

#[test]
fn a_worker_that_is_drained_gets_no_new_work_and_is_shown_as_decommissioned() {
    let mut cluster = cluster();
    assert_eq!(cluster.drain("w1", None).reply, Reply::Count(1));
    assert_eq!(state_of(&cluster, "w1"), "DECOMMISSIONED");
    let d = cluster.submit("s1", driver(1, 1));
    let a = cluster.register_app("a1", app(1, Some(1), None));
    assert_eq!(cluster.driver(&d).state, DriverState::Submitted);
    assert!(cluster.placement(&a).is_empty());
}

#[test]
fn undrained_it_starts_what_waits_with_no_other_event() {
    // SPARK-36509: the scheduler is called after every event that makes room.
    let mut cluster = cluster();
    cluster.drain("w1", None);
    let d = cluster.submit("s1", driver(1, 1));
    cluster.register_app("a1", app(1, Some(1), Some(1)));
    let transition = cluster.undrain("w1");
    let want = [
        format!("w1: launch {d}/1"),
        "w1: launch executor 0".to_owned(),
    ];
    assert_eq!(orders(&transition), want);
    assert_eq!(state_of(&cluster, "w1"), "ALIVE");
    assert_eq!(cluster.undrain("w1").reply, Reply::Count(0));
}

#[test]
fn applications_are_told_at_once_and_get_other_executors_elsewhere() {
    let mut cluster = cluster();
    let a = cluster.register_app("a1", app(1, Some(1), Some(2)));
    for executor in [0, 1] {
        cluster.report_executor(&a, executor, ProcessChange::Running);
    }
    cluster.register("w2", worker(4, 4096));
    let transition = cluster.drain("w1", None);
    let want = ["0 DECOMMISSIONED", "1 DECOMMISSIONED", "added 2", "added 3"];
    assert_eq!(notices(&transition), want);
    assert_eq!(
        orders(&transition),
        ["w2: launch executor 2", "w2: launch executor 3"]
    );
    // What it had runs on and stays booked, and does not count towards its two cores.
    assert_eq!(
        cluster.placement(&a),
        ["0@w1:1", "1@w1:1", "2@w2:1", "3@w2:1"]
    );
    assert_eq!(cluster.state.usage(&"w1".into()).executors, 2);
    let message = "worker w1 is being drained: maintenance";
    assert_eq!(cluster.executor(&a, 0).message, message);
}

#[test]
fn an_executor_that_was_not_seen_to_run_is_ended_instead() {
    let mut cluster = cluster();
    let a = cluster.register_app("a1", app(1, Some(1), Some(1)));
    assert_eq!(orders(&cluster.drain("w1", None)), ["w1: kill executor 0"]);
    // A lost order is sent again.
    assert_eq!(
        orders(&cluster.tick_after(secs(1))),
        ["w1: kill executor 0"]
    );
    cluster.report_executor(&a, 0, killed());
    assert_eq!(cluster.executor(&a, 0).state, ExecutorState::Killed);
    assert!(orders(&cluster.tick_after(secs(5))).is_empty());
    assert_eq!(cluster.app(&a).executor_failures, 0);
}

#[test]
fn a_drain_survives_a_failover_a_registration_and_the_death_of_its_worker() {
    // W29: Spark's worker is scheduled again when it registers.
    let mut cluster = cluster();
    cluster.drain("w1", Some(600));
    let before = cluster
        .state
        .worker(&"w1".into())
        .expect("known")
        .drain
        .clone();
    cluster.fail_over();
    assert_eq!(state_of(&cluster, "w1"), "UNKNOWN");
    cluster.register("w1", worker(4, 4096));
    assert_eq!(state_of(&cluster, "w1"), "DECOMMISSIONED");
    cluster.apply(Command::ExpireWorker {
        worker: "w1".into(),
    });
    // Away for longer than other dead workers are remembered: its machine is being repaired.
    cluster.tick_after(secs(7_200));
    cluster.register("w1", worker(4, 4096));
    assert_eq!(state_of(&cluster, "w1"), "DECOMMISSIONED");
    assert_eq!(
        cluster.state.worker(&"w1".into()).expect("known").drain,
        before
    );
    let d = cluster.submit("s1", driver(1, 1));
    assert_eq!(cluster.driver(&d).state, DriverState::Submitted);
}

#[test]
fn a_drained_worker_that_stays_dead_is_forgotten_in_the_end() {
    let mut cluster = cluster();
    cluster.drain("w1", None);
    cluster.apply(Command::ExpireWorker {
        worker: "w1".into(),
    });
    cluster.tick_after(cluster.state.config().retained_for);
    assert!(cluster.state.worker(&"w1".into()).is_none());
}

#[test]
fn at_the_deadline_supervised_drivers_move_and_others_are_killed() {
    let mut cluster = cluster();
    let plain = running(&mut cluster, "s1", false);
    let kept = running(&mut cluster, "s2", true);
    cluster.drain("w1", Some(10));
    cluster.register("w2", worker(4, 4096));
    assert!(orders(&cluster.tick_after(secs(9))).is_empty());
    let over = cluster.tick_after(secs(1));
    let want = [format!("w1: kill {plain}/1"), format!("w1: kill {kept}/1")];
    assert_eq!(orders(&over), want);
    // Nothing moves before the old attempt is gone, and a lost order is sent again.
    assert_eq!(cluster.driver(&kept).attempt, Attempt(1));
    assert_eq!(orders(&cluster.tick_after(secs(1))), want);
    cluster.report_driver("w1", &plain, 1, killed_politely());
    let moved = cluster.report_driver("w1", &kept, 1, killed_politely());
    assert_eq!(cluster.driver(&plain).state, DriverState::Killed);
    let message = "the drain of worker w1 is over: maintenance (exit code 0)";
    assert_eq!(cluster.driver(&plain).message, message);
    assert_eq!(
        orders(&moved),
        [
            "w1: acknowledge 1".to_owned(),
            format!("w2: launch {kept}/2")
        ]
    );
    assert_eq!(cluster.driver(&kept).failures, 0);
}

#[test]
fn a_driver_that_never_started_goes_elsewhere_though_nobody_supervises_it() {
    let mut cluster = cluster();
    let d = cluster.submit("s1", driver(1, 1));
    cluster.drain("w1", Some(0));
    cluster.register("w2", worker(4, 4096));
    assert_eq!(
        orders(&cluster.tick_after(secs(0))),
        [format!("w1: kill {d}/1")]
    );
    let never = ProcessChange::Killed(Exit::default());
    let moved = cluster.report_driver("w1", &d, 1, never);
    assert!(
        orders(&moved).contains(&format!("w2: launch {d}/2")),
        "{moved:?}"
    );
}

#[test]
fn a_driver_that_started_unnoticed_is_not_run_twice() {
    let mut cluster = cluster();
    let d = cluster.submit("s1", driver(1, 1));
    cluster.drain("w1", Some(0));
    cluster.register("w2", worker(4, 4096));
    cluster.tick_after(secs(0));
    cluster.report_driver("w1", &d, 1, killed());
    assert_eq!(cluster.driver(&d).state, DriverState::Killed);
}

#[test]
fn a_program_that_is_done_before_the_order_reaches_it_has_finished() {
    let mut cluster = cluster();
    let d = running(&mut cluster, "s1", true);
    cluster.drain("w1", Some(0));
    cluster.tick_after(secs(0));
    cluster.report_driver("w1", &d, 1, exited(0));
    assert_eq!(cluster.driver(&d).state, DriverState::Finished);
}

#[test]
fn without_room_elsewhere_a_supervised_driver_waits_and_an_undrain_does_not_double_it() {
    let mut cluster = cluster();
    let d = running(&mut cluster, "s1", true);
    cluster.drain("w1", Some(10));
    cluster.tick_after(secs(10));
    // In the middle of the kill: the order has left, so it stays one.
    assert!(orders(&cluster.undrain("w1")).is_empty());
    assert_eq!(
        orders(&cluster.tick_after(secs(1))),
        [format!("w1: kill {d}/1")]
    );
    let again = cluster.report_driver("w1", &d, 1, killed_politely());
    assert_eq!(
        orders(&again),
        ["w1: acknowledge 1".to_owned(), format!("w1: launch {d}/2")]
    );
}

#[test]
fn an_undrain_before_the_deadline_leaves_what_runs_alone() {
    let mut cluster = cluster();
    let d = running(&mut cluster, "s1", true);
    cluster.drain("w1", Some(10));
    cluster.tick_after(secs(5));
    cluster.undrain("w1");
    assert!(orders(&cluster.tick_after(secs(60))).is_empty());
    assert_eq!(cluster.driver(&d).state, DriverState::Running);
}

#[test]
fn the_deadline_of_a_drain_holds_across_a_failover() {
    let mut cluster = cluster();
    let d = running(&mut cluster, "s1", false);
    cluster.drain("w1", Some(10));
    cluster.now += 4_000;
    cluster.fail_over();
    let report = cluster.honest_report("w1");
    cluster.register_with("w1", worker(4, 4096), report);
    assert!(orders(&cluster.tick_after(secs(5))).is_empty());
    assert_eq!(
        orders(&cluster.tick_after(secs(1))),
        [format!("w1: kill {d}/1")]
    );
    // A leader that dies between the order and its answer leaves the next one knowing.
    cluster.fail_over();
    let report = cluster.honest_report("w1");
    let back = cluster.register_with("w1", worker(4, 4096), report);
    assert_eq!(orders(&back), [format!("w1: kill {d}/1")]);
    cluster.report_driver("w1", &d, 1, killed_politely());
    assert_eq!(cluster.driver(&d).state, DriverState::Killed);
}

#[test]
fn a_leader_with_a_slow_clock_waits_no_longer_than_the_drain_was_given() {
    let mut cluster = cluster();
    let d = running(&mut cluster, "s1", false);
    cluster.drain("w1", Some(10));
    cluster.now -= 3_600_000;
    cluster.fail_over();
    let report = cluster.honest_report("w1");
    cluster.register_with("w1", worker(4, 4096), report);
    assert_eq!(
        orders(&cluster.tick_after(secs(10))),
        [format!("w1: kill {d}/1")]
    );
}

#[test]
fn a_silent_worker_can_be_drained_and_is_told_when_it_is_back() {
    let mut cluster = cluster();
    let d = running(&mut cluster, "s1", false);
    let report = cluster.honest_report("w1");
    cluster.apply(Command::WorkerDisconnected {
        worker: "w1".into(),
    });
    assert_eq!(cluster.drain("w1", Some(1)).reply, Reply::Count(1));
    cluster.tick_after(secs(1));
    assert!(cluster.tick_after(secs(5)).effects.is_empty());
    let back = cluster.register_with("w1", worker(4, 4096), report);
    assert_eq!(orders(&back), [format!("w1: kill {d}/1")]);
}

#[test]
fn a_worker_that_dies_over_its_drain_costs_a_supervised_driver_no_failure() {
    let mut cluster = cluster();
    let (plain, kept) = (
        running(&mut cluster, "s1", false),
        running(&mut cluster, "s2", true),
    );
    cluster.drain("w1", Some(1));
    cluster.tick_after(secs(1));
    cluster.apply(Command::ExpireWorker {
        worker: "w1".into(),
    });
    assert_eq!(cluster.driver(&plain).state, DriverState::Killed);
    let kept = cluster.driver(&kept);
    assert_eq!((kept.state, kept.failures), (DriverState::Relaunching, 0));
}

#[test]
fn what_is_killed_at_the_deadline_neither_completes_nor_fails_an_application() {
    let mut cluster = cluster();
    let a = cluster.register_app(
        "a1",
        ApplicationSpec {
            completes: true,
            executor_limit: Some(2),
            ..app(1, Some(1), None)
        },
    );
    for executor in [0, 1] {
        cluster.report_executor(&a, executor, ProcessChange::Running);
    }
    cluster.drain("w1", Some(10));
    let over = cluster.tick_after(secs(10));
    assert_eq!(
        orders(&over),
        ["w1: kill executor 0", "w1: kill executor 1"]
    );
    cluster.report_executor(&a, 0, killed_politely());
    cluster.report_executor(&a, 1, killed());
    let app = cluster.app(&a);
    assert_eq!((app.executors_completed, app.executor_failures), (0, 0));
    assert_eq!(app.not_before, None);
    // Its two executors are still wanted.
    cluster.register("w2", worker(4, 4096));
    assert_eq!(cluster.placement(&a), ["2@w2:1", "3@w2:1"]);
}

#[test]
fn what_ends_by_itself_while_its_worker_is_drained_counts_as_done_and_never_as_a_failure() {
    let mut cluster = cluster();
    let a = cluster.register_app(
        "a1",
        ApplicationSpec {
            completes: true,
            executor_limit: Some(2),
            ..app(1, Some(1), None)
        },
    );
    for executor in [0, 1] {
        cluster.report_executor(&a, executor, ProcessChange::Running);
    }
    cluster.drain("w1", None);
    cluster.report_executor(&a, 0, exited(0));
    cluster.report_executor(&a, 1, exited(1));
    let app = cluster.app(&a);
    assert_eq!((app.executors_completed, app.executor_failures), (1, 0));
}

#[test]
fn executors_stay_decommissioned_when_their_worker_is_not_drained_any_more() {
    let mut cluster = cluster();
    let a = cluster.register_app("a1", app(1, Some(1), Some(1)));
    cluster.report_executor(&a, 0, ProcessChange::Running);
    cluster.drain("w1", None);
    cluster.undrain("w1");
    assert_eq!(cluster.executor(&a, 0).state, ExecutorState::Decommissioned);
    assert_eq!(cluster.placement(&a), ["0@w1:1", "1@w1:1"]);
    // Its application may end it, and the end of its application does.
    cluster.apply(Command::UnregisterApplication {
        app: a.clone(),
        failed: false,
        message: String::new(),
    });
    assert_eq!(cluster.executor(&a, 0).state, ExecutorState::Killing);
}

#[test]
fn draining_again_changes_the_deadline_and_the_reason() {
    let mut cluster = cluster();
    let d = running(&mut cluster, "s1", false);
    cluster.drain("w1", Some(5));
    cluster.now += 4_000;
    cluster.apply(Command::DrainWorkers {
        request: None,
        workers: WorkersNamed::Id("w1".into()),
        deadline: Some(secs(60)),
        reason: "later".to_owned(),
    });
    assert!(orders(&cluster.tick_after(secs(59))).is_empty());
    assert_eq!(
        orders(&cluster.tick_after(secs(1))),
        [format!("w1: kill {d}/1")]
    );
    assert!(cluster.driver(&d).message.ends_with("later"));
    cluster.drain("w1", None);
    assert!(
        !orders(&cluster.tick_after(secs(1))).is_empty(),
        "what was ordered stays"
    );
}

#[test]
fn unknown_and_dead_workers_are_refused_by_name() {
    let mut cluster = cluster();
    let unknown = Rejection::UnknownWorker { id: "w9".into() };
    assert_eq!(
        cluster.drain("w9", None).reply,
        Reply::Rejected(unknown.clone())
    );
    assert_eq!(cluster.undrain("w9").reply, Reply::Rejected(unknown));
    cluster.apply(Command::ExpireWorker {
        worker: "w1".into(),
    });
    let dead = Rejection::WorkerDead { id: "w1".into() };
    assert!(dead.to_string().contains("`w1`"));
    assert_eq!(cluster.drain("w1", None).reply, Reply::Rejected(dead));
}

#[test]
fn a_host_is_drained_with_all_its_workers_in_whatever_letters() {
    // MasterDecommisionSuite: case does not matter, all workers of the host, the same count when repeated.
    let mut cluster = cluster();
    let at = |host: &str| WorkerSpec {
        host: host.to_owned(),
        ..worker(1, 1)
    };
    cluster.register("w2", at("HOST"));
    cluster.register("w3", at("other"));
    for _ in 0..2 {
        assert_eq!(cluster.apply(drain_host("Host")).reply, Reply::Count(2));
    }
    let states = ["w1", "w2", "w3"].map(|id| state_of(&cluster, id));
    assert_eq!(states, ["DECOMMISSIONED", "DECOMMISSIONED", "ALIVE"]);
    assert_eq!(cluster.apply(drain_host("nowhere")).reply, Reply::Count(0));
}

#[test]
fn a_drain_that_is_repeated_does_not_move_its_deadline() {
    let mut cluster = cluster();
    let drain = |cluster: &mut Cluster, body: u8| -> Transition {
        cluster.apply(Command::DrainWorkers {
            request: Some(RequestKey {
                id: "r1".into(),
                fingerprint: Fingerprint([body; 32]),
            }),
            workers: WorkersNamed::Id("w1".into()),
            deadline: Some(secs(10)),
            reason: String::new(),
        })
    };
    drain(&mut cluster, 1);
    cluster.now += 5_000;
    let again = drain(&mut cluster, 1);
    assert_eq!(again.reply, Reply::Count(1));
    assert!(again.mutations.is_empty());
    let other = drain(&mut cluster, 2).reply;
    assert!(
        matches!(other, Reply::Rejected(Rejection::Conflict { .. })),
        "{other:?}"
    );
}

#[test]
fn a_worker_that_wants_no_work_gets_none_until_it_says_otherwise() {
    let mut cluster = cluster();
    let say = |cluster: &mut Cluster, why: &str| {
        cluster.apply(Command::AcceptingChanged {
            worker: "w1".into(),
            not_accepting: why.to_owned(),
        })
    };
    say(&mut cluster, "disk full");
    let d = cluster.submit("s1", driver(1, 1));
    assert_eq!(cluster.driver(&d).state, DriverState::Submitted);
    cluster.register_with("w1", worker(4, 4096), FullReport::default());
    assert_eq!(cluster.driver(&d).state, DriverState::Submitted);
    assert_eq!(
        orders(&say(&mut cluster, "")),
        [format!("w1: launch {d}/1")]
    );
    let w1 = cluster.state.worker(&"w1".into()).expect("known");
    assert_eq!(w1.state, WorkerState::Alive);
}

#[test]
fn a_launch_that_the_drain_has_ended_is_not_ordered_again() {
    let mut cluster = cluster();
    let d = cluster.submit("s1", driver(1, 1));
    cluster.drain("w1", Some(0));
    cluster.tick_after(secs(0));
    // Its worker does not know it: the answer to the kill tells whether it ever ran.
    let kill = [format!("w1: kill {d}/1")];
    assert_eq!(orders(&cluster.register("w1", worker(4, 4096))), kill);
    assert_eq!(cluster.driver(&d).state, DriverState::Launching);
}
