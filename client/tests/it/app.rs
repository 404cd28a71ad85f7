//! An application against scripted masters.

use std::{collections::BTreeSet, time::Duration};

use interrex_client::{
    app::{
        AppClient, AppEnd, AppEvent, AppEvents, AppHandle, AppListener, AppOptions, RequestError,
        TargetError, UnregisterError,
    },
    session::SessionTimings,
};
use interrex_proto::v1::{self, ApplicationSpec, ExecutorInfo, master_frame, peer_frame};
use tokio::sync::mpsc;

use crate::support::{FakeMaster, FakePeer, dead_address, unhurried, within};

fn options(masters: &[&FakeMaster]) -> AppOptions {
    let masters = masters
        .iter()
        .map(|master| master.address.clone())
        .collect();
    let spec = ApplicationSpec {
        name: "wordcount".into(),
        ..ApplicationSpec::default()
    };
    AppOptions {
        timings: unhurried(),
        ..AppOptions::new(masters, spec)
    }
}

fn executor(executor_id: u32, state: &str) -> ExecutorInfo {
    ExecutorInfo {
        executor_id,
        state: state.into(),
        ..ExecutorInfo::default()
    }
}

fn registered(executors: Vec<ExecutorInfo>) -> v1::Registered {
    v1::Registered {
        cluster_id: "cluster".into(),
        app_id: "app-1".into(),
        executors,
        ..v1::Registered::default()
    }
}

fn updated(executor: ExecutorInfo) -> master_frame::Body {
    master_frame::Body::ExecutorUpdated(v1::ExecutorUpdated {
        executor: Some(executor),
    })
}

fn removed(state: &str, message: &str) -> master_frame::Body {
    master_frame::Body::ApplicationRemoved(v1::ApplicationRemoved {
        app_id: "app-1".into(),
        state: state.into(),
        message: message.into(),
    })
}

async fn next(events: &mut AppEvents) -> AppEvent {
    within("an event", events.recv())
        .await
        .expect("no more events")
}

/// An application with executors 0 and 1, attached to the first of two masters in epoch 5.
async fn attached() -> (
    FakeMaster,
    FakePeer,
    FakeMaster,
    FakePeer,
    AppHandle,
    AppEvents,
    v1::RegisterApplication,
) {
    let (m1, m2) = (FakeMaster::start(), FakeMaster::start());
    let (app, mut events) = AppClient::start_with_events(options(&[&m1, &m2])).unwrap();
    let (mut p1, mut p2) = (m1.accept().await, m2.accept().await);
    let first = p1.application().await;
    assert_eq!(
        p2.application().await,
        first,
        "every master gets the same registration"
    );
    p2.standby(None).await;
    p1.registered(
        5,
        registered(vec![executor(0, "RUNNING"), executor(1, "RUNNING")]),
    )
    .await;
    assert_eq!(
        next(&mut events).await,
        AppEvent::Connected {
            app_id: "app-1".into()
        }
    );
    assert_eq!(
        next(&mut events).await,
        AppEvent::ExecutorAdded(executor(0, "RUNNING"))
    );
    assert_eq!(
        next(&mut events).await,
        AppEvent::ExecutorAdded(executor(1, "RUNNING"))
    );
    (m1, p1, m2, p2, app, events, first)
}

#[tokio::test]
async fn a_failover_keeps_the_application_and_tells_missed_events_once() {
    let (_m1, _p1, _m2, mut p2, app, mut events, first) = attached().await;
    assert_eq!(first.app_id, "");
    p2.changed(6).await;
    assert_eq!(next(&mut events).await, AppEvent::Disconnected);
    let again = p2.application().await;
    assert_eq!(
        again.request_id, first.request_id,
        "one request id, one application"
    );
    assert_eq!(
        (again.app_id.as_str(), again.cluster_id.as_str()),
        ("app-1", "cluster")
    );
    let picture = vec![executor(1, "RUNNING"), executor(2, "LAUNCHING")];
    p2.registered(6, registered(picture.clone())).await;
    assert_eq!(
        next(&mut events).await,
        AppEvent::Connected {
            app_id: "app-1".into()
        }
    );
    assert_eq!(
        next(&mut events).await,
        AppEvent::ExecutorAdded(executor(2, "LAUNCHING"))
    );
    match next(&mut events).await {
        AppEvent::ExecutorRemoved(gone) => {
            assert_eq!((gone.executor_id, gone.state.as_str()), (0, "LOST"));
        }
        other => panic!("{other:?}"),
    }
    // The same picture again, and repeats of what is known: no news.
    p2.registered(6, registered(picture)).await;
    p2.send(6, updated(executor(0, "EXITED"))).await;
    p2.send(6, updated(executor(2, "LAUNCHING"))).await;
    p2.send(6, updated(executor(2, "RUNNING"))).await;
    assert_eq!(
        next(&mut events).await,
        AppEvent::ExecutorUpdated(executor(2, "RUNNING"))
    );
    assert_eq!(app.app_id().as_deref(), Some("app-1"));
}

