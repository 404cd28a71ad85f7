//! The tokio side of the worker machine: one task that owns it, feeds it and carries out its actions.
//!
//! It waits for nobody but the disk when an epoch is new (an order of that epoch may not be obeyed before), and that
//! wait is bounded. Everything else goes to other tasks: processes to the runner, results to the store's task.

use std::{
    collections::BTreeSet,
    future::pending,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use interrex_client::session::{Delivery, SessionEvent, SessionHandle};
use interrex_proto::{
    clock,
    v1::{WorkReport, master_frame, peer_frame},
};
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    clock as lease_clock,
    metrics::{self, Queue},
    process::{LogOwner, ProcessEvent, ProcessRunner, WorkKey},
    state::{AgentState, StateDir},
    traces::Launches,
    worker::{Action, Event, Now, WorkerMachine, store::Change, view::WorkerView},
};

/// Questions of the web server that may wait.
pub(crate) const QUERIES_MAX: usize = 64;
/// Process events that may wait; runners wait beyond that.
pub(crate) const PROCESS_EVENTS_MAX: usize = 1_024;
/// How often writing the state is tried at once before the agent goes on without.
const PERSIST_TRIES: u32 = 3;
/// Between two of these tries.
const PERSIST_RETRY: Duration = Duration::from_millis(100);
/// How long one of these tries may take.
const PERSIST_TIMEOUT: Duration = Duration::from_secs(1);
/// How soon a state that the disk has refused is written again.
const PERSIST_AGAIN: Duration = Duration::from_secs(5);
/// How long a stopping agent waits, beyond the grace, for its processes.
const STOP_EXTRA: Duration = Duration::from_secs(15);
/// How long a stopping agent waits for its last reports to be acknowledged.
const STOP_REPORTS: Duration = Duration::from_secs(2);

/// A question of the web server.
#[derive(Debug)]
pub(crate) struct Query(pub(crate) oneshot::Sender<WorkerView>);

/// Whose log files may still grow, whose results are not acknowledged, and whether the state on disk is current. Shared
/// with the web server and the clean-up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Board(Arc<RwLock<Notes>>);

#[derive(Debug, Default)]
struct Notes {
    live: BTreeSet<LogOwner>,
    unacknowledged: BTreeSet<LogOwner>,
    disk_trouble: Option<String>,
}

/// Everything that the pump owns.
pub(crate) struct Pump {
    pub(crate) machine: WorkerMachine,
    pub(crate) launches: Launches,
    pub(crate) runner: Arc<dyn ProcessRunner>,
    pub(crate) session: SessionHandle,
    pub(crate) session_events: mpsc::Receiver<SessionEvent>,
    pub(crate) process_events: mpsc::Receiver<ProcessEvent>,
    pub(crate) changes: mpsc::Sender<Change>,
    pub(crate) stored: mpsc::Receiver<Event>,
    pub(crate) queries: mpsc::Receiver<Query>,
    pub(crate) board: Board,
    /// Why the clean-up would have no new work; closed when the agent has none.
    pub(crate) disk: watch::Receiver<Option<String>>,
    /// Tells the clean-up that work has ended.
    pub(crate) ended: Arc<Notify>,
    pub(crate) state: AgentState,
    pub(crate) state_dir: Arc<StateDir>,
    pub(crate) kill_grace: Duration,
    pub(crate) shutdown: CancellationToken,
    pub(crate) began: Instant,
}

/// How far an orderly stop is.
#[derive(Debug, Clone, Copy)]
enum Stop {
    Running,
    /// Processes are being ended.
    Ending {
        until: Instant,
    },
    /// Only acknowledgements are missing.
    Reporting {
        until: Instant,
    },
}

// === impl Board ===

impl Board {
    /// With what an earlier life has left.
    pub(crate) fn new(machine: &WorkerMachine) -> Self {
        let board = Self::default();
        let live = machine.view().processes;
        let live = live.iter().map(|it| it.work.owner()).collect();
        board.set_work(live, machine.unacknowledged());
        board
    }

    /// Whether something may still write to the logs of `owner`.
    pub(crate) fn is_live(&self, owner: &LogOwner) -> bool {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .live
            .contains(owner)
    }

    /// Why the state on disk is not current, if so.
    pub(crate) fn disk_trouble(&self) -> Option<String> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .disk_trouble
            .clone()
    }

    /// Whose directories must stay: work without a result, or with one that no master has acknowledged.
    pub(crate) fn kept(&self) -> BTreeSet<LogOwner> {
        let notes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        notes.live.union(&notes.unacknowledged).cloned().collect()
    }

    fn set_work(&self, live: BTreeSet<LogOwner>, unacknowledged: BTreeSet<LogOwner>) {
        let mut notes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        notes.live = live;
        notes.unacknowledged = unacknowledged;
    }

    fn set_disk_trouble(&self, trouble: Option<String>) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .disk_trouble = trouble;
    }
}

