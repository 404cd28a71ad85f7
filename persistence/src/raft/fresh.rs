//! A cut of the records on any master, proved to be current.
//!
//! A follower asks the leader up to where it has applied its log, which the leader answers after a quorum has confirmed
//! that it leads, and waits until it has applied as much itself.

use std::time::Duration;

use interrex_proto::v1::{ReadIndexRequest, ReadIndexResponse};
use openraft::ReadPolicy;
use tonic::Status;

use super::{
    network::Lane,
    node::{Node, members_of},
    wire::{reason, within},
};
use crate::{
    backend::{Freshness, StoreSnapshot},
    error::AdminError,
    options::EngineKind,
};

/// How long the leader's word and the entries up to it are waited for.
const FRESH_DEADLINE: Duration = Duration::from_secs(5);

/// The records as of now, or as of some time ago.
pub(super) async fn snapshot(
    node: &Node,
    freshness: Freshness,
) -> Result<StoreSnapshot, AdminError> {
    match freshness {
        Freshness::AsKnown => {}
        Freshness::Confirmed => catch_up(node).await?,
    }
    let image = node.applied().image();
    Ok(StoreSnapshot {
        engine: EngineKind::Raft,
        cluster_id: Some(image.cluster_id).filter(|id| !id.is_empty()),
        store: image.store,
    })
}

/// Waits until this node has applied all that was acknowledged before.
async fn catch_up(node: &Node) -> Result<(), AdminError> {
    let metrics = node.metrics();
    let leader = metrics.current_leader.and_then(|leader| {
        let mut members = members_of(&metrics).into_iter();
        members.find(|member| member.node == leader)
    });
    let Some(leader) = leader else {
        return Err(AdminError::Timeout(
            "no leader is known that could confirm that this master has everything".to_owned(),
        ));
    };
    let id = &leader.info.id;
    let failed = |status: &Status| {
        let why = reason(status);
        AdminError::Timeout(format!(
            "the leader {id} has not confirmed that this master has everything: {why}"
        ))
    };
    let index = if leader.node == node.number() {
        read_index(node).await.map_err(|status| failed(&status))?
    } else {
        let address = node.peers.address(leader.node, &leader.info);
        let asked = node.peers.client(&address, Lane::Control);
        let mut client = asked.map_err(|status| failed(&status))?;
        let request = ReadIndexRequest {
            to_node: leader.node,
        };
        within(FRESH_DEADLINE, client.read_index(request))
            .await
            .map_err(|status| failed(&status))?
            .into_inner()
            .index
    };
    let wait = node.raft().wait(Some(FRESH_DEADLINE));
    match wait.applied_index_at_least(Some(index), "snapshot").await {
        Ok(_) => Ok(()),
        Err(error) => Err(AdminError::Timeout(format!(
            "this master is behind: it has not applied entry {index}, which the leader {id} has, within \
             {FRESH_DEADLINE:?}: {error}"
        ))),
    }
}

/// The leader's side: the index of what it has applied, once a quorum has confirmed that it leads.
pub(super) async fn read_index(node: &Node) -> Result<u64, Status> {
    let raft = node.raft();
    let confirmed = raft.ensure_linearizable(ReadPolicy::ReadIndex);
    match tokio::time::timeout(node.options().timing.commit_deadline, confirmed).await {
        Ok(Ok(_)) => Ok(node.applied().image().last.map_or(0, |last| last.index)),
        Ok(Err(error)) => Err(Status::unavailable(error.to_string())),
        Err(_) => Err(Status::deadline_exceeded("no quorum answers")),
    }
}

/// Answers another master.
pub(super) async fn answer(
    node: &Node,
    request: &ReadIndexRequest,
) -> Result<ReadIndexResponse, Status> {
    if request.to_node != node.number() {
        return Err(Status::failed_precondition("this is another node"));
    }
    let index = read_index(node).await?;
    Ok(ReadIndexResponse { index })
}
