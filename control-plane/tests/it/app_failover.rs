//! Applications over a failover: what happened while nobody led is told as it was, once.

use std::collections::BTreeMap;

use interrex_client::app::{AppClient, AppEvent, AppEvents, AppOptions};
use interrex_control_plane::runtime::Role;
use interrex_core::ids::AppId;
use interrex_persistence::memory::MemoryCluster;
use interrex_proto::v1::{
    self, ApplicationSpec, CommandLine, ExecutorChanged, Exit, ProcessState, RegisterApplication,
    RegisterWorker, WorkReport, master_frame, peer_frame::Body, work_report,
};
use tokio::time::timeout;

use crate::support::{PATIENCE, Peer, has_role, leads, register, sees, start};

fn spec(executors: u32) -> ApplicationSpec {
    ApplicationSpec {
        name: "count".into(),
        user: "ann".into(),
        command: Some(CommandLine {
            program: "count".into(),
            ..Default::default()
        }),
        cores_per_executor: Some(1),
        memory_mib_per_executor: 64,
        executor_limit: Some(executors),
        completes: true,
        ..Default::default()
    }
}

fn change(
    sequence: u64,
    launch: &v1::LaunchExecutor,
    state: ProcessState,
    code: Option<i32>,
) -> WorkReport {
    let exit = code.map(|code| Exit {
        code: Some(code),
        signal: None,
    });
    WorkReport {
        sequence,
        body: Some(work_report::Body::Executor(ExecutorChanged {
            app_id: launch.app_id.clone(),
            executor_id: launch.executor_id,
            state: state.into(),
            exit,
            ..Default::default()
        })),
    }
}

/// The registration of the agent `w1` whose executor has ended unseen.
fn register_with_result(result: WorkReport) -> Body {
    let Body::RegisterWorker(registration) = register("w1", vec![]) else {
        panic!("a registration")
    };
    Body::RegisterWorker(RegisterWorker {
        unacknowledged: vec![result],
        ..registration
    })
}

async fn launched(agent: &mut Peer) -> v1::LaunchExecutor {
    agent
        .wait("launch executor", |_, body| match body {
            master_frame::Body::LaunchExecutor(launch) => Some(launch),
            _ => None,
        })
        .await
}

async fn next(events: &mut AppEvents) -> AppEvent {
    let event = timeout(PATIENCE, events.recv()).await;
    event.expect("an event in time").expect("the client lives")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_that_exits_while_nobody_leads_is_told_once_with_its_code() {
    let cluster = MemoryCluster::new();
    let first = start(&cluster, "m1");
    leads(&first).await;
    let second = start(&cluster, "m2");
    has_role(&second, Role::Standby).await;
    let (mut agent, _) = Peer::agent(&first, "w1").await;
    let masters = [&first, &second].map(|master| master.rpc_addr.to_string());
    let options = AppOptions::new(masters.to_vec(), spec(2));
    let (app, mut events) = AppClient::start_with_events(options).expect("good options");
    let id = AppId::new(timeout(PATIENCE, app.connected()).await.unwrap().unwrap());
    let orders = [launched(&mut agent).await, launched(&mut agent).await];
    for (order, sequence) in orders.iter().zip(1..) {
        let running = change(sequence, order, ProcessState::Running, None);
        agent.say(Body::Report(running)).await;
        agent.acknowledged(sequence).await;
    }
    // The second runs on; it ends after everybody is back, which marks the end of what is to be heard.
    let mut removed: BTreeMap<u32, Vec<v1::ExecutorInfo>> = BTreeMap::new();
    cluster.depose();
    leads(&second).await;
    let [ended, running] = &orders;
    let Body::RegisterWorker(mut back) =
        register_with_result(change(7, ended, ProcessState::Exited, Some(0)))
    else {
        panic!("a registration")
    };
    back.executors = vec![v1::RunningExecutor {
        app_id: running.app_id.clone(),
        executor_id: running.executor_id,
        cores: 1,
        memory_mib: 64,
        started_at_ms: 1,
    }];
    let mut agent = Peer::attach(&second, Body::RegisterWorker(back)).await;
    agent.registered().await;
    let mut reconnected = false;
    while !(removed.contains_key(&running.executor_id)) {
        match next(&mut events).await {
            AppEvent::Disconnected => reconnected = true,
            AppEvent::ExecutorRemoved(executor) => {
                let over = executor.executor_id == ended.executor_id;
                removed
                    .entry(executor.executor_id)
                    .or_default()
                    .push(executor);
                if over {
                    let last = change(8, running, ProcessState::Exited, Some(3));
                    agent.say(Body::Report(last)).await;
                }
            }
            _ => {}
        }
    }
    assert!(reconnected);
    let told = |id: u32| -> Vec<(String, Option<i32>)> {
        let infos = removed.get(&id).into_iter().flatten();
        infos
            .map(|e| (e.state.clone(), e.exit.and_then(|exit| exit.code)))
            .collect()
    };
    assert_eq!(told(ended.executor_id), [("EXITED".to_owned(), Some(0))]);
    assert_eq!(told(running.executor_id), [("EXITED".to_owned(), Some(3))]);
    let counted = sees(&second.handle, "one completed executor", |view| {
        view.app(&id).is_some_and(|app| app.executor_failures == 1)
    });
    assert_eq!(counted.await.app(&id).unwrap().executors_completed, 1);
    first.shutdown().await;
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_that_attaches_last_is_given_the_ends_that_it_missed() {
    let cluster = MemoryCluster::new();
    let first = start(&cluster, "m1");
    leads(&first).await;
    let second = start(&cluster, "m2");
    has_role(&second, Role::Standby).await;
    let (mut agent, _) = Peer::agent(&first, "w1").await;
    let registration = |app_id: &str| {
        Body::RegisterApplication(RegisterApplication {
            request_id: "r1".into(),
            app_id: app_id.into(),
            spec: Some(spec(1)),
            ..Default::default()
        })
    };
    let mut app = Peer::attach(&first, registration("")).await;
    let app_id = app.registered().await.app_id;
    let order = launched(&mut agent).await;
    let running = change(1, &order, ProcessState::Running, None);
    agent.say(Body::Report(running)).await;
    agent.acknowledged(1).await;
    cluster.depose();
    leads(&second).await;
    let result = change(2, &order, ProcessState::Exited, Some(0));
    let mut agent = Peer::attach(&second, register_with_result(result)).await;
    agent.acknowledged(2).await;
    let mut app = Peer::attach(&second, registration(&app_id)).await;
    let executors = app.registered().await.executors;
    let told: Vec<_> = executors
        .iter()
        .map(|e| {
            (
                e.executor_id,
                e.state.as_str(),
                e.exit.and_then(|exit| exit.code),
            )
        })
        .collect();
    assert_eq!(told, [(0, "EXITED", Some(0))]);
    let view = second.handle.view();
    let completed = view.app(&AppId::new(&app_id)).unwrap().executors_completed;
    assert_eq!(completed, 1);
    first.shutdown().await;
    second.shutdown().await;
}
