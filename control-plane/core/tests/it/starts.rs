//! Whatever gives room starts what waits for it, in the same transition and with no other event in the cluster
//! (SPARK-16925, SPARK-36509, SPARK-2154: after some events nobody called the scheduler).

use interrex_core::{
    command::{Command, ExecutorTarget, FullReport, ProcessChange},
    config::ClusterConfig,
    ids::{AppId, DriverId},
    resources::Cores,
    spec::{ApplicationSpec, DriverSpec},
    state::driver::Exit,
};

use crate::{
    specs::{app, driver, needy, request, supervised, worker},
    support::{Cluster, exited, killed, orders, secs},
};

/// One worker w1 of one core, which the first driver fills.
struct Scene {
    cluster: Cluster,
    first: DriverId,
}

fn scene(config: ClusterConfig, first: DriverSpec) -> Scene {
    let mut cluster = Cluster::new(config);
    cluster.register("w1", worker(1, 1024));
    let first = cluster.submit("first", first);
    cluster.report_driver("w1", &first, 1, ProcessChange::Running);
    Scene { cluster, first }
}

/// What waits, and that it waits.
fn waiting_driver(scene: &mut Scene, spec: DriverSpec) -> DriverId {
    let id = scene.cluster.submit("second", spec);
    assert!(!scene.cluster.driver(&id).state.is_placed());
    id
}

fn waiting_app(scene: &mut Scene) -> AppId {
    let id = scene.cluster.register_app("app", app(512, Some(1), None));
    assert!(scene.cluster.placement(&id).is_empty());
    id
}

fn signal() -> ProcessChange {
    ProcessChange::Exited(Exit {
        code: None,
        signal: Some(9),
    })
}

/// The event's own transition must hold the order.
fn event(cluster: &mut Cluster, first: &DriverId, name: &str) {
    match name {
        "exit 0" => drop(cluster.report_driver("w1", first, 1, exited(0))),
        "exit 1" => drop(cluster.report_driver("w1", first, 1, exited(1))),
        "SIGKILL" => drop(cluster.report_driver("w1", first, 1, signal())),
        "could not start" => {
            let failed = ProcessChange::Failed("no such file".to_owned());
            drop(cluster.report_driver("w1", first, 1, failed));
        }
        "killed by request" => {
            let kill = Command::Kill {
                request: None,
                id: first.to_string(),
            };
            assert!(
                orders(&cluster.apply(kill))
                    .iter()
                    .all(|o| o.contains("kill"))
            );
            drop(cluster.report_driver("w1", first, 1, killed()));
        }
        "agent came back without it" => drop(cluster.register("w1", worker(1, 1024))),
        "agent came back with its result" => {
            let unacknowledged = vec![cluster.driver_report(first, 1, exited(0))];
            let report = FullReport {
                unacknowledged,
                ..FullReport::default()
            };
            drop(cluster.register_with("w1", worker(1, 1024), report));
        }
        "worker grew" => {
            let report = cluster.honest_report("w1");
            drop(cluster.register_with("w1", worker(2, 1024), report));
        }
        "worker joined" => drop(cluster.register("w2", worker(1, 1024))),
        "agent stopped" => {
            // It ends what it runs, says so, and is gone.
            cluster.report_driver("w1", first, 1, killed());
        }
        "worker expired" => {
            let expire = Command::ExpireWorker {
                worker: "w1".into(),
            };
            drop(cluster.apply(expire));
        }
        other => panic!("{other}"),
    }
}

/// Events that give back what the first driver held on w1, or add to it.
const EVENTS: [&str; 10] = [
    "exit 0",
    "exit 1",
    "SIGKILL",
    "could not start",
    "killed by request",
    "agent came back without it",
    "agent came back with its result",
    "worker grew",
    "worker joined",
    "agent stopped",
];

#[test]
fn a_waiting_driver_starts_with_the_event_that_makes_room() {
    for name in EVENTS {
        let mut scene = scene(ClusterConfig::default(), driver(1, 512));
        let second = waiting_driver(&mut scene, driver(1, 512));
        event(&mut scene.cluster, &scene.first, name);
        assert!(scene.cluster.driver(&second).state.is_placed(), "{name}");
        let launched = orders(&scene.cluster.last);
        let launch = format!("launch {second}/1");
        assert!(
            launched.iter().any(|o| o.contains(&launch)),
            "{name}: {launched:?}"
        );
    }
}

#[test]
fn a_waiting_application_gets_its_executor_with_the_event_that_makes_room() {
    for name in EVENTS {
        let mut scene = scene(ClusterConfig::default(), driver(1, 512));
        let app = waiting_app(&mut scene);
        event(&mut scene.cluster, &scene.first, name);
        assert_eq!(scene.cluster.placement(&app).len(), 1, "{name}");
    }
}

