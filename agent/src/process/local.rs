//! The real runner: each attempt is one task that owns one supervisor process.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use interrex_proto::trace;
use tokio::sync::{mpsc, watch};
use tracing::Span;

use crate::{
    metrics,
    process::{
        EndCause, Launch, ProcessEvent, ProcessRunner,
        attempt::{self, Attempt, cause_of, exit_of},
        key::WorkKey,
        proc,
        protocol::Lease,
        record::{self, AttemptRecord},
        template::Site,
        work_dirs::WorkDirs,
    },
    traces,
};

/// Kill orders that can wait for one attempt; further ones say nothing new and are dropped.
const ORDERS_MAX: usize = 4;
/// How often an attempt of a former life is looked at until it is gone.
const FORMER_POLL: Duration = Duration::from_millis(50);
/// How long, beyond the grace, a supervisor of a former life may take to end its tree before it is killed.
const FORMER_EXTRA: Duration = Duration::from_secs(5);
/// How often, where looking itself goes wrong.
const FORMER_RETRY: Duration = Duration::from_secs(5);

/// What every attempt of one runner shares.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// The directories of drivers and executors.
    pub work_dirs: WorkDirs,
    /// Where the records of attempts are kept; must exist.
    pub running_dir: PathBuf,
    /// The supervisor's command; the path of the attempt's record is appended.
    pub supervisor: Vec<OsString>,
    /// What every program is told of its machine.
    pub site: Site,
    /// From SIGTERM to SIGKILL where the agent has died.
    pub orphan_grace: Duration,
}

/// Runs programs on this machine.
#[derive(Debug, Clone)]
pub struct LocalRunner {
    options: Arc<LocalOptions>,
    orders: Arc<Mutex<BTreeMap<WorkKey, mpsc::Sender<Duration>>>>,
    leases: watch::Sender<Option<Lease>>,
    events: mpsc::Sender<ProcessEvent>,
}

// === impl LocalRunner ===

impl LocalRunner {
    /// A runner that tells `events` what happens. Must live inside a tokio runtime.
    #[must_use]
    pub fn new(options: LocalOptions, events: mpsc::Sender<ProcessEvent>) -> Self {
        Self {
            options: Arc::new(options),
            orders: Arc::default(),
            leases: watch::Sender::new(None),
            events,
        }
    }

    /// Takes care of an attempt that an earlier life of this agent left: waits until its supervisor is gone, ends
    /// what it may have left, and tells how it ended. Returns at once.
    pub fn resume(&self, path: PathBuf, record: AttemptRecord) {
        let events = self.events.clone();
        let in_use = self.options.work_dirs.claim(record.key.owner());
        let patience = tokio::time::Instant::now() + self.options.orphan_grace + FORMER_EXTRA;
        tokio::spawn(async move {
            let key = record.key.clone();
            let (exit, cause) = loop {
                if patience <= tokio::time::Instant::now() {
                    // Its own deadline is over: it is stopped, or stuck.
                    tracing::warn!(%key, "a supervisor of a former life does not end; killing it");
                    let path = path.clone();
                    if let Err(error) = blocking(move || proc::end_supervisor(&path)).await {
                        tracing::error!(%key, %error, "a supervisor of a former life cannot be killed");
                    }
                }
                let (path, token) = (path.clone(), record.token.clone());
                match blocking(move || end_former(&path, &token)).await {
                    Ok(Some(end)) => break end,
                    Ok(None) => tokio::time::sleep(FORMER_POLL).await,
                    Err(error) => {
                        tracing::error!(%key, %error, "cannot see whether an attempt of a former life is gone");
                        tokio::time::sleep(FORMER_RETRY).await;
                    }
                }
            };
            drop(in_use);
            // A closed channel means that the agent is ending; its next life asks again.
            drop(events.send(ProcessEvent::Ended { key, exit, cause }).await);
        });
    }

    fn forget(&self, key: &WorkKey) {
        self.orders
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(key);
    }
}

impl ProcessRunner for LocalRunner {
    fn start(&self, mut launch: Launch) {
        let (orders_tx, orders) = mpsc::channel(ORDERS_MAX);
        let key = launch.key.clone();
        self.orders
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key.clone(), orders_tx);
        let span = match &launch.trace {
            Some(place) => traces::span("start process", &key, place),
            None => Span::none(),
        };
        // What the process does belongs below its start.
        launch.trace = trace::place(&span).or(launch.trace);
        let attempt = Attempt {
            options: Arc::clone(&self.options),
            launch,
            orders,
            leases: self.leases.subscribe(),
        };
        let runner = self.clone();
        let ordered = tokio::time::Instant::now();
        let starting = Mutex::new(Some(span));
        let came_to = move |event: &ProcessEvent| {
            let span = starting
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(span) = span {
                traces::came_to(&span, event);
            }
        };
        tokio::spawn(async move {
            let events = runner.events.clone();
            let last = attempt::run(attempt, |event| {
                metrics::launched(ordered.elapsed());
                came_to(&event);
                let events = events.clone();
                async move { drop(events.send(event).await) }
            })
            .await;
            came_to(&last);
            if matches!(last, ProcessEvent::NotStarted { .. }) {
                metrics::launch_failed();
            }
            // Before the event: whoever hears it may start the next attempt.
            runner.forget(&key);
            drop(events.send(last).await);
        });
    }

    fn kill(&self, key: &WorkKey, grace: Duration) {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(order) = orders.get(key) {
            // Full or closed: it is being ended already, or has ended.
            order.try_send(grace).ok();
        }
    }

    fn renew(&self, lease: Lease) {
        self.leases.send_replace(Some(lease));
    }
}

/// One look at an attempt of a former life: `None` while something of it is still there.
fn end_former(
    path: &Path,
    token: &str,
) -> io::Result<Option<(Option<interrex_proto::v1::Exit>, EndCause)>> {
    // Missing: seen to be over by an earlier look, or by an earlier life that did not get to report it.
    let claimed = match std::fs::File::open(path) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if let Some(file) = &claimed {
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Ok(None),
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
        }
    }
    if proc::sweep(token, None)? > 0 {
        return Ok(None);
    }
    if claimed.is_some() {
        // Under the lock: a supervisor that was started but has not claimed its record yet will not find it.
        record::mark_over(path)?;
    }
    Ok(Some(record::read_ending(path).map_or(
        (None, EndCause::AgentGone),
        |ending| {
            (
                Some(exit_of(&ending)),
                cause_of(&ending, EndCause::AgentGone),
            )
        },
    )))
}

/// Runs file work off the async threads.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?
}
