//! `min_executors`: nothing is started before so many executors fit at once.

use interrex_core::{
    command::Command,
    config::ClusterConfig,
    ids::AppId,
    resources::Amounts,
    spec::ApplicationSpec,
    transition::{Rejection, Reply},
};

use crate::{
    specs::{app, driver, gpu_worker, register_app, request, target, worker},
    support::{Cluster, exited, killed},
};

fn gated(min: u32, spec: ApplicationSpec) -> ApplicationSpec {
    ApplicationSpec {
        min_executors: min,
        ..spec
    }
}

fn workers(config: ClusterConfig, cores: &[u32]) -> Cluster {
    let mut cluster = Cluster::new(config);
    for (n, cores) in cores.iter().enumerate() {
        cluster.register(&format!("w{n}"), worker(*cores, 4096));
    }
    cluster
}

#[test]
fn nothing_is_started_before_so_many_fit_at_once() {
    let mut cluster = workers(ClusterConfig::default(), &[4, 3]);
    let id = cluster.register_app("a", gated(4, app(64, Some(2), None)));
    // 2 and 1 executors fit; the odd core is of no use.
    assert!(cluster.placement(&id).is_empty());
    cluster.register("w2", worker(1, 4096));
    assert!(cluster.placement(&id).is_empty());
    cluster.register("w3", worker(2, 4096));
    assert_eq!(cluster.placement(&id).len(), 4);
}

#[test]
fn a_gate_is_about_all_workers_not_only_those_that_have_got_room() {
    let mut cluster = workers(ClusterConfig::default(), &[4, 4]);
    let d = cluster.submit("d", driver(4, 64));
    let id = cluster.register_app("a", gated(6, app(64, Some(1), None)));
    assert!(cluster.placement(&id).is_empty());
    let worker = cluster.driver(&d).worker.clone().expect("placed");
    cluster.report_driver(worker.as_str(), &d, 1, exited(0));
    assert_eq!(cluster.placement(&id).len(), 8);
}

#[test]
fn a_gated_application_keeps_its_place_before_smaller_ones_once_it_fits() {
    let mut cluster = workers(ClusterConfig::default(), &[2]);
    let d = cluster.submit("d", driver(2, 64));
    let gate = cluster.register_app("a", gated(2, app(64, Some(1), Some(2))));
    let small = cluster.register_app("b", app(64, Some(1), Some(2)));
    cluster.report_driver("w0", &d, 1, exited(0));
    assert_eq!(cluster.placement(&gate).len(), 2);
    assert!(cluster.placement(&small).is_empty());
}

#[test]
fn a_shut_gate_holds_up_nobody_behind_it() {
    let mut cluster = workers(ClusterConfig::default(), &[2]);
    let gate = cluster.register_app("a", gated(3, app(64, Some(1), None)));
    let small = cluster.register_app("b", app(64, Some(1), Some(1)));
    assert!(cluster.placement(&gate).is_empty());
    assert_eq!(cluster.placement(&small), ["0@w0:1"]);
}

#[test]
fn a_gate_counts_what_the_application_has() {
    let mut cluster = workers(ClusterConfig::default(), &[3]);
    let id = cluster.register_app("a", gated(3, app(64, Some(1), Some(3))));
    assert_eq!(cluster.placement(&id).len(), 3);
    // One is replaced by itself: two are there.
    cluster.report_executor(&id, 0, killed());
    cluster.tick_after(crate::support::secs(1));
    assert_eq!(cluster.placement(&id).len(), 3);
}

#[test]
fn a_gate_asks_for_no_more_than_is_wanted() {
    let mut cluster = workers(ClusterConfig::default(), &[8]);
    let spec = ApplicationSpec {
        executor_limit: Some(0),
        ..gated(4, app(64, Some(4), None))
    };
    let id = cluster.register_app("a", spec);
    cluster.apply(request(&id, &[target(0, None, 3)]));
    assert!(cluster.placement(&id).is_empty());
    cluster.apply(request(&id, &[target(0, None, 2)]));
    assert_eq!(cluster.placement(&id).len(), 2);
}

