//! Changing who the masters are: add, remove, replace, move.
//!
//! Every change is made of steps that can be repeated: whatever is left half way by a lost leader or caller (a learner
//! that was not promoted, a joint configuration) is shown, and finished or undone by the next command. What must never
//! happen: that a change is begun whose masters do not answer, or that a data directory votes that was left behind.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use interrex_proto::v1::{HelloRequest, HelloResponse};
use openraft::{
    ChangeMembers, RaftMetrics,
    async_runtime::WatchReceiver,
    errors::{ChangeMembershipError, ClientWriteError, RaftError},
};

use super::{
    election::{answered_lately, hand_over, heir},
    metrics,
    node::{Member, Node, members_of},
    options::MASTERS_MAX,
    types::{LogId, NodeInfo, Types},
};
use crate::error::AdminError;

/// How long a new master may take to catch up before the request gives up; it goes on catching up.
const CATCH_UP_DEADLINE: Duration = Duration::from_secs(45);
/// How long one change of the membership may take.
const CHANGE_DEADLINE: Duration = Duration::from_secs(10);
/// Between two tries while another change is being stored.
const CHANGE_RETRY: Duration = Duration::from_millis(100);
/// How long one answer of a new master is waited for, how long it is asked again, and the pause between.
const HELLO_DEADLINE: Duration = Duration::from_secs(2);
const HELLO_PATIENCE: Duration = Duration::from_secs(3);
const HELLO_RETRY: Duration = Duration::from_millis(100);
/// Between two looks at who answers.
const HEARD_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// What openraft says to a change.
type Changed =
    Result<openraft::raft::ClientWriteResponse<Types>, RaftError<Types, ClientWriteError<Types>>>;

/// Adds the master `id`, which runs at `rpc`; lets one whose disk was wiped back in; or notes that it has moved there.
pub(super) async fn add(node: &Node, id: &str, rpc: &str) -> Result<String, AdminError> {
    leading(node)?;
    let answer = introduce(node, id, rpc).await?;
    let metrics = node.metrics();
    let members = members_of(&metrics);
    let info = NodeInfo {
        id: id.to_owned(),
        rpc: rpc.to_owned(),
        rest: answer.rest.clone(),
        web: answer.web.clone(),
    };
    let predecessors: BTreeSet<u64> = members
        .iter()
        .filter(|m| m.info.id == id && m.node != answer.node)
        .map(|m| m.node)
        .collect();
    let mut moved = None;
    if let Some(member) = members.iter().find(|m| m.node == answer.node)
        && member.info.rpc != rpc
    {
        relocate(node, answer.node, info.clone()).await?;
        moved = Some(format!("{id} has moved from {} to {rpc}", member.info.rpc));
    }
    let target = target_voters(&metrics);
    if target.contains(&answer.node) && predecessors.is_empty() && !is_joint(&metrics) {
        return Ok(moved.unwrap_or_else(|| format!("{id} is a voting master already")));
    }
    let mut voters: BTreeSet<u64> = target.difference(&predecessors).copied().collect();
    voters.insert(answer.node);
    if voters.len() > MASTERS_MAX {
        return Err(AdminError::Refused(format!(
            "there are {MASTERS_MAX} masters, the most there can be; remove one first"
        )));
    }
    let others = voters.iter().copied().filter(|n| *n != answer.node);
    let mut up = up_among(node, &others.collect()).await;
    up.insert(answer.node);
    refuse_without_quorum(&format!("with {id}"), &members, &voters, &up)?;
    if !members.iter().any(|m| m.node == answer.node && m.voter) {
        teach(node, answer.node, info).await?;
    }
    set_voters(node, voters).await?;
    // What was only a learner under that id does not leave with the voters.
    forget_learners(node, &predecessors).await?;
    metrics::membership_changed("added");
    let replaced = if predecessors.is_empty() {
        ""
    } else {
        ", in place of its predecessor"
    };
    Ok(format!("{id} ({rpc}) votes now{replaced}"))
}

/// Removes the master `id`. When that is this one, it hands leadership over, and the new leader is to be asked.
pub(super) async fn remove(node: &Node, id: &str) -> Result<String, AdminError> {
    let term = leading(node)?;
    let metrics = node.metrics();
    let members = members_of(&metrics);
    let leaving: BTreeSet<u64> = members
        .iter()
        .filter(|m| m.info.id == id)
        .map(|m| m.node)
        .collect();
    if leaving.is_empty() {
        return Err(AdminError::Refused(format!(
            "{id} is not a master of this cluster"
        )));
    }
    let target = target_voters(&metrics);
    let voters: BTreeSet<u64> = target.difference(&leaving).copied().collect();
    if voters.is_empty() {
        return Err(AdminError::Refused(format!(
            "{id} is the last voting master"
        )));
    }
    let up = up_among(node, &voters).await;
    refuse_without_quorum(&format!("without {id}"), &members, &voters, &up)?;
    if leaving.contains(&node.number()) {
        let heir = heir(node).ok_or_else(|| {
            AdminError::Refused(format!("{id} leads, and no other master could take over"))
        })?;
        hand_over(node, term, &heir)
            .await
            .map_err(AdminError::Timeout)?;
        return Err(AdminError::NotLeader);
    }
    if voters != target || is_joint(&metrics) {
        set_voters(node, voters).await?;
    }
    forget_learners(node, &leaving).await?;
    metrics::membership_changed("removed");
    Ok(format!("{id} is no longer a master of this cluster"))
}

