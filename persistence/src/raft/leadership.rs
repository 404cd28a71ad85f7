//! When this master leads, and when that is over.
//!
//! openraft says who leads; this decides how long to believe it. A leadership ends as soon as the term or the leader
//! changes, or when no quorum has confirmed it for the longest election timeout by the monotonic clock, because then
//! another leader may exist. The clock runs while a process is stopped: after a pause the first look ends it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use interrex_proto::clock;
use openraft::{Instant as _, RaftMetrics, ServerState, async_runtime::WatchReceiver};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::{
    log_store::LogSize,
    metrics::{self, Indexes},
    node::{Node, members_of},
    running::Running,
    types::{LogId, Types},
};
use crate::{
    election::{LeaderView, Leadership, MasterInfo},
    epoch::Epoch,
    metrics::store_size,
    options::EngineKind,
};

/// How often the figures are recorded and the size of the log is looked at.
const FIGURES_INTERVAL: Duration = Duration::from_secs(1);
/// A master that has not answered the leader for this long counts as lost in the figures; twenty heartbeats by default.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// The leadership that has been handed out, if it still holds.
#[derive(Debug)]
pub(super) struct Guard {
    closing: CancellationToken,
    /// With its term.
    held: Mutex<Option<(u64, Leadership)>>,
}

/// What there is to know about leading, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sight {
    /// The current term.
    pub(super) term: u64,
    /// Whether openraft thinks that this node leads in it.
    pub(super) leads: bool,
    /// How long ago a quorum confirmed that; `None` when it never has.
    pub(super) confirmed: Option<Duration>,
}

/// Why a leadership is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// The term is another one.
    Term(u64),
    /// This node does not lead.
    NotLeading,
    /// No quorum has confirmed it for too long.
    QuorumSilent,
}

// === impl Sight ===

impl Sight {
    pub(super) fn of(metrics: &RaftMetrics<Types>) -> Self {
        let alone = metrics.membership_config.voter_ids().eq([metrics.id]);
        let acked = metrics.last_quorum_acked.map(|acked| acked.elapsed());
        Self {
            term: metrics.current_term,
            leads: metrics.state == ServerState::Leader,
            confirmed: if alone { Some(Duration::ZERO) } else { acked },
        }
    }

    /// Whether the leadership of `term` still holds, with a lease of this length.
    pub(super) fn judge(&self, term: u64, lease: Duration) -> Result<(), Lost> {
        if self.term != term {
            return Err(Lost::Term(self.term));
        }
        if !self.leads {
            return Err(Lost::NotLeading);
        }
        match self.confirmed {
            Some(ago) if ago <= lease => Ok(()),
            Some(_) | None => Err(Lost::QuorumSilent),
        }
    }
}

// === impl Guard ===

impl Guard {
    pub(super) fn new(closing: CancellationToken) -> Self {
        Self {
            closing,
            held: Mutex::new(None),
        }
    }

    /// Hands out the leadership of `term`, which acts in `epoch`, or the one that is still held.
    pub(super) fn hold(&self, term: u64, epoch: Epoch) -> Leadership {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((held_term, leadership)) = held.as_ref() {
            if *held_term == term && !leadership.lost.is_cancelled() {
                return leadership.clone();
            }
            leadership.lost.cancel();
        }
        let leadership = Leadership {
            epoch,
            lost: self.closing.child_token(),
        };
        *held = Some((term, leadership.clone()));
        leadership
    }

    /// Ends the leadership that is held, if it does not hold any more.
    pub(super) fn look(&self, sight: &Sight, lease: Duration) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((term, leadership)) = held.as_ref() else {
            return;
        };
        if let Err(reason) = sight.judge(*term, lease) {
            let epoch = leadership.epoch.0;
            tracing::warn!(event = "leadership_lost", epoch, ?reason, "leadership lost");
            leadership.lost.cancel();
            *held = None;
        }
    }

    /// Ends the leadership that is held.
    pub(super) fn end(&self) {
        let taken = self
            .held
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some((_term, leadership)) = taken {
            leadership.lost.cancel();
        }
    }
}

/// Looks after the leadership, the published view and the figures until the node is closed.
pub(super) async fn watch(node: Arc<Node>) {
    let mut runs = node.runs();
    loop {
        let running = Arc::clone(&runs.borrow_and_update());
        tokio::select! {
            biased;
            () = node.closing().cancelled() => break,
            () = watch_run(&node, &running) => {}
        }
        // Nothing changes until another run begins.
        look(&node);
        tokio::select! {
            biased;
            () = node.closing().cancelled() => break,
            _another = runs.changed() => {}
        }
    }
    look(&node);
    node.guard.end();
}