// === impl Pump ===

impl Pump {
    /// Runs until the shutdown token is cancelled and the processes are gone.
    pub(crate) async fn run(mut self) {
        let mut stop = Stop::Running;
        let mut generation = 0;
        let mut session_open = true;
        let mut persist_at = None;
        loop {
            if generation != self.machine.generation() {
                generation = self.machine.generation();
                let view = self.machine.view();
                let live = view.processes.iter().map(|it| it.work.owner()).collect();
                self.board.set_work(live, self.machine.unacknowledged());
                self.ended.notify_one();
            }
            self.publish();
            if self.is_stopped(&mut stop) {
                break;
            }
            let wake = self.wake(stop);
            if self.board.disk_trouble().is_none() {
                persist_at = None;
            } else {
                persist_at = persist_at.or_else(|| Some(Instant::now() + PERSIST_AGAIN));
            }
            let event = tokio::select! {
                event = self.session_events.recv(), if session_open => match event {
                    Some(event) => {
                        log_order(&event, self.state.epoch);
                        Event::from(event)
                    }
                    None => {
                        tracing::error!("the session with the masters has ended");
                        session_open = false;
                        Event::Detached { reason: "the session has ended".to_owned() }
                    }
                },
                Some(event) = self.process_events.recv() => {
                    log_process(&event);
                    self.launches.heard(&event);
                    Event::Process(event)
                }
                Some(event) = self.stored.recv() => event,
                Ok(()) = self.disk.changed() => {
                    Event::Disk { trouble: self.disk.borrow_and_update().clone() }
                }
                Some(Query(answer)) = self.queries.recv() => {
                    // Whoever asked may have left.
                    drop(answer.send(self.machine.view()));
                    continue;
                }
                () = self.shutdown.cancelled(), if matches!(stop, Stop::Running) => {
                    stop = Stop::Ending { until: Instant::now() + self.kill_grace + STOP_EXTRA };
                    Event::Stop
                }
                () = at(persist_at) => {
                    persist_at = None;
                    self.persist(1).await;
                    continue;
                }
                () = at(wake) => Event::Tick,
            };
            self.feed(event).await;
        }
        self.session.close().await;
    }

    /// The gauges; costs the same however much runs.
    fn publish(&self) {
        metrics::publish(&self.machine.usage());
        let waiting = self.process_events.len();
        metrics::queue(Queue::ProcessEvents, waiting, PROCESS_EVENTS_MAX);
        let limit = self.changes.max_capacity();
        metrics::queue(Queue::Results, limit - self.changes.capacity(), limit);
    }

    fn is_stopped(&self, stop: &mut Stop) -> bool {
        let now = Instant::now();
        if let Stop::Ending { until } = *stop {
            if self.machine.is_idle() {
                *stop = Stop::Reporting {
                    until: now + STOP_REPORTS,
                };
            } else if until <= now {
                tracing::error!("processes have not ended; their supervisors go on ending them");
                return true;
            }
        }
        match *stop {
            Stop::Running | Stop::Ending { .. } => false,
            Stop::Reporting { until } => {
                let nobody_hears = !self.machine.is_attached();
                self.machine.has_reported_all() || nobody_hears || until <= now
            }
        }
    }

    fn wake(&self, stop: Stop) -> Option<Instant> {
        let machine = self
            .machine
            .next_deadline()
            .map(|elapsed| self.began + elapsed);
        let stop = match stop {
            Stop::Running => None,
            Stop::Ending { until } | Stop::Reporting { until } => Some(until),
        };
        machine.into_iter().chain(stop).min()
    }

    fn now(&self) -> Now {
        Now {
            elapsed: self.began.elapsed(),
            boot: lease_clock::since_boot(),
            wall_ms: clock::now_ms(),
        }
    }