/// Notes durably where the member `number` is now. Whoever asks has heard it answer there.
pub(super) async fn relocate(node: &Node, number: u64, info: NodeInfo) -> Result<(), AdminError> {
    let (id, rpc) = (info.id.clone(), info.rpc.clone());
    change_members(
        node,
        ChangeMembers::SetNodes(BTreeMap::from([(number, info)])),
    )
    .await?;
    metrics::membership_changed("moved");
    tracing::info!(id, rpc, "the address of a master is noted");
    Ok(())
}

/// What is half way, and how it is finished or undone; `None`: nothing.
pub(super) fn half_way(metrics: &RaftMetrics<Types>) -> Option<String> {
    let members = members_of(metrics);
    let names = |nodes: &BTreeSet<u64>| {
        let chosen = members.iter().filter(|m| nodes.contains(&m.node));
        let ids: Vec<&str> = chosen.map(|m| m.info.id.as_str()).collect();
        ids.join(", ")
    };
    let configs = metrics.membership_config.get_joint_config();
    if let ([before, .., after], true) = (configs.as_slice(), is_joint(metrics)) {
        return Some(format!(
            "the voting masters are changing from {} to {}: repeat the command to finish it, or undo it by its \
             contrary",
            names(before),
            names(after)
        ));
    }
    let learners: Vec<&Member> = members.iter().filter(|m| !m.voter).collect();
    let first = learners.first()?;
    let (id, rpc) = (&first.info.id, &first.info.rpc);
    Some(format!(
        "{} not vote yet: `interrex cluster add {id}={rpc}` finishes it, `interrex cluster remove {id}` undoes it",
        match learners.len() {
            1 => format!("{id} learns and does"),
            more => format!("{id} and {} more learn and do", more - 1),
        }
    ))
}

fn leading(node: &Node) -> Result<u64, AdminError> {
    node.leading_term().ok_or(AdminError::NotLeader)
}

pub(super) fn is_joint(metrics: &RaftMetrics<Types>) -> bool {
    metrics.membership_config.get_joint_config().len() > 1
}

/// Who votes when the change that is under way, if any, has ended.
fn target_voters(metrics: &RaftMetrics<Types>) -> BTreeSet<u64> {
    let configs = metrics.membership_config.get_joint_config();
    configs.last().cloned().unwrap_or_default()
}

/// Those of `voters` that answer. A leader that has just been elected has heard of nobody yet, and gives them the time in
/// which they would have to answer.
async fn up_among(node: &Node, voters: &BTreeSet<u64>) -> BTreeSet<u64> {
    let lease = node.options().timing.election_timeout_max * 2;
    let deadline = Instant::now() + lease;
    loop {
        let metrics = node.metrics();
        let answers =
            |number: &u64| *number == node.number() || answered_lately(&metrics, *number, lease);
        let up: BTreeSet<u64> = voters.iter().copied().filter(answers).collect();
        if up.len() == voters.len() || Instant::now() >= deadline {
            return up;
        }
        tokio::time::sleep(HEARD_AGAIN_AFTER).await;
    }
}

/// Refuses a membership of which too few answer, by name.
fn refuse_without_quorum(
    change: &str,
    members: &[Member],
    voters: &BTreeSet<u64>,
    up: &BTreeSet<u64>,
) -> Result<(), AdminError> {
    let needed = voters.len() / 2 + 1;
    if up.len() >= needed {
        return Ok(());
    }
    let silent: Vec<&str> = members
        .iter()
        .filter(|m| voters.contains(&m.node) && !up.contains(&m.node))
        .map(|m| m.info.id.as_str())
        .collect();
    Err(AdminError::Refused(format!(
        "{change} only {} of {} voting masters answer, {needed} are needed, {} does not: start it again, or remove or \
         replace it first",
        up.len(),
        voters.len(),
        silent.join(" or ")
    )))
}

