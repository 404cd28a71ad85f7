//! What happens in the cluster, told in the leader's log: which workers come and go, what is placed where, and how
//! it ends. Only what is durable is told, and only a change of state, once.
//!
//! Submissions are told at DEBUG only: there may be thousands a second, and their caller has the answer.

use interrex_core::{
    state::{
        app::Application,
        driver::{Driver, DriverState, Exit},
        executor::{Executor, ExecutorState},
        worker::{Worker, WorkerState},
    },
    transition::Mutation,
};
use tracing::{debug, info, warn};

use crate::runtime::view::ClusterView;

/// Tells what `mutation` changes, compared with `before`, which it has not been applied to yet.
pub(super) fn tell(before: &ClusterView, mutation: &Mutation) {
    let epoch = before.epoch().0;
    match mutation {
        Mutation::PutWorker(worker) => {
            let known = before.worker(&worker.id);
            if known.map(|known| known.state) != Some(worker.state) {
                tell_worker(epoch, worker);
            }
            tell_of_work(epoch, known.map(AsRef::as_ref), worker);
        }
        Mutation::DeleteWorker(worker) => info!(epoch, %worker, "a worker is forgotten"),
        Mutation::PutApp(app) => {
            let known = before.app(&app.id).map(|known| known.state);
            if known.is_none() || (known != Some(app.state) && app.state.is_final()) {
                tell_app(epoch, app);
            }
        }
        Mutation::PutDriver(driver) => {
            let known = before.driver(&driver.id);
            if known.map(|known| (known.state, known.attempt))
                != Some((driver.state, driver.attempt))
            {
                tell_driver(epoch, driver);
            }
        }
        Mutation::PutExecutor(executor) => {
            let known = before.executor(&executor.app, executor.id);
            if known.map(|known| known.state) != Some(executor.state) {
                tell_executor(epoch, executor);
            }
        }
        Mutation::PutMeta(_)
        | Mutation::DeleteApp(_)
        | Mutation::DeleteDriver(_)
        | Mutation::DeleteExecutor(..)
        | Mutation::PutRequest(_)
        | Mutation::DeleteRequest(_) => {}
    }
}

fn tell_worker(epoch: u64, worker: &Worker) {
    let (id, web) = (&worker.id, &worker.spec.web);
    let (cores, memory_mib) = (worker.spec.cores.0, worker.spec.memory.0);
    match worker.state {
        WorkerState::Alive => {
            info!(epoch, worker = %id, web, cores, memory_mib, "a worker is here")
        }
        WorkerState::Unknown => info!(epoch, worker = %id, "a worker is being waited for"),
        WorkerState::Dead => warn!(epoch, worker = %id, "a worker is dead"),
    }
}

/// Whether it gets work, for other reasons than its state.
fn tell_of_work(epoch: u64, before: Option<&Worker>, worker: &Worker) {
    let id = &worker.id;
    match (
        before.and_then(|before| before.drain.as_ref()),
        &worker.drain,
    ) {
        (before, Some(drain)) if before != Some(drain) => {
            let deadline = drain.deadline.map(|at| at.0);
            info!(epoch, worker = %id, deadline, reason = drain.reason, "a worker is being drained");
        }
        (Some(_), None) => info!(epoch, worker = %id, "a worker is not drained any more"),
        (Some(_) | None, Some(_)) | (None, None) => {}
    }
    let reason = &worker.not_accepting;
    if reason != before.map_or("", |before| &before.not_accepting) {
        warn!(epoch, worker = %id, reason, "a worker says whether it wants work; no reason: it does");
    }
}

fn tell_app(epoch: u64, app: &Application) {
    let (id, state, reason) = (&app.id, app.state.name(), &app.message);
    if app.state.is_final() {
        info!(epoch, app = %id, state, reason, "an application is over");
    } else {
        info!(epoch, app = %id, name = %app.spec.name, "an application has registered");
    }
}

fn tell_driver(epoch: u64, driver: &Driver) {
    let (id, attempt, reason) = (&driver.id, driver.attempt.0, &driver.message);
    let worker = driver.worker.as_ref().map(ToString::to_string);
    let (code, signal) = parts(driver.exit.as_ref());
    let state = driver.state.name();
    match driver.state {
        DriverState::Submitted => debug!(epoch, driver = %id, "a driver is accepted"),
        DriverState::Launching => info!(epoch, driver = %id, attempt, worker, "a driver is placed"),
        DriverState::Running => debug!(epoch, driver = %id, attempt, worker, "a driver runs"),
        DriverState::Relaunching => {
            info!(epoch, driver = %id, attempt, reason, "a driver is to be started again");
        }
        DriverState::Finished | DriverState::Killed | DriverState::Failed | DriverState::Error => {
            info!(epoch, driver = %id, attempt, worker, state, code, signal, reason, "a driver is over");
        }
    }
}

fn tell_executor(epoch: u64, executor: &Executor) {
    let Executor {
        app, id, worker, ..
    } = executor;
    let (state, reason) = (executor.state.name(), &executor.message);
    let (code, signal) = parts(executor.exit.as_ref());
    let id = id.0;
    match executor.state {
        ExecutorState::Launching => {
            info!(epoch, %app, executor = id, %worker, "an executor is placed");
        }
        ExecutorState::Running => debug!(epoch, %app, executor = id, %worker, "an executor runs"),
        ExecutorState::Killing => {
            info!(epoch, %app, executor = id, %worker, "an executor is to end");
        }
        ExecutorState::Decommissioned => {
            info!(epoch, %app, executor = id, %worker, "an executor's worker is being drained");
        }
        ExecutorState::Killed
        | ExecutorState::Failed
        | ExecutorState::Lost
        | ExecutorState::Exited => {
            info!(epoch, %app, executor = id, %worker, state, code, signal, reason, "an executor is over");
        }
    }
}

fn parts(exit: Option<&Exit>) -> (Option<i32>, Option<i32>) {
    exit.map_or((None, None), |exit| (exit.code, exit.signal))
}
