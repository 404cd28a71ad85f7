//! The contract's side: requests to the writer, and its answers.

use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use etcd_client::{Txn, TxnOp};
use tokio::{sync::mpsc, time::Instant};

use super::{
    limits::{ATTEMPT_DEADLINE, CALL_DEADLINE, RETRY_MIN},
    node::{Fence, Node},
    writer::{Request, refusal},
};
use crate::{
    engine::PersistenceEngine,
    epoch::{CommitSeq, Epoch},
    error::CommitError,
    metrics,
    options::EngineKind,
    record::{CommitBatch, Recovered},
    requests::Requests,
};

/// The records of one prefix.
#[derive(Debug)]
pub(super) struct EtcdEngine {
    node: Arc<Node>,
    requests: Requests<Request>,
}

/// A quorum has answered, too late.
#[derive(Debug, thiserror::Error)]
#[error("the lease may have ended meanwhile")]
struct Late;

// === impl EtcdEngine ===

impl EtcdEngine {
    pub(super) fn new(node: Arc<Node>, requests: mpsc::Sender<Request>) -> Self {
        Self {
            node,
            requests: Requests::new(requests, "etcd"),
        }
    }

    fn fence(&self, epoch: Epoch) -> Result<Fence, CommitError> {
        let fence = self.node.fence.lock();
        let fence = fence.unwrap_or_else(PoisonError::into_inner);
        match &*fence {
            Some((opened, fence)) if *opened == epoch => Ok(fence.clone()),
            Some(_) | None => {
                drop(fence);
                Err(refusal(&self.node, epoch))
            }
        }
    }

    /// Asks etcd's quorum whether the fence holds. A read, so it may be sent again.
    async fn prove(&self, epoch: Epoch) -> Result<(), CommitError> {
        let node = &self.node;
        let fence = self.fence(epoch)?;
        let until = Instant::now() + CALL_DEADLINE;
        let get = || [TxnOp::get(node.keys.leader(), None)];
        // The get is what makes etcd ask its quorum: a transaction without any is answered from memory.
        let txn = Txn::new()
            .when(fence.compares(&node.keys))
            .and_then(get())
            .or_else(get());
        loop {
            let Some(held) = node.seat.held_in(epoch) else {
                return Err(refusal(node, epoch));
            };
            let until = until.min(held.lease.good_until());
            let attempt = until.min(Instant::now() + ATTEMPT_DEADLINE);
            match node.txn("confirm", attempt, txn.clone()).await {
                Ok(done) if !done.succeeded => {
                    node.seat.vacate_epoch(epoch);
                    node.nudge.notify_one();
                    return Err(refusal(node, epoch));
                }
                // The answer counts only if this master may still act on it.
                Ok(_) if node.seat.held_in(epoch).is_some() => return Ok(()),
                Ok(_) => return Err(CommitError::Indeterminate(Box::new(Late))),
                Err(error) if Instant::now() + RETRY_MIN >= until => {
                    return Err(CommitError::Indeterminate(Box::new(error)));
                }
                Err(_again) => tokio::time::sleep(RETRY_MIN).await,
            }
        }
    }
}

#[async_trait]
impl PersistenceEngine for EtcdEngine {
    async fn open_epoch(&self, epoch: Epoch) -> Result<Recovered, CommitError> {
        let opened = self.requests.ask(|reply| Request::Open { epoch, reply });
        let store = metrics::timed(EngineKind::Etcd, "open_epoch", opened).await?;
        // Copied elsewhere: with many records it takes a while, and the lease must be kept alive.
        let copied = tokio::task::spawn_blocking(move || store.recovered()).await;
        copied.map_err(|error| CommitError::Rejected(Box::new(error)))
    }

    async fn commit(&self, batch: CommitBatch) -> Result<CommitSeq, CommitError> {
        batch.check_limits()?;
        let committed = self.requests.ask(|reply| Request::Commit { batch, reply });
        metrics::timed(EngineKind::Etcd, "commit", committed).await
    }

    async fn confirm(&self, epoch: Epoch) -> Result<(), CommitError> {
        metrics::timed(EngineKind::Etcd, "confirm", self.prove(epoch)).await
    }
}
