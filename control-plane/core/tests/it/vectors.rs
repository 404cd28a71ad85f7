//! Spark's placements, vector by vector (observed by running Spark 4.3.0).

use interrex_core::{
    command::{Command, ExecutorTarget},
    config::{ClusterConfig, WorkerSelection},
    ids::{AppId, DriverId},
    resources::{Amounts, Cores, MemoryMib},
    spec::ApplicationSpec,
    state::driver::DriverState,
};

use crate::{
    specs::{app, driver, gpu_worker, request, target, worker},
    support::{Cluster, exited},
};

fn packed() -> ClusterConfig {
    ClusterConfig {
        spread_out_apps: false,
        ..ClusterConfig::default()
    }
}

fn three(config: ClusterConfig, cores: u32, memory: u64) -> Cluster {
    let mut cluster = Cluster::new(config);
    for id in ["w1", "w2", "w3"] {
        cluster.register(id, worker(cores, memory));
    }
    cluster
}

fn placed(mut cluster: Cluster, spec: ApplicationSpec) -> Vec<String> {
    let app = cluster.register_app("a", spec);
    cluster.placement(&app)
}

fn place(config: ClusterConfig, spec: ApplicationSpec) -> Vec<String> {
    placed(three(config, 10, 4096), spec)
}

fn where_is(cluster: &Cluster, id: &DriverId) -> Option<String> {
    let driver = cluster.driver(id);
    assert!(matches!(
        driver.state,
        DriverState::Submitted | DriverState::Launching
    ));
    driver.worker.as_ref().map(ToString::to_string)
}

#[test]
fn v1_spreads_eight_cores_three_three_two() {
    let placed = place(ClusterConfig::default(), app(1024, None, Some(8)));
    assert_eq!(placed, ["0@w3:3", "1@w2:3", "2@w1:2"]);
}

#[test]
fn v2_consolidates_eight_cores_on_one_worker() {
    assert_eq!(place(packed(), app(1024, None, Some(8))), ["0@w3:8"]);
}

#[test]
fn v3_consolidates_sixteen_cores_on_two_workers() {
    assert_eq!(
        place(packed(), app(1024, None, Some(16))),
        ["0@w3:10", "1@w2:6"]
    );
}

#[test]
fn v4_leaves_cores_that_do_not_fill_an_executor() {
    let placed = place(ClusterConfig::default(), app(256, Some(4), Some(18)));
    assert_eq!(placed, ["0@w3:4", "1@w3:4", "2@w2:4", "3@w1:4"]);
}

#[test]
fn v5_groups_launches_by_worker_and_stops_at_memory() {
    let cluster = three(ClusterConfig::default(), 10, 512);
    let want: Vec<_> = (0..12).map(|n| format!("{n}@w{}:2", 3 - n / 4)).collect();
    assert_eq!(placed(cluster, app(128, Some(2), None)), want);
}

#[test]
fn v6_gives_remaining_cores_to_the_executors_that_the_limit_allows() {
    let spec = ApplicationSpec {
        executor_limit: Some(2),
        ..app(32, None, Some(16))
    };
    assert_eq!(place(ClusterConfig::default(), spec), ["0@w3:8", "1@w2:8"]);
}

#[test]
fn v7_hands_out_custom_resources_lowest_first() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", gpu_worker(8, 16_384, &["0", "1", "2", "3"]));
    cluster.register("w2", gpu_worker(8, 16_384, &["0", "1"]));
    cluster.register("w3", worker(8, 16_384));
    let spec = ApplicationSpec {
        resources_per_executor: Amounts::from([("gpu".to_owned(), 1)]),
        ..app(2048, Some(2), None)
    };
    assert_eq!(
        placed(cluster, spec),
        [
            "0@w2:2 gpu0",
            "1@w2:2 gpu1",
            "2@w1:2 gpu0",
            "3@w1:2 gpu1",
            "4@w1:2 gpu2",
            "5@w1:2 gpu3"
        ]
    );
}

#[test]
fn v8_the_first_unlimited_application_starves_the_second() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(8, 8192));
    let a = cluster.register_app("a", app(1024, None, None));
    let b = cluster.register_app("b", app(1024, None, Some(2)));
    assert_eq!(cluster.placement(&a), ["0@w1:8"]);
    cluster.register("w2", worker(4, 8192));
    assert_eq!(cluster.placement(&a), ["0@w1:8", "1@w2:4"]);
    assert!(cluster.placement(&b).is_empty());
}

#[test]
fn v9_default_cores_cap_each_application() {
    let mut cluster = Cluster::new(ClusterConfig {
        default_cores: Some(Cores(3)),
        ..ClusterConfig::default()
    });
    cluster.register("w1", worker(8, 8192));
    let a = cluster.register_app("a", app(1024, None, None));
    let b = cluster.register_app("b", app(1024, None, None));
    assert_eq!(cluster.placement(&a), ["0@w1:3"]);
    assert_eq!(cluster.placement(&b), ["0@w1:3"]);
}

