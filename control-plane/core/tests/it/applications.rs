//! The life of an application and its executors.

use interrex_core::{
    command::{Command, ExecutorTarget, ProcessChange},
    config::ClusterConfig,
    ids::{AppId, ExecutorId, Fingerprint},
    spec::ApplicationSpec,
    state::{app::ApplicationState, executor::ExecutorState},
    time::Timestamp,
    transition::{Rejection, Reply},
};

use crate::{
    specs::{app, driver, register_app, worker},
    support::{Cluster, exited, killed, notices, orders, secs},
};

fn with_executors(limit: u32, completes: bool) -> (Cluster, AppId) {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(8, 8192));
    let spec = ApplicationSpec {
        executor_limit: Some(limit),
        completes,
        ..app(128, Some(1), None)
    };
    let id = cluster.register_app("a1", spec);
    for executor in 0..limit {
        cluster.report_executor(&id, executor, ProcessChange::Running);
    }
    (cluster, id)
}

fn state(cluster: &Cluster, app: &AppId, executor: u32) -> ExecutorState {
    cluster.executor(app, executor).state
}

#[test]
fn registration_places_executors_and_tells_both_sides() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(8, 8192));
    let transition = cluster.apply(register_app("a1", app(128, Some(4), None)));
    assert_eq!(
        orders(&transition),
        ["w1: launch executor 0", "w1: launch executor 1"]
    );
    assert_eq!(notices(&transition), ["added 0", "added 1"]);
    let id = AppId::from("app-20261129143200-0000");
    assert_eq!(cluster.app(&id).state, ApplicationState::Running);
    let running = cluster.report_executor(&id, 1, ProcessChange::Running);
    assert_eq!(notices(&running), ["1 RUNNING"]);
}

#[test]
fn registering_again_gives_the_same_application_with_its_executors() {
    let (mut cluster, id) = with_executors(2, false);
    let spec = app(128, Some(1), None);
    let attach = Command::RegisterApplication {
        request: "a1".into(),
        fingerprint: Fingerprint([9; 32]),
        app: Some(id.clone()),
        spec: spec.clone().into(),
    };
    for command in [register_app("a1", spec), attach] {
        let again = cluster.apply(command);
        assert!(again.mutations.is_empty());
        let want = Reply::AppRegistered {
            app: cluster.app(&id),
            executors: vec![cluster.executor(&id, 0), cluster.executor(&id, 1)],
        };
        assert_eq!(again.reply, want);
    }
}

#[test]
fn an_application_is_not_given_to_whoever_names_its_id() {
    let (mut cluster, id) = with_executors(1, false);
    let thief = Command::RegisterApplication {
        request: "a2".into(),
        fingerprint: Fingerprint([9; 32]),
        app: Some(id),
        spec: app(128, Some(1), None).into(),
    };
    let refused = cluster.apply(thief.clone());
    let Reply::Rejected(Rejection::Invalid { field, reason }) = &refused.reply else {
        panic!("{refused:?}")
    };
    assert_eq!(*field, "app_id");
    assert!(reason.contains("`a2`"), "{reason}");
    cluster.fail_over();
    assert_eq!(cluster.apply(thief).reply, refused.reply);
    assert_eq!(cluster.store.apps.len(), 1);
}

#[test]
fn an_application_that_is_over_cannot_attach() {
    let (mut cluster, id) = with_executors(1, false);
    let reply = cluster
        .apply(Command::Kill {
            request: None,
            id: id.to_string(),
        })
        .reply;
    let want = Reply::AppKilled {
        app: cluster.app(&id),
        already_over: false,
    };
    assert_eq!(reply, want);
    assert_eq!(notices(&cluster.last), ["removed KILLED"]);
    let over = Reply::Rejected(Rejection::AppOver {
        app: id.clone(),
        state: "KILLED",
    });
    assert_eq!(
        cluster
            .apply(register_app("a1", app(128, None, None)))
            .reply,
        over
    );
    let request = Command::RequestExecutors {
        app: id,
        targets: vec![ExecutorTarget::of_default(3)],
    };
    assert_eq!(cluster.apply(request).reply, over);
}

#[test]
fn the_end_is_confirmed_each_time_and_resources_wait_for_the_processes() {
    let (mut cluster, id) = with_executors(2, false);
    let unregister = Command::UnregisterApplication {
        app: id.clone(),
        failed: false,
        message: "done".to_owned(),
    };
    let end = cluster.apply(unregister.clone());
    assert_eq!(orders(&end), ["w1: kill executor 0", "w1: kill executor 1"]);
    assert_eq!(notices(&end), ["removed FINISHED"]);
    assert_eq!(cluster.state.usage(&"w1".into()).cores.0, 2);
    assert_eq!(notices(&cluster.apply(unregister)), ["removed FINISHED"]);
    assert_eq!(orders(&cluster.tick_after(secs(1))).len(), 2);
    cluster.report_executor(&id, 0, killed());
    assert_eq!(cluster.state.usage(&"w1".into()).cores.0, 1);
    cluster.report_executor(&id, 1, exited(1));
    assert_eq!(state(&cluster, &id, 1), ExecutorState::Killed);
    assert_eq!(cluster.state.usage(&"w1".into()).cores.0, 0);
    assert!(orders(&cluster.tick_after(secs(5))).is_empty());
}

