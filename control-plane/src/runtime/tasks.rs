//! Tasks with a name, so that shutdown can wait for them and a panic is seen.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt;
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The long-lived tasks of one master.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

/// What the end of a task before shutdown means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnEnd {
    /// Its work is done.
    Expected,
    /// It must not: somebody has to look.
    Alarm,
}

// === impl Tasks ===

impl Tasks {
    /// Cancelled when the master is to stop.
    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Runs `work`; a panic is logged, and ends only this task.
    pub(crate) fn spawn(
        &self,
        name: &'static str,
        on_end: OnEnd,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        let stop = self.stop.clone();
        self.tracker.spawn(async move {
            let ended = AssertUnwindSafe(work).catch_unwind().await;
            if ended.is_err() {
                metrics::counter!("interrex_task_panics_total", "task" => name).increment(1);
                tracing::error!(event = "task_panicked", task = name, "task panicked");
            } else if on_end == OnEnd::Alarm && !stop.is_cancelled() {
                tracing::error!(task = name, "task ended before shutdown");
            }
        })
    }

    /// As [`spawn`](Self::spawn), for a task that nobody waits for by itself.
    pub(crate) fn spawn_detached(
        &self,
        name: &'static str,
        on_end: OnEnd,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        drop(self.spawn(name, on_end, work));
    }

    /// Waits until every task has ended; false when `grace` passed first.
    pub(crate) async fn wait(&self, grace: Duration) -> bool {
        self.tracker.close();
        timeout(grace, self.tracker.wait()).await.is_ok()
    }
}