#[test]
fn a_held_driver_starts_with_the_event_that_gives_its_cap_room() {
    for name in EVENTS {
        // Two such drivers never run at once here: the share is half of one core, or of two.
        let mut scene = scene(ClusterConfig::default(), needy(1, 512));
        let second = waiting_driver(&mut scene, needy(1, 512));
        event(&mut scene.cluster, &scene.first, name);
        let still_held = ["worker grew", "worker joined"].contains(&name);
        let started = scene.cluster.driver(&second).state.is_placed();
        assert_eq!(started, !still_held, "{name}");
    }
}

#[test]
fn a_users_waiting_work_starts_with_the_event_that_gives_its_cap_room() {
    for name in EVENTS {
        let config = ClusterConfig {
            user_cores_max: Some(Cores(1)),
            ..ClusterConfig::default()
        };
        let mut scene = scene(config, driver(1, 512));
        scene.cluster.register("w3", worker(1, 1024));
        let app = waiting_app(&mut scene);
        event(&mut scene.cluster, &scene.first, name);
        let still_held = ["worker grew", "worker joined"].contains(&name);
        let got = scene.cluster.placement(&app).len();
        assert_eq!(got, usize::from(!still_held), "{name}");
    }
}

#[test]
fn a_dead_worker_gives_its_caps_back_and_what_they_held_starts_elsewhere() {
    let config = ClusterConfig {
        user_cores_max: Some(Cores(1)),
        ..ClusterConfig::default()
    };
    let mut by_user = scene(config, driver(1, 512));
    by_user.cluster.register("w2", worker(1, 1024));
    let mut by_share = scene(ClusterConfig::default(), needy(1, 512));
    by_share.cluster.register("w2", worker(1, 1024));
    for (scene, spec) in [(&mut by_user, driver(1, 1)), (&mut by_share, needy(1, 1))] {
        let second = waiting_driver(scene, spec);
        event(&mut scene.cluster, &scene.first, "worker expired");
        assert_eq!(scene.cluster.driver(&second).worker, Some("w2".into()));
    }
}

#[test]
fn a_drain_that_is_taken_back_lets_go_what_the_share_held() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(2, 1024));
    cluster.register("w2", worker(2, 1024));
    cluster.drain("w2", None);
    let first = cluster.submit("1", needy(1, 1));
    let second = cluster.submit("2", needy(1, 1));
    assert!(cluster.driver(&first).state.is_placed());
    assert!(!cluster.driver(&second).state.is_placed());
    let undrained = cluster.undrain("w2");
    assert_eq!(orders(&undrained), [format!("w2: launch {second}/1")]);
}

#[test]
fn an_executor_that_ends_makes_room_for_a_driver() {
    for (name, change) in [
        ("exit 0", exited(0)),
        ("exit 1", exited(1)),
        ("SIGKILL", signal()),
        ("killed", killed()),
    ] {
        let mut cluster = Cluster::new(ClusterConfig::default());
        cluster.register("w1", worker(1, 1024));
        let app = cluster.register_app("app", app(512, Some(1), Some(1)));
        assert_eq!(cluster.placement(&app).len(), 1);
        let driver = cluster.submit("s", driver(1, 512));
        cluster.report_executor(&app, 0, change);
        assert!(cluster.driver(&driver).state.is_placed(), "{name}");
    }
}

#[test]
fn an_application_that_asks_for_more_gets_it_at_once() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(4, 1024));
    let app = cluster.register_app(
        "app",
        ApplicationSpec {
            executor_limit: Some(0),
            ..app(64, Some(1), None)
        },
    );
    assert!(cluster.placement(&app).is_empty());
    cluster.apply(request(&app, &[ExecutorTarget::of_default(2)]));
    assert_eq!(cluster.placement(&app).len(), 2);
}

#[test]
fn a_back_off_that_ends_starts_what_waited_for_it() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(1, 1024));
    let id = cluster.submit("s", supervised(1, 512));
    cluster.report_driver("w1", &id, 1, ProcessChange::Running);
    cluster.report_driver("w1", &id, 1, exited(1));
    let tick = cluster.tick_after(secs(1));
    assert_eq!(orders(&tick), [format!("w1: launch {id}/2")]);
}

#[test]
fn max_drivers_lets_the_next_one_go_when_one_ends() {
    let config = ClusterConfig {
        max_drivers: Some(1),
        ..ClusterConfig::default()
    };
    let mut scene = scene(config, driver(1, 1));
    scene.cluster.register("w2", worker(4, 1024));
    let second = waiting_driver(&mut scene, driver(1, 1));
    event(&mut scene.cluster, &scene.first, "exit 1");
    assert!(scene.cluster.driver(&second).state.is_placed());
}