/// The same for one run of openraft, until it ends.
async fn watch_run(node: &Node, running: &Running) {
    let mut changes = running.raft.metrics();
    let mut tick = tokio::time::interval(node.options().timing.heartbeat / 2);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut figures_due = Instant::now();
    let mut seen = None;
    let mut cut_at = 0;
    loop {
        tokio::select! {
            biased;
            () = running.ended.cancelled() => return,
            // Every entry changes something; only a change of leader, term or membership is looked at in full.
            changed = changes.changed() => {
                if changed.is_err() {
                    // Without a word only when it panicked, or when the whole runtime ends.
                    look(node);
                    node.stopped("it ended without a reason (a panic is logged where it happens)");
                    return;
                }
                let outline = outline(&changes.borrow_watched());
                if seen.as_ref() == Some(&outline) {
                    continue;
                }
                seen = Some(outline);
            }
            // The lease and the figures go by the clock.
            _ = tick.tick() => {
                if Instant::now() >= figures_due {
                    figures_due = Instant::now() + FIGURES_INTERVAL;
                    let size = figures(node, running);
                    bound_log(node, size, &mut cut_at).await;
                }
            }
        }
        look(node);
    }
}

/// What decides about a leadership, without the lease.
fn outline(metrics: &RaftMetrics<Types>) -> (ServerState, Option<u64>, u64, Option<LogId>, bool) {
    (
        metrics.state,
        metrics.current_leader,
        metrics.current_term,
        *metrics.membership_config.log_id(),
        metrics.running_state.is_ok(),
    )
}

/// Ends a leadership that does not hold, and publishes who leads.
pub(super) fn look(node: &Node) {
    let metrics = node.metrics();
    let sight = Sight::of(&metrics);
    let lease = node.options().timing.election_timeout_max;
    node.guard.look(&sight, lease);
    if let Err(fatal) = &metrics.running_state {
        node.stopped(&fatal.to_string());
    }
    publish(node, &metrics, &sight);
}

fn publish(node: &Node, metrics: &RaftMetrics<Types>, sight: &Sight) {
    let masters = node.masters();
    let leader = leader_of(node, metrics, sight).and_then(|id| masters.iter().find(|m| m.id == id));
    let epoch = if leader.is_some() {
        node.applied().epochs().of(metrics.current_term)
    } else {
        Epoch::ZERO
    };
    let view = LeaderView {
        leader: leader.cloned(),
        epoch,
        masters,
    };
    node.view.send_if_modified(|old| {
        if *old == view {
            return false;
        }
        let name = |leader: &Option<MasterInfo>| leader.as_ref().map(|leader| leader.id.clone());
        let (was, is) = (name(&old.leader), name(&view.leader));
        if was != is {
            let master = &node.options().id;
            if is.is_some() {
                let epoch = view.epoch.0;
                tracing::info!(
                    event = "leader_seen",
                    master,
                    epoch,
                    leader = is,
                    "leader seen"
                );
            } else {
                let event = "leader_gone";
                tracing::info!(event, master, was, "the leader is gone, or not heard of");
            }
        }
        *old = view;
        true
    });
}

/// The id of the master that leads. This one only while a quorum agrees, another one only while it is heard.
fn leader_of(node: &Node, metrics: &RaftMetrics<Types>, sight: &Sight) -> Option<String> {
    let leader = metrics.current_leader?;
    if node.has_stopped() {
        return None;
    }
    if leader == node.number() {
        sight
            .judge(sight.term, node.options().timing.election_timeout_max)
            .ok()?;
    } else if node.hearing.is_silent(&node.options().timing) {
        return None;
    }
    let members = members_of(metrics);
    members
        .into_iter()
        .find(|member| member.node == leader)
        .map(|member| member.info.id)
}

/// Records the figures.
fn figures(node: &Node, running: &Running) -> LogSize {
    let raft = node.metrics();
    metrics::indexes(&Indexes {
        term: raft.current_term,
        last: raft.last_log_index,
        committed: raft.local_committed.map(|id| id.index),
        applied: raft.last_applied.map(|id| id.index),
        purged: raft.purged.map(|id| id.index),
        snapshot: raft.snapshot.map(|id| id.index),
    });
    if let Some(age) = node.applied().snapshots.age(clock::now_ms()) {
        metrics::snapshot_age(age);
    }
    let sight = Sight::of(&raft);
    metrics::quorum_age(if sight.leads {
        sight.confirmed.unwrap_or_default()
    } else {
        Duration::ZERO
    });
    quorum_figures(&raft);
    store_size(EngineKind::Raft, node.applied().image().store.bytes());
    let size = running.log.size();
    metrics::log_size(size);
    size
}

