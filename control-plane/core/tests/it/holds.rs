//! Caps: what they hold, what they let go and when, and what that costs.

use interrex_core::{
    command::{Command, ProcessChange},
    config::ClusterConfig,
    ids::{AppId, DriverId},
    resources::Cores,
    spec::{ApplicationSpec, DriverSpec},
    state::driver::DriverState,
};

use crate::{
    specs::{app, driver, needy, worker},
    support::{Cluster, exited, killed},
};

/// One worker of `cores` cores.
fn cluster(config: ClusterConfig, cores: u32) -> Cluster {
    let mut cluster = Cluster::new(config);
    cluster.register("w1", worker(cores, 1 << 20));
    cluster
}

fn placed(cluster: &Cluster, ids: &[DriverId]) -> Vec<usize> {
    let is_placed = |id: &DriverId| cluster.driver(id).state.is_placed();
    (0..ids.len()).filter(|n| is_placed(&ids[*n])).collect()
}

fn submit(cluster: &mut Cluster, count: usize, spec: &DriverSpec) -> Vec<DriverId> {
    let first = cluster.state.drivers().count();
    (first..first + count)
        .map(|n| cluster.submit(&format!("s{n}"), spec.clone()))
        .collect()
}

fn finish(cluster: &mut Cluster, worker: &str, driver: &DriverId) {
    cluster.report_driver(worker, driver, 1, ProcessChange::Running);
    cluster.report_driver(worker, driver, 1, exited(0));
}

#[test]
fn drivers_that_need_executors_leave_cores_to_these_and_all_finish_in_turn() {
    let mut cluster = cluster(ClusterConfig::default(), 4);
    let drivers = submit(&mut cluster, 6, &needy(1, 256));
    assert_eq!(placed(&cluster, &drivers), [0, 1]);
    // Each registers an application that wants one executor of one core, and ends when that has ended.
    let mut order = Vec::new();
    let mut apps: Vec<(usize, AppId)> = Vec::new();
    while order.len() < drivers.len() {
        for n in placed(&cluster, &drivers) {
            if !apps.iter().any(|(of, _)| *of == n) {
                let id = cluster.register_app(&format!("a{n}"), app(256, Some(1), Some(1)));
                apps.push((n, id));
            }
        }
        let (n, id) = apps.remove(0);
        cluster.report_executor(&id, 0, ProcessChange::Running);
        cluster.apply(Command::UnregisterApplication {
            app: id.clone(),
            failed: false,
            message: String::new(),
        });
        cluster.report_executor(&id, 0, killed());
        finish(&mut cluster, "w1", &drivers[n]);
        order.push(n);
    }
    assert_eq!(order, [0, 1, 2, 3, 4, 5]);
    let finished = |id: &DriverId| cluster.driver(id).state == DriverState::Finished;
    assert!(drivers.iter().all(finished));
}

#[test]
fn plain_drivers_are_not_capped_and_a_cap_that_is_off_caps_nobody() {
    let mut capped = cluster(ClusterConfig::default(), 4);
    let drivers = submit(&mut capped, 4, &driver(1, 1));
    assert_eq!(placed(&capped, &drivers).len(), 4);
    let off = ClusterConfig {
        driver_share_max: None,
        ..ClusterConfig::default()
    };
    let mut open = cluster(off, 4);
    let drivers = submit(&mut open, 4, &needy(1, 1));
    assert_eq!(placed(&open, &drivers).len(), 4);
}

#[test]
fn one_driver_that_needs_executors_may_always_run() {
    let mut cluster = cluster(ClusterConfig::default(), 3);
    let drivers = submit(&mut cluster, 2, &needy(3, 1));
    assert_eq!(placed(&cluster, &drivers), [0]);
    finish(&mut cluster, "w1", &drivers[0]);
    assert_eq!(placed(&cluster, &drivers), [1]);
}

#[test]
fn a_held_driver_does_not_block_a_smaller_or_a_plain_one_and_keeps_its_place() {
    let mut cluster = cluster(ClusterConfig::default(), 8);
    let first = submit(&mut cluster, 1, &needy(2, 1));
    let big = submit(&mut cluster, 1, &needy(3, 1));
    let small = submit(&mut cluster, 3, &needy(1, 1));
    let plain = submit(&mut cluster, 1, &driver(1, 1));
    assert_eq!(placed(&cluster, &big), []);
    assert_eq!(placed(&cluster, &small), [0, 1]);
    assert_eq!(placed(&cluster, &plain), [0]);
    // 4 of 4: when 1 goes, 1 comes; when 2 more go, the big one is before its turn's successors.
    finish(&mut cluster, "w1", &small[0]);
    assert_eq!(placed(&cluster, &small), [1, 2]);
    finish(&mut cluster, "w1", &first[0]);
    assert_eq!(placed(&cluster, &big), []);
    finish(&mut cluster, "w1", &small[1]);
    assert_eq!(placed(&cluster, &big), [0]);
}

