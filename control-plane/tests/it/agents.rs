//! Agents: register, get orders, report, come back.

use std::time::Duration;

use interrex_control_plane::runtime::Role;
use interrex_core::{ids::WorkerId, state::worker::WorkerState};
use interrex_persistence::{
    faulty::{Fault, Faults, Op},
    memory::MemoryCluster,
};
use interrex_proto::v1::{
    Heartbeat, ProcessState, RegisterWorker, RunningDriver, WorkReport, master_frame,
    peer_frame::Body,
};

use tokio::time::timeout;

use crate::support::{
    PATIENCE, Peer, client, has_role, leads, register, report, sees, start, start_with, status,
    submit,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_runs_from_order_to_result() {
    let master = start(&MemoryCluster::new(), "m1");
    let view = leads(&master).await;
    let (mut agent, registered) = Peer::agent(&master, "w1").await;
    assert_eq!(registered.cluster_id, view.cluster_id());
    assert_eq!(registered.master_id, "m1");
    assert_eq!(registered.heartbeat_interval_ms, 5_000);
    let mut client = client(&master);
    let driver = submit(&mut client, "s1").await;
    let (epoch, launch) = agent.launch().await;
    assert_eq!(
        (epoch, &launch.driver_id, launch.attempt),
        (view.epoch().0, &driver, 1)
    );

    agent
        .say(report(1, &launch, ProcessState::Running, None))
        .await;
    agent.acknowledged(1).await;
    assert_eq!(
        status(&mut client, "s1")
            .await
            .unwrap()
            .driver
            .unwrap()
            .state,
        "RUNNING"
    );
    agent
        .say(report(2, &launch, ProcessState::Exited, Some(0)))
        .await;
    agent.acknowledged(2).await;
    let ended = status(&mut client, "s1").await.unwrap();
    assert!(ended.over);
    assert_eq!(ended.driver.unwrap().state, "FINISHED");
    // A repeat is acknowledged too, or the outbox would never empty.
    agent
        .say(report(2, &launch, ProcessState::Exited, Some(0)))
        .await;
    agent.acknowledged(2).await;
    master.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_master_is_named_on_sessions_that_are_open_already() {
    let cluster = MemoryCluster::new();
    let first = start(&cluster, "m1");
    leads(&first).await;
    let (mut agent, registered) = Peer::agent(&first, "w1").await;
    assert_eq!(registered.masters.len(), 1);
    let second = start(&cluster, "m2");
    let expected = second.rpc_addr.to_string();
    agent
        .wait("the second master", |_, body| match body {
            master_frame::Body::Masters(named) => {
                let addresses: Vec<String> = named.masters.into_iter().map(|m| m.rpc).collect();
                (addresses.contains(&expected) && addresses.len() == 2).then_some(())
            }
            _ => None,
        })
        .await;
    second.shutdown().await;
    first.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_announces_itself_on_the_open_stream_and_the_work_goes_on() {
    let cluster = MemoryCluster::new();
    let first = start(&cluster, "m1");
    let old = leads(&first).await.epoch().0;
    let second = start(&cluster, "m2");
    has_role(&second, Role::Standby).await;
    let (mut on_leader, _) = Peer::agent(&first, "w1").await;
    let mut on_standby = Peer::attach(&second, register("w1", vec![])).await;
    let leader = on_standby.wait("standby", |epoch, body| match body {
        master_frame::Body::Standby(standby) => Some((epoch, standby.leader)),
        _ => None,
    });
    let (epoch, leader) = leader.await;
    assert_eq!((epoch, leader.unwrap().id.as_str()), (0, "m1"));

    submit(&mut client(&first), "s1").await;
    let (_, launch) = on_leader.launch().await;
    on_leader
        .say(report(1, &launch, ProcessState::Running, None))
        .await;
    on_leader.acknowledged(1).await;

    cluster.depose();
    let changed = on_standby.wait("master changed", |epoch, body| match body {
        master_frame::Body::MasterChanged(_) => Some(epoch),
        _ => None,
    });
    assert!(changed.await > old);
    let worker = WorkerId::new("w1");
    let view = leads(&second).await;
    assert_eq!(
        view.worker(&worker).unwrap().state,
        WorkerState::Unknown,
        "until it reports"
    );
    let running = RunningDriver {
        driver_id: launch.driver_id.clone(),
        attempt: launch.attempt,
        started_at_ms: 1,
    };
    on_standby.say(register("w1", vec![running])).await;
    on_standby.registered().await;
    let view = second.handle.view();
    assert_eq!(view.worker(&worker).unwrap().state, WorkerState::Alive);
    let driver = status(&mut client(&second), "s1")
        .await
        .unwrap()
        .driver
        .unwrap();
    assert_eq!(
        (driver.state.as_str(), driver.attempt),
        ("RUNNING", 1),
        "not started again"
    );
    first.shutdown().await;
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_session_is_not_a_dead_worker_and_a_newer_one_replaces_it() {
    let master = start(&MemoryCluster::new(), "m1");
    leads(&master).await;
    let worker = WorkerId::new("w1");
    let (agent, _) = Peer::agent(&master, "w1").await;
    drop(agent);
    sees(&master.handle, "unknown worker", |view| {
        view.worker(&worker)
            .is_some_and(|worker| worker.state == WorkerState::Unknown)
    })
    .await;
    let (mut older, _) = Peer::agent(&master, "w1").await;
    let (newer, _) = Peer::agent(&master, "w1").await;
    while older.next().await.is_some() {}
    let view = master.handle.view();
    assert_eq!(view.worker(&worker).unwrap().state, WorkerState::Alive);
    drop(newer);
    master.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_has_not_registered_in_this_epoch_is_asked_to() {
    let cluster = MemoryCluster::new();
    let master = start(&cluster, "m1");
    let epoch = leads(&master).await.epoch();
    let (mut agent, _) = Peer::agent(&master, "w1").await;
    cluster.depose();
    sees(&master.handle, "a larger epoch", |view| {
        view.epoch() > epoch
    })
    .await;
    agent.say(Body::Heartbeat(Heartbeat::default())).await;
    let reason = agent.wait("reregister", |_, body| match body {
        master_frame::Body::Reregister(reregister) => Some(reregister.reason),
        _ => None,
    });
    assert!(reason.await.contains("not registered in this epoch"));
    master.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_of_another_cluster_is_refused_by_both_names() {
    let master = start(&MemoryCluster::new(), "m1");
    let ours = leads(&master).await.cluster_id().to_owned();
    let Body::RegisterWorker(mut message) = register("w1", vec![]) else {
        panic!()
    };
    message.cluster_id = "another-cluster".into();
    let mut agent = Peer::attach(&master, Body::RegisterWorker(message)).await;
    let refused = agent.refused().await;
    assert!(refused.permanent);
    assert!(
        refused.reason.contains("`another-cluster`"),
        "{}",
        refused.reason
    );
    assert!(
        refused.reason.contains(&format!("`{ours}`")),
        "{}",
        refused.reason
    );
    assert_eq!(master.handle.view().workers().count(), 0);
    master.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_frames_are_refused_in_words_and_disturb_nobody() {
    let master = start(&MemoryCluster::new(), "m1");
    leads(&master).await;
    let (mut good, _) = Peer::agent(&master, "w1").await;

    let mut hasty = Peer::attach(&master, Body::Heartbeat(Heartbeat::default())).await;
    let refused = hasty.refused().await;
    assert!(refused.reason.contains("first frame"), "{}", refused.reason);
    assert!(hasty.next().await.is_none(), "and the session ends");

    let mut empty = Peer::attach(&master, Body::RegisterWorker(RegisterWorker::default())).await;
    let refused = empty.refused().await;
    assert!(
        refused.permanent && refused.reason.contains("spec"),
        "{}",
        refused.reason
    );

    good.say(Body::Report(WorkReport {
        sequence: 9,
        body: None,
    }))
    .await;
    good.acknowledged(9).await;
    submit(&mut client(&master), "s1").await;
    good.launch().await;
    master.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_session_that_ends_during_a_registration_costs_the_worker_no_time() {
    let faults = Faults::calm();
    let master = start_with(&MemoryCluster::new(), "m1", &faults);
    leads(&master).await;
    let (old, _) = Peer::agent(&master, "w1").await;
    faults.next(Op::Commit, Fault::Delay(Duration::from_millis(400)));
    let mut new = Peer::attach(&master, register("w1", vec![])).await;
    let under_way = async {
        let mut turns = tokio::time::interval(Duration::from_millis(5));
        while faults.injected() == 0 {
            turns.tick().await;
        }
    };
    timeout(PATIENCE, under_way).await.expect("a commit begins");
    drop(old);
    new.registered().await;
    // The end of the old session was decided after the new one's registration: it has to be said again, at once and
    // not at the next heartbeat, because until then the worker gets nothing.
    new.wait("register again", |_, body| match body {
        master_frame::Body::Reregister(_) => Some(()),
        _ => None,
    })
    .await;
    new.say(register("w1", vec![])).await;
    new.registered().await;
    sees(&master.handle, "w1 alive", |view| {
        view.worker(&WorkerId::new("w1"))
            .is_some_and(|w| w.state == WorkerState::Alive)
    })
    .await;
    master.shutdown().await;
}
