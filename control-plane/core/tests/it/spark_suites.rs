//! What the tests of Spark's own master pin down, where no other file does. The whole list is in `docs/spark-differences.md`.

use interrex_core::{
    command::{Command, FullReport, ProcessChange},
    config::ClusterConfig,
    ids::AppId,
    resources::Amounts,
    spec::{ApplicationSpec, DriverSpec},
    state::{
        app::ApplicationState, driver::DriverState, executor::ExecutorState, meta::RecoveryState,
        worker::WorkerState,
    },
    transition::Reply,
};

use crate::{
    specs::{app, driver, gpu_worker, supervised, worker},
    support::{Cluster, exited, killed, notices, orders, secs},
};

fn attach(cluster: &mut Cluster, app: &AppId) -> Reply {
    let command = Command::RegisterApplication {
        request: "a1".into(),
        fingerprint: interrex_core::ids::Fingerprint([1; 32]),
        app: Some(app.clone()),
        spec: crate::specs::app(1, None, None).into(),
    };
    cluster.apply(command).reply
}

#[test]
fn a_store_with_nothing_but_drivers_is_recovered_at_once() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    let id = cluster.submit("s1", driver(1, 1));
    cluster.fail_over();
    assert_eq!(cluster.state.recovery_state(), RecoveryState::Alive);
    assert_eq!(cluster.driver(&id).state, DriverState::Submitted);
}

#[test]
fn an_application_is_recovered_with_its_state_and_its_executors() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    let id = cluster.register_app("a1", app(1, Some(1), Some(2)));
    cluster.fail_over();
    assert_eq!(cluster.state.recovery_state(), RecoveryState::Recovering);
    let Reply::AppRegistered { app, executors } = attach(&mut cluster, &id) else {
        panic!("{:?}", cluster.last)
    };
    assert_eq!((app.state, executors.len()), (ApplicationState::Waiting, 0));
    assert_eq!(cluster.state.recovery_state(), RecoveryState::Alive);
    cluster.register("w1", worker(4, 4096));
    assert_eq!(cluster.app(&id).state, ApplicationState::Running);
    cluster.fail_over();
    assert_eq!(cluster.app(&id).state, ApplicationState::Running);
    let report = cluster.honest_report("w1");
    cluster.register_with("w1", worker(4, 4096), report);
    attach(&mut cluster, &id);
    assert_eq!(cluster.placement(&id), ["0@w1:1", "1@w1:1"]);
}

#[test]
fn executors_that_cannot_be_started_end_their_application_at_the_limit() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(4, 4096));
    let id = cluster.register_app("a1", app(1, Some(1), Some(1)));
    for executor in 0..10 {
        assert_eq!(cluster.app(&id).state, ApplicationState::Running);
        let failed = ProcessChange::Failed("no such file".to_owned());
        cluster.report_executor(&id, executor, failed);
        cluster.tick_after(secs(30));
    }
    assert_eq!(cluster.app(&id).state, ApplicationState::Failed);
    assert!(cluster.placement(&id).is_empty());
    assert_eq!(cluster.state.usage(&"w1".into()).cores.0, 0);
}

#[test]
fn after_a_relaunch_and_the_old_workers_return_one_driver_runs() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(4, 4096));
    let id = cluster.submit("s1", supervised(1, 1));
    let a = cluster.register_app("a1", app(1, Some(1), Some(1)));
    cluster.report_driver("w1", &id, 1, ProcessChange::Running);
    cluster.report_executor(&a, 0, ProcessChange::Running);
    let old = cluster.honest_report("w1");
    cluster.apply(Command::ExpireWorker {
        worker: "w1".into(),
    });
    cluster.register("w2", worker(4, 4096));
    cluster.report_driver("w2", &id, 2, ProcessChange::Running);
    let back = cluster.register_with("w1", worker(4, 4096), old);
    let ended = [format!("w1: kill {id}/1"), "w1: kill executor 0".to_owned()];
    assert_eq!(orders(&back), ended);
    assert_eq!(cluster.state.drivers().count(), 1);
    assert_eq!(cluster.driver(&id).worker, Some("w2".into()));
    assert_eq!(cluster.state.apps().count(), 1);
    assert_eq!(cluster.placement(&a), ["1@w2:1"]);
}

