//! Applications: register, get executors, come back, leave.

use interrex_control_plane::{app::RunningMaster, edge::status};
use interrex_core::{ids::AppId, state::app::ApplicationState};
use interrex_persistence::memory::MemoryCluster;
use interrex_proto::v1::{
    self, ApplicationSpec, CommandLine, RegisterApplication, RequestExecutors,
    UnregisterApplication, master_frame, peer_frame::Body,
};

use crate::support::{Peer, leads, sees, start};

fn registration(request_id: &str, app_id: &str, limit: u32) -> Body {
    Body::RegisterApplication(RegisterApplication {
        request_id: request_id.into(),
        app_id: app_id.into(),
        spec: Some(ApplicationSpec {
            name: "count".into(),
            user: "ann".into(),
            command: Some(CommandLine {
                program: "count".into(),
                ..Default::default()
            }),
            cores_per_executor: Some(1),
            memory_mib_per_executor: 64,
            executor_limit: Some(limit),
            ..Default::default()
        }),
        ..Default::default()
    })
}

async fn app(master: &RunningMaster, request_id: &str, limit: u32) -> (Peer, v1::Registered) {
    let mut app = Peer::attach(master, registration(request_id, "", limit)).await;
    let registered = app.registered().await;
    (app, registered)
}

async fn executor_added(app: &mut Peer) -> v1::ExecutorInfo {
    app.wait("executor added", |_, body| match body {
        master_frame::Body::ExecutorAdded(added) => added.executor,
        _ => None,
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_gets_executors_asks_for_more_and_leaves() {
    let master = start(&MemoryCluster::new(), "m1");
    leads(&master).await;
    let (mut agent, _) = Peer::agent(&master, "w1").await;
    let (mut app, registered) = app(&master, "r1", 1).await;
    assert!(!registered.app_id.is_empty());
    let first = match registered.executors.first() {
        Some(executor) => executor.clone(),
        None => executor_added(&mut app).await,
    };
    assert_eq!((first.executor_id, first.worker_id.as_str()), (0, "w1"));
    assert_eq!(first.worker_host, "127.0.0.1");

    let app_id = registered.app_id.clone();
    app.say(Body::RequestExecutors(RequestExecutors {
        targets: Vec::new(),
        app_id: app_id.clone(),
        total: 2,
    }))
    .await;
    let launched = agent.wait("launch executor 1", |_, body| match body {
        master_frame::Body::LaunchExecutor(launch) => (launch.executor_id == 1).then_some(launch),
        _ => None,
    });
    assert_eq!(launched.await.command.unwrap().program, "count");

    let failed = false;
    let message = "done".into();
    app.say(Body::UnregisterApplication(UnregisterApplication {
        app_id,
        failed,
        message,
    }))
    .await;
    let killed = agent.wait("kill executor", |_, body| match body {
        master_frame::Body::KillExecutor(kill) => Some(kill.app_id),
        _ => None,
    });
    assert_eq!(killed.await, registered.app_id);
    let over = sees(&master.handle, "the application is over", |view| {
        view.app(&AppId::new(&registered.app_id))
            .is_some_and(|app| app.state == ApplicationState::Finished)
    });
    over.await;
    master.shutdown().await;
}

/// What a status shows of the profiles: id, wanted, granted.
fn profiles(master: &RunningMaster, app_id: &str) -> Vec<(u32, Option<u32>, u32)> {
    let found = status::find(&master.handle.view(), app_id).expect("known");
    let app = found.application.expect("an application");
    let shown = app.profiles.iter();
    shown.map(|p| (p.profile_id, p.wanted, p.granted)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executors_of_a_profile_are_asked_for_launched_and_shown() {
    let master = start(&MemoryCluster::new(), "m1");
    leads(&master).await;
    let (mut agent, _) = Peer::agent(&master, "w1").await;
    let (mut app, registered) = app(&master, "r1", 0).await;
    let app_id = registered.app_id.clone();
    let ask = |profile: Option<v1::ResourceProfile>, total| {
        Body::RequestExecutors(RequestExecutors {
            app_id: app_id.clone(),
            total: 0,
            targets: vec![v1::ExecutorTarget {
                profile_id: 4,
                profile,
                total,
            }],
        })
    };
    app.say(ask(None, 1)).await;
    let refused = app.refused().await;
    assert!(refused.permanent, "{refused:?}");
    assert!(
        refused
            .reason
            .starts_with("targets: profile 4 is not known"),
        "{}",
        refused.reason
    );
    let memory = v1::ResourceProfile {
        memory_mib: Some(96),
        ..Default::default()
    };
    app.say(ask(Some(memory), 1)).await;
    let launched = agent.wait("launch of profile 4", |_, body| match body {
        master_frame::Body::LaunchExecutor(launch) => Some(launch),
        _ => None,
    });
    let launched = launched.await;
    assert_eq!((launched.cores, launched.memory_mib), (1, 96));
    let added = executor_added(&mut app).await;
    assert_eq!(added.resource_profile, 4);
    let shown = sees(&master.handle, "the executor of profile 4", |view| {
        view.executors_of(&AppId::new(&app_id)).count() == 1
    });
    shown.await;
    assert_eq!(
        profiles(&master, &app_id),
        [(0, Some(0), 0), (4, Some(1), 1)]
    );
    app.say(ask(None, u32::MAX)).await;
    let absurd = app.refused().await.reason;
    assert!(absurd.starts_with("targets.4.total: "), "{absurd}");
    master.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_that_comes_back_is_the_same_one() {
    let master = start(&MemoryCluster::new(), "m1");
    leads(&master).await;
    let (session, registered) = app(&master, "r1", 1).await;
    drop(session);
    let (again, replayed) = app(&master, "r1", 1).await;
    assert_eq!(
        replayed.app_id, registered.app_id,
        "the same request, the same application"
    );
    drop(again);
    let back = registration("r1", &registered.app_id, 1);
    let mut attached = Peer::attach(&master, back).await;
    assert_eq!(attached.registered().await.app_id, registered.app_id);
    assert_eq!(master.handle.view().apps().count(), 1);

    let mut other = Peer::attach(&master, registration("r1", "", 7)).await;
    let refused = other.refused().await;
    assert!(
        refused.permanent && refused.reason.contains("r1"),
        "{}",
        refused.reason
    );
    master.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_cannot_speak_for_another() {
    let master = start(&MemoryCluster::new(), "m1");
    leads(&master).await;
    let (mut first, _) = app(&master, "r1", 1).await;
    let (_second, theirs) = app(&master, "r2", 1).await;
    let message = UnregisterApplication {
        app_id: theirs.app_id.clone(),
        ..Default::default()
    };
    first.say(Body::UnregisterApplication(message)).await;
    let refused = first.refused().await;
    assert!(
        refused.reason.contains(&theirs.app_id),
        "{}",
        refused.reason
    );
    let view = master.handle.view();
    assert!(
        !view
            .app(&AppId::new(&theirs.app_id))
            .unwrap()
            .state
            .is_final()
    );
    master.shutdown().await;
}
