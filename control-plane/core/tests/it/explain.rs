//! What is said about drivers, applications and workers.

use interrex_core::{
    command::{Command, ProcessChange},
    config::ClusterConfig,
    explain::{Explanation, Topic, Wait, explain},
    ids::DriverId,
    resources::{Amounts, Cores},
    spec::{ApplicationSpec, DriverPayload, DriverSpec, SparkSubmission},
    time::Timestamp,
};

use crate::{
    specs::{app, driver, gpu_worker, needy, request, supervised, target, worker},
    support::{Cluster, exited, killed},
};

fn of(cluster: &Cluster, topic: &Topic) -> Explanation {
    explain(&cluster.state, topic, Timestamp(cluster.now)).expect("it is known")
}

fn of_driver(cluster: &Cluster, id: &DriverId) -> Explanation {
    of(cluster, &Topic::Driver(id.clone()))
}

fn wait_of(cluster: &Cluster, id: &DriverId) -> Wait {
    of_driver(cluster, id).waits.remove(0)
}

/// `worker: words` of each worker.
fn verdicts(wait: &Wait) -> Vec<String> {
    let line = |verdict: &interrex_core::explain::Verdict| {
        assert_eq!(verdict.fits, verdict.words == "fits");
        format!("{}: {}", verdict.worker, verdict.words)
    };
    wait.workers.iter().map(line).collect()
}

fn cluster(config: ClusterConfig) -> Cluster {
    let mut cluster = Cluster::new(config);
    cluster.register("w1", worker(4, 4096));
    cluster
}

#[test]
fn each_worker_says_what_it_lacks() {
    let mut cluster = cluster(ClusterConfig::default());
    cluster.submit("fill", driver(3, 3584));
    cluster.register("w2", gpu_worker(8, 512, &["0"]));
    cluster.register("w3", worker(64, 65_536));
    cluster.apply(Command::WorkerDisconnected {
        worker: "w3".into(),
    });
    let spec = DriverSpec {
        resources: Amounts::from([("gpu".to_owned(), 2)]),
        ..driver(4, 1024)
    };
    let id = cluster.submit("big", spec);
    let wait = wait_of(&cluster, &id);
    assert_eq!(
        verdicts(&wait),
        [
            "w1: lacks cores (has 1 of 4 free), memory (has 512 of 4096 MiB free), resource gpu (has 0 of 0 free)",
            "w2: lacks memory (has 512 of 512 MiB free), resource gpu (has 1 of 1 free)",
            "w3: not alive: its agent has not reported to this leader yet",
        ]
    );
    assert_eq!(wait.needs, "4 cores, 1024 MiB and 2 gpu");
    assert!(wait.hopeless);
    assert_eq!(wait.reason, "no agent offers 2 gpu: the most is 1");
}

#[test]
fn a_worker_that_takes_no_new_work_says_why() {
    let mut cluster = cluster(ClusterConfig::default());
    cluster.register("w2", worker(4, 4096));
    cluster.apply(Command::AcceptingChanged {
        worker: "w1".into(),
        not_accepting: "the disk is full".to_owned(),
    });
    cluster.drain("w2", None);
    let id = cluster.submit("s", driver(1, 1));
    let wait = wait_of(&cluster, &id);
    assert_eq!(
        verdicts(&wait),
        [
            "w1: takes no new work: the disk is full",
            "w2: draining: maintenance"
        ]
    );
    assert!(wait.hopeless);
    let explained = of(&cluster, &Topic::Worker("w2".into()));
    assert!(
        explained.summary.starts_with("is being drained"),
        "{}",
        explained.summary
    );
    assert_eq!(
        explained.details,
        ["drain: maintenance; what runs may end by itself"]
    );
}

