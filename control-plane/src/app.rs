//! The composition root of a master: which parts there are, in which order they start, and in which order they stop.
//!
//! What must never happen: that a part is started which cannot be stopped, or that stopping waits for a peer. The
//! gRPC server comes up before the first campaign, since masters elect each other through it, and goes down after
//! leadership has been handed over. Health and metrics have a thread and runtime of their own and are the last to go.

mod admin_thread;
mod listeners;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use interrex_core::config::ClusterConfig;
use interrex_persistence::{backend::Backend, election::MasterInfo};
use interrex_proto::{limits, v1::FILE_DESCRIPTOR_SET};
use interrex_web::{log_level::LogControl, patience::Patient, server};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::{
    sync::Semaphore,
    task::JoinHandle,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tonic::{service::Routes, transport::server::Server};
use tonic_health::{ServingStatus, server::HealthReporter};

use self::admin_thread::{AdminThread, Served};
pub use self::listeners::Listeners;
use crate::{
    access::Access,
    edge::{
        grpc::{control, guard::Guard, session::Sessions, snapshots},
        rest,
        spark_rpc::{
            SparkRpc,
            builds::Builds,
            split::{Http1, Http2, split},
            takeover,
        },
    },
    metrics::{self, Queue},
    options::{MasterConfig, RestOptions, UiOptions},
    runtime::{
        RoleOptions,
        handle::MasterHandle,
        leader_watch,
        peers::Peers,
        role::RoleTask,
        shared::Shared,
        tasks::{OnEnd, Tasks},
    },
};

/// A peer is asked for a heartbeat this many times within its timeout.
const HEARTBEATS_PER_TIMEOUT: u32 = 4;
/// Streams of one connection at the same time.
const STREAMS_MAX: u32 = 4096;
/// Connections to the submission API, over both its ports; one more is closed at once.
const REST_CONNECTIONS_MAX: usize = 2048;

/// Everything that a master needs to know, besides its listeners and its backend.
#[derive(Debug, Clone)]
pub struct MasterOptions {
    /// What it tells others about itself.
    pub me: MasterInfo,
    /// How the cluster decides.
    pub cluster: ClusterConfig,
    /// Waits and bounds of its role.
    pub role: RoleOptions,
    /// Who may change something.
    pub access: Access,
    /// Whether peers of unknown builds of Spark are asked what their classes look like.
    pub spark_probe: bool,
    /// The submission API.
    pub rest: RestOptions,
    /// Whether gRPC reflection is served.
    pub reflection: bool,
    /// From the call of [`RunningMaster::shutdown`] to its end, at most.
    pub shutdown_grace: Duration,
    /// The pages for people.
    pub ui: UiOptions,
    /// What `/metrics` shows; `None`: nothing.
    pub prometheus: Option<PrometheusHandle>,
    /// What can be changed at `/debug/log-level`; `None`: nothing.
    pub log: Option<LogControl>,
}

/// Why a master could not start. None of these is cured by trying again without a change.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error(
        "cannot listen on {address} (option {option}): {source}; choose another address or stop what uses it"
    )]
    Bind {
        /// The option that sets it.
        option: &'static str,
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// A part could not be built.
    #[error("{part}: {source}")]
    Build {
        /// Which.
        part: &'static str,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A master that serves. Dropping it stops it without handing anything over.
#[derive(Debug)]
pub struct RunningMaster {
    /// Where gRPC listens.
    pub rpc_addr: SocketAddr,
    /// Where the submission API listens; `None` when it is off.
    pub rest_addr: Option<SocketAddr>,
    /// Where health and metrics listen.
    pub web_addr: SocketAddr,
    /// For whoever wants to ask it.
    pub handle: MasterHandle,
    shared: Arc<Shared>,
    peers: Arc<Peers>,
    tasks: Tasks,
    role: JoinHandle<()>,
    servers_stop: CancellationToken,
    health: HealthReporter,
    admin: AdminThread,
    grace: Duration,
}

/// Starts masters.
#[derive(Debug)]
pub struct Master;

// === impl MasterOptions ===

impl MasterOptions {
    /// What a configuration says, with the ports that were bound.
    #[must_use]
    pub fn from_config(config: &MasterConfig, listeners: &Listeners) -> Self {
        Self {
            me: listeners.advertised(&config.id),
            cluster: config.cluster.to_core(),
            role: RoleOptions {
                commit_deadline: config.commit_deadline(),
                ..RoleOptions::default()
            },
            access: Access::default(),
            spark_probe: config.spark_probe,
            rest: config.rest.clone(),
            ui: config.ui.clone(),
            reflection: config.server.reflection,
            shutdown_grace: config.shutdown_grace,
            prometheus: None,
            log: None,
        }
    }
}

// === impl Master ===

impl Master {
    /// Starts every part of a master. It serves when this returns, and campaigns.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(
        options: MasterOptions,
        listeners: Listeners,
        backend: Backend,
    ) -> Result<RunningMaster, StartError> {
        let shared = Arc::new(Shared::new(&options.me, options.access, &backend));
        let (peers, tasks) = (Arc::new(Peers::default()), Tasks::default());
        let handle = MasterHandle::new(Arc::clone(&shared));
        let servers_stop = CancellationToken::new();
        let (rpc_addr, rest_addr, web_addr) = listeners.addresses();
        let Listeners { rpc, rest, web, .. } = listeners;

        let served = Served {
            ui: options.ui,
            prometheus: options.prometheus,
            log: options.log,
        };
        let admin = AdminThread::start(web, handle.clone(), served)?;
        let sessions = Sessions {
            handle: handle.clone(),
            peers: Arc::clone(&peers),
            tasks: tasks.clone(),
            heartbeat_interval: options.cluster.worker_timeout / HEARTBEATS_PER_TIMEOUT,
            at_most_once_lease: options.cluster.at_most_once_lease(),
            builds: Arc::new(Builds::new()),
            spark_probe: options.spark_probe,
        };
        let spark = SparkRpc::new(&sessions);
        let snapshots = snapshots::service(handle.clone(), tasks.clone());
        let peer_routes = backend.peer_routes.clone().unwrap_or_default();
        let peer_routes = peer_routes.add_service(snapshots);
        let (routes, health) = routes(peer_routes, &handle, sessions, options.reflection)?;
        let rpc = tokio_listener(rpc, "gRPC")?;
        let call_drivers = takeover::run(Arc::clone(&spark), options.cluster.recovery_timeout);
        tasks.spawn_detached("spark takeover", OnEnd::Alarm, call_drivers);
        let shared_port = split(rpc, spark, &tasks, servers_stop.clone());
        let (incoming, http1) = shared_port.map_err(|source| StartError::Build {
            part: "gRPC",
            source: Box::new(source),
        })?;
        let serve = serve_rpc(routes, Guard::new(&handle), incoming, &servers_stop);
        tasks.spawn_detached("grpc server", OnEnd::Alarm, serve);
        if let Some(rest) = rest {
            let shared_too = (rest, http1);
            start_rest(options.rest, &handle, shared_too, &tasks, &servers_stop)?;
        }
        let watch = leader_watch::run(shared.leaders.clone(), tasks.stop().clone());
        tasks.spawn_detached("leader watch", OnEnd::Expected, watch);
        let role = RoleTask {
            shared: Arc::clone(&shared),
            election: backend.election,
            engine: backend.engine,
            peers: Arc::clone(&peers),
            tasks: tasks.clone(),
            cluster: options.cluster,
            options: options.role,
        };
        let role = tasks.spawn("role", OnEnd::Alarm, role.run());
        tracing::info!(id = options.me.id, rpc = %rpc_addr, rest = ?rest_addr, web = %web_addr, "serving");
        Ok(RunningMaster {
            rpc_addr,
            rest_addr,
            web_addr,
            handle,
            shared,
            peers,
            tasks,
            role,
            servers_stop,
            health,
            admin,
            grace: options.shutdown_grace,
        })
    }
}

// === impl RunningMaster ===

impl RunningMaster {
    /// Stops in order: refuse new requests, finish what is under way, hand leadership over, close sessions and
    /// servers, close the backend, and health and metrics last. Bounded by the shutdown grace; what has not
    /// ended then is left behind with a warning.
    ///
    /// # Cancel safety
    /// Dropping the future stops without handing over what is left.
    pub async fn shutdown(mut self) {
        let deadline = Instant::now() + self.grace;
        tracing::info!(grace_ms = self.grace.as_millis(), "stopping");
        self.shared.stopping.send_replace(true);
        self.health
            .set_service_status("", ServingStatus::NotServing)
            .await;
        self.tasks.stop().cancel();
        if timeout_at(deadline, &mut self.role).await.is_err() {
            tracing::warn!("leadership was not handed over in time");
        }
        self.peers.close_all();
        self.servers_stop.cancel();
        let backend = self.shared.admin.shutdown();
        if timeout_at(deadline, backend).await.is_err() {
            tracing::warn!("the backend was not closed in time");
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if !self.tasks.wait(left).await {
            tracing::warn!("some connections did not end in time: left behind");
        }
        self.admin.stop();
        tracing::info!("stopped");
    }
}

impl Drop for RunningMaster {
    fn drop(&mut self) {
        self.shared.stopping.send_replace(true);
        self.tasks.stop().cancel();
        self.peers.close_all();
        self.servers_stop.cancel();
        self.admin.stop();
    }
}

/// Serves Spark's submission API, on its own port and to those who ask for it on the shared one.
fn start_rest(
    options: RestOptions,
    handle: &MasterHandle,
    (listener, shared): (std::net::TcpListener, Http1),
    tasks: &Tasks,
    stop: &CancellationToken,
) -> Result<(), StartError> {
    let router = rest::router(handle.clone(), options).map_err(|source| StartError::Build {
        part: "REST",
        source: Box::new(source),
    })?;
    let refused = || metrics::refused(Queue::RestConnections);
    let places = Arc::new(Semaphore::new(REST_CONNECTIONS_MAX));
    handle.watch_places(Queue::RestConnections, &places, REST_CONNECTIONS_MAX);
    let listener = Patient::new(
        tokio_listener(listener, "REST")?,
        Arc::clone(&places),
        refused,
    );
    let serve = server::serve(listener, router.clone(), stop.clone());
    tasks.spawn_detached("rest server", OnEnd::Alarm, serve);
    let shared = Patient::new(shared, places, refused);
    let serve = server::serve(shared, router, stop.clone());
    tasks.spawn_detached("rest server of the shared port", OnEnd::Alarm, serve);
    Ok(())
}

/// Every gRPC service of a master, on top of those among masters.
fn routes(
    peer_routes: Routes,
    handle: &MasterHandle,
    sessions: Sessions,
    reflected: bool,
) -> Result<(Routes, HealthReporter), StartError> {
    let (health, health_service) = tonic_health::server::health_reporter();
    let routes = peer_routes
        .add_service(control::service(handle.clone()))
        .add_service(sessions.into_service())
        .add_service(health_service);
    let routes = if reflected {
        routes.add_service(reflection()?)
    } else {
        routes
    };
    Ok((routes, health))
}

fn serve_rpc(
    routes: Routes,
    guard: Guard,
    incoming: Http2,
    stop: &CancellationToken,
) -> impl Future<Output = ()> + Send + use<> {
    let stop = stop.clone();
    async move {
        let served = Server::builder()
            .http2_keepalive_interval(Some(limits::KEEPALIVE_INTERVAL))
            .http2_keepalive_timeout(Some(limits::KEEPALIVE_TIMEOUT))
            .max_concurrent_streams(Some(STREAMS_MAX))
            .layer(guard)
            .add_routes(routes)
            .serve_with_incoming_shutdown(incoming, stop.cancelled_owned())
            .await;
        if let Err(error) = served {
            tracing::error!(%error, "the gRPC server failed");
        }
    }
}

fn reflection() -> Result<
    tonic_reflection::server::v1::ServerReflectionServer<
        impl tonic_reflection::server::v1::ServerReflection,
    >,
    StartError,
> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(|source| StartError::Build {
            part: "gRPC reflection",
            source: Box::new(source),
        })
}

fn tokio_listener(
    listener: std::net::TcpListener,
    part: &'static str,
) -> Result<tokio::net::TcpListener, StartError> {
    tokio::net::TcpListener::from_std(listener).map_err(|source| StartError::Build {
        part,
        source: Box::new(source),
    })
}

#[cfg(test)]
mod tests {
    use interrex_persistence::options::EngineKind;

    use super::*;
    use crate::options::ServerOptions;

    #[test]
    fn every_value_of_the_configuration_reaches_the_master() {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut config = MasterConfig {
            id: "m7".to_owned(),
            engine: EngineKind::Memory,
            shutdown_grace: Duration::from_secs(3),
            server: ServerOptions {
                rpc: free,
                rest: free,
                web: free,
                reflection: false,
                advertise_host: Some("localhost".to_owned()),
                ..ServerOptions::default()
            },
            ..MasterConfig::default()
        };
        config.cluster.worker_timeout = Duration::from_secs(7);
        config.raft.commit_deadline = Duration::from_millis(750);
        config.rest.concurrent_requests_max = 3;
        let listeners = Listeners::bind(&config.server).expect("free ports");
        let (rpc, _, _) = listeners.addresses();
        let options = MasterOptions::from_config(&config, &listeners);
        assert_eq!(options.me.id, "m7");
        assert_eq!(options.me.rpc, format!("localhost:{}", rpc.port()));
        assert_eq!(options.cluster, config.cluster.to_core());
        assert_eq!(options.cluster.worker_timeout, Duration::from_secs(7));
        assert_eq!(options.role.commit_deadline, Duration::from_millis(750));
        assert_eq!(options.rest, config.rest);
        assert!(!options.reflection);
        assert_eq!(options.shutdown_grace, Duration::from_secs(3));
        config.engine = EngineKind::Etcd;
        config.etcd.lease = Duration::from_secs(10);
        assert_eq!(config.commit_deadline(), Duration::from_secs(10));
    }
}
