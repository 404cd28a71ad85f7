//! What an operator may ask of a Raft cluster.

use std::sync::{Arc, PoisonError};

use async_trait::async_trait;

use super::{
    election::{answered_lately, fit_heir, hand_over, heir},
    fresh,
    leadership::look,
    membership::{self, change, matched},
    metrics,
    node::{Member, Node, members_of},
    status::Problem,
    types::LogEntry,
};
use crate::{
    backend::{BackendAdmin, Freshness, Health, MemberStatus, StoreSnapshot, check_floor},
    epoch::Epoch,
    error::AdminError,
};

/// Membership, health and ending of one master.
#[derive(Debug)]
pub(super) struct RaftAdmin {
    node: Arc<Node>,
}

// === impl RaftAdmin ===

impl RaftAdmin {
    pub(super) fn new(node: Arc<Node>) -> Self {
        Self { node }
    }

    fn leading(&self) -> Result<u64, AdminError> {
        self.node.leading_term().ok_or(AdminError::NotLeader)
    }

    /// Leadership is handed to whoever is best off: perhaps because of this master's disk.
    fn note_trouble(&self) {
        let Some((problem, _)) = self.node.status.trouble() else {
            return;
        };
        self.node
            .stood_aside
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .note();
        metrics::handed_over(if problem == Problem::LowSpace {
            "low_space"
        } else {
            "slow_disk"
        });
    }
}

#[async_trait]
impl BackendAdmin for RaftAdmin {
    fn members(&self) -> Vec<MemberStatus> {
        let metrics = self.node.metrics();
        let members = members_of(&metrics);
        if members.is_empty() {
            let configured = self.node.options().peers.iter();
            return configured
                .map(|(id, rpc)| MemberStatus {
                    id: id.clone(),
                    rpc: rpc.clone(),
                    voter: false,
                    healthy: (*id == self.node.options().id).then_some(true),
                    lag: None,
                })
                .collect();
        }
        let leads = self.node.leading_term().is_some();
        let lease = self.node.options().timing.election_timeout_max;
        let last = metrics.last_log_index.unwrap_or(0);
        members
            .into_iter()
            .map(|Member { node, info, voter }| {
                let own = node == self.node.number();
                let behind =
                    matched(&metrics, node).map_or(last, |at| last.saturating_sub(at.index));
                MemberStatus {
                    rpc: self.node.peers.address(node, &info),
                    id: info.id,
                    voter,
                    healthy: if own {
                        Some(metrics.running_state.is_ok())
                    } else {
                        leads.then(|| answered_lately(&metrics, node, lease * 2))
                    },
                    lag: leads.then_some(if own { 0 } else { behind }),
                }
            })
            .collect()
    }

    fn half_way(&self) -> Option<String> {
        membership::half_way(&self.node.metrics())
    }

    fn health(&self) -> Health {
        if self.node.closing().is_cancelled() {
            return Health::closed();
        }
        look(&self.node);
        let (mut blocking, warnings) = self.node.status.texts();
        blocking.dedup();
        let view = self.node.view.borrow().clone();
        let doing = match &view.leader {
            Some(leader) if leader.id == self.node.options().id => {
                format!("leading in epoch {}", view.epoch)
            }
            Some(leader) => format!("following {} in epoch {}", leader.id, view.epoch),
            None => "no leader is known".to_owned(),
        };
        Health::of_member(view.leader.is_some(), doing, blocking, warnings)
    }

    fn cluster_id(&self) -> Option<String> {
        Some(self.node.cluster_id()).filter(|id| !id.is_empty())
    }

    fn unfit(&self) -> Option<String> {
        self.node.leading_term()?;
        let (_, trouble) = self.node.status.trouble()?;
        let may = self
            .node
            .stood_aside
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .may();
        (may && fit_heir(&self.node).is_some()).then_some(trouble)
    }

    async fn transfer_leader(&self, to: Option<String>) -> Result<String, AdminError> {
        let term = self.leading()?;
        if to.is_none() {
            self.note_trouble();
        }
        let heir = match to {
            None => heir(&self.node)
                .ok_or_else(|| AdminError::Refused("no other voting master answers".to_owned()))?,
            Some(id) if id == self.node.options().id => return Ok(id),
            Some(id) => {
                let metrics = self.node.metrics();
                let member = members_of(&metrics)
                    .into_iter()
                    .find(|member| member.info.id == id && member.voter)
                    .ok_or_else(|| AdminError::Refused(format!("{id} is not a voting master")))?;
                let lease = self.node.options().timing.election_timeout_max;
                if !answered_lately(&metrics, member.node, lease) {
                    return Err(AdminError::Refused(format!("{id} does not answer")));
                }
                member
            }
        };
        hand_over(&self.node, term, &heir)
            .await
            .map_err(AdminError::Timeout)?;
        Ok(heir.info.id)
    }

    async fn add_master(&self, id: String, rpc: String) -> Result<String, AdminError> {
        membership::add(&self.node, &id, &rpc).await
    }

    async fn remove_master(&self, id: String) -> Result<String, AdminError> {
        membership::remove(&self.node, &id).await
    }

    async fn snapshot(&self, freshness: Freshness) -> Result<StoreSnapshot, AdminError> {
        fresh::snapshot(&self.node, freshness).await
    }

    async fn raise_epoch(&self, floor: Epoch) -> Result<(), AdminError> {
        check_floor(floor)?;
        self.leading()?;
        // In whatever term it is stored: the leaders after that one have larger epochs.
        let raft = self.node.raft();
        let raise = raft.client_write(LogEntry::RaiseEpoch(floor));
        change(raise).await.map(drop)
    }

    async fn shutdown(&self) {
        self.node.close().await;
    }
}