/// Asks the master at `rpc` who it is, and refuses one that cannot be let in.
async fn introduce(node: &Node, id: &str, rpc: &str) -> Result<HelloResponse, AdminError> {
    let local = node.local();
    let refused = |text: String| Err(AdminError::Refused(text));
    let answer = if id == local.id {
        node.greeted(local.hello())
    } else {
        match greet_patiently(node, rpc, local.hello()).await {
            Ok(answer) => answer,
            Err(error) => {
                return refused(format!(
                    "{id} does not answer at {rpc}: {error}; start it first"
                ));
            }
        }
    };
    if answer.id != id {
        return refused(format!("{rpc} answers as {}, not as {id}", answer.id));
    }
    if local.expelled.contains(&answer.node) {
        return refused(super::roster::left_behind(id, answer.node));
    }
    let foreign = !answer.cluster_id.is_empty() && answer.cluster_id != local.cluster_id;
    if foreign {
        return refused(format!(
            "{id} belongs to cluster {}, this is cluster {}; start it with an empty --data-dir",
            answer.cluster_id, local.cluster_id
        ));
    }
    Ok(answer)
}

/// Greets a master that has perhaps just been started.
async fn greet_patiently(
    node: &Node,
    rpc: &str,
    hello: HelloRequest,
) -> Result<HelloResponse, String> {
    let until = Instant::now() + HELLO_PATIENCE;
    loop {
        match node.peers.hello(rpc, hello.clone(), HELLO_DEADLINE).await {
            Err(_) if Instant::now() < until => tokio::time::sleep(HELLO_RETRY).await,
            answered => return answered,
        }
    }
}

/// Adds the node as a learner and waits until it has caught up to where the log was then.
async fn teach(node: &Node, number: u64, info: NodeInfo) -> Result<(), AdminError> {
    let id = info.id.clone();
    let added = patiently(|| {
        let (raft, info) = (node.raft(), info.clone());
        async move { raft.add_learner(number, info, false).await }
    })
    .await?;
    let caught_up = async {
        let mut metrics = node.raft().metrics();
        loop {
            if matched(&metrics.borrow_watched(), number) >= Some(added) {
                return Ok(());
            }
            leading(node)?;
            if metrics.changed().await.is_err() {
                return Err(AdminError::NotLeader);
            }
        }
    };
    match tokio::time::timeout(CATCH_UP_DEADLINE, caught_up).await {
        Ok(done) => done,
        Err(_) => Err(AdminError::Timeout(format!(
            "{id} has not caught up within {CATCH_UP_DEADLINE:?}; it learns on without a vote, run the command again"
        ))),
    }
}

async fn set_voters(node: &Node, voters: BTreeSet<u64>) -> Result<(), AdminError> {
    change_members(node, ChangeMembers::ReplaceAllVoters(voters)).await
}

/// Takes those of `nodes` out that are members without a vote.
async fn forget_learners(node: &Node, nodes: &BTreeSet<u64>) -> Result<(), AdminError> {
    let learners: BTreeSet<u64> = node
        .members()
        .iter()
        .filter(|m| !m.voter && nodes.contains(&m.node))
        .map(|m| m.node)
        .collect();
    if learners.is_empty() {
        return Ok(());
    }
    change_members(node, ChangeMembers::RemoveNodes(learners)).await
}

async fn change_members(
    node: &Node,
    wanted: ChangeMembers<u64, NodeInfo>,
) -> Result<(), AdminError> {
    let changed = patiently(|| {
        let (raft, wanted) = (node.raft(), wanted.clone());
        async move { raft.change_membership(wanted, false).await }
    });
    changed.await.map(drop)
}

/// Makes a change of the membership as soon as the one before is stored, of which there is one at a time.
async fn patiently<F>(mut begin: impl FnMut() -> F) -> Result<LogId, AdminError>
where
    F: Future<Output = Changed>,
{
    let steps = async {
        loop {
            match begin().await {
                Err(error) if is_under_way(&error) => tokio::time::sleep(CHANGE_RETRY).await,
                changed => return changed,
            }
        }
    };
    change(steps).await
}

fn is_under_way(error: &RaftError<Types, ClientWriteError<Types>>) -> bool {
    matches!(
        error,
        RaftError::APIError(ClientWriteError::ChangeMembershipError(
            ChangeMembershipError::InProgress(_)
        ))
    )
}

/// Up to where a member has the leader's log.
pub(super) fn matched(metrics: &RaftMetrics<Types>, node: u64) -> Option<LogId> {
    let replication: Option<&BTreeMap<u64, Option<LogId>>> = metrics.replication.as_ref();
    replication.and_then(|matched| matched.get(&node).copied().flatten())
}

/// Waits for a change of the membership, and says what its failure means; the entry that holds it.
pub(super) async fn change(changing: impl Future<Output = Changed>) -> Result<LogId, AdminError> {
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