#[tokio::test]
async fn lost_answers_never_make_a_second_application() {
    let master = FakeMaster::start();
    let timings = SessionTimings {
        redial_min: Duration::from_millis(1),
        redial_max: Duration::from_millis(5),
        ..SessionTimings::default()
    };
    let app = AppOptions {
        timings,
        ..options(&[&master])
    };
    let (app, _events) = AppClient::start_with_events(app).unwrap();
    let mut registrations = BTreeSet::new();
    for _ in 0..4 {
        // Registered, and the stream breaks before the answer.
        let registration = master.accept().await.application().await;
        registrations.insert((registration.request_id, registration.app_id));
    }
    let mut peer = master.accept().await;
    let registration = peer.application().await;
    registrations.insert((registration.request_id, registration.app_id));
    peer.registered(1, registered(Vec::new())).await;
    assert_eq!(within("the id", app.connected()).await, Ok("app-1".into()));
    assert_eq!(registrations.len(), 1, "{registrations:?}");
}

#[tokio::test]
async fn what_the_application_wants_is_told_to_the_next_leader() {
    let (_m1, mut p1, _m2, mut p2, app, mut events, _) = attached().await;
    let total = peer_frame::Body::RequestExecutors(v1::RequestExecutors {
        targets: Vec::new(),
        app_id: "app-1".into(),
        total: 7,
    });
    let kill = |ids: &[u32]| {
        peer_frame::Body::KillExecutors(v1::KillExecutors {
            app_id: "app-1".into(),
            executor_ids: ids.to_vec(),
        })
    };
    app.request_executors(7).await.unwrap();
    assert_eq!(p1.body().await, total);
    app.kill_executors(vec![0, 1, 99]).await.unwrap();
    assert_eq!(
        [p1.body().await, p1.body().await],
        [total.clone(), kill(&[0, 1])]
    );
    p2.changed(6).await;
    p2.application().await;
    p2.registered(6, registered(vec![executor(1, "RUNNING")]))
        .await;
    assert_eq!([p2.body().await, p2.body().await], [total, kill(&[1])]);
    assert_eq!(next(&mut events).await, AppEvent::Disconnected);
}

#[tokio::test]
async fn requests_before_the_registration_fail_at_once() {
    let master = FakeMaster::start();
    let (app, _events) = AppClient::start_with_events(options(&[&master])).unwrap();
    let early = Err(RequestError::NotRegistered);
    assert_eq!(app.request_executors(3).await, early);
    assert_eq!(app.kill_executors(vec![0]).await, early);
    assert_eq!(app.release_executors(vec![0]).await, early);
    let mut peer = master.accept().await;
    peer.application().await;
    peer.registered(1, registered(Vec::new())).await;
    assert_eq!(within("the id", app.connected()).await, Ok("app-1".into()));
    // Nothing of it was kept: the first thing asked for is what is asked for now.
    app.request_executors(1).await.unwrap();
    let first = v1::RequestExecutors {
        app_id: "app-1".into(),
        total: 1,
        targets: vec![],
    };
    assert_eq!(peer.body().await, peer_frame::Body::RequestExecutors(first));
}

