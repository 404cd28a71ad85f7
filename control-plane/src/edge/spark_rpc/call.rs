//! Dials drivers: a new leader calls those that have no connection to it, and one that has lost a driver's connection
//! asks whether the driver is still there.

use std::{io, sync::Arc, time::Duration};

use interrex_core::{
    command::Command,
    ids::AppId,
    state::{app::Application, worker::Worker},
};
use interrex_spark_wire::{Address, Dictionary, Purpose};
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::{
    edge::spark_rpc::{
        REQUEST_DEADLINE, SparkRpc,
        connection::{Connection, KnownPeer, one_way},
        worker::KnownWorker,
    },
    metrics,
    runtime::tasks::OnEnd,
};

/// How long a driver may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Tries to reach a driver whose connection has ended, and the pause between them.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);
const UNKNOWN: &str = "its build of Spark is not known to this master";

/// Dials an application's driver and tells it that this master leads.
///
/// # Errors
/// The driver cannot be reached.
pub(super) async fn call(rpc: &Arc<SparkRpc>, app: &Application) -> io::Result<()> {
    let known = rpc.dictionary_of(app);
    let spark = app.spec.spark.as_ref();
    let spark = spark.filter(|_| known.is_some() || rpc.probes.is_on());
    let Some(spark) = spark else {
        return Err(io::Error::other(UNKNOWN));
    };
    let driver = KnownPeer {
        address: Address::new(spark.host.clone(), spark.port),
        endpoint: spark.endpoint.clone(),
    };
    dial(rpc, known, driver, |connection, driver| {
        connection.app = Some(app.id.clone());
        connection.driver = Some(driver);
        tracing::info!(app = %app.id, driver = connection.from, "called a driver of Spark");
    })
    .await
}

/// Dials one of Spark's own workers and tells it that this master leads.
///
/// # Errors
/// The worker cannot be reached.
pub(super) async fn call_worker(rpc: &Arc<SparkRpc>, worker: &Worker) -> io::Result<()> {
    let spark = worker.spec.spark.as_ref();
    let known = spark.and_then(|spark| Some((spark, rpc.builds.of_line(&spark.line)?)));
    let Some((spark, dictionary)) = known else {
        return Err(io::Error::other(UNKNOWN));
    };
    let peer = KnownPeer {
        address: Address::new(spark.host.clone(), spark.port),
        endpoint: spark.endpoint.clone(),
    };
    dial(rpc, Some(dictionary), peer, |connection, peer| {
        tracing::info!(worker = %worker.id, from = connection.from, "called a worker of Spark");
        let known = KnownWorker::new(worker.id.clone(), peer, rpc.me.clone());
        connection.worker = Some(known);
    })
    .await
}

/// Dials a peer and greets it as the leader; `introduce` writes down on the connection who it is. A driver of a build that is
/// not known is asked first what its classes look like.
async fn dial(
    rpc: &Arc<SparkRpc>,
    dictionary: Option<Arc<Dictionary>>,
    peer: KnownPeer,
    introduce: impl FnOnce(&mut Connection, KnownPeer),
) -> io::Result<()> {
    let Address { host, port } = &peer.address;
    let dial = TcpStream::connect((host.as_str(), *port));
    let socket = timeout(CONNECT_TIMEOUT, dial).await??;
    socket.set_nodelay(true)?;
    let attached = rpc.peers.attach();
    let attached = attached.ok_or_else(|| io::Error::other("too many sessions"))?;
    let mut connection = Connection::accepted(Arc::clone(rpc), attached.id, &socket);
    let greeting = match &dictionary {
        Some(dictionary) => one_way(rpc, dictionary, &peer, &rpc.master_changed())
            .map(|frame| vec![frame])
            .map_err(io::Error::other)?,
        None => connection.ask_peer(Purpose::Driver, peer.clone()).frames,
    };
    if greeting.is_empty() {
        rpc.peers.detach(attached.id);
        return Err(io::Error::other(UNKNOWN));
    }
    connection.line = dictionary;
    rpc.drivers.came(&peer.address);
    introduce(&mut connection, peer);
    rpc.serve(connection, socket, attached, greeting);
    Ok(())
}

/// The connection that spoke for an application has ended without a word: either the driver has, too, or only the
/// connection. Calls it; if nobody is there, the application is over (as in Spark, which does not call).
pub(super) fn after_loss(rpc: &Arc<SparkRpc>, app: AppId) {
    if rpc.handle.port().is_err() || rpc.tasks.stop().is_cancelled() {
        return;
    }
    let shared = Arc::clone(rpc);
    let work = async move {
        for attempt in 1..=TRIES {
            let Some(record) = shared.handle.view().app(&app).cloned() else {
                return;
            };
            if record.state.is_final() || shared.handle.port().is_err() {
                return;
            }
            match call(&shared, &record).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::info!(%app, attempt, %error, "the driver of an application cannot be reached")
                }
            }
            if attempt < TRIES {
                sleep(PAUSE).await;
            }
        }
        is_gone(&shared, app).await;
    };
    rpc.tasks
        .spawn_detached("call a driver", OnEnd::Expected, work);
}

/// Nobody is there any more: the application is over.
pub(super) async fn is_gone(rpc: &SparkRpc, app: AppId) {
    metrics::spark_refused("driver gone");
    let command = Command::UnregisterApplication {
        app: app.clone(),
        failed: true,
        message: "its driver has gone without unregistering".to_owned(),
    };
    if let Err(error) = rpc.handle.submit(command, REQUEST_DEADLINE).await {
        tracing::warn!(%app, %error, "the end of an application of Spark is not recorded");
    }
}