#[test]
fn v10_consolidated_drivers_take_the_first_fit_and_do_not_block() {
    let mut cluster = Cluster::new(ClusterConfig {
        spread_out_drivers: false,
        ..ClusterConfig::default()
    });
    cluster.register("w1", worker(2, 1024));
    cluster.register("w2", worker(4, 4096));
    let ids: Vec<_> = [(2, 512), (1, 512), (4, 1024), (1, 512)]
        .iter()
        .enumerate()
        .map(|(n, (cores, memory))| cluster.submit(&format!("s{n}"), driver(*cores, *memory)))
        .collect();
    let places: Vec<_> = ids.iter().map(|id| where_is(&cluster, id)).collect();
    let at = |worker: &str| Some(worker.to_owned());
    assert_eq!(places, [at("w1"), at("w2"), None, at("w2")]);
}

#[test]
fn v11_max_drivers_keeps_the_rest_waiting() {
    let mut cluster = Cluster::new(ClusterConfig {
        max_drivers: Some(2),
        ..ClusterConfig::default()
    });
    cluster.register("w1", worker(8, 4096));
    let ids: Vec<_> = (0..4)
        .map(|n| cluster.submit(&format!("s{n}"), driver(1, 128)))
        .collect();
    let places: Vec<_> = ids.iter().map(|id| where_is(&cluster, id)).collect();
    assert_eq!(
        places,
        [Some("w1".to_owned()), Some("w1".to_owned()), None, None]
    );
    cluster.report_driver("w1", &ids[0], 1, exited(0));
    assert_eq!(where_is(&cluster, &ids[2]), Some("w1".to_owned()));
    assert_eq!(where_is(&cluster, &ids[3]), None);
}

#[test]
fn v12_drivers_come_before_executors() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    let d = cluster.submit("d", driver(1, 1024));
    let a = cluster.register_app("a", app(1024, Some(2), None));
    cluster.register("w1", worker(4, 4096));
    assert_eq!(where_is(&cluster, &d), Some("w1".to_owned()));
    assert_eq!(cluster.placement(&a), ["0@w1:2"]);
    let usage = cluster.state.usage(&"w1".into());
    assert_eq!((usage.cores, usage.memory), (Cores(3), MemoryMib(2048)));
}

#[test]
fn v13_a_worker_without_memory_is_passed_over() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(4, 1024));
    cluster.register("w2", worker(4, 8192));
    assert_eq!(
        placed(cluster, app(2048, Some(2), None)),
        ["0@w2:2", "1@w2:2"]
    );
}

fn unequal(cores: [u32; 3]) -> Cluster {
    let mut cluster = Cluster::new(ClusterConfig::default());
    for (id, cores) in ["w1", "w2", "w3"].into_iter().zip(cores) {
        cluster.register(id, worker(cores, 4096));
    }
    cluster
}

#[test]
fn v14_rounds_go_on_where_there_is_room() {
    let placed = placed(unequal([2, 4, 16]), app(512, None, Some(10)));
    assert_eq!(placed, ["0@w3:4", "1@w2:4", "2@w1:2"]);
}

#[test]
fn v15_rests_of_workers_stay_unused() {
    let placed = placed(unequal([7, 5, 2]), app(512, Some(3), None));
    assert_eq!(placed, ["0@w1:3", "1@w1:3", "2@w2:3"]);
}

fn finish(cluster: &mut Cluster, app: &AppId) {
    let active: Vec<_> = cluster
        .state
        .executors_of(app)
        .filter(|executor| !executor.state.is_final())
        .map(|executor| executor.id.0)
        .collect();
    cluster.apply(Command::UnregisterApplication {
        app: app.clone(),
        failed: false,
        message: String::new(),
    });
    for executor in active {
        cluster.report_executor(app, executor, crate::support::killed());
    }
}

#[test]
fn v16_a_second_executor_joins_on_the_same_worker() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(8, 4096));
    let b = cluster.register_app("b", app(512, None, Some(5)));
    let a = cluster.register_app("a", app(512, None, None));
    assert_eq!(cluster.placement(&b), ["0@w1:5"]);
    assert_eq!(cluster.placement(&a), ["0@w1:3"]);
    finish(&mut cluster, &b);
    assert_eq!(cluster.placement(&a), ["0@w1:3", "1@w1:5"]);
}

#[test]
fn v17_a_maximum_below_one_executor_gets_nothing() {
    let placed = place(ClusterConfig::default(), app(512, Some(4), Some(3)));
    assert!(placed.is_empty());
}

#[test]
fn v18_profiles_are_served_in_their_order_from_one_share_of_cores() {
    let mut cluster = three(ClusterConfig::default(), 2, 512);
    let spec = ApplicationSpec {
        executor_limit: Some(0),
        ..app(128, None, Some(4))
    };
    let a = cluster.register_app("a", spec);
    assert!(cluster.placement(&a).is_empty());
    let targets = [
        target(0, None, 1),
        target(1, Some((3, 256)), 1),
        target(2, Some((1, 1024)), 1),
        target(3, Some((1, 256)), 1),
        target(4, Some((1, 256)), 2),
    ];
    cluster.apply(request(&a, &targets));
    assert_eq!(cluster.placement(&a), ["0@w3:2", "1@w2:1", "2@w1:1"]);
    let profiles: Vec<_> = cluster
        .state
        .executors_of(&a)
        .map(|executor| executor.profile.0)
        .collect();
    assert_eq!(profiles, [0, 3, 4]);
}

