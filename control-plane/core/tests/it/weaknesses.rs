//! What Spark's master loses, leaks or delays, by the numbers of `docs/spark-differences.md`. Most of them are answered
//! beside what they are about; here is what needs several things to go wrong at once.

use interrex_core::{
    command::{Command, ProcessChange},
    config::ClusterConfig,
    effect::Effect,
    ids::{AppId, Attempt, DriverId, Epoch, Fingerprint},
    leader::{LeaderConfig, LeaderMachine, Output, Reregister},
    spec::ApplicationSpec,
    state::{
        app::ApplicationState, driver::DriverState, executor::ExecutorState, meta::RecoveryState,
    },
    time::Timestamp,
    transition::{Mutation, Rejection, Reply, Transition},
};

use crate::{
    specs::{app, driver, submit, supervised, worker},
    support::{Cluster, exited, killed, notices, orders, secs},
};

fn one_worker() -> Cluster {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(4, 4096));
    cluster
}

fn attach(cluster: &mut Cluster, request: &str, app: &AppId) -> Transition {
    cluster.apply(Command::RegisterApplication {
        request: request.into(),
        fingerprint: Fingerprint([1; 32]),
        app: Some(app.clone()),
        spec: crate::specs::app(1, None, None).into(),
    })
}

fn expire(cluster: &mut Cluster, worker: &str) -> Transition {
    cluster.apply(Command::ExpireWorker {
        worker: worker.into(),
    })
}

fn unregister(app: &AppId) -> Command {
    Command::UnregisterApplication {
        app: app.clone(),
        failed: false,
        message: "done".to_owned(),
    }
}

/// W2. Spark gives it a new id, and the next failover forgets the old one.
#[test]
fn a_relaunched_driver_is_found_under_its_first_id_by_every_later_leader() {
    let mut cluster = one_worker();
    let id = cluster.submit("s1", supervised(1, 1));
    cluster.report_driver("w1", &id, 1, ProcessChange::Running);
    for (attempt, next) in [(2, "w2"), (3, "w3")] {
        expire(&mut cluster, &format!("w{}", attempt - 1));
        cluster.fail_over();
        cluster.register(next, worker(4, 4096));
        // The second loss in a row is followed by a wait.
        cluster.tick_after(secs(2));
        let driver = cluster.driver(&id);
        assert_eq!(driver.attempt, Attempt(attempt));
        assert_eq!(driver.worker, Some(next.into()));
        cluster.report_driver(next, &id, attempt, ProcessChange::Running);
    }
    let kill = Command::Kill {
        request: None,
        id: "s1".to_owned(),
    };
    assert_eq!(orders(&cluster.apply(kill)), [format!("w3: kill {id}/3")]);
    assert_eq!(cluster.store.drivers.len(), 1);
}

/// W12. Spark ends it without a word, and answers what it asks for with `false`.
#[test]
fn an_application_that_comes_back_too_late_is_told_what_became_of_it() {
    let mut cluster = one_worker();
    let id = cluster.register_app("a1", app(1, Some(1), Some(2)));
    cluster.fail_over();
    let report = cluster.honest_report("w1");
    cluster.register_with("w1", worker(4, 4096), report);
    // Late, but still within its time: nothing of it was touched.
    cluster.tick_after(secs(19));
    attach(&mut cluster, "a1", &id);
    assert_eq!(cluster.placement(&id), ["0@w1:1", "1@w1:1"]);
    let ended = cluster.apply(Command::ExpireApplication { app: id.clone() });
    assert_eq!(notices(&ended), ["removed FAILED"]);
    for _ in 0..2 {
        let over = Rejection::AppOver {
            app: id.clone(),
            state: "FAILED",
        };
        let reply = attach(&mut cluster, "a1", &id).reply;
        assert_eq!(reply, Reply::Rejected(over));
        // The next leader says the same.
        cluster.fail_over();
    }
}

/// W15. Spark counts an application that it waits for as over, and keeps its cores booked for good.
#[test]
fn an_executor_that_ends_while_its_application_is_away_gives_its_cores_back() {
    let mut cluster = one_worker();
    let id = cluster.register_app("a1", app(1, Some(2), Some(4)));
    for executor in [0, 1] {
        cluster.report_executor(&id, executor, ProcessChange::Running);
    }
    cluster.fail_over();
    let report = cluster.honest_report("w1");
    cluster.register_with("w1", worker(4, 4096), report);
    cluster.report_executor(&id, 0, exited(1));
    cluster.report_executor(&id, 1, killed());
    for executor in [0, 1] {
        assert!(cluster.executor(&id, executor).state.is_final());
    }
    attach(&mut cluster, "a1", &id);
    cluster.tick_after(secs(60));
    // All of its cores are its own again, and no more than these.
    assert_eq!(cluster.placement(&id), ["2@w1:2", "3@w1:2"]);
    assert_eq!(cluster.state.usage(&"w1".into()).cores.0, 4);
}