#[test]
fn workers_that_come_raise_the_share_and_workers_that_go_only_hold() {
    let mut cluster = cluster(ClusterConfig::default(), 4);
    let drivers = submit(&mut cluster, 6, &needy(1, 1));
    cluster.register("w2", worker(4, 1 << 20));
    assert_eq!(placed(&cluster, &drivers), [0, 1, 2, 3]);
    cluster.apply(Command::WorkerDisconnected {
        worker: "w2".into(),
    });
    assert_eq!(placed(&cluster, &drivers), [0, 1, 2, 3]);
    let on_w1: Vec<_> = drivers
        .iter()
        .filter(|id| cluster.driver(id).worker == Some("w1".into()))
        .cloned()
        .collect();
    finish(&mut cluster, "w1", &on_w1[0]);
    assert_eq!(placed(&cluster, &drivers).len(), 3);
    let report = cluster.honest_report("w2");
    cluster.register_with("w2", worker(4, 1 << 20), report);
    assert_eq!(placed(&cluster, &drivers).len(), 4);
}

#[test]
fn the_share_holds_after_a_failover_too() {
    let mut cluster = cluster(ClusterConfig::default(), 4);
    let drivers = submit(&mut cluster, 4, &needy(1, 1));
    let report = cluster.honest_report("w1");
    cluster.fail_over();
    cluster.register_with("w1", worker(4, 1 << 20), report);
    assert_eq!(placed(&cluster, &drivers), [0, 1]);
    finish(&mut cluster, "w1", &drivers[1]);
    assert_eq!(placed(&cluster, &drivers), [0, 2]);
}

fn of_user(user: &str, spec: DriverSpec) -> DriverSpec {
    DriverSpec {
        user: user.to_owned(),
        ..spec
    }
}

fn users_of_4() -> ClusterConfig {
    ClusterConfig {
        user_cores_max: Some(Cores(4)),
        ..ClusterConfig::default()
    }
}

#[test]
fn one_user_holds_no_more_than_its_cores_and_others_are_not_touched() {
    let mut cluster = cluster(users_of_4(), 16);
    let ann = submit(&mut cluster, 6, &of_user("ann", driver(1, 1)));
    let bob = submit(&mut cluster, 6, &of_user("bob", driver(1, 1)));
    let nobody = submit(&mut cluster, 6, &of_user("", driver(1, 1)));
    assert_eq!(placed(&cluster, &ann), [0, 1, 2, 3]);
    assert_eq!(placed(&cluster, &bob), [0, 1, 2, 3]);
    assert_eq!(placed(&cluster, &nobody), [0, 1, 2, 3]);
    finish(&mut cluster, "w1", &bob[2]);
    assert_eq!(placed(&cluster, &bob), [0, 1, 3, 4]);
    assert_eq!(placed(&cluster, &ann), [0, 1, 2, 3]);
}

#[test]
fn an_application_gets_the_cores_that_its_user_has_left() {
    let mut cluster = cluster(users_of_4(), 16);
    let driver = submit(&mut cluster, 1, &driver(1, 1)).remove(0);
    let a = cluster.register_app("a", app(1, None, None));
    assert_eq!(cluster.placement(&a), ["0@w1:3"]);
    let b = cluster.register_app("b", app(1, Some(2), None));
    assert!(cluster.placement(&b).is_empty());
    let other = ApplicationSpec {
        user: "v".to_owned(),
        ..app(1, Some(2), None)
    };
    let c = cluster.register_app("c", other);
    assert_eq!(cluster.placement(&c).len(), 2);
    // First come, first served: what the driver leaves goes to the older application.
    finish(&mut cluster, "w1", &driver);
    assert_eq!(cluster.placement(&a), ["0@w1:3", "1@w1:1"]);
    cluster.apply(Command::UnregisterApplication {
        app: a.clone(),
        failed: false,
        message: String::new(),
    });
    cluster.report_executor(&a, 0, killed());
    assert_eq!(cluster.placement(&b), ["0@w1:2"]);
    cluster.report_executor(&a, 1, killed());
    assert_eq!(cluster.placement(&b).len(), 2);
}

#[test]
fn the_share_and_a_users_cores_hold_together() {
    let config = ClusterConfig {
        user_cores_max: Some(Cores(2)),
        ..ClusterConfig::default()
    };
    let mut cluster = cluster(config, 8);
    let ann = submit(&mut cluster, 4, &of_user("ann", needy(1, 1)));
    let bob = submit(&mut cluster, 4, &of_user("bob", needy(1, 1)));
    let eve = submit(&mut cluster, 4, &of_user("eve", needy(1, 1)));
    assert_eq!(placed(&cluster, &ann), [0, 1]);
    assert_eq!(placed(&cluster, &bob), [0, 1]);
    assert_eq!(placed(&cluster, &eve), []);
    // Both caps get room: ann is first in the queue.
    finish(&mut cluster, "w1", &ann[0]);
    assert_eq!(placed(&cluster, &ann), [1, 2]);
    // Ann has no more work: her part of the share goes to eve, since bob has what he may have.
    for driver in &ann[1..] {
        finish(&mut cluster, "w1", driver);
    }
    assert_eq!(placed(&cluster, &eve), [0, 1]);
}

#[test]
fn what_is_held_can_be_killed_and_is_forgotten() {
    let mut cluster = cluster(ClusterConfig::default(), 2);
    let drivers = submit(&mut cluster, 3, &needy(1, 1));
    cluster.apply(Command::Kill {
        request: None,
        id: drivers[1].to_string(),
    });
    finish(&mut cluster, "w1", &drivers[0]);
    assert_eq!(placed(&cluster, &drivers), [2]);
    submit(&mut cluster, 2, &driver(4, 1));
    assert_eq!(cluster.state.waiting_drivers(), 2);
    cluster.apply(Command::KillAllDrivers { request: None });
    assert_eq!(cluster.state.waiting_drivers(), 0);
}