#[tokio::test]
async fn executors_that_are_released_lower_the_totals_of_their_profiles() {
    let (_m1, mut p1, _m2, _p2, app, _events, _) = attached().await;
    let profile = v1::ResourceProfile {
        cores: Some(2),
        ..Default::default()
    };
    let target = |profile_id, profile: Option<v1::ResourceProfile>, total| v1::ExecutorTarget {
        profile_id,
        profile,
        total,
    };
    let asked = vec![target(0, None, 5), target(3, Some(profile.clone()), 2)];
    app.request_targets(asked.clone()).await.unwrap();
    let request = |total, targets| {
        let app_id = "app-1".to_owned();
        peer_frame::Body::RequestExecutors(v1::RequestExecutors {
            app_id,
            total,
            targets,
        })
    };
    assert_eq!(p1.body().await, request(5, asked.clone()));
    // The application has the executors 0 and 1 of its own description.
    app.release_executors(vec![0, 1, 77]).await.unwrap();
    let lowered = vec![target(0, None, 3), target(3, Some(profile), 2)];
    assert_eq!(p1.body().await, request(3, lowered.clone()));
    let kill = peer_frame::Body::KillExecutors(v1::KillExecutors {
        app_id: "app-1".into(),
        executor_ids: vec![0, 1],
    });
    assert_eq!(p1.body().await, kill);
    // Again, and refused: the totals stay.
    app.release_executors(vec![0]).await.unwrap();
    assert_eq!(p1.body().await, request(3, lowered));
    let unknown = app.request_targets(vec![target(9, None, 1)]).await;
    let want = TargetError::Unknown { profile: 9 };
    assert_eq!(unknown, Err(RequestError::Target(want)));
}

#[tokio::test]
async fn unregistering_waits_for_the_confirmation_through_a_failover() {
    let (_m1, mut p1, _m2, mut p2, app, _events, _) = attached().await;
    let leaving = app.clone();
    let unregister = tokio::spawn(async move {
        leaving
            .unregister(false, "done", Duration::from_secs(15))
            .await
    });
    let expected = peer_frame::Body::UnregisterApplication(v1::UnregisterApplication {
        app_id: "app-1".into(),
        failed: false,
        message: "done".into(),
    });
    assert_eq!(p1.body().await, expected);
    p2.changed(6).await;
    p2.application().await;
    p2.registered(6, registered(Vec::new())).await;
    assert_eq!(p2.body().await, expected);
    p2.send(6, removed("FINISHED", "")).await;
    drop(p1);
    assert_eq!(p2.rest().await, []);
    drop(p2);
    assert_eq!(
        within("the confirmation", unregister).await.unwrap(),
        Ok(())
    );
    assert_eq!(app.wait().await, AppEnd::Unregistered { confirmed: true });
}

#[tokio::test]
async fn unregistering_without_a_confirmation_ends_at_its_deadline() {
    let (_m1, _p1, _m2, _p2, app, _events, _) = attached().await;
    let waited = Duration::from_millis(100);
    let result = within("the deadline", app.unregister(true, "failed", waited)).await;
    assert_eq!(result, Err(UnregisterError::Unconfirmed { waited }));
    assert_eq!(
        within("the end", app.wait()).await,
        AppEnd::Unregistered { confirmed: false }
    );
}

#[tokio::test]
async fn an_application_that_the_cluster_ends_is_told_why() {
    let (_m1, p1, _m2, _p2, app, mut events, _) = attached().await;
    p1.send(5, removed("FAILED", "10 executors have failed"))
        .await;
    let reason = "FAILED: 10 executors have failed".to_owned();
    assert_eq!(
        next(&mut events).await,
        AppEvent::Dead {
            reason: reason.clone()
        }
    );
    assert_eq!(within("the end", app.wait()).await, AppEnd::Dead { reason });
    assert!(app.request_executors(1).await.is_err());
}

#[tokio::test]
async fn a_permanent_refusal_ends_an_application_that_was_never_taken() {
    let master = FakeMaster::start();
    let (app, mut events) = AppClient::start_with_events(options(&[&master])).unwrap();
    let peer = master.accept().await;
    let refused = v1::Refused {
        reason: "cores must be positive".into(),
        permanent: true,
    };
    peer.send(3, master_frame::Body::Refused(refused)).await;
    let reason = "refused: cores must be positive".to_owned();
    assert_eq!(
        next(&mut events).await,
        AppEvent::Dead {
            reason: reason.clone()
        }
    );
    let end = AppEnd::Dead { reason };
    assert_eq!(within("the end", app.wait()).await, end);
    assert_eq!(within("the id", app.connected()).await, Err(end));
}