/// Who is how far behind, and how many may still be lost; zeros on a master that does not lead, which knows neither.
fn quorum_figures(raft: &RaftMetrics<Types>) {
    let last = raft.last_log_index.unwrap_or(0);
    let mut answering = 0;
    let members = members_of(raft);
    for member in &members {
        if member.node == raft.id {
            answering += usize::from(member.voter);
            continue;
        }
        let matched = raft
            .replication
            .as_ref()
            .map(|replication| replication.get(&member.node).copied().flatten());
        if let Some(matched) = matched {
            let behind = last.saturating_sub(matched.map_or(0, |id| id.index));
            metrics::lag(&member.info.id, Some(behind));
        } else {
            metrics::lag(&member.info.id, None);
        }
        let heard = raft
            .heartbeat
            .as_ref()
            .and_then(|heard| heard.get(&member.node).copied().flatten());
        let answers = heard.is_some_and(|heard| heard.elapsed() < ANSWERS_WITHIN);
        answering += usize::from(member.voter && answers);
    }
    let voters = members.iter().filter(|member| member.voter).count();
    let quorum = voters / 2 + 1;
    let leads = raft.state == ServerState::Leader;
    metrics::quorum(
        voters,
        if leads {
            answering.saturating_sub(quorum)
        } else {
            0
        },
    );
}

/// Keeps the log within its bytes; within its entries openraft keeps it. `cut_at` is how much had been written when
/// this last asked for a snapshot.
async fn bound_log(node: &Node, size: LogSize, cut_at: &mut u64) {
    let bound = node.options().snapshots.log_bytes;
    let metrics = node.metrics();
    let index = |id: Option<LogId>| id.map_or(0, |id| id.index);
    let (applied, snapshot) = (index(metrics.last_applied), index(metrics.snapshot));
    let raft = node.raft();
    let trigger = raft.trigger();
    let mut asked = Ok(());
    if size.bytes > bound / 2 && applied > snapshot && size.written > *cut_at + bound / 4 {
        *cut_at = size.written;
        asked = trigger.snapshot().await;
    } else if size.bytes > bound / 4 * 3 && snapshot > index(metrics.purged) {
        // Large entries: not even those may stay that would spare a master a snapshot.
        asked = trigger.purge_log(snapshot).await;
    }
    if let Err(error) = asked {
        tracing::debug!(%error, "the log is not cut: raft has stopped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_millis(300);

    fn sight(term: u64, leads: bool, confirmed_ms: Option<u64>) -> Sight {
        Sight {
            term,
            leads,
            confirmed: confirmed_ms.map(Duration::from_millis),
        }
    }

    #[test]
    fn a_leadership_holds_only_while_a_quorum_confirms_it() {
        assert_eq!(sight(5, true, Some(10)).judge(5, LEASE), Ok(()));
        assert_eq!(sight(6, true, Some(10)).judge(5, LEASE), Err(Lost::Term(6)));
        assert_eq!(
            sight(5, false, Some(10)).judge(5, LEASE),
            Err(Lost::NotLeading)
        );
        assert_eq!(
            sight(5, true, Some(5000)).judge(5, LEASE),
            Err(Lost::QuorumSilent)
        );
        assert_eq!(
            sight(5, true, None).judge(5, LEASE),
            Err(Lost::QuorumSilent)
        );
    }

    #[test]
    fn a_lost_leadership_stays_lost_and_a_new_one_is_another() {
        let guard = Guard::new(CancellationToken::new());
        let first = guard.hold(5, Epoch(5));
        assert!(!guard.hold(5, Epoch(5)).lost.is_cancelled());
        guard.look(&sight(5, true, Some(5000)), LEASE);
        assert!(first.lost.is_cancelled());
        let again = guard.hold(5, Epoch(5));
        assert!(!again.lost.is_cancelled() && first.lost.is_cancelled());
        let next = guard.hold(6, Epoch(6));
        assert!(again.lost.is_cancelled() && !next.lost.is_cancelled());
        guard.end();
        assert!(next.lost.is_cancelled());
    }

    #[test]
    fn closing_ends_every_leadership() {
        let closing = CancellationToken::new();
        let held = Guard::new(closing.clone()).hold(1, Epoch(1));
        closing.cancel();
        assert!(held.lost.is_cancelled());
    }
}