#[test]
fn what_never_fits_is_a_warning_at_once_and_what_may_is_not() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    let spark = DriverSpec {
        payload: DriverPayload::Spark(SparkSubmission::default()),
        ..driver(1, 1)
    };
    let cases = [
        (
            driver(8, 1),
            "no agent is large enough for 8 cores and 1 MiB: the largest offers 4 cores, 8192 MiB",
        ),
        (spark, "no agent offers the capability `spark`"),
        (
            driver(4, 8192),
            "no agent offers 4 cores and 8192 MiB together",
        ),
    ];
    let ids: Vec<_> = (0..3)
        .map(|n| cluster.submit(&format!("s{n}"), cases[n].0.clone()))
        .collect();
    for id in &ids {
        let wait = wait_of(&cluster, id);
        assert_eq!(wait.reason, "waiting for an agent: none is alive");
        assert!(wait.hopeless);
    }
    cluster.register("w1", worker(4, 4096));
    cluster.register("w2", worker(2, 8192));
    for (id, (_, words)) in ids.iter().zip(&cases) {
        let wait = wait_of(&cluster, id);
        assert_eq!((wait.hopeless, wait.reason.as_str()), (true, *words));
    }
    cluster.submit("fill", driver(4, 1));
    let id = cluster.submit("later", driver(3, 1));
    let wait = wait_of(&cluster, &id);
    assert!(!wait.hopeless);
    assert_eq!(
        wait.reason,
        "waiting for a worker with 3 cores and 1 MiB free"
    );
}

#[test]
fn limits_that_hold_are_named_with_their_numbers() {
    let config = ClusterConfig {
        max_drivers: Some(3),
        user_cores_max: Some(Cores(3)),
        ..ClusterConfig::default()
    };
    let mut cluster = cluster(config);
    let of_user = |user: &str, spec: DriverSpec| DriverSpec {
        user: user.to_owned(),
        ..spec
    };
    cluster.submit("1", of_user("ann", needy(2, 1)));
    let share = cluster.submit("2", of_user("bob", needy(1, 1)));
    let user = cluster.submit("3", of_user("ann", driver(2, 1)));
    let never = cluster.submit("4", of_user("", driver(4, 1)));
    let held = |cluster: &Cluster, id: &DriverId| wait_of(cluster, id).held;
    let by_share =
        "held: driver share (drivers that need executors hold 2 of at most 2 cores)".to_owned();
    let by_user = "held: user ann has 2 of at most 3 cores".to_owned();
    assert_eq!(held(&cluster, &share), std::slice::from_ref(&by_share));
    assert_eq!(of_driver(&cluster, &share).summary, by_share);
    assert_eq!(verdicts(&wait_of(&cluster, &share)), ["w1: fits"]);
    assert_eq!(held(&cluster, &user), std::slice::from_ref(&by_user));
    let wait = wait_of(&cluster, &never);
    assert!(wait.hopeless);
    assert_eq!(
        wait.reason,
        "whoever gives no user may have at most 3 cores, this alone needs 4"
    );
    cluster.submit("5", of_user("cid", driver(1, 1)));
    cluster.submit("6", of_user("dan", driver(1, 1)));
    assert_eq!(
        held(&cluster, &user),
        ["held: maxDrivers 3 reached".to_owned(), by_user]
    );
}

#[test]
fn the_queue_is_counted_in_the_order_in_which_it_is_tried() {
    let mut cluster = cluster(ClusterConfig::default());
    cluster.submit("fill", driver(4, 1));
    let prior = |priority| DriverSpec {
        priority,
        ..driver(1, 1)
    };
    let ids: Vec<_> = [0, 5, 0, -1]
        .iter()
        .enumerate()
        .map(|(n, priority)| cluster.submit(&format!("s{n}"), prior(*priority)))
        .collect();
    let before = |id: &DriverId| {
        let queue = wait_of(&cluster, id).queue;
        assert_eq!(queue.length, 4);
        queue.before
    };
    assert_eq!(ids.iter().map(before).collect::<Vec<_>>(), [1, 0, 2, 3]);
}

