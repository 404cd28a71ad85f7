//! When this master begins to lead: drivers that have no connection to it are called.
//!
//! Once an epoch, over the applications that are stored; those that have a connection hear of it there
//! (`Connection::leading`), and are dialled only if they do not answer. Ends with the recovery timeout, after which the
//! leader gives up those that have not come.

use std::{io, sync::Arc, time::Duration};

use interrex_core::{
    ids::Epoch,
    state::{
        app::Application,
        worker::{Worker, WorkerState},
    },
};
use interrex_spark_wire::Address;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep},
};

use crate::{
    edge::spark_rpc::{SparkRpc, call},
    runtime::{handle::Role, tasks::OnEnd},
};

/// Drivers that are dialled at the same time.
const CALLS_MAX: usize = 64;
/// From one round of calls to the next.
const ROUND: Duration = Duration::from_secs(2);
/// A driver whose machine says so often that nobody listens there has gone.
const REFUSALS: u32 = 2;

/// Watches this master's role until it stops.
pub(crate) async fn run(rpc: Arc<SparkRpc>, patience: Duration) {
    let stop = rpc.tasks.stop().clone();
    let mut roles = rpc.handle.watch_role();
    let watch = async {
        loop {
            if *roles.borrow_and_update() == Role::Leading
                && let Ok(port) = rpc.handle.port()
            {
                let (rpc, epoch) = (&rpc, port.epoch);
                tokio::join!(
                    announce(rpc, epoch, patience),
                    announce_to_workers(rpc, epoch, patience)
                );
            }
            if roles.changed().await.is_err() {
                return;
            }
        }
    };
    stop.run_until_cancelled(watch).await;
}

/// Calls, round by round, whoever has not attached.
async fn announce(rpc: &Arc<SparkRpc>, epoch: Epoch, patience: Duration) {
    rpc.drivers.begin();
    let calls = Arc::new(Semaphore::new(CALLS_MAX));
    let view = rpc.handle.view();
    let is_open = |app: &&Arc<Application>| app.spec.spark.is_some() && !app.state.is_final();
    let mut apps: Vec<Arc<Application>> = view.apps().filter(is_open).cloned().collect();
    drop(view);
    let end = Instant::now() + patience;
    let mut is_first = true;
    while !apps.is_empty() && Instant::now() < end {
        if rpc.handle.port().map(|port| port.epoch).ok() != Some(epoch) {
            return;
        }
        for app in &apps {
            if is_first && has_connection(rpc, app) {
                continue;
            }
            let Ok(permit) = Arc::clone(&calls).acquire_owned().await else {
                return;
            };
            let (rpc_of_call, app) = (Arc::clone(rpc), Arc::clone(app));
            rpc.tasks
                .spawn_detached("call a driver", OnEnd::Expected, async move {
                    if let Err(error) = call::call(&rpc_of_call, &app).await {
                        tracing::info!(app = %app.id, %error, "a driver of Spark cannot be called");
                        if error.kind() == io::ErrorKind::ConnectionRefused {
                            rpc_of_call.drivers.refused(&app.id);
                        }
                    }
                    drop(permit);
                });
        }
        is_first = false;
        sleep(ROUND).await;
        let view = rpc.handle.view();
        apps.retain(|app| {
            let is_open = view.app(&app.id).is_some_and(|app| !app.state.is_final());
            is_open && !rpc.drivers.is_attached(&app.id, epoch)
        });
        drop(view);
        for app in &apps {
            // Its goodbye went to a master that did not lead any more, or it died while nobody led.
            if rpc.drivers.refusals(&app.id) >= REFUSALS {
                call::is_gone(rpc, app.id.clone()).await;
            }
        }
    }
}

/// Calls, round by round, Spark's own workers that have no connection here: their leader stands still, so that they do
/// not look for another one by themselves.
async fn announce_to_workers(rpc: &Arc<SparkRpc>, epoch: Epoch, patience: Duration) {
    let calls = Arc::new(Semaphore::new(CALLS_MAX));
    let end = Instant::now() + patience;
    while Instant::now() < end {
        if rpc.handle.port().map(|port| port.epoch).ok() != Some(epoch) {
            return;
        }
        let is_silent = |worker: &&Arc<Worker>| {
            worker.state == WorkerState::Unknown && worker.spec.spark.is_some()
        };
        let view = rpc.handle.view();
        let silent: Vec<Arc<Worker>> = view.workers().filter(is_silent).cloned().collect();
        drop(view);
        if silent.is_empty() {
            return;
        }
        for worker in silent {
            let spark = worker.spec.spark.as_ref();
            let address = spark.map(|spark| Address::new(spark.host.clone(), spark.port));
            if address.is_none_or(|address| rpc.drivers.is_here(&address)) {
                continue;
            }
            let Ok(permit) = Arc::clone(&calls).acquire_owned().await else {
                return;
            };
            let shared = Arc::clone(rpc);
            rpc.tasks
                .spawn_detached("call a worker", OnEnd::Expected, async move {
                    if let Err(error) = call::call_worker(&shared, &worker).await {
                        tracing::info!(worker = %worker.id, %error, "a worker of Spark cannot be called");
                    }
                    drop(permit);
                });
        }
        sleep(ROUND).await;
    }
}

fn has_connection(rpc: &SparkRpc, app: &Application) -> bool {
    app.spec.spark.as_ref().is_some_and(|spark| {
        let address = Address::new(spark.host.clone(), spark.port);
        rpc.drivers.is_here(&address)
    })
}