#[test]
fn a_killed_executor_is_replaced_once_it_is_gone_unless_the_total_is_lowered() {
    let (mut cluster, id) = with_executors(2, false);
    let kill = Command::KillExecutors {
        app: id.clone(),
        executors: vec![ExecutorId(0), ExecutorId(77)],
    };
    let transition = cluster.apply(kill.clone());
    assert_eq!(transition.reply, Reply::Count(1));
    assert_eq!(orders(&transition), ["w1: kill executor 0"]);
    assert_eq!(cluster.apply(kill).reply, Reply::Count(0));
    let gone = cluster.report_executor(&id, 0, killed());
    assert_eq!(
        orders(&gone),
        ["w1: acknowledge 1", "w1: launch executor 2"]
    );
    let total = Command::RequestExecutors {
        app: id.clone(),
        targets: vec![ExecutorTarget::of_default(1)],
    };
    cluster.apply(total);
    cluster.apply(Command::KillExecutors {
        app: id.clone(),
        executors: vec![ExecutorId(1)],
    });
    let gone = cluster.report_executor(&id, 1, killed());
    assert_eq!(orders(&gone), ["w1: acknowledge 1"]);
}

#[test]
fn raising_the_total_adds_executors() {
    let (mut cluster, id) = with_executors(1, false);
    let raise = Command::RequestExecutors {
        app: id,
        targets: vec![ExecutorTarget::of_default(3)],
    };
    let transition = cluster.apply(raise);
    assert_eq!(
        orders(&transition),
        ["w1: launch executor 1", "w1: launch executor 2"]
    );
}

#[test]
fn a_shorter_wait_does_not_cut_a_longer_one() {
    let (mut cluster, id) = with_executors(2, false);
    for executor in [0, 2, 3, 4] {
        cluster.report_executor(&id, executor, exited(1));
        let wait = cluster
            .app(&id)
            .not_before
            .map_or(0, |at| at.since(Timestamp(cluster.now)).as_secs());
        if executor < 4 {
            cluster.tick_after(secs(wait));
        }
    }
    let wait = cluster.app(&id).not_before;
    assert_eq!(wait, Some(Timestamp(cluster.now + 4_000)));
    cluster.report_executor(&id, 1, killed());
    assert_eq!(cluster.app(&id).not_before, wait);
}

#[test]
fn executors_that_complete_are_not_replaced() {
    let (mut cluster, id) = with_executors(3, true);
    for executor in 0..3 {
        let done = cluster.report_executor(&id, executor, exited(0));
        assert_eq!(orders(&done), ["w1: acknowledge 1"]);
    }
    assert_eq!(cluster.app(&id).executors_completed, 3);
    assert_eq!(cluster.app(&id).state, ApplicationState::Running);
}

#[test]
fn a_failed_executor_of_a_completing_application_is_replaced() {
    let (mut cluster, id) = with_executors(2, true);
    cluster.report_executor(&id, 0, exited(0));
    let failed = cluster.report_executor(&id, 1, exited(7));
    assert_eq!(notices(&failed), ["1 EXITED", "added 2"]);
}

#[test]
fn a_crash_loop_backs_off_and_ends_the_application() {
    let (mut cluster, id) = with_executors(1, false);
    let mut waits = Vec::new();
    for executor in 0.. {
        cluster.report_executor(&id, executor, ProcessChange::Running);
        cluster.report_executor(&id, executor, exited(1));
        let app = cluster.app(&id);
        if app.state.is_final() {
            break;
        }
        let wait = app
            .not_before
            .map_or(0, |at| at.since(Timestamp(cluster.now)).as_secs());
        waits.push(wait);
        cluster.tick_after(secs(wait));
    }
    assert_eq!(waits, [0, 1, 2, 4, 8, 16, 30, 30, 30]);
    let app = cluster.app(&id);
    assert_eq!(app.state, ApplicationState::Failed);
    let message = "10 executors failed in a row; the last one, 9: exit code 1";
    assert_eq!(app.message, message);
    assert_eq!(notices(&cluster.last), ["9 EXITED", "removed FAILED"]);
}

#[test]
fn only_an_executor_that_stayed_up_ends_the_row_of_failures() {
    let (mut cluster, id) = with_executors(2, false);
    cluster.report_executor(&id, 0, exited(1));
    // Its replacement is up: that alone proves nothing.
    cluster.report_executor(&id, 2, ProcessChange::Running);
    assert_eq!(cluster.app(&id).executor_failures, 1);
    cluster.tick_after(secs(59));
    assert_eq!(cluster.app(&id).executor_failures, 1);
    cluster.tick_after(secs(1));
    assert_eq!(cluster.app(&id).executor_failures, 0);
}

