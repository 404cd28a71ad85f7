//! Leadership moves; nothing that was acknowledged is lost, and nobody believes the old leader.

use std::time::Duration;

use interrex_control_plane::runtime::{RequestError, Role};
use interrex_core::{ids::RequestId, transition::Reply};
use interrex_persistence::memory::MemoryCluster;
use interrex_proto::{
    leader_hint::LeaderHint,
    v1::{StaleEpoch, master_frame, peer_frame::Body},
};
use tonic::Code;

use crate::support::{PATIENCE, Peer, client, has_role, leads, start, status, submission, submit};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_leader_knows_what_the_last_one_acknowledged() {
    let cluster = MemoryCluster::new();
    let first = start(&cluster, "m1");
    let epoch = leads(&first).await.epoch();
    let second = start(&cluster, "m2");
    has_role(&second, Role::Standby).await;
    let mut old = client(&first);
    let driver = submit(&mut old, "s1").await;

    cluster.depose();
    let view = leads(&second).await;
    assert!(view.epoch() > epoch);
    let mut new = client(&second);
    let found = status(&mut new, "s1").await.unwrap().driver.unwrap();
    assert_eq!(
        (found.id.as_str(), found.state.as_str()),
        (driver.as_str(), "SUBMITTED")
    );
    assert!(
        new.submit(submission("s1"))
            .await
            .unwrap()
            .into_inner()
            .replayed
    );

    has_role(&first, Role::Standby).await;
    let refused = old.submit(submission("s2")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    let hint = LeaderHint::read(&refused).expect("a hint");
    assert_eq!(
        (hint.id, hint.rpc),
        ("m2".to_owned(), second.rpc_addr.to_string())
    );
    first.shutdown().await;
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deposed_leader_that_does_not_know_it_never_serves_a_stale_read() {
    let cluster = MemoryCluster::new();
    let first = start(&cluster, "m1");
    let epoch = leads(&first).await.epoch();
    let second = start(&cluster, "m2");
    cluster.steal();
    leads(&second).await;
    submit(&mut client(&second), "s1").await;

    // The old leader still believes; only the store can tell it otherwise.
    assert_eq!(first.handle.view().epoch(), epoch);
    let read = first.handle.read(PATIENCE).await;
    assert!(
        matches!(read, Err(RequestError::NotLeader { .. })),
        "{read:?}"
    );
    let answer = status(&mut client(&first), "s1").await.unwrap_err();
    assert_eq!(
        answer.code(),
        Code::Unavailable,
        "not `no such driver`: {answer:?}"
    );
    has_role(&first, Role::Standby).await;
    first.shutdown().await;
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deposed_leader_acknowledges_nothing_and_steps_down() {
    let cluster = MemoryCluster::new();
    let first = start(&cluster, "m1");
    leads(&first).await;
    let second = start(&cluster, "m2");
    cluster.steal();
    leads(&second).await;
    let refused = client(&first).submit(submission("s1")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    has_role(&first, Role::Standby).await;
    assert!(first.handle.view().is_empty());
    let accepted = client(&second)
        .submit(submission("s1"))
        .await
        .unwrap()
        .into_inner();
    assert!(!accepted.replayed);
    first.shutdown().await;
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_orders_carry_the_old_epoch_and_a_stale_epoch_answer_ends_the_leadership() {
    let cluster = MemoryCluster::new();
    let first = start(&cluster, "m1");
    let old = leads(&first).await.epoch().0;
    let (mut agent, _) = Peer::agent(&first, "w1").await;
    submit(&mut client(&first), "s1").await;
    let (epoch, order) = agent.launch().await;
    assert_eq!(epoch, old);

    let second = start(&cluster, "m2");
    cluster.steal();
    let new = leads(&second).await.epoch().0;
    // The order is sent again until it is answered: now it comes from a leader that has been deposed.
    let (epoch, again) = agent.launch().await;
    assert_eq!((epoch, &again), (old, &order));
    agent.seen = new;
    agent
        .say(Body::StaleEpoch(StaleEpoch {
            seen: new,
            refused: epoch,
            frame: "x".into(),
        }))
        .await;
    let leader = agent.wait("standby", |epoch, body| match body {
        master_frame::Body::Standby(standby) if epoch == 0 => Some(standby.leader),
        _ => None,
    });
    assert_eq!(leader.await.map(|leader| leader.id), Some("m2".to_owned()));
    first.shutdown().await;
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_can_go_to_and_fro_and_each_leader_schedules() {
    let cluster = MemoryCluster::new();
    let masters = [start(&cluster, "m1"), start(&cluster, "m2")];
    let leading = |epoch: u64| {
        let mut views = masters.each_ref().map(|master| master.handle.watch());
        async move {
            let [first, second] = &mut views;
            let newer = |view: &std::sync::Arc<interrex_control_plane::runtime::ClusterView>| {
                view.epoch().0 > epoch && !view.cluster_id().is_empty()
            };
            tokio::select! {
                view = first.wait_for(newer) => (0, view.unwrap().epoch().0),
                view = second.wait_for(newer) => (1, view.unwrap().epoch().0),
            }
        }
    };
    let mut epoch = 0;
    for round in 0..20 {
        let (leader, newer) = tokio::time::timeout(PATIENCE, leading(epoch))
            .await
            .unwrap();
        assert!(newer > epoch);
        epoch = newer;
        // A new agent for each leader: it registers and gets the order.
        let (mut agent, _) = Peer::agent(&masters[leader], &format!("w{round}")).await;
        let driver = submit(&mut client(&masters[leader]), &format!("s{round}")).await;
        let launched = agent.wait("its order", |_, body| match body {
            master_frame::Body::LaunchDriver(launch) => (launch.driver_id == driver).then_some(()),
            _ => None,
        });
        launched.await;
        cluster.depose();
    }
    for master in masters {
        master.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_finishes_what_is_under_way_and_hands_over() {
    let cluster = MemoryCluster::new();
    let first = start(&cluster, "m1");
    leads(&first).await;
    let second = start(&cluster, "m2");
    has_role(&second, Role::Standby).await;
    let handle = first.handle.clone();
    let began = tokio::time::Instant::now();
    let stopped = tokio::spawn(first.shutdown());
    let view = leads(&second).await;
    let handed_over = began.elapsed();
    tokio::time::timeout(PATIENCE, stopped)
        .await
        .unwrap()
        .unwrap();
    assert!(handed_over < Duration::from_secs(5), "{handed_over:?}");
    assert_eq!(view.drivers().count(), 0);
    let refused = handle
        .submit(
            interrex_core::command::Command::KillAllDrivers { request: None },
            PATIENCE,
        )
        .await;
    assert_eq!(refused, Err(RequestError::ShuttingDown));
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_shows_what_was_just_acknowledged() {
    let master = start(&MemoryCluster::new(), "m1");
    leads(&master).await;
    for round in 0..50 {
        let request = RequestId::new(format!("s{round}"));
        let spec = interrex_control_plane::edge::convert::driver_spec(crate::support::driver("d"));
        let spec = std::sync::Arc::new(spec.unwrap());
        let command = interrex_core::command::Command::SubmitDriver {
            request: request.clone(),
            fingerprint: interrex_control_plane::edge::convert::driver_fingerprint(&spec),
            spec,
        };
        let reply = master.handle.submit(command, PATIENCE).await.unwrap();
        assert!(matches!(
            reply,
            Reply::DriverSubmitted {
                replayed: false,
                ..
            }
        ));
        assert!(
            master.handle.view().created_by(&request).is_some(),
            "published before the reply"
        );
        let view = master.handle.read(PATIENCE).await.unwrap();
        assert!(view.created_by(&request).is_some());
    }
    master.shutdown().await;
}
