//! When this master begins to lead: drivers and Spark's own workers that have no connection to it are called.
//!
//! Once an epoch, over the applications that are stored. Drivers with a connection hear of it there (`Connection::leading`),
//! and are dialled only if they do not answer; workers that have one are left to it, the others do not look for a leader
//! by themselves while theirs stands still. Ends with the recovery timeout, after which the leader gives up those that
//! have not come.

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

/// Who is called.
#[derive(Debug)]
enum Callee {
    Driver(Arc<Application>),
    Worker(Arc<Worker>),
}

/// Watches this master's role until it stops.
pub(crate) async fn run(rpc: Arc<SparkRpc>, patience: Duration) {
    let stop = rpc.tasks.stop().clone();
    let mut roles = rpc.handle.watch_role();
    let watch = async {
        loop {
            if *roles.borrow_and_update() == Role::Leading
                && let Ok(port) = rpc.handle.port()
            {
                announce(&rpc, port.epoch, patience).await;
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
    let mut apps = open_apps(rpc);
    let end = Instant::now() + patience;
    let mut is_first = true;
    while Instant::now() < end {
        let workers = unknown_workers(rpc);
        let is_over = apps.is_empty() && workers.is_empty();
        if is_over || rpc.handle.port().map(|port| port.epoch).ok() != Some(epoch) {
            return;
        }
        let apps_called = apps
            .iter()
            .filter(|app| !(is_first && is_here(rpc, driver_address(app))));
        let workers_called = workers
            .into_iter()
            .filter(|worker| !is_here(rpc, worker_address(worker)));
        let callees = apps_called.cloned().map(Callee::Driver);
        for callee in callees.chain(workers_called.map(Callee::Worker)) {
            let Ok(permit) = Arc::clone(&calls).acquire_owned().await else {
                return;
            };
            let shared = Arc::clone(rpc);
            rpc.tasks
                .spawn_detached("call a peer of Spark", OnEnd::Expected, async move {
                    callee.call(&shared).await;
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

fn open_apps(rpc: &SparkRpc) -> Vec<Arc<Application>> {
    let view = rpc.handle.view();
    let is_open = |app: &&Arc<Application>| app.spec.spark.is_some() && !app.state.is_final();
    view.apps().filter(is_open).cloned().collect()
}

/// Spark's own workers that have not said yet what they run.
fn unknown_workers(rpc: &SparkRpc) -> Vec<Arc<Worker>> {
    let view = rpc.handle.view();
    let is_silent =
        |worker: &&Arc<Worker>| worker.state == WorkerState::Unknown && worker.spec.spark.is_some();
    view.workers().filter(is_silent).cloned().collect()
}

fn driver_address(app: &Application) -> Option<Address> {
    let spark = app.spec.spark.as_ref()?;
    Some(Address::new(spark.host.clone(), spark.port))
}

fn worker_address(worker: &Worker) -> Option<Address> {
    let spark = worker.spec.spark.as_ref()?;
    Some(Address::new(spark.host.clone(), spark.port))
}

fn is_here(rpc: &SparkRpc, peer: Option<Address>) -> bool {
    peer.is_some_and(|peer| rpc.drivers.is_here(&peer))
}

// === impl Callee ===

impl Callee {
    async fn call(&self, rpc: &Arc<SparkRpc>) {
        match self {
            Self::Driver(app) => {
                if let Err(error) = call::call(rpc, app).await {
                    tracing::info!(app = %app.id, %error, "a driver of Spark cannot be called");
                    if error.kind() == io::ErrorKind::ConnectionRefused {
                        rpc.drivers.refused(&app.id);
                    }
                }
            }
            Self::Worker(worker) => {
                if let Err(error) = call::call_worker(rpc, worker).await {
                    tracing::info!(worker = %worker.id, %error, "a worker of Spark cannot be called");
                }
            }
        }
    }
}
