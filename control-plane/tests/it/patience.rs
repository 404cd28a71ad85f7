//! How long a master puts up with a store that hangs, a worker that is silent, an application that is away, and a
//! peer that does not read.

use std::time::Duration;

use interrex_control_plane::runtime::Role;
use interrex_core::{
    ids::{AppId, WorkerId},
    state::{app::ApplicationState, worker::WorkerState},
};
use interrex_persistence::{
    faulty::{Fault, Faults, Op},
    memory::MemoryCluster,
};
use interrex_proto::v1::{self, Heartbeat, peer_frame::Body};
use tonic::Code;

use crate::support::{
    Peer, client, driver, has_role, leads, register, sees, start, start_configured, submission,
    submit,
};

const HANG: Fault = Fault::Delay(Duration::from_secs(600));

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_hangs_ends_the_leadership_at_its_deadline() {
    let faults = Faults::calm();
    let master = start_configured(&MemoryCluster::new(), "m1", &faults, |options| {
        options.role.commit_deadline = Duration::from_millis(200);
    });
    let before = leads(&master).await.epoch();
    faults.next(Op::Commit, HANG);
    let mut client = client(&master);
    // What comes during the commit has surely not been stored; what is in it may have been.
    let in_doubt = client.submit(submission("s1")).await.unwrap_err();
    assert_eq!(in_doubt.code(), Code::Unknown, "{in_doubt:?}");
    sees(&master.handle, "a larger epoch", |view| {
        view.epoch() > before
    })
    .await;
    submit(&mut client, "s1").await;
    master.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_leader_that_cannot_commit_makes_room_for_another() {
    let (faults, cluster) = (Faults::calm(), MemoryCluster::new());
    let stuck = start_configured(&cluster, "m1", &faults, |options| {
        options.role.commit_deadline = Duration::from_millis(200);
        options.role.leader.self_check_interval = Duration::from_millis(100);
    });
    leads(&stuck).await;
    let healthy = start(&cluster, "m2");
    has_role(&healthy, Role::Standby).await;
    faults.script(Op::Commit, [Some(HANG)]);
    let view = leads(&healthy).await;
    assert_eq!(
        view.epoch(),
        healthy.handle.status().epoch,
        "nobody asked anything of m1"
    );
    assert_eq!(faults.injected(), 1);
    stuck.shutdown().await;
    healthy.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_worker_is_dead_and_a_beating_one_is_not() {
    let cluster = MemoryCluster::new();
    let master = start_configured(&cluster, "m1", &Faults::calm(), |options| {
        options.cluster.worker_timeout = Duration::from_millis(600);
    });
    leads(&master).await;
    let (_silent, registered) = Peer::agent(&master, "w1").await;
    assert_eq!(registered.heartbeat_interval_ms, 150);
    let (beating, _) = Peer::agent(&master, "w2").await;
    let beats = async {
        let mut turns = tokio::time::interval(Duration::from_millis(150));
        loop {
            turns.tick().await;
            beating.say(Body::Heartbeat(Heartbeat::default())).await;
        }
    };
    let dead = sees(&master.handle, "a dead worker", |view| {
        view.worker(&WorkerId::new("w1"))
            .is_some_and(|w| w.state == WorkerState::Dead)
    });
    let view = tokio::select! {
        view = dead => view,
        () = beats => unreachable!("beats for ever"),
    };
    assert_eq!(
        view.worker(&WorkerId::new("w2")).unwrap().state,
        WorkerState::Alive
    );
    assert!(view.last_heartbeat(&WorkerId::new("w2")).is_some());
    master.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_that_stays_away_is_over_and_one_that_is_here_is_not() {
    let cluster = MemoryCluster::new();
    let master = start_configured(&cluster, "m1", &Faults::calm(), |options| {
        options.cluster.app_timeout = Duration::from_millis(300);
    });
    leads(&master).await;
    let attach = async |request_id: &str| {
        let registration = Body::RegisterApplication(v1::RegisterApplication {
            request_id: request_id.into(),
            spec: Some(v1::ApplicationSpec {
                name: "a".into(),
                command: Some(v1::CommandLine {
                    program: "a".into(),
                    ..Default::default()
                }),
                memory_mib_per_executor: 64,
                ..Default::default()
            }),
            ..Default::default()
        });
        let mut app = Peer::attach(&master, registration).await;
        let id = AppId::new(app.registered().await.app_id);
        (app, id)
    };
    let (here, stays) = attach("r1").await;
    let (away, goes) = attach("r2").await;
    drop(away);
    let view = sees(&master.handle, "an application that is over", |view| {
        view.app(&goes)
            .is_some_and(|app| app.state == ApplicationState::Failed)
    });
    assert!(!view.await.app(&stays).unwrap().state.is_final());
    drop(here);
    master.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_does_not_read_loses_its_session_and_nobody_waits_for_it() {
    let master = start(&MemoryCluster::new(), "m1");
    leads(&master).await;
    let Body::RegisterWorker(mut large) = register("w1", vec![]) else {
        panic!()
    };
    large.spec.as_mut().unwrap().cores = 1000;
    let mut deaf = Peer::attach(&master, Body::RegisterWorker(large)).await;
    deaf.registered().await;
    let (mut other, _) = Peer::agent(&master, "w2").await;
    let mut client = client(&master);
    // Orders of almost a MiB each, sent again every second: more than the queue of one session holds.
    let mut spec = driver("large");
    spec.command.as_mut().unwrap().args = vec!["x".repeat(1_000_000)];
    spec.cores = 9;
    for n in 0..40 {
        let request = v1::SubmitRequest {
            request_id: format!("l{n}"),
            spec: Some(spec.clone()),
        };
        client
            .submit(request)
            .await
            .expect("nobody waits for the deaf one");
    }
    let lost = sees(&master.handle, "the session is closed", |view| {
        view.worker(&WorkerId::new("w1"))
            .is_some_and(|w| w.state == WorkerState::Unknown)
    });
    lost.await;
    submit(&mut client, "s1").await;
    other.launch().await;
    master.shutdown().await;
}
