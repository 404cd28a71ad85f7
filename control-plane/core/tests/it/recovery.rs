//! Failovers.

use std::time::Duration;

use interrex_core::{
    command::{Command, FullReport, ProcessChange, Report, Subject},
    config::ClusterConfig,
    ids::{AppId, Attempt, ExecutorId, ReportSequence},
    liveness::Liveness,
    spec::ApplicationSpec,
    state::{
        driver::DriverState, executor::ExecutorState, meta::RecoveryState, worker::WorkerState,
    },
    time::Timestamp,
    transition::{Reply, Transition},
};

use crate::{
    specs::{app, driver, submit, supervised, worker},
    support::{Cluster, exited, killed, orders, secs},
};

fn attach(cluster: &mut Cluster, app: &AppId) -> Transition {
    cluster.apply(Command::RegisterApplication {
        request: "a1".into(),
        fingerprint: interrex_core::ids::Fingerprint([1; 32]),
        app: Some(app.clone()),
        spec: crate::specs::app(1, None, None).into(),
    })
}

#[test]
fn an_empty_store_needs_no_recovery() {
    let cluster = Cluster::new(ClusterConfig::default());
    assert_eq!(cluster.state.recovery_state(), RecoveryState::Alive);
}

#[test]
fn an_accepted_driver_that_was_never_placed_waits_on() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    let ids: Vec<_> = (0..5)
        .map(|n| cluster.submit(&format!("s{n}"), driver(1, 1)))
        .collect();
    cluster.fail_over();
    assert_eq!(cluster.state.recovery_state(), RecoveryState::Alive);
    cluster.fail_over();
    for id in &ids {
        assert_eq!(cluster.driver(id).state, DriverState::Submitted);
    }
    let transition = cluster.register("w1", worker(4, 4096));
    // In the order of submission.
    let want: Vec<_> = ids[..4]
        .iter()
        .map(|id| format!("w1: launch {id}/1"))
        .collect();
    assert_eq!(orders(&transition), want);
}

#[test]
fn work_is_accepted_and_scheduled_while_others_are_awaited() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(4, 4096));
    cluster.register("w2", worker(4, 4096));
    cluster.fail_over();
    assert_eq!(cluster.state.recovery_state(), RecoveryState::Recovering);
    assert!(
        cluster
            .state
            .workers()
            .all(|worker| worker.state == WorkerState::Unknown)
    );
    cluster.register("w2", worker(4, 4096));
    let id = cluster.submit("s1", driver(1, 1));
    assert_eq!(cluster.driver(&id).worker, Some("w2".into()));
    cluster.register("w1", worker(4, 4096));
    assert_eq!(cluster.state.recovery_state(), RecoveryState::Alive);
}

#[test]
fn recovery_ends_at_its_timeout_whoever_is_silent() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(4, 4096));
    cluster.fail_over();
    cluster.tick_after(secs(19));
    assert_eq!(cluster.state.recovery_state(), RecoveryState::Recovering);
    cluster.tick_after(secs(1));
    assert_eq!(
        cluster.state.recovery_state(),
        RecoveryState::CompletingRecovery
    );
    cluster.tick_after(secs(0));
    assert_eq!(cluster.state.recovery_state(), RecoveryState::Alive);
}

#[test]
fn applications_are_awaited_too() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(4, 4096));
    let a = cluster.register_app("a1", app(1, Some(1), Some(2)));
    cluster.fail_over();
    let report = cluster.honest_report("w1");
    cluster.register_with("w1", worker(4, 4096), report);
    assert_eq!(cluster.state.recovery_state(), RecoveryState::Recovering);
    attach(&mut cluster, &a);
    assert_eq!(cluster.state.recovery_state(), RecoveryState::Alive);
    assert_eq!(cluster.placement(&a), ["0@w1:1", "1@w1:1"]);
}

#[test]
fn a_failover_restarts_nothing_and_loses_nothing() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(8, 4096));
    let d = cluster.submit("s1", driver(1, 1));
    let s = cluster.submit("s2", supervised(1, 1));
    let a = cluster.register_app("a1", app(1, Some(1), Some(2)));
    cluster.report_driver("w1", &d, 1, ProcessChange::Running);
    cluster.report_driver("w1", &s, 1, ProcessChange::Running);
    cluster.report_executor(&a, 0, ProcessChange::Running);
    cluster.report_executor(&a, 1, ProcessChange::Running);
    let report = cluster.honest_report("w1");
    let used = cluster.state.usage(&"w1".into());
    cluster.fail_over();
    assert_eq!(cluster.state.usage(&"w1".into()), used);
    attach(&mut cluster, &a);
    let back = cluster.register_with("w1", worker(8, 4096), report);
    assert!(orders(&back).is_empty());
    assert_eq!(cluster.driver(&d).attempt, Attempt(1));
    assert_eq!(cluster.placement(&a), ["0@w1:1", "1@w1:1"]);
    cluster.report_driver("w1", &d, 1, exited(0));
    assert_eq!(cluster.state.usage(&"w1".into()).cores.0, used.cores.0 - 1);
}

