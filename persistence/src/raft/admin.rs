//! What an operator may ask of a Raft cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use interrex_proto::v1::HelloResponse;
use openraft::{
    ChangeMembers,
    async_runtime::WatchReceiver,
    errors::{ClientWriteError, RaftError},
};

use super::{
    election::{answered_lately, fit_heir, hand_over, heir},
    fresh,
    leadership::look,
    metrics,
    node::{Member, Node, members_of},
    options::MASTERS_MAX,
    status::Problem,
    types::{LogEntry, LogId, NodeInfo, Types},
};
use crate::{
    backend::{BackendAdmin, Freshness, Health, MemberStatus, StoreSnapshot, check_floor},
    epoch::Epoch,
    error::AdminError,
};

/// How long a new master may take to catch up before the request gives up; it goes on catching up.
const CATCH_UP_DEADLINE: Duration = Duration::from_secs(60);
/// How long one change of the membership may take.
const CHANGE_DEADLINE: Duration = Duration::from_secs(10);
/// How long a new master's answer is waited for.
const HELLO_DEADLINE: Duration = Duration::from_secs(2);

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

    /// Asks the master at `rpc` who it is.
    async fn introduce(&self, id: &str, rpc: &str) -> Result<HelloResponse, AdminError> {
        let local = self.node.local();
        let request = local.hello();
        let answer = self
            .node
            .peers
            .hello(rpc, request, HELLO_DEADLINE)
            .await
            .map_err(|error| {
                AdminError::Refused(format!(
                    "{id} does not answer at {rpc}: {error}; start it first"
                ))
            })?;
        if answer.id != id {
            let text = format!("{rpc} answers as {}, not as {id}", answer.id);
            return Err(AdminError::Refused(text));
        }
        if !answer.cluster_id.is_empty() && answer.cluster_id != local.cluster_id {
            let text = format!(
                "{id} belongs to cluster {}, this is cluster {}; start it with an empty --data-dir",
                answer.cluster_id, local.cluster_id
            );
            return Err(AdminError::Refused(text));
        }
        Ok(answer)
    }

    /// Adds the node as a learner and waits until it has caught up to where the log was then.
    async fn teach(&self, node: u64, info: NodeInfo) -> Result<(), AdminError> {
        let id = info.id.clone();
        let added = change(self.node.raft().add_learner(node, info, false)).await?;
        let caught_up = async {
            let mut metrics = self.node.raft().metrics();
            loop {
                if matched(&metrics.borrow_watched(), node) >= Some(added) {
                    return Ok(());
                }
                self.leading()?;
                if metrics.changed().await.is_err() {
                    return Err(AdminError::NotLeader);
                }
            }
        };
        match tokio::time::timeout(CATCH_UP_DEADLINE, caught_up).await {
            Ok(done) => done,
            Err(_) => Err(AdminError::Timeout(format!(
                "{id} has not caught up within {CATCH_UP_DEADLINE:?}; it learns on without a vote, run the command \
                 again later"
            ))),
        }
    }

    async fn set_voters(&self, voters: BTreeSet<u64>) -> Result<(), AdminError> {
        change(self.node.raft().change_membership(voters, false))
            .await
            .map(drop)
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
                    rpc: self.node.peers.address(&info).to_owned(),
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

    fn health(&self) -> Health {
        if self.node.closing().is_cancelled() {
            return Health {
                ready: false,
                detail: "closed".to_owned(),
            };
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
        if blocking.is_empty() && view.leader.is_some() {
            let detail = [vec![doing], warnings].concat().join("; ");
            return Health {
                ready: true,
                detail,
            };
        }
        if blocking.is_empty() {
            blocking.push(doing);
        }
        Health {
            ready: false,
            detail: [blocking, warnings].concat().join("; "),
        }
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
        self.leading()?;
        let answer = self.introduce(&id, &rpc).await?;
        let metrics = self.node.metrics();
        let members = members_of(&metrics);
        let votes = members.iter().any(|m| m.node == answer.node && m.voter);
        // Left half way when whoever asked for it went away, or its leader did: the old voters count too until it ends.
        let half_way = metrics.membership_config.get_joint_config().len() > 1;
        if votes && !half_way {
            return Ok(format!("{id} is a voting master already"));
        }
        let predecessors: BTreeSet<u64> = members
            .iter()
            .filter(|m| m.info.id == id && m.node != answer.node)
            .map(|m| m.node)
            .collect();
        let mut voters: BTreeSet<u64> = members
            .iter()
            .filter(|m| m.voter && !predecessors.contains(&m.node))
            .map(|m| m.node)
            .collect();
        voters.insert(answer.node);
        if voters.len() > MASTERS_MAX {
            return Err(AdminError::Refused(format!(
                "there are {MASTERS_MAX} masters, the most there can be"
            )));
        }
        let info = NodeInfo {
            id: id.clone(),
            rpc: rpc.clone(),
            rest: answer.rest,
            web: answer.web,
        };
        if !votes {
            self.teach(answer.node, info).await?;
        }
        self.set_voters(voters).await?;
        let replaced = if predecessors.is_empty() {
            ""
        } else {
            ", in place of its predecessor"
        };
        Ok(format!("{id} ({rpc}) votes now{replaced}"))
    }

    async fn remove_master(&self, id: String) -> Result<String, AdminError> {
        self.leading()?;
        let metrics = self.node.metrics();
        let members = members_of(&metrics);
        let (leaving, staying): (Vec<Member>, Vec<Member>) =
            members.into_iter().partition(|member| member.info.id == id);
        if leaving.is_empty() {
            return Err(AdminError::Refused(format!(
                "{id} is not a master of this cluster"
            )));
        }
        let voters: BTreeSet<u64> = staying.iter().filter(|m| m.voter).map(|m| m.node).collect();
        if voters.is_empty() {
            return Err(AdminError::Refused(format!(
                "{id} is the last voting master"
            )));
        }
        let lease = self.node.options().timing.election_timeout_max * 2;
        let up = voters
            .iter()
            .filter(|node| **node == self.node.number() || answered_lately(&metrics, **node, lease))
            .count();
        if up <= voters.len() / 2 {
            return Err(AdminError::Refused(format!(
                "without {id} only {up} of {} voting masters answer: too few to go on",
                voters.len()
            )));
        }
        if leaving.iter().any(|member| member.voter) {
            self.set_voters(voters).await?;
        }
        let learners: BTreeSet<u64> = leaving
            .iter()
            .filter(|m| !m.voter)
            .map(|m| m.node)
            .collect();
        if !learners.is_empty() {
            let remove: ChangeMembers<u64, NodeInfo> = ChangeMembers::RemoveNodes(learners);
            change(self.node.raft().change_membership(remove, false)).await?;
        }
        Ok(format!("{id} is no longer a master of this cluster"))
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

/// Up to where a member has the leader's log.
fn matched(metrics: &openraft::RaftMetrics<Types>, node: u64) -> Option<LogId> {
    let replication: Option<&BTreeMap<u64, Option<LogId>>> = metrics.replication.as_ref();
    replication.and_then(|matched| matched.get(&node).copied().flatten())
}

/// Waits for a change of the membership or of the epochs, and says what its failure means; the entry that holds it.
async fn change(
    changing: impl Future<
        Output = Result<
            openraft::raft::ClientWriteResponse<Types>,
            RaftError<Types, ClientWriteError<Types>>,
        >,
    >,
) -> Result<LogId, AdminError> {
    match tokio::time::timeout(CHANGE_DEADLINE, changing).await {
        Ok(Ok(response)) => Ok(response.log_id),
        Ok(Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_)))) => {
            Err(AdminError::NotLeader)
        }
        Ok(Err(error @ RaftError::APIError(ClientWriteError::LogEntryDiscarded(_)))) => {
            Err(AdminError::Timeout(error.to_string()))
        }
        Ok(Err(error)) => Err(AdminError::Refused(error.to_string())),
        Err(_) => Err(AdminError::Timeout(format!(
            "no quorum has stored the change within {CHANGE_DEADLINE:?}; look at the members before trying again"
        ))),
    }
}