#[test]
fn a_back_off_says_until_when_and_after_what() {
    let mut cluster = cluster(ClusterConfig::default());
    let id = cluster.submit("s", supervised(1, 1));
    for attempt in 1..=2 {
        cluster.report_driver("w1", &id, attempt, ProcessChange::Running);
        cluster.report_driver("w1", &id, attempt, exited(7));
        if attempt == 1 {
            cluster.now += 1_000;
            cluster.apply(Command::Tick);
        }
    }
    assert_eq!(
        of_driver(&cluster, &id).summary,
        "back-off: failed 2 times in a row; last: exit code 7; next attempt in 2 s"
    );
    // The back-off is over, and meanwhile another one has taken the room.
    cluster.submit("fill", driver(4, 1));
    cluster.now += 2_000;
    cluster.apply(Command::Tick);
    let explained = of_driver(&cluster, &id);
    assert_eq!(
        explained.summary,
        "waiting for a worker with 1 core and 1 MiB free"
    );
    assert_eq!(
        explained.details,
        ["failed 2 times in a row; last: exit code 7"]
    );
}

#[test]
fn what_runs_and_what_is_over_says_where_and_how() {
    let mut cluster = cluster(ClusterConfig::default());
    let id = cluster.submit("s", driver(1, 1));
    let summary = |cluster: &Cluster| of_driver(cluster, &id).summary;
    assert_eq!(
        summary(&cluster),
        "was sent to w1 as attempt 1; its agent has not confirmed it yet"
    );
    cluster.report_driver("w1", &id, 1, ProcessChange::Running);
    assert_eq!(summary(&cluster), "runs on w1 as attempt 1");
    cluster.apply(Command::Kill {
        request: None,
        id: id.to_string(),
    });
    assert_eq!(of_driver(&cluster, &id).details.len(), 1);
    cluster.report_driver("w1", &id, 1, killed());
    assert_eq!(
        summary(&cluster),
        "was killed on w1 as attempt 1: ended by signal 15"
    );
    assert!(of_driver(&cluster, &id).waits.is_empty());
    let nobody = Topic::Driver("driver-0".into());
    assert_eq!(
        explain(&cluster.state, &nobody, Timestamp(cluster.now)),
        None
    );
}

#[test]
fn an_application_says_what_it_has_and_why_it_gets_no_more() {
    let config = ClusterConfig {
        user_cores_max: Some(Cores(6)),
        ..ClusterConfig::default()
    };
    let mut cluster = cluster(config);
    let of_app =
        |cluster: &Cluster, id: &interrex_core::ids::AppId| of(cluster, &Topic::App(id.clone()));
    let satisfied = cluster.register_app("a", app(1, Some(1), Some(1)));
    assert_eq!(
        of_app(&cluster, &satisfied).summary,
        "has 1 executor with 1 core; cores_max reached: it holds 1 of at most 1 core, and the next executor needs 1"
    );
    let limited = ApplicationSpec {
        executor_limit: Some(1),
        ..app(1, Some(1), None)
    };
    let limited = cluster.register_app("b", limited);
    assert_eq!(
        of_app(&cluster, &limited).summary,
        "has 1 executor with 1 core; executor limit reached: it asks for 1 executor in all"
    );
    let hungry = cluster.register_app("c", app(1, Some(2), None));
    let explained = of_app(&cluster, &hungry);
    assert_eq!(
        explained.summary,
        "has 1 executor with 2 cores; for more: waiting for a worker with 2 cores and 1 MiB free"
    );
    let wait = &explained.waits[0];
    assert_eq!((wait.queue.before, wait.queue.length), (2, 3));
    assert_eq!(wait.needs, "2 cores and 1 MiB for each executor");
    assert_eq!(verdicts(wait), ["w1: lacks cores (has 0 of 4 free)"]);
    cluster.register("w2", worker(4, 1));
    let held = cluster.register_app("d", app(1, Some(1), None));
    assert_eq!(
        of_app(&cluster, &held).summary,
        "held: user u has 6 of at most 6 cores"
    );
    cluster.apply(Command::UnregisterApplication {
        app: held.clone(),
        failed: true,
        message: "out of ideas".to_owned(),
    });
    assert_eq!(of_app(&cluster, &held).summary, "failed: out of ideas");
}

