//! Reports about drivers, and orders that nobody answers.

use interrex_core::{
    command::{Command, ProcessChange},
    config::ClusterConfig,
    ids::{Attempt, DriverId, WorkerId},
    state::{
        cluster::Ignored,
        driver::{DriverState, Exit},
    },
};

use crate::specs::{driver, supervised, worker};
use crate::support::{Cluster, exited, killed, orders, secs};

fn one_worker() -> Cluster {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(4, 4096));
    cluster
}

fn running(spec: interrex_core::spec::DriverSpec) -> (Cluster, DriverId) {
    let mut cluster = one_worker();
    let id = cluster.submit("s1", spec);
    cluster.report_driver("w1", &id, 1, ProcessChange::Running);
    (cluster, id)
}

#[test]
fn an_unanswered_launch_is_repeated_with_the_same_attempt() {
    let mut cluster = one_worker();
    let id = cluster.submit("s1", driver(1, 512));
    let launch = [format!("w1: launch {id}/1")];
    assert_eq!(orders(&cluster.tick_after(secs(1))), launch);
    assert_eq!(orders(&cluster.tick_after(secs(1))), launch);
    assert!(cluster.last.mutations.is_empty());
    cluster.report_driver("w1", &id, 1, ProcessChange::Running);
    assert!(orders(&cluster.tick_after(secs(5))).is_empty());
}

#[test]
fn a_late_report_of_an_old_attempt_is_acknowledged_counted_and_ignored() {
    let mut cluster = one_worker();
    cluster.register("w2", worker(4, 4096));
    let id = cluster.submit("s1", supervised(1, 512));
    cluster.report_driver("w1", &id, 1, ProcessChange::Running);
    cluster.apply(Command::ExpireWorker {
        worker: "w1".into(),
    });
    let before = cluster.driver(&id);
    assert_eq!(
        (before.attempt, before.worker.clone()),
        (Attempt(2), Some(WorkerId::from("w2")))
    );
    let late = cluster.report_driver("w1", &id, 1, killed());
    assert_eq!(orders(&late), ["w1: acknowledge 1"]);
    assert_eq!(cluster.driver(&id), before);
    let stale = Ignored {
        stale: 1,
        ..Ignored::default()
    };
    assert_eq!(cluster.state.ignored(), stale);
    let late = cluster.report_driver("w1", &id, 1, ProcessChange::Running);
    assert_eq!(
        orders(&late),
        [format!("w1: kill {id}/1"), "w1: acknowledge 1".to_owned()]
    );
}

#[test]
fn a_late_report_from_the_worker_that_has_the_new_attempt_is_ignored_too() {
    let (mut cluster, id) = running(supervised(1, 512));
    cluster.report_driver("w1", &id, 1, exited(1));
    cluster.tick_after(secs(1));
    let before = cluster.driver(&id);
    assert_eq!(before.attempt, Attempt(2));
    for change in [exited(0), killed(), ProcessChange::Running] {
        cluster.report_driver("w1", &id, 1, change);
        assert_eq!(cluster.driver(&id), before);
    }
    assert_eq!(cluster.state.ignored().stale, 3);
}

#[test]
fn only_the_worker_that_has_a_driver_can_report_it() {
    let (mut cluster, id) = running(driver(1, 512));
    cluster.register("w2", worker(4, 4096));
    let before = cluster.driver(&id);
    cluster.report_driver("w2", &id, 1, exited(0));
    assert_eq!(cluster.driver(&id), before);
    let claim = cluster.report_driver("w2", &id, 1, ProcessChange::Running);
    assert_eq!(
        orders(&claim),
        [format!("w2: kill {id}/1"), "w2: acknowledge 1".to_owned()]
    );
}

#[test]
fn a_report_about_an_unknown_process_ends_it() {
    let mut cluster = one_worker();
    let unknown = DriverId::from("driver-x");
    let transition = cluster.report_driver("w1", &unknown, 4, ProcessChange::Running);
    assert_eq!(
        orders(&transition),
        ["w1: kill driver-x/4", "w1: acknowledge 1"]
    );
    let transition = cluster.report_driver("w1", &unknown, 4, exited(0));
    assert_eq!(orders(&transition), ["w1: acknowledge 1"]);
    assert_eq!(cluster.state.ignored().unknown, 2);
}

#[test]
fn a_worker_that_ends_a_driver_unasked_loses_it() {
    // Confirmed and not supervised: it may have done half its work.
    let (mut cluster, id) = running(driver(1, 512));
    cluster.report_driver("w1", &id, 1, killed());
    assert_eq!(cluster.driver(&id).state, DriverState::Error);
    // Never started: it waits again, and goes on at once.
    let never = || ProcessChange::Killed(Exit::default());
    let id = cluster.submit("s2", driver(1, 512));
    cluster.report_driver("w1", &id, 1, never());
    let again = cluster.driver(&id);
    assert_eq!(
        (again.state, again.attempt),
        (DriverState::Launching, Attempt(2))
    );
    // Again and again: with a wait.
    cluster.report_driver("w1", &id, 2, never());
    assert!(cluster.driver(&id).not_before.is_some());
    // What ended by a signal has run, though nobody said so.
    let id = cluster.submit("s3", driver(1, 512));
    cluster.report_driver("w1", &id, 1, killed());
    assert_eq!(cluster.driver(&id).state, DriverState::Error);
}

#[test]
fn what_is_said_again_is_counted_and_changes_nothing() {
    let (mut cluster, id) = running(driver(1, 512));
    for _ in 0..2 {
        let again = cluster.report_driver("w1", &id, 1, ProcessChange::Running);
        assert_eq!(orders(&again), ["w1: acknowledge 1"]);
        assert!(again.mutations.is_empty());
    }
    let repeated = Ignored {
        repeated: 2,
        ..Ignored::default()
    };
    assert_eq!(cluster.state.ignored(), repeated);
}