#[test]
fn custom_resources_come_back_when_what_held_them_is_gone() {
    let gpu = || Amounts::from([("gpu".to_owned(), 1)]);
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", gpu_worker(8, 4096, &["0", "1"]));
    let spec = || DriverSpec {
        resources: gpu(),
        ..driver(1, 1)
    };
    let d = cluster.submit("s1", spec());
    let a = cluster.register_app(
        "a1",
        ApplicationSpec {
            resources_per_executor: gpu(),
            ..app(1, Some(1), Some(1))
        },
    );
    assert_eq!(cluster.driver(&d).resources["gpu"], ["0"]);
    assert_eq!(cluster.placement(&a), ["0@w1:1 gpu1"]);
    let waiting = cluster.submit("s2", spec());
    // They stay with what holds them, also for the next leader.
    cluster.fail_over();
    let report = cluster.honest_report("w1");
    cluster.register_with("w1", gpu_worker(8, 4096, &["0", "1"]), report);
    assert_eq!(cluster.driver(&waiting).state, DriverState::Submitted);
    cluster.apply(Command::Kill {
        request: None,
        id: a.to_string(),
    });
    // Told to end is not gone.
    assert_eq!(cluster.driver(&waiting).state, DriverState::Submitted);
    cluster.report_executor(&a, 0, killed());
    assert_eq!(cluster.driver(&waiting).resources["gpu"], ["1"]);
    let last = cluster.submit("s3", spec());
    cluster.report_driver("w1", &d, 1, exited(0));
    assert_eq!(cluster.driver(&last).resources["gpu"], ["0"]);
}

#[test]
fn a_worker_may_register_in_whatever_state_it_is() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    let changes: [fn(&mut Cluster); 5] = [
        |_| (),
        |cluster| cluster.fail_over(),
        |cluster| {
            drop(cluster.apply(Command::WorkerDisconnected {
                worker: "w1".into(),
            }));
        },
        |cluster| {
            drop(cluster.apply(Command::ExpireWorker {
                worker: "w1".into(),
            }));
        },
        |cluster| drop(cluster.drain("w1", None)),
    ];
    for change in changes {
        change(&mut cluster);
        let report = FullReport::default();
        let back = cluster.register_with("w1", worker(4, 4096), report);
        assert_eq!(back.reply, Reply::WorkerRegistered);
        let w1 = cluster.state.worker(&"w1".into()).expect("known");
        assert_eq!(w1.state, WorkerState::Alive);
    }
    assert_eq!(cluster.store.workers.len(), 1);
}

#[test]
fn ids_say_when_and_count_on_beyond_four_digits() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(4, 4096));
    cluster.store.meta.next_app = 9_999;
    cluster.store.meta.next_driver = 9_999;
    cluster.fail_over();
    for number in ["9999", "10000", "10001"] {
        let a = cluster.register_app(&format!("a{number}"), app(1, None, None));
        let d = cluster.submit(&format!("d{number}"), driver(1, 1));
        assert_eq!(a.as_str(), format!("app-20261129143200-{number}"));
        assert_eq!(d.as_str(), format!("driver-20261129143200-{number}"));
    }
}

#[test]
fn a_decommissioned_executor_that_ends_is_told_and_counts_as_no_failure() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(1, 4096));
    let a = cluster.register_app("a1", app(1, Some(1), Some(1)));
    cluster.report_executor(&a, 0, ProcessChange::Running);
    let drained = cluster.drain("w1", None);
    assert_eq!(notices(&drained), ["0 DECOMMISSIONED"]);
    let gone = cluster.report_executor(&a, 0, exited(1));
    assert_eq!(notices(&gone), ["0 EXITED"]);
    assert_eq!(cluster.executor(&a, 0).state, ExecutorState::Exited);
    assert_eq!(cluster.app(&a).executor_failures, 0);
}
