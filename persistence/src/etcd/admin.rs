//! What an operator may ask of a cluster on etcd.

use std::sync::Arc;

use async_trait::async_trait;
use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use tokio::time::{Instant, timeout};

use super::{
    election::hand_over,
    limits::{CALL_DEADLINE, CUT_DEADLINE, SHUTDOWN_DEADLINE, TRANSFER_DEADLINE},
    node::{Fence, Node},
    reader,
};
use crate::{
    backend::{BackendAdmin, Freshness, Health, MemberStatus, StoreSnapshot, check_floor},
    epoch::Epoch,
    error::{AdminError, CommitError},
    options::EngineKind,
};

/// Members, health and ending of one master.
#[derive(Debug)]
pub(super) struct EtcdAdmin {
    node: Arc<Node>,
}

// === impl EtcdAdmin ===

impl EtcdAdmin {
    pub(super) fn new(node: Arc<Node>) -> Self {
        Self { node }
    }

    fn doing(&self) -> (bool, String) {
        let view = self.node.seat.observe().borrow().clone();
        match &view.leader {
            Some(leader) if leader.id == self.node.id() => {
                (true, format!("leading in epoch {}", view.epoch))
            }
            Some(leader) => (
                true,
                format!("following {} in epoch {}", leader.id, view.epoch),
            ),
            None => (false, "no leader is known".to_owned()),
        }
    }
}

#[async_trait]
impl BackendAdmin for EtcdAdmin {
    fn members(&self) -> Vec<MemberStatus> {
        let node = &self.node;
        let (control, me) = (node.control(), node.me());
        let registered = |id: &str| control.masters.iter().any(|m| m.info.id == id);
        let masters = control.view(&me).masters.into_iter();
        masters
            .map(|info| MemberStatus {
                // Whoever is registered is alive, give or take a lease.
                healthy: Some(registered(&info.id)),
                id: info.id,
                rpc: info.rpc,
                voter: true,
                // Standbys keep no records.
                lag: None,
            })
            .collect()
    }

    fn health(&self) -> Health {
        let node = &self.node;
        if node.closing.is_cancelled() {
            return Health::closed();
        }
        let (mut blocking, warnings) = node.status.texts();
        let lease = node.lease.borrow().clone();
        let away = lease.is_none_or(|lease| Instant::now() >= lease.good_until());
        if away && blocking.is_empty() {
            let waiting = || "not registered in etcd yet".to_owned();
            blocking.push(node.link.trouble().unwrap_or_else(waiting));
        }
        let (led, doing) = self.doing();
        Health::of_member(led, doing, blocking, warnings)
    }

    fn cluster_id(&self) -> Option<String> {
        Some(self.node.dir.identity().cluster_id).filter(|id| !id.is_empty())
    }

    async fn transfer_leader(&self, to: Option<String>) -> Result<String, AdminError> {
        let node = &self.node;
        if node.seat.held().is_none() {
            return Err(AdminError::NotLeader);
        }
        let control = node.control();
        match &to {
            Some(to) if to == node.id() => return Ok(to.clone()),
            Some(to) if !control.others(node.id()).any(|info| info.id == *to) => {
                return Err(AdminError::Refused(format!(
                    "{to} is not a registered standby"
                )));
            }
            None if control.others(node.id()).next().is_none() => {
                return Err(AdminError::Refused(
                    "no other master is registered".to_owned(),
                ));
            }
            Some(_) | None => {}
        }
        let next = hand_over(node, to.as_deref(), TRANSFER_DEADLINE)
            .await
            .map_err(AdminError::Timeout)?;
        match to {
            Some(to) if to != next => Err(AdminError::Timeout(format!(
                "{to} has not taken over in time; {next} leads now"
            ))),
            Some(_) | None => Ok(next),
        }
    }

    async fn add_master(&self, id: String, _rpc: String) -> Result<String, AdminError> {
        Err(AdminError::Unsupported(format!(
            "on etcd there is no fixed list of masters: start {id} with the same --etcd-endpoints and --etcd-prefix"
        )))
    }

    async fn remove_master(&self, id: String) -> Result<String, AdminError> {
        Err(AdminError::Unsupported(format!(
            "on etcd there is no fixed list of masters: stop {id}, and it is gone"
        )))
    }

    async fn snapshot(&self, _freshness: Freshness) -> Result<StoreSnapshot, AdminError> {
        // Standbys keep no records, so that every cut is read from etcd and is current.
        let node = &self.node;
        let cut = async {
            // A listing is linearizable: everything that was acknowledged before is at or before its revision.
            let control = node.list().await.map_err(CommitError::from)?;
            if let Some(reason) = &control.unfit {
                return Err(AdminError::Refused(reason.clone()));
            }
            let wanted = || !node.closing.is_cancelled();
            let loaded = reader::read(node, control.revision, wanted).await;
            let mut store = loaded.map_err(CommitError::from)?.store;
            // The epoch may be open without a batch of its own.
            let newest = control.opened.max(store.opened());
            if newest > Epoch::ZERO {
                store.open_epoch(newest).map_err(CommitError::from)?;
            }
            Ok(StoreSnapshot {
                engine: EngineKind::Etcd,
                cluster_id: control.cluster.map(|cluster| cluster.id),
                store,
            })
        };
        timeout(CUT_DEADLINE, cut).await.unwrap_or_else(|_elapsed| {
            Err(AdminError::Timeout(format!(
                "the records were not read from etcd within {CUT_DEADLINE:?}"
            )))
        })
    }

    async fn raise_epoch(&self, floor: Epoch) -> Result<(), AdminError> {
        check_floor(floor)?;
        let node = &self.node;
        let Some(held) = node.seat.held() else {
            return Err(AdminError::NotLeader);
        };
        let control = node.list().await.map_err(CommitError::from)?;
        if control.base >= floor.0 || held.leadership.epoch >= floor {
            return Ok(());
        }
        let keys = &node.keys;
        let mut when = Fence::new(held.key).compares(keys);
        when.push(Compare::mod_revision(
            keys.base(),
            CompareOp::Equal,
            control.base_revision,
        ));
        // Revisions are at least 1, so that the next epoch is above it.
        let base = TxnOp::put(keys.base(), floor.0.to_string(), None);
        let txn = Txn::new().when(when).and_then([base]);
        let deadline = (Instant::now() + CALL_DEADLINE).min(held.lease.good_until());
        let done = node.txn("raise", deadline, txn).await;
        node.nudge.notify_one();
        match done.map_err(CommitError::from)? {
            done if done.succeeded => Ok(()),
            _fenced => Err(AdminError::NotLeader),
        }
    }

    async fn shutdown(&self) {
        let node = &self.node;
        let held = node.seat.vacate();
        let lease = node.lease.borrow().clone();
        node.closing.cancel();
        let leave = async {
            if let Some(held) = held
                && let Err(error) = node.remove_leader(&held.key, None).await
            {
                tracing::debug!(%error, "leadership is left to its lease");
            }
            if let Some(id) = lease.map(|lease| lease.id) {
                let revoked = node
                    .link
                    .call(
                        "revoke",
                        Instant::now() + CALL_DEADLINE,
                        |mut client| async move { client.lease_revoke(id).await },
                    )
                    .await;
                if let Err(error) = revoked {
                    tracing::debug!(%error, "the registration is left to its lease");
                }
            }
            node.tasks.close();
            node.tasks.wait().await;
        };
        if timeout(SHUTDOWN_DEADLINE, leave).await.is_err() {
            tracing::warn!("the etcd backend was not closed in {SHUTDOWN_DEADLINE:?}");
        }
        node.dir.release();
    }
}