fn v19(selection: WorkerSelection, spread: bool) -> Vec<String> {
    let mut cluster = Cluster::new(ClusterConfig {
        worker_selection: selection,
        spread_out_apps: spread,
        ..ClusterConfig::default()
    });
    cluster.register("10001", worker(5, 1280));
    cluster.register("10002", worker(6, 5120));
    cluster.register("10003", worker(7, 3840));
    placed(cluster, app(128, Some(2), Some(4)))
}

#[test]
fn v19_each_policy_picks_its_workers() {
    for (selection, spread, packed) in [
        (WorkerSelection::CoresFreeAsc, ["10001", "10002"], "10001"),
        (WorkerSelection::CoresFreeDesc, ["10003", "10002"], "10003"),
        (WorkerSelection::MemoryFreeAsc, ["10001", "10003"], "10001"),
        (WorkerSelection::MemoryFreeDesc, ["10002", "10003"], "10002"),
        (WorkerSelection::WorkerId, ["10001", "10002"], "10001"),
    ] {
        let want = [format!("0@{}:2", spread[0]), format!("1@{}:2", spread[1])];
        assert_eq!(v19(selection, true), want, "{selection:?} spread");
        let want = [format!("0@{packed}:2"), format!("1@{packed}:2")];
        assert_eq!(v19(selection, false), want, "{selection:?} packed");
    }
}

#[test]
fn v20_lowering_the_total_never_kills() {
    let mut cluster = three(ClusterConfig::default(), 4, 4096);
    let a = cluster.register_app("a", app(512, Some(2), None));
    assert_eq!(cluster.placement(&a).len(), 6);
    cluster.apply(Command::RequestExecutors {
        app: a.clone(),
        targets: vec![ExecutorTarget::of_default(2)],
    });
    assert_eq!(cluster.placement(&a).len(), 6);
    assert!(cluster.last.effects.is_empty());
}

/// Cores by worker in planning order, spread and packed, on three workers of 10 cores and 512 MiB.
fn totals(per_executor: Option<u32>, max: Option<u32>, limit: Option<u32>) -> [[u32; 3]; 2] {
    [ClusterConfig::default(), packed()].map(|config| {
        let mut cluster = three(config, 10, 512);
        let spec = ApplicationSpec {
            executor_limit: limit,
            ..app(32, per_executor, max)
        };
        cluster.register_app("a", spec);
        ["w3", "w2", "w1"].map(|id| cluster.state.usage(&id.into()).cores.0)
    })
}

#[test]
fn unit_vectors_with_a_maximum() {
    assert_eq!(totals(None, None, None), [[10, 10, 10], [10, 10, 10]]);
    assert_eq!(totals(None, Some(8), None), [[3, 3, 2], [8, 0, 0]]);
    assert_eq!(totals(None, Some(16), None), [[6, 5, 5], [10, 6, 0]]);
}

#[test]
fn unit_vectors_with_cores_per_executor() {
    assert_eq!(totals(Some(2), Some(4), None), [[2, 2, 0], [4, 0, 0]]);
    assert_eq!(totals(Some(2), Some(20), None), [[8, 6, 6], [10, 10, 0]]);
    assert_eq!(totals(Some(3), Some(20), None), [[6, 6, 6], [9, 9, 0]]);
}

#[test]
fn unit_vectors_with_a_limit_of_executors() {
    assert_eq!(totals(None, None, Some(0)), [[0, 0, 0], [0, 0, 0]]);
    assert_eq!(totals(None, None, Some(2)), [[10, 10, 0], [10, 10, 0]]);
    assert_eq!(totals(None, Some(16), Some(2)), [[8, 8, 0], [10, 6, 0]]);
}

#[test]
fn unit_vectors_with_cores_per_executor_and_a_limit() {
    assert_eq!(totals(Some(4), None, Some(0)), [[0, 0, 0], [0, 0, 0]]);
    assert_eq!(totals(Some(4), None, Some(2)), [[4, 4, 0], [8, 0, 0]]);
    assert_eq!(totals(Some(4), None, Some(5)), [[8, 8, 4], [8, 8, 4]]);
    assert_eq!(totals(Some(4), Some(18), Some(5)), [[8, 4, 4], [8, 8, 0]]);
}

#[test]
fn drivers_spread_one_each_or_fill_the_first_worker() {
    for (spread, want) in [(true, [1, 1, 1]), (false, [3, 0, 0])] {
        let mut cluster = three(
            ClusterConfig {
                spread_out_drivers: spread,
                ..ClusterConfig::default()
            },
            10,
            512,
        );
        for n in 0..3 {
            cluster.submit(&format!("s{n}"), driver(1, 1));
        }
        let drivers = ["w1", "w2", "w3"].map(|id| cluster.state.usage(&id.into()).drivers);
        assert_eq!(drivers, want);
    }
}
