//! Looking: the control keys as they change, and what follows from each look.
//!
//! One task, for the life of the backend. A watch says that something has changed; what it is, is always read anew, and
//! read every few seconds even without a word of the watch. So a watch that hangs, or was cut off by a compaction,
//! costs seconds and never the truth.

use std::sync::Arc;

use etcd_client::{WatchOptions, WatchStream};
use tokio::time::{Instant, sleep_until};

use super::{
    control::Control,
    failure::{CallError, Kind},
    limits::{CALL_DEADLINE, LIST_INTERVAL, RETRY_MAX, RETRY_MIN},
    node::Node,
    status::Problem,
};

/// Runs until closing.
pub(super) async fn run(node: Arc<Node>) {
    let mut pause = RETRY_MIN;
    while !node.closing.is_cancelled() {
        let observed = tokio::select! {
            biased;
            () = node.closing.cancelled() => break,
            observed = observe(&node) => observed,
        };
        match observed {
            Ok(()) => pause = RETRY_MIN,
            Err(error) => {
                tracing::debug!(master = node.id(), %error, "not observing etcd");
                node.rest(pause).await;
                pause = (pause * 2).min(RETRY_MAX);
            }
        }
    }
}

/// Reads and watches, until the watch fails or is found asleep.
async fn observe(node: &Arc<Node>) -> Result<(), CallError> {
    let mut last = adopt(node, node.list().await?).await;
    let generation = node.link.generation();
    let mut watch = open_watch(node, last.revision).await?;
    loop {
        let next = Instant::now() + LIST_INTERVAL;
        let told = tokio::select! {
            message = watch.message() => {
                match message {
                    Ok(Some(message)) if !message.canceled() => true,
                    Ok(Some(message)) => {
                        let reason = message.cancel_reason().to_owned();
                        return Err(CallError::new(Kind::Unknown, format!("watch cancelled: {reason}")));
                    }
                    Ok(None) => return Err(CallError::new(Kind::Unknown, "the watch ended")),
                    Err(error) => {
                        let error = CallError::from(error);
                        node.link.disconnect(generation, &error);
                        return Err(error);
                    }
                }
            }
            () = node.nudge.notified() => true,
            () = sleep_until(next) => false,
        };
        let found = adopt(node, node.list().await?).await;
        let missed = !told && differs(&last, &found);
        last = found;
        if missed {
            tracing::warn!(
                master = node.id(),
                "the watch on etcd says nothing: watching anew"
            );
            return Ok(());
        }
    }
}

async fn open_watch(node: &Node, revision: i64) -> Result<WatchStream, CallError> {
    let key = node.keys.control();
    let from = WatchOptions::new()
        .with_prefix()
        .with_start_revision(revision + 1);
    node.link
        .call(
            "watch",
            Instant::now() + CALL_DEADLINE,
            |mut client| async move { client.watch(key, Some(from)).await },
        )
        .await
}

/// Whether something has changed besides the revision of etcd as a whole.
fn differs(last: &Control, found: &Control) -> bool {
    let same_revision = Control {
        revision: last.revision,
        ..found.clone()
    };
    *last != same_revision
}

/// Takes over what was read.
async fn adopt(node: &Arc<Node>, control: Control) -> Arc<Control> {
    let control = Arc::new(control);
    node.seat.reconcile(&control);
    node.control.send_replace(Arc::clone(&control));
    if let Some(reason) = &control.unfit {
        node.status.set(Problem::Unfit, reason.clone());
        return control;
    }
    if control.leader.is_some() {
        // Somebody could write.
        node.status.clear(Problem::NoSpace);
        node.heard_of(control.epoch()).await;
    }
    disown(node, &control).await;
    control
}

/// Removes a leader key of this master that nobody holds: of an earlier life, of a campaign that nobody waited for,
/// or of a resignation that did not get through. Else the cluster would wait for its lease, or for ever.
async fn disown(node: &Arc<Node>, control: &Control) {
    let Some(leader) = &control.leader else {
        return;
    };
    let own = leader.value.node == node.dir.identity().node;
    // In this order: a campaign takes the seat before it ceases to attempt.
    if !own || node.is_attempting() || node.seat.holds(leader.create_revision) {
        return;
    }
    match node.remove_leader(leader, None).await {
        Ok(true) => tracing::info!(
            master = node.id(),
            epoch = %leader.epoch(),
            "removed a leadership of this master that nobody holds"
        ),
        Ok(false) => {}
        Err(error) => tracing::debug!(master = node.id(), %error, "not removed yet"),
    }
}
