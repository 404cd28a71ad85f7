//! Campaigning: waiting until there is no leader, and being the first to say so.
//!
//! A candidate creates the leader key in a transaction that demands that there is none, on its lease; the revision of
//! that transaction makes the epoch. etcd's own election service is not used, for three reasons: its `campaign` blocks
//! in the server without a deadline and leaves a key behind for every candidate that went away; it cannot say in the
//! same step that the cluster is the right one, that the base of the epochs has not moved and that the named successor
//! comes first; and a leader's key would be another one each time, so that a compare in every write needed its name.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, timeout},
};

use super::{
    control::{Control, LeaderKey, LeaderValue, base_above},
    failure::{CallError, Kind},
    limits::{CALL_DEADLINE, HEIR_PATIENCE, LOOK_AGAIN, RETRY_MAX, RETRY_MIN, STAND_BACK},
    node::{Attempting, Node},
    seat::Lease,
    status::Problem,
};
use crate::{
    election::{LeaderElection, LeaderView, Leadership, MasterInfo},
    error::ElectionError,
};

/// The election among the masters of one prefix.
#[derive(Debug)]
pub(super) struct EtcdElection {
    node: Arc<Node>,
}

/// What a candidate does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Try,
    /// Look again when something changes, or after this long.
    Wait(Duration),
}

/// What a candidate knows.
struct Outlook<'a> {
    control: &'a Control,
    me: &'a str,
    registered: bool,
    /// How long this master is to let others try.
    stand_back: Option<Duration>,
    /// How long there has been no leader.
    vacant: Duration,
}

/// A leader key that was created, and is not held yet. Dropping it leaves it to the observer to remove it.
struct Won {
    key: LeaderKey,
    _attempting: Attempting,
}

// === impl Outlook ===

impl Outlook<'_> {
    fn step(&self) -> Step {
        let control = self.control;
        if !self.registered || control.unfit.is_some() || control.leader.is_some() {
            return Step::Wait(LOOK_AGAIN);
        }
        if control.cluster.is_none() {
            return Step::Wait(LOOK_AGAIN);
        }
        match &control.heir {
            Some(heir) if heir == self.me => return Step::Try,
            Some(_other) if self.vacant < HEIR_PATIENCE => {
                return Step::Wait(HEIR_PATIENCE - self.vacant);
            }
            Some(_) | None => {}
        }
        match self.stand_back {
            Some(left) if control.others(self.me).next().is_some() => Step::Wait(left),
            Some(_) | None => Step::Try,
        }
    }
}

// === impl EtcdElection ===

impl EtcdElection {
    pub(super) fn new(node: Arc<Node>) -> Self {
        Self { node }
    }