#[test]
fn an_executor_that_ended_unseen_is_told_with_its_exit_and_counted_once() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(8, 4096));
    let spec = ApplicationSpec {
        completes: true,
        executor_limit: Some(1),
        ..app(1, Some(1), None)
    };
    let a = cluster.register_app("a1", spec);
    cluster.report_executor(&a, 0, ProcessChange::Running);
    cluster.fail_over();
    // It ends while nobody leads: the result waits in its agent's outbox.
    let unacknowledged = FullReport {
        unacknowledged: vec![Report {
            sequence: ReportSequence(900),
            at: Timestamp(cluster.now),
            subject: Subject::Executor {
                app: a.clone(),
                executor: ExecutorId(0),
            },
            change: exited(0),
        }],
        ..FullReport::default()
    };
    for _ in 0..2 {
        cluster.register_with("w1", worker(8, 4096), unacknowledged.clone());
        let attached = attach(&mut cluster, &a);
        let Reply::AppRegistered { app, executors } = attached.reply else {
            panic!("{attached:?}")
        };
        assert_eq!(app.executors_completed, 1);
        assert_eq!(executors, [cluster.executor(&a, 0)]);
        assert_eq!(executors[0].state, ExecutorState::Exited);
        let code = executors[0].exit.and_then(|exit| exit.code);
        assert_eq!(code, Some(0));
    }
}

#[test]
fn numbers_are_never_used_twice() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(1, 4096));
    let first = cluster.submit("s1", driver(2, 1));
    let a = cluster.register_app("a1", app(1, Some(1), None));
    cluster.report_executor(&a, 0, exited(0));
    cluster.apply(Command::Kill {
        request: None,
        id: first.to_string(),
    });
    cluster.apply(Command::ClearCompleted { request: None });
    cluster.fail_over();
    let second = cluster.submit("s2", driver(2, 1));
    assert_eq!(second.as_str(), "driver-20261129143200-0001");
    cluster.tick_after(secs(1));
    cluster.register("w1", worker(1, 4096));
    let last = cluster.placement(&a);
    assert_eq!(last, ["1@w1:1"]);
}

#[test]
fn a_kill_goes_on_under_the_new_leader() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(4, 4096));
    let d = cluster.submit("s1", supervised(1, 1));
    let a = cluster.register_app("a1", app(1, Some(1), Some(1)));
    cluster.report_driver("w1", &d, 1, ProcessChange::Running);
    cluster.report_executor(&a, 0, ProcessChange::Running);
    cluster.apply(Command::Kill {
        request: None,
        id: d.to_string(),
    });
    cluster.apply(Command::Kill {
        request: None,
        id: a.to_string(),
    });
    cluster.fail_over();
    let report = cluster.honest_report("w1");
    let back = cluster.register_with("w1", worker(4, 4096), report);
    let kills = [format!("w1: kill {d}/1"), "w1: kill executor 0".to_owned()];
    assert_eq!(orders(&back), kills);
    assert_eq!(orders(&cluster.tick_after(secs(1))), kills);
    cluster.report_executor(&a, 0, killed());
    cluster.report_driver("w1", &d, 1, killed());
    assert_eq!(cluster.driver(&d).state, DriverState::Killed);
    assert_eq!(cluster.executor(&a, 0).state, ExecutorState::Killed);
}

#[test]
fn a_back_off_survives_and_another_clock_cannot_prolong_it() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(4, 4096));
    let d = cluster.submit("s1", supervised(1, 1));
    cluster.report_driver("w1", &d, 1, exited(1));
    let record = cluster.store.drivers.get_mut(&d).expect("stored");
    record.not_before = Some(Timestamp(u64::MAX));
    cluster.fail_over();
    cluster.register("w1", worker(4, 4096));
    cluster.tick_after(secs(60));
    assert_eq!(cluster.driver(&d).attempt, Attempt(2));
}