/// W21. With Spark the loss of a decommissioned worker throws in the middle, and nothing is scheduled.
#[test]
fn the_loss_of_a_drained_worker_starts_what_it_held_elsewhere_at_once() {
    let mut cluster = one_worker();
    let kept = cluster.submit("s1", supervised(4, 1));
    cluster.report_driver("w1", &kept, 1, ProcessChange::Running);
    cluster.drain("w1", None);
    cluster.register("w2", worker(5, 4096));
    let waiting = cluster.submit("s2", driver(2, 1));
    assert_eq!(cluster.driver(&waiting).worker, Some("w2".into()));
    cluster.report_driver("w2", &waiting, 1, exited(0));
    let lost = expire(&mut cluster, "w1");
    assert_eq!(orders(&lost), [format!("w2: launch {kept}/2")]);
}

/// W26. Spark sends every end to every worker and every loss to every application, and copies all drivers to find one.
#[test]
fn an_event_touches_what_it_is_about_and_nothing_else() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    for n in 0..30 {
        cluster.register(&format!("w{n:02}"), worker(1, 64));
    }
    let apps: Vec<AppId> = (0..30)
        .map(|n| cluster.register_app(&format!("a{n}"), app(64, Some(1), Some(1))))
        .collect();
    let queued: Vec<DriverId> = (0..50)
        .map(|n| cluster.submit(&format!("s{n}"), driver(1, 128)))
        .collect();
    let killed_one = cluster.apply(Command::Kill {
        request: None,
        id: queued[25].to_string(),
    });
    let driver = cluster.driver(&queued[25]);
    assert_eq!(killed_one.mutations, [Mutation::PutDriver(driver)]);
    assert!(killed_one.effects.is_empty());
    let home = cluster.executor(&apps[7], 0).worker.clone();
    let end = cluster.apply(unregister(&apps[7]));
    assert_eq!(orders(&end), [format!("{home}: kill executor 0")]);
    assert_eq!(notices(&end), ["removed FINISHED"]);
    let other = cluster.executor(&apps[8], 0).worker.clone();
    let lost = expire(&mut cluster, other.as_str());
    let told = |effect: &Effect| matches!(effect, Effect::App { app, .. } if *app == apps[8]);
    assert!(lost.effects.iter().all(told), "{:?}", lost.effects);
    assert_eq!(notices(&lost).len(), 2);
}

/// W30. Spark forgets a worker that was silent for long, and never hears it again.
#[test]
fn a_worker_that_beats_again_is_asked_to_register_however_long_it_was_away() {
    let asked = |cluster: &Cluster| {
        let now = Timestamp(cluster.now);
        let config = cluster.state.config().clone();
        let entities = cluster.store.entities();
        let mut leader =
            LeaderMachine::recover(Epoch(2), LeaderConfig::default(), config, entities, now);
        leader.heartbeat(&"w1".into(), now);
        let reregister = |output| match output {
            Output::Reregister { worker, reason } => Some((worker.to_string(), reason)),
            Output::Commit { .. }
            | Output::Publish(_)
            | Output::Reply { .. }
            | Output::Effect(_)
            | Output::StepDown(_) => None,
        };
        leader
            .poll(now)
            .into_iter()
            .filter_map(reregister)
            .collect::<Vec<_>>()
    };
    let mut cluster = one_worker();
    expire(&mut cluster, "w1");
    let asked_for = |reason| [("w1".to_owned(), reason)];
    assert_eq!(asked(&cluster), asked_for(Reregister::NoReport));
    cluster.tick_after(secs(3_600));
    assert!(cluster.state.worker(&"w1".into()).is_none());
    assert_eq!(asked(&cluster), asked_for(Reregister::NotRegistered));
    let back = cluster.register("w1", worker(4, 4096));
    assert_eq!(back.reply, Reply::WorkerRegistered);
}

/// W34. Spark reads its records back in any order.
#[test]
fn applications_and_drivers_keep_their_places_over_failovers() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    let mut apps = Vec::new();
    let mut drivers = Vec::new();
    for (n, request) in ["z", "a", "m"].into_iter().enumerate() {
        drivers.push(cluster.submit(&format!("s{request}"), driver(1, 1)));
        apps.push(cluster.register_app(request, app(1, Some(1), Some(1))));
        // Each leader has a clock that is a day behind the one before: ids do not rise with the queue.
        cluster.now -= 86_400_000;
        cluster.fail_over();
        assert_eq!(cluster.store.apps.len(), n + 1);
    }
    for (app, request) in apps.iter().zip(["z", "a", "m"]) {
        attach(&mut cluster, request, app);
    }
    let mut order = Vec::new();
    for n in 0..6 {
        cluster.register(&format!("w{n}"), worker(1, 1));
        order.extend(orders(&cluster.last));
    }
    let mut want: Vec<String> = drivers
        .iter()
        .enumerate()
        .map(|(n, id)| format!("w{n}: launch {id}/1"))
        .collect();
    want.extend((3..6).map(|n| format!("w{n}: launch executor 0")));
    assert_eq!(order, want);
    let homes = apps.iter().map(|id| cluster.executor(id, 0).worker.clone());
    assert_eq!(
        homes.collect::<Vec<_>>(),
        ["w3".into(), "w4".into(), "w5".into()]
    );
}

