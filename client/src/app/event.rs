//! What an application hears, as values or through a listener.

use interrex_proto::v1::{ExecutorInfo, WorkerRemoved};

/// One thing that happened to an application. `Dead` and `Finished` are the last event.
#[derive(Debug, Clone, PartialEq)]
pub enum AppEvent {
    /// A leader has taken the application: at first, and again after each [`AppEvent::Disconnected`].
    Connected {
        /// The application's id; the same for its whole life.
        app_id: String,
    },
    /// The leader is gone. Executors run on, and the next leader is looked for.
    Disconnected,
    /// An executor was granted.
    ExecutorAdded(ExecutorInfo),
    /// A granted executor changed and lives on.
    ExecutorUpdated(ExecutorInfo),
    /// An executor is over; its state, exit and message say how.
    ExecutorRemoved(ExecutorInfo),
    /// A worker is lost. Its executors are told one by one as well.
    WorkerRemoved(WorkerRemoved),
    /// The application is over without having been asked to end: killed, failed, refused, or given up.
    Dead {
        /// Why.
        reason: String,
    },
    /// The cluster has declared the application finished (all its executors have completed).
    Finished {
        /// The cluster's words.
        message: String,
    },
}

/// How an application ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppEnd {
    /// It unregistered.
    Unregistered {
        /// A leader has confirmed it.
        confirmed: bool,
    },
    /// The cluster has declared it finished.
    Finished {
        /// The cluster's words.
        message: String,
    },
    /// It was killed, failed, was refused, or has found no leader for too long.
    Dead {
        /// Why.
        reason: String,
    },
    /// Its handles were dropped, or its shutdown token was cancelled. The cluster will notice.
    Closed,
}

/// Told of every [`AppEvent`], one after the other, from one task. It should return soon: while it works, later
/// events wait.
pub trait AppListener: Send + 'static {
    /// See [`AppEvent::Connected`].
    fn connected(&mut self, _app_id: &str) {}
    /// See [`AppEvent::Disconnected`].
    fn disconnected(&mut self) {}
    /// See [`AppEvent::ExecutorAdded`].
    fn executor_added(&mut self, _executor: &ExecutorInfo) {}
    /// See [`AppEvent::ExecutorUpdated`].
    fn executor_updated(&mut self, _executor: &ExecutorInfo) {}
    /// See [`AppEvent::ExecutorRemoved`].
    fn executor_removed(&mut self, _executor: &ExecutorInfo) {}
    /// See [`AppEvent::WorkerRemoved`].
    fn worker_removed(&mut self, _worker: &WorkerRemoved) {}
    /// See [`AppEvent::Dead`].
    fn dead(&mut self, _reason: &str) {}
    /// See [`AppEvent::Finished`].
    fn finished(&mut self, _message: &str) {}
}

pub(super) fn tell(listener: &mut impl AppListener, event: AppEvent) {
    match event {
        AppEvent::Connected { app_id } => listener.connected(&app_id),
        AppEvent::Disconnected => listener.disconnected(),
        AppEvent::ExecutorAdded(executor) => listener.executor_added(&executor),
        AppEvent::ExecutorUpdated(executor) => listener.executor_updated(&executor),
        AppEvent::ExecutorRemoved(executor) => listener.executor_removed(&executor),
        AppEvent::WorkerRemoved(worker) => listener.worker_removed(&worker),
        AppEvent::Dead { reason } => listener.dead(&reason),
        AppEvent::Finished { message } => listener.finished(&message),
    }
}