#[test]
fn a_shut_gate_says_how_many_fit() {
    let mut cluster = cluster(ClusterConfig::default());
    cluster.submit("s", driver(2, 1));
    let gated = |min_executors| ApplicationSpec {
        min_executors,
        ..app(1, Some(1), None)
    };
    let summary = |cluster: &mut Cluster, min| {
        let id = cluster.register_app(&format!("a{min}"), gated(min));
        let explained = of(cluster, &Topic::App(id));
        assert_eq!(explained.waits[0].hopeless, min > 4);
        explained.summary
    };
    assert_eq!(
        summary(&mut cluster, 3),
        "held: min_executors 3: nothing starts before 3 executors fit at once, and 2 fit now"
    );
    assert_eq!(
        summary(&mut cluster, 9),
        "min_executors 9: nothing starts before 9 executors fit at once, and all agents could hold 4, were they empty"
    );
}

#[test]
fn a_worker_that_offers_less_than_it_holds_says_so_whatever_it_is() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", gpu_worker(8, 4096, &["0", "1"]));
    let gpus = ApplicationSpec {
        resources_per_executor: Amounts::from([("gpu".to_owned(), 1)]),
        ..app(1, Some(1), None)
    };
    let holder = cluster.register_app("a", gpus);
    assert_eq!(cluster.placement(&holder).len(), 2);
    // Started again without the devices, and with all the cores that could be wished for.
    let report = cluster.honest_report("w1");
    cluster.register_with("w1", worker(8, 4096), report);
    let waiting = cluster.register_app("b", app(1, Some(1), Some(1)));
    let explained = of(&cluster, &Topic::App(waiting.clone()));
    let said = verdicts(&explained.waits[0]);
    assert_eq!(said, ["w1: offers less than what runs there holds"]);
    for executor in 0..2 {
        assert!(cluster.placement(&waiting).is_empty());
        cluster.report_executor(&holder, executor, exited(0));
    }
    assert_eq!(cluster.placement(&waiting).len(), 1, "it fits again");
}

#[test]
fn each_profile_that_waits_is_explained_by_itself() {
    let mut cluster = cluster(ClusterConfig::default());
    let id = cluster.register_app("a", app(1, Some(1), None));
    let targets = [
        target(7, Some((3, 1024)), 1),
        target(9, Some((1, 1 << 20)), 1),
    ];
    cluster.apply(request(&id, &targets));
    let explained = of(&cluster, &Topic::App(id));
    let profiles: Vec<_> = explained.waits.iter().map(|wait| wait.profile.0).collect();
    assert_eq!(profiles, [0, 7, 9]);
    assert_eq!(
        explained.waits[1].reason,
        "waiting for a worker with 3 cores and 1024 MiB free"
    );
    let hopeless: Vec<_> = explained.waits.iter().map(|wait| wait.hopeless).collect();
    assert_eq!(hopeless, [false, false, true]);
    assert!(
        explained
            .summary
            .contains("; profile 9: no agent is large enough"),
        "{}",
        explained.summary
    );
}

#[test]
fn a_worker_says_what_runs_there() {
    let mut cluster = cluster(ClusterConfig::default());
    let id = cluster.submit("s", driver(1, 256));
    let app = cluster.register_app("a", app(512, Some(2), Some(2)));
    let explained = of(&cluster, &Topic::Worker("w1".into()));
    assert_eq!(
        explained.summary,
        "takes new work; 3 of 4 cores and 768 of 4096 MiB are in use by 1 driver and 1 executor"
    );
    assert_eq!(
        explained.details,
        [
            format!("driver {id}, attempt 1, LAUNCHING: 1 core and 256 MiB"),
            format!("executor {app}/0, LAUNCHING: 2 cores, 512 MiB"),
        ]
    );
    assert_eq!(
        (explained.kind, explained.state.as_str()),
        ("worker", "ALIVE")
    );
}
