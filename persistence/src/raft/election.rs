//! Campaigning: waiting until openraft has made this master the leader, and proving it.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use openraft::{
    Instant as _, ReadPolicy, ServerState, async_runtime::WatchReceiver, raft::VoteRequest,
};
use tokio::sync::watch;

use super::{
    leadership::look,
    node::{Member, Node, members_of},
    running::Running,
    types::{LogEntry, LogId, Vote, leader_of},
};
use crate::{
    election::{LeaderElection, LeaderView, Leadership, MasterInfo},
    error::ElectionError,
};

/// A barrier that failed is tried again after this long.
const RETRY: Duration = Duration::from_millis(20);

/// The election among the masters of one Raft cluster.
#[derive(Debug)]
pub(super) struct RaftElection {
    node: Arc<Node>,
}

// === impl RaftElection ===

impl RaftElection {
    pub(super) fn new(node: Arc<Node>) -> Self {
        Self { node }
    }

    /// Waits until openraft says that this node leads; the term. A run that has ended leads nowhere: waits for the next.
    async fn won(&self) -> Result<u64, ElectionError> {
        let mut runs = self.node.runs();
        loop {
            let running = Arc::clone(&runs.borrow_and_update());
            tokio::select! {
                biased;
                () = self.node.closing().cancelled() => return Err(ElectionError::Closed),
                Some(term) = won_in(&running) => return Ok(term),
                _another = runs.changed() => {}
            }
        }
    }