#[test]
fn further_profiles_have_no_gate() {
    let mut cluster = workers(ClusterConfig::default(), &[2]);
    let id = cluster.register_app("a", gated(3, app(64, Some(1), None)));
    cluster.apply(request(&id, &[target(1, Some((1, 1)), 1)]));
    assert_eq!(cluster.placement(&id), ["0@w0:1"]);
}

#[test]
fn executors_that_take_whole_workers_need_as_many_workers() {
    for spread in [true, false] {
        let config = ClusterConfig {
            spread_out_apps: spread,
            ..ClusterConfig::default()
        };
        let mut cluster = workers(config, &[8, 8]);
        let id = cluster.register_app("a", gated(3, app(64, None, Some(8))));
        assert!(cluster.placement(&id).is_empty());
        cluster.register("w2", worker(8, 4096));
        let placed = cluster.placement(&id);
        // Packed: the first takes all but what the others need to start.
        let want = if spread {
            ["0@w2:3", "1@w1:3", "2@w0:2"]
        } else {
            ["0@w2:6", "1@w1:1", "2@w0:1"]
        };
        assert_eq!(placed, want);
    }
}

#[test]
fn memory_and_custom_resources_count_for_a_gate() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", gpu_worker(8, 256, &["0", "1", "2"]));
    let gpu = ApplicationSpec {
        resources_per_executor: Amounts::from([("gpu".to_owned(), 1)]),
        ..app(100, Some(1), None)
    };
    let id = cluster.register_app("a", gated(4, gpu));
    // Two for memory, three for addresses.
    assert!(cluster.placement(&id).is_empty());
    cluster.register("w1", gpu_worker(8, 400, &["0", "1", "2"]));
    assert!(cluster.placement(&id).is_empty());
    cluster.register("w1", gpu_worker(8, 400, &["0", "1", "2", "3"]));
    assert_eq!(cluster.placement(&id).len(), 4);
}

#[test]
fn a_gate_opens_after_a_failover_as_before() {
    let mut cluster = workers(ClusterConfig::default(), &[2]);
    let id = cluster.register_app("a", gated(4, app(64, Some(1), None)));
    cluster.fail_over();
    cluster.register("w0", worker(2, 4096));
    assert!(cluster.placement(&id).is_empty());
    cluster.register("w1", worker(2, 4096));
    assert_eq!(cluster.placement(&id).len(), 4);
}

fn refusal(config: ClusterConfig, spec: ApplicationSpec) -> String {
    let mut cluster = Cluster::new(config);
    let reply = cluster.apply(register_app("a", spec)).reply;
    let Reply::Rejected(Rejection::Invalid { field, reason }) = reply else {
        panic!("{reply:?}")
    };
    assert_eq!(field, "min_executors");
    reason
}

#[test]
fn a_gate_that_could_never_open_is_refused() {
    let config = ClusterConfig::default;
    let cores = refusal(config(), gated(3, app(64, Some(2), Some(5))));
    assert!(cores.starts_with("3 executors need 6 cores"), "{cores}");
    let capped = ClusterConfig {
        app_cores_max: Some(interrex_core::resources::Cores(2)),
        ..config()
    };
    refusal(capped, gated(3, app(64, None, None)));
    let user = ClusterConfig {
        user_cores_max: Some(interrex_core::resources::Cores(4)),
        ..config()
    };
    let user = refusal(user, gated(3, app(64, Some(2), None)));
    assert!(user.contains("a user may have 4"), "{user}");
    let many = refusal(config(), gated(u32::MAX, app(64, None, None)));
    assert!(
        many.ends_with("at most 10000 executors are possible"),
        "{many}"
    );
}

/// Whether the last command counted workers can be seen from outside only by its cost; that it was right is checked
/// after every command: nothing that waits fits.
#[test]
fn a_gate_opens_at_the_last_of_many_small_events() {
    let mut cluster = workers(ClusterConfig::default(), &[8]);
    let busy: AppId = cluster.register_app("a", app(64, Some(1), Some(8)));
    let id = cluster.register_app("b", gated(5, app(64, Some(1), None)));
    cluster.apply(request(&busy, &[target(0, None, 0)]));
    for executor in 0..8 {
        cluster.apply(Command::Tick);
        assert!(cluster.placement(&id).is_empty() || executor >= 5);
        cluster.report_executor(&busy, executor, killed());
    }
    assert_eq!(cluster.placement(&id).len(), 8);
}
