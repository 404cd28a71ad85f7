//! Spark's own protocol, on the same port as gRPC: unmodified drivers register here, and so do Spark's own workers
//! ([`worker`]).
//!
//! Translates Spark's messages to the commands of everybody else's, and what the leader tells an application to
//! Spark's messages; a driver's connection is a session like any other ([`Peers`]). No decision is made here, and
//! whatever comes in is bounded: a peer that sends garbage, too much or too slowly loses its connection, and the
//! leader's loop never notices.
//!
//! A driver never looks for a new leader by itself: it waits to be called. So a new leader tells `MasterChanged` on the
//! connections that drivers have opened to it while it stood by, and dials those that have none ([`takeover`]).

mod application;
pub(crate) mod builds;
mod call;
mod command;
mod connection;
mod drivers;
mod inbound;
mod notices;
mod probes;
mod probing;
mod registering;
pub(crate) mod split;
mod submissions;
pub(crate) mod takeover;
mod worker;

pub(crate) use self::worker::driver_name;

use std::{sync::Arc, time::Duration};

use interrex_core::state::app::Application;
use interrex_spark_wire::{Address, Dictionary, message::EndpointRef};
use tokio::net::TcpStream;

use self::{builds::Builds, connection::Connection, drivers::Drivers, probes::Probes};
use crate::{
    edge::grpc::session::Sessions,
    runtime::{
        handle::MasterHandle,
        peers::{Attached, Peers, SESSIONS_MAX},
        tasks::{OnEnd, Tasks},
    },
};

/// The name of a master's endpoint.
const MASTER_ENDPOINT: &str = "Master";
/// Longest frame that is accepted: a registration has about 5 kB, a submission carries its client's environment.
const FRAME_BYTES_MAX: usize = 4 << 20;
/// How long a request of a driver may wait for its commit.
const REQUEST_DEADLINE: Duration = Duration::from_secs(5);

/// What all connections of Spark's protocol share.
#[derive(Debug)]
pub(crate) struct SparkRpc {
    handle: MasterHandle,
    peers: Arc<Peers>,
    tasks: Tasks,
    /// Where this master listens, as it tells others.
    me: Address,
    /// Its pages, for a driver's log.
    web_url: String,
    drivers: Drivers,
    builds: Arc<Builds>,
    probes: Arc<Probes>,
    /// How often a worker is asked whether it is there.
    heartbeat_interval: Duration,
}

// === impl SparkRpc ===

impl SparkRpc {
    /// What agents' sessions have, Spark's have, too.
    pub(crate) fn new(sessions: &Sessions) -> Arc<Self> {
        let handle = sessions.handle.clone();
        let me = handle.status().me;
        Arc::new(Self {
            me: address(&me.rpc),
            web_url: if me.web.is_empty() {
                String::new()
            } else {
                format!("http://{}", me.web)
            },
            handle,
            peers: Arc::clone(&sessions.peers),
            tasks: sessions.tasks.clone(),
            drivers: Drivers::default(),
            builds: Arc::clone(&sessions.builds),
            probes: Probes::new(sessions.spark_probe),
            heartbeat_interval: sessions.heartbeat_interval,
        })
    }

    /// Serves a connection that a peer has opened.
    fn accept(self: &Arc<Self>, socket: TcpStream) {
        let Some(attached) = self.peers.attach() else {
            tracing::warn!(
                max = SESSIONS_MAX,
                "too many sessions: a connection of Spark is refused"
            );
            return;
        };
        let connection = Connection::accepted(Arc::clone(self), attached.id, &socket);
        self.serve(connection, socket, attached, Vec::new());
    }

    fn serve(
        self: &Arc<Self>,
        connection: Connection,
        socket: TcpStream,
        attached: Attached,
        greeting: Vec<interrex_spark_wire::Frame>,
    ) {
        let work = connection.run(socket, attached, greeting);
        self.tasks
            .spawn_detached("spark connection", OnEnd::Expected, work);
    }

    /// The build of an application's driver.
    fn dictionary_of(&self, app: &Application) -> Option<Arc<Dictionary>> {
        self.builds.of_line(&app.spec.spark.as_ref()?.line)
    }

    /// This master, as Spark refers to it.
    fn reference(&self) -> EndpointRef {
        EndpointRef::new(MASTER_ENDPOINT, self.me.clone())
    }
}

/// `host:port`; what masters call themselves has been checked at their start.
fn address(text: &str) -> Address {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Address::new(host, port.parse().unwrap_or_default())
}