#[tokio::test]
async fn a_refused_request_ends_nothing_and_is_repeated_if_it_may_be_granted() {
    let (_m1, mut p1, _m2, _p2, app, mut events, _) = attached().await;
    app.request_executors(3).await.unwrap();
    let asked = p1.body().await;
    let refused = |permanent| {
        let reason = "busy".to_owned();
        master_frame::Body::Refused(v1::Refused { reason, permanent })
    };
    p1.send(5, refused(true)).await;
    p1.send(5, refused(false)).await;
    assert_eq!(p1.body().await, asked, "asked again");
    p1.send(5, updated(executor(1, "LAUNCHING"))).await;
    assert_eq!(
        next(&mut events).await,
        AppEvent::ExecutorUpdated(executor(1, "LAUNCHING"))
    );
}

/// Hands on what it is told.
struct Telltale(mpsc::Sender<String>);

impl AppListener for Telltale {
    fn connected(&mut self, app_id: &str) {
        self.0.try_send(format!("connected {app_id}")).unwrap();
    }

    fn executor_added(&mut self, executor: &ExecutorInfo) {
        self.0
            .try_send(format!("added {}", executor.executor_id))
            .unwrap();
    }

    fn dead(&mut self, reason: &str) {
        self.0.try_send(format!("dead {reason}")).unwrap();
    }
}

#[tokio::test]
async fn a_listener_hears_everything_in_order() {
    let master = FakeMaster::start();
    let (told, mut heard) = mpsc::channel(16);
    let _app = AppClient::start(options(&[&master]), Telltale(told)).unwrap();
    let peer = master.accept().await;
    peer.registered(1, registered(vec![executor(0, "LAUNCHING")]))
        .await;
    peer.send(1, removed("KILLED", "by an operator")).await;
    for expected in ["connected app-1", "added 0", "dead KILLED: by an operator"] {
        assert_eq!(
            within("a call", heard.recv()).await.as_deref(),
            Some(expected)
        );
    }
}

#[tokio::test]
async fn an_application_gives_up_only_when_it_is_told_to() {
    let mut options = options(&[]);
    options.masters = vec![dead_address()];
    options.timings = SessionTimings::default();
    options.give_up_after = Some(Duration::from_millis(50));
    let (app, mut events) = AppClient::start_with_events(options).unwrap();
    let reason = "no master has led for 50ms".to_owned();
    assert_eq!(
        next(&mut events).await,
        AppEvent::Dead {
            reason: reason.clone()
        }
    );
    assert_eq!(within("the end", app.wait()).await, AppEnd::Dead { reason });
}

#[tokio::test]
async fn an_application_whose_program_stays_away_from_its_events_says_so_to_every_leader() {
    let (m1, m2) = (FakeMaster::start(), FakeMaster::start());
    let app = AppOptions {
        progress_within: Duration::from_millis(200),
        ..options(&[&m1, &m2])
    };
    let (app, mut events) = AppClient::start_with_events(app).unwrap();
    let (mut p1, mut p2) = (m1.accept().await, m2.accept().await);
    p1.application().await;
    p2.application().await;
    p2.standby(None).await;
    p1.registered(5, registered(Vec::new())).await;
    next(&mut events).await;
    let progress = |body| match body {
        peer_frame::Body::AppProgress(progress) => {
            assert_eq!(progress.app_id, "app-1");
            progress.none_for_ms
        }
        other => panic!("{other:?} instead of a word about progress"),
    };
    // The program hangs; its session does not.
    assert!(progress(p1.body().await) >= 200);
    p2.changed(6).await;
    p2.application().await;
    p2.registered(6, registered(Vec::new())).await;
    assert!(progress(p2.body().await) >= 200);
    assert_eq!(next(&mut events).await, AppEvent::Disconnected);
    // It waits for its events again.
    let coming_back = async { while events.recv().await.is_some() {} };
    tokio::select! {
        () = coming_back => panic!("the application is not over"),
        body = p2.body() => assert_eq!(progress(body), 0),
    }
    // Whoever wants to hear nothing is not missed: only the next request is heard of.
    drop(events);
    tokio::time::sleep(Duration::from_millis(300)).await;
    app.request_executors(3).await.unwrap();
    assert!(matches!(
        p2.body().await,
        peer_frame::Body::RequestExecutors(_)
    ));
}