    /// Waits until there is no leader, and tries; until it has won.
    async fn win(&self) -> (Won, Arc<Lease>) {
        let node = &self.node;
        let (mut controls, mut leases) = (node.control.subscribe(), node.lease.subscribe());
        let mut vacant_since = None;
        let mut pause = RETRY_MIN;
        loop {
            let control = Arc::clone(&controls.borrow_and_update());
            let lease = leases.borrow_and_update().clone();
            let vacant_since = match control.leader {
                None => *vacant_since.get_or_insert_with(Instant::now),
                Some(_) => {
                    vacant_since = None;
                    Instant::now()
                }
            };
            let outlook = Outlook {
                control: &control,
                me: node.id(),
                registered: lease.is_some(),
                stand_back: node
                    .seat
                    .standing_back()
                    .map(|until| until.saturating_duration_since(Instant::now())),
                vacant: vacant_since.elapsed(),
            };
            let wait = match (outlook.step(), lease) {
                (Step::Try, Some(lease)) => match self.attempt(&control, &lease).await {
                    Ok(Some(won)) => return (won, lease),
                    Ok(None) => {
                        node.nudge.notify_one();
                        LOOK_AGAIN
                    }
                    Err(error) => {
                        node.note_space(&error);
                        tracing::debug!(master = node.id(), %error, "campaign failed");
                        node.nudge.notify_one();
                        node.rest(pause).await;
                        pause = (pause * 2).min(RETRY_MAX);
                        continue;
                    }
                },
                (Step::Try, None) => LOOK_AGAIN,
                (Step::Wait(wait), _) => wait,
            };
            tokio::select! {
                // The senders live as long as the node.
                Ok(()) = controls.changed() => {}
                Ok(()) = leases.changed() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Tries to create the leader key; `None` where something has changed since the look.
    ///
    /// In a task of its own, so that what it won is removed even if nobody waits for it any more.
    async fn attempt(&self, control: &Control, lease: &Lease) -> Result<Option<Won>, CallError> {
        let node = Arc::clone(&self.node);
        let floor = node.dir.epoch().max(control.opened);
        let value = LeaderValue {
            info: node.me(),
            node: node.dir.identity().node,
            nonce: rand::random(),
            base: base_above(control.base, control.revision, floor),
        };
        let bytes = serde_json::to_vec(&value)
            .map_err(|error| CallError::new(Kind::Unsent, error.to_string()))?;
        let txn = bid(&node, control, &value, &bytes, lease);
        let deadline = (Instant::now() + CALL_DEADLINE).min(lease.good_until());
        let attempting = node.attempting();
        let (answer, told) = oneshot::channel();
        let task = Arc::clone(&node);
        node.tasks.spawn(async move {
            let done = task.txn("campaign", deadline, txn).await;
            let won = done.map(|done| {
                done.succeeded.then_some(Won {
                    key: LeaderKey {
                        value,
                        bytes,
                        create_revision: done.revision,
                    },
                    _attempting: attempting,
                })
            });
            // Nobody waits: dropped, and with it removed by the observer.
            drop(answer.send(won));
        });
        told.await
            .unwrap_or_else(|_| Err(CallError::new(Kind::Unknown, "the campaign was cut off")))
    }
}

/// The transaction that makes a leader.
fn bid(node: &Node, control: &Control, value: &LeaderValue, bytes: &[u8], lease: &Lease) -> Txn {
    let (keys, equal) = (&node.keys, CompareOp::Equal);
    let cluster = control
        .cluster
        .as_ref()
        .map(|c| c.bytes.clone())
        .unwrap_or_default();
    let on_lease = PutOptions::new().with_lease(lease.id);
    let mut then = vec![
        TxnOp::put(keys.leader(), bytes, Some(on_lease)),
        TxnOp::delete(keys.heir(), None),
    ];
    if value.base != control.base {
        // Later leaders count from there too.
        then.push(TxnOp::put(keys.base(), value.base.to_string(), None));
    }
    Txn::new()
        .when([
            Compare::create_revision(keys.leader(), equal, 0),
            Compare::value(keys.cluster(), equal, cluster),
            Compare::mod_revision(keys.base(), equal, control.base_revision),
        ])
        .and_then(then)
}

/// Ends a leadership as soon as its lease may be over.
async fn guard(node: Arc<Node>, leadership: Leadership, lease: Arc<Lease>) {
    tokio::select! {
        () = leadership.lost.cancelled() => return,
        () = node.closing.cancelled() => {}
        () = lease.over() => {
            tracing::warn!(
                master = node.id(),
                epoch = %leadership.epoch,
                "the lease could not be renewed in time: leadership is over"
            );
        }
    }
    node.seat.vacate_epoch(leadership.epoch);
    node.nudge.notify_one();
}

#[async_trait]
impl LeaderElection for EtcdElection {
    async fn campaign(&self, me: &MasterInfo) -> Result<Leadership, ElectionError> {
        let node = &self.node;
        if node.seat.set_me(me) {
            node.renamed.notify_one();
        }
        // A leader that campaigns has given up.
        if node.seat.held().is_some() {
            self.resign().await;
        }
        loop {
            let (won, lease) = tokio::select! {
                biased;
                () = node.closing.cancelled() => return Err(ElectionError::Closed),
                won = self.win() => won,
            };
            let leadership = node.seat.take(won.key.clone(), Arc::clone(&lease));
            drop(won);
            node.tasks
                .spawn(guard(Arc::clone(node), leadership.clone(), lease));
            node.heard_of(leadership.epoch).await;
            if node.seat.held_in(leadership.epoch).is_some() {
                node.status.clear(Problem::NoSpace);
                tracing::info!(master = node.id(), epoch = %leadership.epoch, "leading");
                return Ok(leadership);
            }
        }
    }

    async fn resign(&self) {
        let node = &self.node;
        let Some(held) = node.seat.vacate() else {
            return;
        };
        if node.control().others(node.id()).next().is_some() {
            node.seat.stand_back_until(Instant::now() + STAND_BACK);
        }
        if let Err(error) = node.remove_leader(&held.key, None).await {
            // The observer tries again, and the lease ends it at the latest.
            tracing::warn!(master = node.id(), epoch = %held.leadership.epoch, %error, "not resigned yet");
        }
    }

    fn observe(&self) -> watch::Receiver<LeaderView> {
        self.node.seat.observe()
    }
}

/// Hands leadership to `heir`, or to whoever is first, and waits until another master leads; its id.
pub(super) async fn hand_over(
    node: &Node,
    heir: Option<&str>,
    deadline: Duration,
) -> Result<String, String> {
    let Some(held) = node.seat.vacate() else {
        return Err("this master does not lead any more".to_owned());
    };
    node.seat.stand_back_until(Instant::now() + deadline);
    node.remove_leader(&held.key, heir)
        .await
        .map_err(|error| error.to_string())?;
    let mut view = node.seat.observe();
    let epoch = held.leadership.epoch;
    let taken = view.wait_for(|view| view.leader.is_some() && view.epoch > epoch);
    let next = match timeout(deadline, taken).await {
        Ok(Ok(view)) => view.leader.clone().map(|leader| leader.id),
        Ok(Err(_)) | Err(_) => None,
    };
    node.seat.stand_back_until(Instant::now());
    next.ok_or_else(|| format!("no other master has taken over within {deadline:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etcd::control::{ClusterKey, MasterValue};

    fn control() -> Control {
        let master = |id: &str| MasterValue {
            info: MasterInfo {
                id: id.into(),
                ..MasterInfo::default()
            },
            node: 1,
        };
        Control {
            revision: 9,
            cluster: Some(ClusterKey {
                id: "c".into(),
                bytes: b"c".to_vec(),
            }),
            masters: vec![master("m1"), master("m2")],
            ..Control::default()
        }
    }

    fn outlook(control: &Control) -> Outlook<'_> {
        Outlook {
            control,
            me: "m1",
            registered: true,
            stand_back: None,
            vacant: Duration::ZERO,
        }
    }

    #[test]
    fn a_candidate_tries_when_there_is_no_leader() {
        let mut control = control();
        assert_eq!(outlook(&control).step(), Step::Try);
        let without_lease = Outlook {
            registered: false,
            ..outlook(&control)
        };
        assert_eq!(without_lease.step(), Step::Wait(LOOK_AGAIN));
        control.unfit = Some("wiped".into());
        assert_eq!(outlook(&control).step(), Step::Wait(LOOK_AGAIN));
    }

    #[test]
    fn a_named_successor_comes_first_but_not_for_ever() {
        let mut control = control();
        control.heir = Some("m2".into());
        assert_eq!(outlook(&control).step(), Step::Wait(HEIR_PATIENCE));
        let later = Outlook {
            vacant: HEIR_PATIENCE,
            ..outlook(&control)
        };
        assert_eq!(later.step(), Step::Try);
        control.heir = Some("m1".into());
        assert_eq!(outlook(&control).step(), Step::Try);
    }

    #[test]
    fn who_has_resigned_lets_others_try_if_there_are_any() {
        let mut control = control();
        let back = |control: &Control| {
            Outlook {
                stand_back: Some(STAND_BACK),
                ..outlook(control)
            }
            .step()
        };
        assert_eq!(back(&control), Step::Wait(STAND_BACK));
        control.masters.retain(|m| m.info.id == "m1");
        assert_eq!(back(&control), Step::Try);
    }
}
