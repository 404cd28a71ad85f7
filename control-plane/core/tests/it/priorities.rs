//! Priorities: larger first, first come, first served among equals, the same after a failover.

use interrex_core::{
    config::ClusterConfig,
    ids::{AppId, DriverId},
    resources::Cores,
    spec::{ApplicationSpec, DriverSpec},
    transition::Reply,
};

use crate::{
    specs::{app, driver, register_app, request, target, worker},
    support::{Cluster, exited},
};

fn ranked(priority: i32) -> DriverSpec {
    DriverSpec {
        priority,
        ..driver(1, 128)
    }
}

fn ranked_app(priority: i32, memory: u64) -> ApplicationSpec {
    ApplicationSpec {
        priority,
        ..app(memory, Some(1), Some(1))
    }
}

/// Lets one driver after the other run on a worker with one core; returns the order in which they ran.
fn run_one_by_one(cluster: &mut Cluster, ids: &[DriverId]) -> Vec<usize> {
    let mut order = Vec::new();
    cluster.register("w1", worker(1, 1024));
    for _ in ids {
        let placed = |id: &&DriverId| cluster.driver(id).state.is_placed();
        let id = ids.iter().find(placed).expect("one is placed").clone();
        order.extend(ids.iter().position(|x| *x == id));
        cluster.report_driver("w1", &id, 1, exited(0));
    }
    order
}

#[test]
fn drivers_of_larger_priority_run_first_and_equal_ones_in_their_order() {
    for fail_over in [false, true] {
        let mut cluster = Cluster::new(ClusterConfig::default());
        let ids: Vec<_> = [0, -5, 7, 0, i32::MAX, 7, i32::MIN]
            .iter()
            .enumerate()
            .map(|(n, priority)| cluster.submit(&format!("s{n}"), ranked(*priority)))
            .collect();
        if fail_over {
            cluster.fail_over();
        }
        assert_eq!(run_one_by_one(&mut cluster, &ids), [4, 2, 5, 0, 3, 1, 6]);
    }
}

#[test]
fn priorities_hold_among_drivers_that_ask_for_different_things() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    let small = cluster.submit("s1", ranked(0));
    let other = DriverSpec {
        priority: 1,
        ..driver(1, 256)
    };
    let other = cluster.submit("s2", other);
    assert_eq!(run_one_by_one(&mut cluster, &[small, other]), [1, 0]);
}

#[test]
fn a_driver_that_does_not_fit_blocks_nobody_of_smaller_priority() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(1, 1024));
    let large = DriverSpec {
        priority: 9,
        ..driver(2, 1)
    };
    let large = cluster.submit("s1", large);
    let small = cluster.submit("s2", ranked(0));
    assert!(!cluster.driver(&large).state.is_placed());
    assert!(cluster.driver(&small).state.is_placed());
}

/// Which of these have an executor.
fn served(cluster: &Cluster, apps: &[AppId]) -> Vec<usize> {
    let has = |app: &AppId| !cluster.placement(app).is_empty();
    (0..apps.len()).filter(|n| has(&apps[*n])).collect()
}

#[test]
fn applications_of_larger_priority_are_served_first() {
    for (memory, fail_over) in [(128, false), (128, true), (0, false), (0, true)] {
        let mut cluster = Cluster::new(ClusterConfig::default());
        // Equal demands or different ones: the order is the same.
        let apps: Vec<_> = [0, 3, -1, 3]
            .iter()
            .enumerate()
            .map(|(n, priority)| {
                let memory = if memory > 0 { memory } else { 100 + n as u64 };
                cluster.register_app(&format!("a{n}"), ranked_app(*priority, memory))
            })
            .collect();
        if fail_over {
            cluster.fail_over();
        }
        let mut order = Vec::new();
        for core in 1..=4 {
            cluster.register("w1", worker(core, 65_536));
            let now = served(&cluster, &apps);
            order.extend(
                now.into_iter()
                    .filter(|n| !order.contains(n))
                    .collect::<Vec<_>>(),
            );
        }
        assert_eq!(
            order,
            [1, 3, 0, 2],
            "memory {memory}, fail-over {fail_over}"
        );
    }
}

#[test]
fn room_goes_to_the_larger_priority_whoever_waited_longer() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(1, 1024));
    let first = cluster.submit("s0", ranked(0));
    let early = cluster.register_app("a", ranked_app(0, 64));
    let late = cluster.register_app("b", ranked_app(1, 64));
    cluster.report_driver("w1", &first, 1, exited(0));
    assert_eq!(served(&cluster, &[early, late]), [1]);
}

#[test]
fn all_profiles_of_an_application_have_its_priority() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    let quiet = |priority| ApplicationSpec {
        priority,
        executor_limit: Some(0),
        ..app(64, Some(1), None)
    };
    let low = cluster.register_app("a", quiet(0));
    let high = cluster.register_app("b", quiet(1));
    for app in [&low, &high] {
        let targets = [target(0, None, 1), target(1, Some((1, 32)), 1)];
        assert_eq!(cluster.apply(request(app, &targets)).reply, Reply::Done);
    }
    cluster.register("w1", worker(3, 1024));
    assert_eq!(cluster.placement(&high), ["0@w1:1", "1@w1:1"]);
    assert_eq!(cluster.placement(&low), ["0@w1:1"]);
}

#[test]
fn no_application_holds_more_cores_than_the_cluster_allows() {
    let mut cluster = Cluster::new(ClusterConfig {
        app_cores_max: Some(Cores(3)),
        default_cores: Some(Cores(5)),
        ..ClusterConfig::default()
    });
    cluster.register("w1", worker(16, 65_536));
    for (n, (max, want)) in [(None, 3), (Some(16), 3), (Some(2), 2)]
        .into_iter()
        .enumerate()
    {
        let id = cluster.register_app(&format!("a{n}"), app(64, Some(1), max));
        assert_eq!(cluster.placement(&id).len(), want, "{max:?}");
    }
    // Over all its profiles.
    let spec = ApplicationSpec {
        executor_limit: Some(2),
        ..app(64, Some(1), None)
    };
    let id = cluster.register_app("b", spec);
    cluster.apply(request(&id, &[target(1, Some((1, 1)), 2)]));
    assert_eq!(cluster.placement(&id).len(), 3);
    assert_eq!(
        cluster
            .apply(register_app("b", app(64, Some(1), None)))
            .effects,
        []
    );
}