#[test]
fn an_application_with_a_running_executor_does_not_fail() {
    let mut cluster = Cluster::new(ClusterConfig {
        executor_failures_max: Some(1),
        ..ClusterConfig::default()
    });
    cluster.register("w1", worker(8, 8192));
    let spec = ApplicationSpec {
        executor_limit: Some(2),
        ..app(128, Some(1), None)
    };
    let id = cluster.register_app("a1", spec);
    cluster.report_executor(&id, 0, ProcessChange::Running);
    cluster.report_executor(&id, 1, ProcessChange::Failed("no".to_owned()));
    assert_eq!(cluster.app(&id).state, ApplicationState::Running);
    // Loss and kill are nobody's fault.
    cluster.report_executor(&id, 0, killed());
    assert_eq!(cluster.app(&id).state, ApplicationState::Running);
    assert_eq!(cluster.app(&id).executor_failures, 1);
}

#[test]
fn an_application_that_is_not_heard_of_fails() {
    let (mut cluster, id) = with_executors(1, false);
    let expire = Command::ExpireApplication { app: id.clone() };
    let transition = cluster.apply(expire.clone());
    assert_eq!(notices(&transition), ["removed FAILED"]);
    assert_eq!(orders(&transition), ["w1: kill executor 0"]);
    assert_eq!(cluster.app(&id).message, "not heard of for more than 10s");
    assert!(cluster.apply(expire).mutations.is_empty());
}

#[test]
fn ended_executors_of_an_application_are_bounded() {
    let mut cluster = Cluster::new(ClusterConfig {
        retained_executors_per_app: 3,
        executor_failures_max: None,
        ..ClusterConfig::default()
    });
    cluster.register("w1", worker(8, 8192));
    let spec = ApplicationSpec {
        executor_limit: Some(1),
        ..app(128, Some(1), None)
    };
    let id = cluster.register_app("a1", spec);
    for executor in 0..6 {
        cluster.report_executor(&id, executor, exited(1));
        cluster.tick_after(secs(30));
    }
    let kept: Vec<_> = cluster
        .state
        .executors_of(&id)
        .map(|executor| executor.id.0)
        .collect();
    assert_eq!(kept, [3, 4, 5, 6]);
}

#[test]
fn a_forgotten_application_takes_its_executors_and_request_along() {
    let (mut cluster, id) = with_executors(2, false);
    cluster.apply(Command::Kill {
        request: None,
        id: id.to_string(),
    });
    cluster.report_executor(&id, 0, killed());
    // Executor 1 still holds resources: the application stays.
    assert_eq!(
        cluster
            .apply(Command::ClearCompleted { request: None })
            .reply,
        Reply::Count(1)
    );
    assert!(cluster.state.app(&id).is_some());
    cluster.report_executor(&id, 1, killed());
    cluster.apply(Command::ClearCompleted { request: None });
    assert!(cluster.state.app(&id).is_none());
    assert_eq!(cluster.state.executors().count(), 0);
    cluster.tick_after(secs(3_600));
    assert_eq!(cluster.state.requests().count(), 0);
}

#[test]
fn what_waits_starts_as_soon_as_there_is_room_whatever_made_it() {
    // SPARK-16925, SPARK-36509, SPARK-2154: one of these events did not schedule.
    for event in 0..6 {
        let mut cluster = Cluster::new(ClusterConfig::default());
        cluster.register("w1", worker(1, 1024));
        let first = cluster.submit("s1", driver(1, 1));
        cluster.report_driver("w1", &first, 1, ProcessChange::Running);
        let waiting = cluster.submit("s2", driver(1, 1));
        let change = match event {
            0 => Some(exited(0)),
            1 => Some(exited(1)),
            2 => Some(killed()),
            3 => Some(ProcessChange::Failed("x".to_owned())),
            _ => None,
        };
        match change {
            Some(change) => drop(cluster.report_driver("w1", &first, 1, change)),
            None if event == 4 => drop(cluster.register("w2", worker(1, 1024))),
            None => drop(cluster.register("w1", worker(2, 1024))),
        }
        let launch = format!("launch {waiting}/1");
        let launched = orders(&cluster.last)
            .iter()
            .any(|order| order.ends_with(&launch));
        assert!(launched, "event {event}: {:?}", orders(&cluster.last));
    }
}

#[test]
fn an_executor_that_completes_at_once_is_replaced_after_a_wait() {
    let (mut cluster, id) = with_executors(1, false);
    let done = cluster.report_executor(&id, 0, exited(0));
    assert_eq!(orders(&done), ["w1: acknowledge 1"]);
    assert_eq!(
        orders(&cluster.tick_after(secs(1))),
        ["w1: launch executor 1"]
    );
    // One that did something is replaced at once.
    cluster.report_executor(&id, 1, ProcessChange::Running);
    cluster.tick_after(secs(1));
    let done = cluster.report_executor(&id, 1, exited(0));
    assert_eq!(notices(&done), ["1 EXITED", "added 2"]);
}
