//! Compacting etcd's history. etcd keeps every old value of every key until somebody says that nobody needs it; its
//! database grows with every commit until its quota is reached. The leader says so now and then, as Kubernetes' API
//! server does in its etcd; an operator whose etcd compacts by itself can turn it off.

use std::sync::Arc;

use tokio::time::{Instant, sleep};

use super::{
    failure::{Kind, Refused},
    limits::CALL_DEADLINE,
    node::Node,
    status::Problem,
};

/// Runs until closing. What is compacted is at least one period old, so that nobody who reads is cut off.
pub(super) async fn run(node: Arc<Node>) {
    let period = node.options.settings.compact_every;
    if period.is_zero() {
        return;
    }
    let mut before = None;
    loop {
        tokio::select! {
            () = node.closing.cancelled() => return,
            () = sleep(period) => {}
        }
        if node.seat.held().is_none() {
            before = None;
            continue;
        }
        let now = node.control().revision;
        if let Some(revision) = before.replace(now) {
            compact(&node, revision).await;
        }
    }
}

async fn compact(node: &Node, revision: i64) {
    let compacted = node
        .link
        .call(
            "compact",
            Instant::now() + CALL_DEADLINE,
            |mut client| async move { client.compact(revision, None).await },
        )
        .await;
    match compacted {
        Ok(_) => tracing::debug!(revision, "history of etcd compacted"),
        // Somebody else was first.
        Err(error) if error.kind == Kind::Refused(Refused::Compacted) => {}
        Err(error) => {
            tracing::debug!(revision, %error, "history of etcd not compacted");
            if error.kind == Kind::Refused(Refused::Other) {
                let text = format!("history of etcd cannot be compacted: {error}");
                node.status.set(Problem::Upkeep, text);
            }
        }
    }
}