    /// Hands one event to the machine, carries out what it says, and hands in what came of that.
    async fn feed(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let now = self.now();
            for action in self.machine.handle(event, now) {
                events.extend(self.carry_out(action).await);
            }
        }
    }

    async fn carry_out(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::PersistEpoch(epoch) => {
                tracing::info!(epoch, "a new leader's epoch");
                self.state.epoch = epoch;
                self.persist(PERSIST_TRIES).await;
            }
            Action::PersistCluster(cluster_id) => {
                tracing::info!(cluster_id, "joined a cluster");
                self.state.cluster_id = cluster_id;
                self.persist(PERSIST_TRIES).await;
            }
            Action::PersistMasters(masters) => self.persist_masters(masters).await,
            Action::Register {
                stream,
                registration,
            } => {
                let body = peer_frame::Body::RegisterWorker(*registration);
                if self.session.register(stream, body).await.is_err() {
                    tracing::debug!("a registration came too late: the session is closed");
                }
            }
            Action::Heartbeat(heartbeat) => {
                self.send(peer_frame::Body::Heartbeat(heartbeat)).await;
            }
            Action::Report(report) => return self.send_report(report).await,
            Action::Stale(stale) => {
                self.send(peer_frame::Body::StaleEpoch(stale)).await;
            }
            Action::Start(mut launch) => {
                let program = &launch.command.program;
                tracing::info!(work = %launch.key, epoch = launch.epoch, program, "starting");
                self.launches.begin(&mut launch);
                self.runner.start(*launch);
            }
            Action::Kill { key, grace } => {
                tracing::info!(work = %key, ?grace, "ending");
                self.runner.kill(&key, grace);
            }
            Action::Renew(lease) => self.runner.renew(lease),
            Action::Store(report) => {
                let sequence = report.sequence;
                if self
                    .changes
                    .try_send(Change::Put(Box::new(report)))
                    .is_err()
                {
                    metrics::refused(Queue::Results);
                    tracing::error!(
                        sequence,
                        "the disk does not keep up: a result waits to be written"
                    );
                    return Some(Event::Stored {
                        sequence,
                        stored: false,
                    });
                }
            }
            Action::Forget(sequence) => {
                if self.changes.try_send(Change::Forget(sequence)).is_err() {
                    metrics::refused(Queue::Results);
                    tracing::warn!(
                        sequence,
                        "the disk does not keep up: a result will be sent again"
                    );
                }
            }
        }
        None
    }

    async fn send_report(&self, report: WorkReport) -> Option<Event> {
        let sequence = report.sequence;
        match self.send(peer_frame::Body::Report(report)).await {
            Some(Delivery::Queued) => None,
            Some(Delivery::NotAttached | Delivery::Busy) | None => {
                Some(Event::NotSent { sequence })
            }
        }
    }

    async fn send(&self, body: peer_frame::Body) -> Option<Delivery> {
        self.session.send(body).await.ok()
    }

    /// Writes down who the masters are. Where the disk refuses, the next start knows only those of its options.
    async fn persist_masters(&self, masters: Vec<String>) {
        tracing::info!(?masters, "the leader names the masters");
        let directory = Arc::clone(&self.state_dir);
        let written = tokio::task::spawn_blocking(move || directory.save_masters(&masters));
        match timeout(PERSIST_TIMEOUT, written).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::warn!(%error, "the list of masters is not on disk"),
            Ok(Err(error)) => tracing::warn!(%error, "the list of masters is not on disk"),
            Err(_elapsed) => tracing::warn!("the list of masters is not on disk in time"),
        }
    }

    /// Writes the state. Where the disk refuses, the fence holds in memory, and `/readyz` says that the disk does not:
    /// an agent that stopped obeying would be lost to its cluster for want of one small file.
    async fn persist(&self, tries: u32) {
        let mut trouble = String::new();
        for again in (0..tries).rev() {
            let (directory, state) = (Arc::clone(&self.state_dir), self.state.clone());
            let written = tokio::task::spawn_blocking(move || directory.save(&state));
            match timeout(PERSIST_TIMEOUT, written).await {
                Ok(Ok(Ok(()))) => {
                    if self.board.disk_trouble().is_some() {
                        tracing::info!("the agent's state is on disk again");
                    }
                    self.board.set_disk_trouble(None);
                    return;
                }
                Ok(Ok(Err(error))) => trouble = error.to_string(),
                Ok(Err(error)) => trouble = error.to_string(),
                Err(_elapsed) => trouble = format!("not written within {PERSIST_TIMEOUT:?}"),
            }
            if again > 0 {
                sleep(PERSIST_RETRY).await;
            }
        }
        if self.board.disk_trouble().is_none() {
            tracing::error!(
                error = trouble,
                "the agent's state could not be written; trying again"
            );
        }
        self.board.set_disk_trouble(Some(trouble));
    }
}

fn log_process(event: &ProcessEvent) {
    let key: &WorkKey = event.key();
    match event {
        ProcessEvent::Started { pid, .. } => tracing::info!(work = %key, pid, "running"),
        ProcessEvent::NotStarted { message, .. } => {
            tracing::warn!(work = %key, reason = message, "not started");
        }
        ProcessEvent::Ended { exit, cause, .. } => {
            let (code, signal) = exit.map_or((None, None), |exit| (exit.code, exit.signal));
            tracing::info!(work = %key, code, signal, ?cause, "ended");
        }
    }
}

/// What has been ordered to start, before anything is decided about it; `heard`: the largest epoch known by then.
fn log_order(event: &SessionEvent, heard: u64) {
    let SessionEvent::Frame { epoch, body } = event else {
        return;
    };
    let key = if let master_frame::Body::LaunchDriver(order) = body {
        WorkKey::driver(&order.driver_id, order.attempt)
    } else if let master_frame::Body::LaunchExecutor(order) = body {
        WorkKey::executor(&order.app_id, order.executor_id)
    } else {
        return;
    };
    tracing::info!(work = %key, epoch, heard, "ordered to start");
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}
