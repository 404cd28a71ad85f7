//! `Explain`: an id → what the core says about it, as a message. Pure, and as dear as a look at every worker and driver:
//! callers keep it off the runtime's threads.

use interrex_core::{
    explain::{self, Explanation, Topic, Wait},
    ids::WorkerId,
    time::Timestamp,
};
use interrex_proto::v1;

use crate::runtime::view::{ClusterView, Found};

/// Explains what `id` names: a driver or application (as [`ClusterView::find`] looks for it), else a worker. `None`: it
/// names nothing.
#[must_use]
pub fn find(view: &ClusterView, id: &str, now: Timestamp) -> Option<v1::ExplainResponse> {
    let topic = match view.find(id) {
        Some(Found::Driver(driver)) => Topic::Driver(driver.id.clone()),
        Some(Found::App(app)) => Topic::App(app.id.clone()),
        None => Topic::Worker(WorkerId::new(id)),
    };
    explain::explain(view, &topic, now).map(message)
}

fn message(explanation: Explanation) -> v1::ExplainResponse {
    v1::ExplainResponse {
        id: explanation.id,
        kind: explanation.kind.to_owned(),
        state: explanation.state,
        summary: explanation.summary,
        details: explanation.details,
        waits: explanation.waits.into_iter().map(wait_message).collect(),
    }
}

fn wait_message(wait: Wait) -> v1::WaitExplained {
    let workers = wait.workers.into_iter().map(|verdict| v1::WorkerVerdict {
        worker_id: verdict.worker.to_string(),
        fits: verdict.fits,
        words: verdict.words,
    });
    let more = wait.more_workers.into_iter();
    let more = more.map(|(words, workers)| v1::VerdictCount {
        words: words.to_owned(),
        workers,
    });
    v1::WaitExplained {
        profile_id: wait.profile.0,
        needs: wait.needs,
        reason: wait.reason,
        hopeless: wait.hopeless,
        queue_before: wait.queue.before,
        queue_length: wait.queue.length,
        queue_order: wait.queue.order.to_owned(),
        held: wait.held,
        workers: workers.collect(),
        more_workers: more.collect(),
    }
}