    /// Proves that this node leads in `term`, and has applied everything that was committed before.
    async fn barrier(&self, term: u64) -> Result<(), String> {
        let node = &self.node;
        if node.applied().cluster_id().is_empty() {
            // The first leader names the cluster; of two the first one in the log counts.
            let cluster_id = format!("{:032x}", rand::random::<u128>());
            let (responder, answer) = openraft::impls::ProgressResponder::complete_only();
            node.raft()
                .write(LogEntry::Form { cluster_id })
                .with_leader(leader_of(term))
                .responder(responder)
                .await
                .map_err(|error| error.to_string())?;
            answer
                .await
                .map_err(|error| error.to_string())?
                .map_err(|error| error.to_string())?;
        }
        node.raft()
            .ensure_linearizable(ReadPolicy::ReadIndex)
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

#[async_trait]
impl LeaderElection for RaftElection {
    async fn campaign(&self, me: &MasterInfo) -> Result<Leadership, ElectionError> {
        self.node.set_me(me);
        loop {
            let term = self.won().await?;
            let deadline = self.node.options().timing.commit_deadline;
            let proved = tokio::select! {
                biased;
                () = self.node.closing().cancelled() => return Err(ElectionError::Closed),
                proved = tokio::time::timeout(deadline, self.barrier(term)) => proved,
            };
            match proved {
                Ok(Ok(())) => {
                    // Proved, so whatever raised the epochs before this term is applied here.
                    let epochs = self.node.applied().epochs();
                    if epochs.raised_in(term) {
                        // The promise is about the next leadership, and this would be one of the same epoch.
                        renounce(&self.node, term).await;
                        continue;
                    }
                    let leadership = self.node.guard.hold(term, epochs.of(term));
                    // It may have been lost between the proof and the handing out.
                    look(&self.node);
                    if !leadership.lost.is_cancelled() {
                        let epoch = leadership.epoch.0;
                        tracing::info!(master = self.node.options().id, epoch, term, "leading");
                        return Ok(leadership);
                    }
                }
                Ok(Err(error)) => tracing::debug!(term, error, "leadership not proved"),
                Err(_) => {
                    tracing::debug!(term, "leadership not proved within {deadline:?}")
                }
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn resign(&self) {
        self.node.guard.end();
        let Some(term) = self.node.leading_term() else {
            return;
        };
        if let Some(heir) = heir(&self.node) {
            match hand_over(&self.node, term, &heir).await {
                Ok(()) => return,
                Err(error) => tracing::warn!(term, error, "leadership not handed over"),
            }
        }
        renounce(&self.node, term).await;
    }

    fn observe(&self) -> watch::Receiver<LeaderView> {
        self.node.view.subscribe()
    }
}

/// Waits until this node leads in this run; the term. `None`: the run has ended.
async fn won_in(running: &Running) -> Option<u64> {
    let mut metrics = running.raft.metrics();
    loop {
        if running.has_ended() {
            return None;
        }
        {
            let now = metrics.borrow_watched();
            if now.state == ServerState::Leader {
                return Some(now.current_term);
            }
        }
        metrics.changed().await.ok()?;
    }
}

/// Ends the term without an heir: what was resigned never comes back in its epoch.
///
/// openraft has no call for that, but a leader that hears of a later term steps down. So it hears of one, in a vote
/// request like any other, from a candidate that does not exist: no node has the number 0, so that term has no leader.
async fn renounce(node: &Node, term: u64) {
    if node.leading_term() != Some(term) {
        return;
    }
    // As good as its own log, whatever is appended meanwhile.
    let last = LogId::new(leader_of(term), u64::MAX);
    let mut request = VoteRequest::new(Vote::new(term + 1, 0), Some(last));
    request.leadership_transfer = true;
    let voters = members_of(&node.metrics())
        .into_iter()
        .filter(|member| member.voter)
        .count();
    let alone = async {
        node.raft()
            .vote(request)
            .await
            .map_err(|error| error.to_string())?;
        // Nobody else could win, so it need not wait for its election timeout to stand again.
        if voters == 1 {
            node.raft()
                .trigger()
                .elect(false)
                .await
                .map_err(|error| error.to_string())?;
        }
        Ok::<(), String>(())
    };
    match tokio::time::timeout(node.options().timing.transfer_deadline, alone).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(term, error, "raft has stopped"),
        Err(_) => tracing::warn!(term, "the term goes on"),
    }
}

/// The voter that should lead next: one whose disk is well, with the most of the log; else any that answers.
pub(super) fn heir(node: &Node) -> Option<Member> {
    fit_heir(node).or_else(|| best(heirs(node), node))
}

/// The same, but none whose disk is in trouble.
pub(super) fn fit_heir(node: &Node) -> Option<Member> {
    let fit = heirs(node).filter(|member| !node.greetings.is_in_trouble(&member.info.id));
    best(fit, node)
}

/// The other voters that have answered lately.
fn heirs(node: &Node) -> impl Iterator<Item = Member> {
    let metrics = node.metrics();
    let (lease, me) = (node.options().timing.election_timeout_max, node.number());
    members_of(&metrics)
        .into_iter()
        .filter(move |member| member.voter && member.node != me)
        .filter(move |member| answered_lately(&metrics, member.node, lease))
}

/// The one with the most of the log.
fn best(members: impl Iterator<Item = Member>, node: &Node) -> Option<Member> {
    let replication = node.metrics().replication;
    members.max_by_key(|member| {
        let matched = replication.as_ref();
        matched.and_then(|matched| matched.get(&member.node).copied().flatten())
    })
}

/// Whether a member has acknowledged this leader within `lease`.
pub(super) fn answered_lately(
    metrics: &openraft::RaftMetrics<super::types::Types>,
    node: u64,
    lease: Duration,
) -> bool {
    let acked = metrics
        .heartbeat
        .as_ref()
        .and_then(|acked| acked.get(&node).copied().flatten());
    acked.is_some_and(|acked| acked.elapsed() <= lease)
}

/// Hands the leadership of `term` to `heir`, and waits until it leads.
pub(super) async fn hand_over(node: &Node, term: u64, heir: &Member) -> Result<(), String> {
    let name = &heir.info.id;
    node.raft()
        .trigger()
        .transfer_leader(heir.node)
        .await
        .map_err(|error| error.to_string())?;
    let mut changes = node.raft().metrics();
    let taken = async {
        loop {
            {
                let now = changes.borrow_watched();
                if now.current_term > term && now.current_leader.is_some() {
                    return now.current_leader == Some(heir.node);
                }
            }
            if changes.changed().await.is_err() {
                return false;
            }
        }
    };
    match tokio::time::timeout(node.options().timing.transfer_deadline, taken).await {
        Ok(true) => {
            tracing::info!(term, to = name, "leadership handed over");
            Ok(())
        }
        Ok(false) => Err(format!("another master than {name} leads now")),
        Err(_) => Err(format!(
            "{name} has not taken over within {:?}",
            node.options().timing.transfer_deadline
        )),
    }
}
