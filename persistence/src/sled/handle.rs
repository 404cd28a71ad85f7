//! The contract's side: requests to the writer, and its answers.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot, watch};

use super::{seat::Seat, writer::Request};
use crate::{
    backend::{BackendAdmin, Freshness, Health, MemberStatus, StoreSnapshot, check_floor},
    election::{LeaderElection, LeaderView, Leadership, MasterInfo},
    engine::PersistenceEngine,
    epoch::{CommitSeq, Epoch},
    error::{AdminError, CommitError, ElectionError},
    metrics,
    options::EngineKind,
    record::{CommitBatch, Recovered},
    requests::{Requests, Unanswered},
};

/// How long a shutdown waits for the last writes and the closing of the database.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(10);

/// Election, engine and admin of the one master.
#[derive(Debug)]
pub(super) struct Handle {
    seat: Arc<Seat>,
    requests: Requests<Request>,
}

// === impl Handle ===

impl Handle {
    pub(super) fn new(seat: Arc<Seat>, requests: mpsc::Sender<Request>) -> Self {
        Self {
            seat,
            requests: Requests::new(requests, "the disk"),
        }
    }
}

#[async_trait]
impl PersistenceEngine for Handle {
    async fn open_epoch(&self, epoch: Epoch) -> Result<Recovered, CommitError> {
        let opened = self.requests.ask(|reply| Request::Open { epoch, reply });
        Ok(metrics::timed(EngineKind::Sled, "open_epoch", opened)
            .await?
            .recovered())
    }

    async fn commit(&self, batch: CommitBatch) -> Result<CommitSeq, CommitError> {
        batch.check_limits()?;
        let committed = self.requests.ask(|reply| Request::Commit { batch, reply });
        metrics::timed(EngineKind::Sled, "commit", committed).await
    }

    async fn confirm(&self, epoch: Epoch) -> Result<(), CommitError> {
        // No other process can have the directory, so memory knows.
        let current = self.seat.opened();
        if epoch > current {
            let refusal = crate::record_store::Refusal::NotOpened {
                epoch,
                opened: current,
            };
            Err(refusal.into())
        } else if epoch < current || !self.seat.leads(epoch) {
            Err(CommitError::Fenced { current })
        } else {
            Ok(())
        }
    }
}

#[async_trait]
impl LeaderElection for Handle {
    async fn campaign(&self, me: &MasterInfo) -> Result<Leadership, ElectionError> {
        debug_assert_eq!(
            me.id,
            self.seat.me().id,
            "a backend campaigns for the master it was opened for"
        );
        let granted = self.requests.ask(|reply| Request::Grant { reply }).await;
        match granted {
            Ok(epoch) => Ok(self.seat.take(epoch)),
            Err(_) if self.requests.is_closed() => Err(ElectionError::Closed),
            Err(error) => Err(ElectionError::Interrupted(Box::new(error))),
        }
    }

    async fn resign(&self) {
        self.seat.vacate();
    }

    fn observe(&self) -> watch::Receiver<LeaderView> {
        self.seat.observe()
    }
}

#[async_trait]
impl BackendAdmin for Handle {
    fn members(&self) -> Vec<MemberStatus> {
        let me = self.seat.me();
        let healthy = Some(self.health().ready);
        vec![MemberStatus {
            id: me.id.clone(),
            rpc: me.rpc.clone(),
            voter: true,
            healthy,
            lag: Some(0),
        }]
    }

    fn health(&self) -> Health {
        if self.requests.is_closed() {
            return Health {
                ready: false,
                detail: Unanswered::Closed.to_string(),
            };
        }
        self.seat.health()
    }

    async fn transfer_leader(&self, to: Option<String>) -> Result<String, AdminError> {
        match to {
            Some(to) if to == self.seat.me().id && self.seat.leader() => Ok(to),
            Some(_) | None => Err(alone("transfer leadership")),
        }
    }

    async fn add_master(&self, _id: String, _rpc: String) -> Result<String, AdminError> {
        Err(alone("add a master"))
    }

    async fn remove_master(&self, _id: String) -> Result<String, AdminError> {
        Err(alone("remove a master"))
    }

    async fn snapshot(&self, _freshness: Freshness) -> Result<StoreSnapshot, AdminError> {
        // One master, so every cut is current.
        let store = self
            .requests
            .ask(|reply| Request::Snapshot { reply })
            .await?;
        Ok(StoreSnapshot {
            engine: EngineKind::Sled,
            cluster_id: None,
            store,
        })
    }

    async fn raise_epoch(&self, floor: Epoch) -> Result<(), AdminError> {
        check_floor(floor)?;
        if !self.seat.leader() {
            return Err(AdminError::NotLeader);
        }
        Ok(self
            .requests
            .ask(|reply| Request::Raise { floor, reply })
            .await?)
    }

    async fn shutdown(&self) {
        self.seat.vacate();
        let (reply, ended) = oneshot::channel();
        let close = async {
            if self.requests.send(Request::Close { reply }).await {
                // An error means that the thread is gone, which is what we wait for.
                drop(ended.await);
            }
        };
        if tokio::time::timeout(SHUTDOWN_DEADLINE, close)
            .await
            .is_err()
        {
            tracing::warn!("the database was not closed in {SHUTDOWN_DEADLINE:?}");
        }
    }
}

fn alone(what: &str) -> AdminError {
    AdminError::Unsupported(format!(
        "sled has one master and cannot {what}; use --engine raft"
    ))
}
