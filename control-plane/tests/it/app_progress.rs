//! Applications whose session is alive and whose program is not.

use std::time::Duration;

use interrex_client::app::{AppClient, AppEvent, AppEvents, AppHandle, AppOptions};
use interrex_control_plane::{app::RunningMaster, runtime::Role};
use interrex_core::ids::AppId;
use interrex_persistence::memory::MemoryCluster;
use interrex_proto::v1::{self, ApplicationSpec, CommandLine};
use tokio::time::timeout;

use crate::support::{PATIENCE, client, has_role, leads, sees, start, status};

/// As short as a busy machine allows; nothing is decided by it.
const WITHIN: Duration = Duration::from_millis(300);

async fn start_app(masters: &[&RunningMaster]) -> (AppHandle, AppEvents, String) {
    let spec = ApplicationSpec {
        name: "stuck".into(),
        user: "ann".into(),
        command: Some(CommandLine {
            program: "true".into(),
            ..Default::default()
        }),
        cores_per_executor: Some(1),
        memory_mib_per_executor: 64,
        executor_limit: Some(0),
        ..Default::default()
    };
    let masters = masters.iter().map(|master| master.rpc_addr.to_string());
    let options = AppOptions {
        progress_within: WITHIN,
        ..AppOptions::new(masters.collect(), spec)
    };
    let (app, mut events) = AppClient::start_with_events(options).expect("good options");
    let first = timeout(PATIENCE, events.recv()).await.expect("in time");
    let Some(AppEvent::Connected { app_id }) = first else {
        panic!("{first:?} instead of a connection")
    };
    (app, events, app_id)
}

async fn stalled(master: &RunningMaster, count: usize) {
    // What a session says is newer than any published state, which may not change at all: so it is asked for.
    let stalls = async {
        while master.handle.view().stalled_apps() != count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = timeout(PATIENCE, stalls).await;
    waited.unwrap_or_else(|_| panic!("never {count} without progress"));
}

async fn message(master: &RunningMaster, id: &str) -> String {
    let found = status(&mut client(master), id).await.expect("known");
    found.application.expect("an application").message
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_that_heartbeats_and_makes_no_progress_is_shown_as_that() {
    let cluster = MemoryCluster::new();
    let first = start(&cluster, "m1");
    leads(&first).await;
    let second = start(&cluster, "m2");
    has_role(&second, Role::Standby).await;
    let (app, mut events, id) = start_app(&[&first, &second]).await;
    assert_eq!(first.handle.view().stalled_apps(), 0);
    // From here on the program does not come for its events, as if it had dead-locked. Its session lives on.
    stalled(&first, 1).await;
    assert_eq!(message(&first, &id).await, "heartbeating, no progress");
    let request = v1::ExplainRequest { id: id.clone() };
    let explained = client(&first).explain(request).await.expect("known");
    let explained = explained.into_inner();
    let summary = &explained.summary;
    assert!(
        summary.starts_with("heartbeating, no progress"),
        "{summary}"
    );
    let hangs = |text: &String| text.contains("its program has not come for its events for");
    assert!(explained.details.iter().any(hangs), "{explained:?}");
    // The next leader hears of it too, and the application lives.
    cluster.depose();
    leads(&second).await;
    stalled(&second, 1).await;
    assert_eq!(message(&second, &id).await, "heartbeating, no progress");
    // The program goes on.
    let reads = tokio::spawn(async move { while events.recv().await.is_some() {} });
    stalled(&second, 0).await;
    assert_ne!(message(&second, &id).await, "heartbeating, no progress");
    drop(app);
    timeout(PATIENCE, reads)
        .await
        .expect("in time")
        .expect("it ends");
    first.shutdown().await;
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_that_hangs_and_goes_is_no_longer_said_to_hang() {
    let cluster = MemoryCluster::new();
    let master = start(&cluster, "m1");
    leads(&master).await;
    let (app, events, id) = start_app(&[&master]).await;
    stalled(&master, 1).await;
    drop((app, events));
    stalled(&master, 0).await;
    let known = |view: &interrex_control_plane::runtime::view::ClusterView| {
        view.app(&AppId::new(&id)).is_some()
    };
    sees(&master.handle, "the application, for its grace", known).await;
    master.shutdown().await;
}