#[test]
fn records_that_do_not_fit_together_are_named_and_repaired() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(4, 4096));
    cluster.register("w2", worker(4, 4096));
    let plain = cluster.submit("s1", driver(1, 1));
    let kept = cluster.submit("s2", supervised(1, 1));
    let a = cluster.register_app("a1", app(1, Some(1), Some(2)));
    // What quarantined records would leave behind: no workers, no application, no counters, no requests.
    cluster.store.workers.clear();
    cluster.store.apps.clear();
    cluster.store.requests.clear();
    cluster.store.meta = Default::default();
    for driver in cluster.store.drivers.values_mut() {
        driver.queue = interrex_core::ids::QueuePosition(0);
    }
    cluster.fail_over();
    assert!(
        cluster.state.inconsistencies().len() >= 6,
        "{:?}",
        cluster.state.inconsistencies()
    );
    cluster.tick_after(secs(1));
    assert_eq!(cluster.driver(&plain).state, DriverState::Error);
    assert_eq!(cluster.driver(&kept).state, DriverState::Relaunching);
    assert_eq!(cluster.state.executors_of(&a).count(), 0);
    assert_eq!(cluster.state.recovery_state(), RecoveryState::Alive);
    cluster.register("w3", worker(4, 4096));
    assert_eq!(cluster.driver(&kept).worker, Some("w3".into()));
    let fresh = cluster.submit("s9", driver(1, 1));
    assert!(fresh.as_str().ends_with("-0002"), "{fresh}");
}

#[test]
fn an_executor_without_its_application_is_told_to_end_once_a_second() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(4, 4096));
    let a = cluster.register_app("a1", app(1, Some(1), Some(1)));
    cluster.report_executor(&a, 0, ProcessChange::Running);
    let report = cluster.honest_report("w1");
    // What a quarantined record leaves behind.
    cluster.store.apps.clear();
    cluster.fail_over();
    cluster.register_with("w1", worker(4, 4096), report);
    let mut told = 0;
    for _ in 0..30 {
        let transition = cluster.tick_after(Duration::from_millis(100));
        told += orders(&transition).len();
    }
    assert!((1..=5).contains(&told), "{told} orders in 3 s");
    cluster.report_executor(&a, 0, killed());
    assert_eq!(cluster.state.executors_of(&a).count(), 0);
    assert_eq!(cluster.state.usage(&"w1".into()), Default::default());
}

#[test]
fn initialisation_happens_once() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    for id in ["first", "second"] {
        cluster.apply(Command::Initialize {
            cluster_id: id.to_owned(),
        });
        assert_eq!(cluster.state.meta().cluster_id, "first");
    }
    assert!(cluster.last.mutations.is_empty());
}

#[test]
fn a_new_leader_gives_everybody_time() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(4, 4096));
    let a = cluster.register_app("a1", app(1, Some(1), Some(1)));
    cluster.fail_over();
    let config = cluster.state.config().clone();
    let mut liveness = Liveness::renewed(&cluster.state, &config, Timestamp(cluster.now));
    let mut expired = Vec::new();
    for _ in 0..200 {
        cluster.now += 100;
        expired.extend(liveness.expired(Timestamp(cluster.now)));
    }
    let want = [
        Command::ExpireWorker {
            worker: "w1".into(),
        },
        Command::ExpireApplication { app: a },
    ];
    assert_eq!(expired, want);
}

#[test]
fn a_clock_that_steps_back_does_no_harm() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(4, 4096));
    cluster.now = 5;
    cluster.apply(submit("s1", driver(1, 1)));
    let submitted = cluster.state.drivers().next().expect("one").submitted_at;
    assert_eq!(submitted, Timestamp(crate::support::START));
}

#[test]
fn a_new_leader_decides_by_the_configuration_that_it_was_given() {
    let config = ClusterConfig {
        max_drivers: Some(1),
        ..ClusterConfig::default()
    };
    let mut cluster = Cluster::new(config.clone());
    assert_eq!(*cluster.state.config(), config);
    cluster.fail_over();
    cluster.register("w1", worker(4, 4096));
    cluster.submit("s1", driver(1, 1));
    let second = cluster.submit("s2", driver(1, 1));
    assert_eq!(cluster.driver(&second).state, DriverState::Submitted);
}

#[test]
fn a_cluster_remembers_when_it_was_created() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    let created = Timestamp(cluster.now);
    for _ in 0..2 {
        let cluster_id = "first".to_owned();
        cluster.apply(Command::Initialize { cluster_id });
        assert_eq!(cluster.state.meta().created_at, created);
        cluster.now += 1_000;
    }
}
