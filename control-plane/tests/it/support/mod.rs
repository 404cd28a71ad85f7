//! Builders that all tests share. Every wait has a deadline; nothing sleeps.

mod peer;
pub(crate) mod spark;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use interrex_control_plane::{
    app::{Listeners, Master, MasterOptions, RunningMaster},
    options::{MasterConfig, ServerOptions},
    runtime::{ClusterView, MasterHandle, Role},
};
use interrex_persistence::{faulty::Faults, memory::MemoryCluster, options::EngineKind};
use interrex_proto::{
    channel::{ChannelOptions, dial},
    credentials::MasterChannel,
    v1::{self, control_client::ControlClient},
};
use tokio::time::timeout;

pub(crate) use self::peer::{Peer, register, report};

/// How long a test waits for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Starts the master `id` of `cluster`.
pub(crate) fn start(cluster: &MemoryCluster, id: &str) -> RunningMaster {
    start_with(cluster, id, &Faults::calm())
}

/// The same, with an engine that misbehaves as `faults` say.
pub(crate) fn start_with(cluster: &MemoryCluster, id: &str, faults: &Faults) -> RunningMaster {
    start_configured(cluster, id, faults, |_| {})
}

/// The same, with other options.
pub(crate) fn start_configured(
    cluster: &MemoryCluster,
    id: &str,
    faults: &Faults,
    change: impl FnOnce(&mut MasterOptions),
) -> RunningMaster {
    let (mut options, listeners) = bind(id);
    change(&mut options);
    let backend = faults.wrap(cluster.join(options.me.clone()));
    Master::start(options, listeners, backend).expect("a master")
}

/// Free ports for the master `id`, and its options.
pub(crate) fn bind(id: &str) -> (MasterOptions, Listeners) {
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = ServerOptions {
        rpc: local,
        rest: local,
        web: local,
        ..ServerOptions::default()
    };
    let config = MasterConfig {
        id: id.to_owned(),
        engine: EngineKind::Memory,
        server,
        ..MasterConfig::default()
    };
    let listeners = Listeners::bind(&config.server).expect("free ports");
    let options = MasterOptions::from_config(&config, &listeners);
    (options, listeners)
}

/// Waits until this master leads and its cluster has an id.
pub(crate) async fn leads(master: &RunningMaster) -> Arc<ClusterView> {
    let mut views = master.handle.watch();
    let led = views.wait_for(|view| !view.is_empty() && !view.cluster_id().is_empty());
    let view = timeout(PATIENCE, led)
        .await
        .expect("leads in time")
        .expect("the master runs");
    Arc::clone(&view)
}

/// Waits until this master has `role`.
pub(crate) async fn has_role(master: &RunningMaster, role: Role) {
    let mut roles = master.handle.watch_role();
    let reached = timeout(PATIENCE, roles.wait_for(|is| *is == role)).await;
    drop(reached.expect("the role in time").expect("the master runs"));
}

/// Waits until a published view satisfies `holds`.
pub(crate) async fn sees(
    handle: &MasterHandle,
    what: &str,
    holds: impl Fn(&ClusterView) -> bool,
) -> Arc<ClusterView> {
    let mut views = handle.watch();
    match timeout(PATIENCE, views.wait_for(|view| holds(view))).await {
        Ok(view) => Arc::clone(&view.expect("the master runs")),
        Err(_elapsed) => panic!("not seen in time: {what}"),
    }
}

/// A client of one master.
pub(crate) fn client(master: &RunningMaster) -> ControlClient<MasterChannel> {
    let channel = dial(&master.rpc_addr.to_string(), &ChannelOptions::default()).expect("address");
    ControlClient::new(channel)
}

/// A driver that runs a command.
pub(crate) fn driver(name: &str) -> v1::DriverSpec {
    v1::DriverSpec {
        name: name.into(),
        user: "ann".into(),
        command: Some(v1::CommandLine {
            program: "true".into(),
            ..Default::default()
        }),
        cores: 1,
        memory_mib: 64,
        ..Default::default()
    }
}

/// A submission of [`driver`] under `request_id`.
pub(crate) fn submission(request_id: &str) -> v1::SubmitRequest {
    v1::SubmitRequest {
        request_id: request_id.into(),
        spec: Some(driver("a driver")),
    }
}

/// Submits and returns the driver's id.
pub(crate) async fn submit(client: &mut ControlClient<MasterChannel>, request_id: &str) -> String {
    let answer = client
        .submit(submission(request_id))
        .await
        .expect("accepted")
        .into_inner();
    answer.driver.expect("a driver").id
}

/// A linearizable status.
pub(crate) async fn status(
    client: &mut ControlClient<MasterChannel>,
    id: &str,
) -> Result<v1::StatusResponse, tonic::Status> {
    let request = v1::StatusRequest {
        id: id.into(),
        stale_ok: false,
    };
    client
        .get_status(request)
        .await
        .map(tonic::Response::into_inner)
}