/// W37. Spark can make the name the id; then one of two has no record, or an exception.
#[test]
fn two_applications_of_one_name_have_two_ids_and_two_records() {
    let mut cluster = one_worker();
    let first = cluster.register_app("a1", app(1, Some(1), Some(1)));
    let second = cluster.register_app("a2", app(1, Some(1), Some(1)));
    assert_eq!(
        cluster.app(&first).spec.name,
        cluster.app(&second).spec.name
    );
    assert_ne!(first, second);
    cluster.apply(unregister(&first));
    cluster.fail_over();
    assert_eq!(cluster.app(&first).state, ApplicationState::Finished);
    assert_eq!(cluster.app(&second).state, ApplicationState::Running);
}

/// W40. With Spark whatever is over is "not found" after a failover.
#[test]
fn what_is_over_is_still_known_after_a_failover_with_how_it_ended() {
    let mut cluster = one_worker();
    let good = cluster.submit("s1", driver(1, 1));
    let bad = cluster.submit("s2", driver(1, 1));
    let id = cluster.register_app("a1", app(1, Some(1), Some(1)));
    for (driver, code) in [(&good, 0), (&bad, 3)] {
        cluster.report_driver("w1", driver, 1, ProcessChange::Running);
        cluster.now += 5_000;
        cluster.report_driver("w1", driver, 1, exited(code));
    }
    cluster.report_executor(&id, 0, exited(4));
    cluster.apply(unregister(&id));
    let before = (
        cluster.driver(&good),
        cluster.driver(&bad),
        cluster.app(&id),
        cluster.executor(&id, 0),
    );
    cluster.fail_over();
    cluster.fail_over();
    let after = (
        cluster.driver(&good),
        cluster.driver(&bad),
        cluster.app(&id),
        cluster.executor(&id, 0),
    );
    assert_eq!(after, before);
    let code = |driver: &DriverId| cluster.driver(driver).exit.and_then(|exit| exit.code);
    assert_eq!((code(&good), code(&bad)), (Some(0), Some(3)));
    assert_eq!(after.0.state, DriverState::Finished);
    assert_eq!(after.1.message, "exit code 3");
    assert!(after.0.worker.is_some() && after.0.finished_at > after.0.started_at);
    assert_eq!(after.3.state, ExecutorState::Exited);
}

/// W45. Spark removes the record and adds another; between the two there is none.
#[test]
fn a_relaunch_changes_one_record_and_takes_none_away() {
    let mut cluster = one_worker();
    let id = cluster.submit("s1", supervised(1, 1));
    cluster.register("w2", worker(4, 4096));
    let home = cluster.driver(&id).worker.clone().expect("placed");
    cluster.report_driver(home.as_str(), &id, 1, ProcessChange::Running);
    let other = if home.as_str() == "w1" { "w2" } else { "w1" };
    let lost = expire(&mut cluster, home.as_str());
    assert_eq!(cluster.driver(&id).worker, Some(other.into()));
    let failed = cluster.report_driver(other, &id, 2, exited(1));
    let again = cluster.tick_after(secs(2));
    assert_eq!(orders(&again), [format!("{other}: launch {id}/3")]);
    for transition in [lost, failed, again] {
        let mut records = 0;
        for mutation in &transition.mutations {
            assert!(!matches!(mutation, Mutation::DeleteDriver(_)));
            records += usize::from(matches!(mutation, Mutation::PutDriver(_)));
        }
        assert_eq!(records, 1, "{:?}", transition.mutations);
    }
}

/// W49 and W19. One application that has gone keeps all of Spark's cluster waiting for the whole recovery timeout.
#[test]
fn an_application_that_never_comes_back_holds_nobody_up() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(8, 4096));
    let gone = cluster.register_app("a1", app(1, Some(1), Some(2)));
    cluster.fail_over();
    let report = cluster.honest_report("w1");
    cluster.register_with("w1", worker(8, 4096), report);
    assert_eq!(cluster.state.recovery_state(), RecoveryState::Recovering);
    let submitted = cluster.apply(submit("s1", driver(1, 1)));
    assert_eq!(orders(&submitted).len(), 1);
    let other = ApplicationSpec {
        priority: -1,
        ..app(1, Some(1), Some(3))
    };
    let other = cluster.register_app("a2", other);
    assert_eq!(cluster.placement(&other).len(), 3);
    assert_eq!(cluster.placement(&gone).len(), 2);
    assert_eq!(cluster.state.recovery_state(), RecoveryState::Recovering);
}
