//! The leadership that this master holds, and until when it may believe in it.
//!
//! What must never happen: that anything acts on a leadership whose lease may be over. The deadline is this master's
//! own monotonic clock at the moment before the last answered keep-alive was *sent*, plus the granted time, minus a
//! margin; no answer of etcd is needed to know that it has passed, and a process that was frozen finds it passed when
//! it wakes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::{
    sync::{Notify, watch},
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

use super::control::{Control, LeaderKey};
use crate::{
    election::{LeaderView, Leadership, MasterInfo},
    epoch::Epoch,
};

/// The part of a lease that is given up at its end: clocks run at different speeds, and between looking at the deadline
/// and acting some time passes.
const MARGIN_PARTS: u32 = 8;

/// A lease that etcd has granted.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) id: i64,
    ttl: Duration,
    good_until: Mutex<Instant>,
    /// Wakes whoever waits for the deadline.
    renewed: Notify,
    /// etcd has said that it is over.
    pub(super) ended: CancellationToken,
}

/// A leadership, with what proves it.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) leadership: Leadership,
    pub(super) key: LeaderKey,
    pub(super) lease: std::sync::Arc<Lease>,
}

/// What this master holds, and what it tells others.
#[derive(Debug)]
pub(super) struct Seat {
    me: Mutex<MasterInfo>,
    held: Mutex<Option<Held>>,
    view: watch::Sender<LeaderView>,
    stand_back: Mutex<Option<Instant>>,
}

// === impl Lease ===

impl Lease {
    /// A lease that was asked for at `sent` and granted for `ttl`.
    pub(super) fn new(id: i64, ttl: Duration, sent: Instant) -> Self {
        Self {
            id,
            ttl,
            good_until: Mutex::new(sent + good_for(ttl)),
            renewed: Notify::new(),
            ended: CancellationToken::new(),
        }
    }

    /// How long it was granted for.
    pub(super) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// A keep-alive that was sent at `sent` has been answered.
    pub(super) fn renew(&self, sent: Instant) {
        let mut good_until = lock(&self.good_until);
        *good_until = (*good_until).max(sent + good_for(self.ttl));
        drop(good_until);
        self.renewed.notify_waiters();
    }

    /// Until when this master may act on it.
    pub(super) fn good_until(&self) -> Instant {
        *lock(&self.good_until)
    }

    /// Returns when it may not be acted on any more.
    pub(super) async fn over(&self) {
        loop {
            let renewed = self.renewed.notified();
            let until = self.good_until();
            if Instant::now() >= until || self.ended.is_cancelled() {
                return;
            }
            tokio::select! {
                () = self.ended.cancelled() => return,
                () = tokio::time::sleep_until(until) => {}
                () = renewed => {}
            }
        }
    }
}

fn good_for(ttl: Duration) -> Duration {
    ttl - ttl / MARGIN_PARTS
}

// === impl Seat ===

impl Seat {
    pub(super) fn new(me: MasterInfo) -> Self {
        let view = LeaderView {
            masters: vec![me.clone()],
            ..LeaderView::default()
        };
        Self {
            me: Mutex::new(me),
            held: Mutex::default(),
            view: watch::Sender::new(view),
            stand_back: Mutex::default(),
        }
    }

    pub(super) fn me(&self) -> MasterInfo {
        lock(&self.me).clone()
    }

    /// Takes over what the campaign says about this master; whether that was new.
    pub(super) fn set_me(&self, me: &MasterInfo) -> bool {
        let mut current = lock(&self.me);
        let differs = *current != *me;
        current.clone_from(me);
        differs
    }

    pub(super) fn observe(&self) -> watch::Receiver<LeaderView> {
        self.view.subscribe()
    }

    /// Begins a leadership.
    pub(super) fn take(&self, key: LeaderKey, lease: std::sync::Arc<Lease>) -> Leadership {
        let leadership = Leadership {
            epoch: key.epoch(),
            lost: CancellationToken::new(),
        };
        let me = self.me();
        let mut held = lock(&self.held);
        let earlier = held.replace(Held {
            leadership: leadership.clone(),
            key,
            lease,
        });
        if let Some(earlier) = earlier {
            earlier.leadership.lost.cancel();
        }
        self.view.send_modify(|view| {
            view.epoch = leadership.epoch.max(view.epoch);
            view.leader = Some(me);
        });
        leadership
    }

    /// Ends the leadership in force, if there is one, and returns it.
    pub(super) fn vacate(&self) -> Option<Held> {
        self.vacate_if(|_| true)
    }

    /// Ends the leadership of `epoch`, if it is the one in force.
    pub(super) fn vacate_epoch(&self, epoch: Epoch) {
        self.vacate_if(|held| held.leadership.epoch == epoch);
    }

    fn vacate_if(&self, which: impl FnOnce(&Held) -> bool) -> Option<Held> {
        let mut held = lock(&self.held);
        let ended = held.take_if(|held| which(held))?;
        ended.leadership.lost.cancel();
        self.view.send_modify(|view| view.leader = None);
        Some(ended)
    }

    /// The leadership in force. One whose lease may be over is ended here and now.
    pub(super) fn held(&self) -> Option<Held> {
        self.vacate_if(|held| Instant::now() >= held.lease.good_until());
        lock(&self.held).clone()
    }

    /// The leadership of `epoch`, if it is in force.
    pub(super) fn held_in(&self, epoch: Epoch) -> Option<Held> {
        self.held().filter(|held| held.leadership.epoch == epoch)
    }

    /// Whether a leader key with this create-revision is the one that is held.
    pub(super) fn holds(&self, create_revision: i64) -> bool {
        let held = lock(&self.held);
        held.as_ref()
            .is_some_and(|held| held.key.create_revision == create_revision)
    }

    /// Takes over what was read from etcd: ends a leadership that is over there, and tells observers.
    pub(super) fn reconcile(&self, control: &Control) {
        self.vacate_if(|held| {
            let own = &held.key;
            let seen = control.revision >= own.create_revision || control.revision == 0;
            let there = control
                .leader
                .as_ref()
                .is_some_and(|l| l.create_revision == own.create_revision && l.bytes == own.bytes);
            // A listing from before the win says nothing; one of a store that is not ours says everything.
            control.unfit.is_some() || (seen && !there)
        });
        let mut next = control.view(&self.me());
        let held = lock(&self.held);
        match &*held {
            Some(held) => {
                next.leader = Some(self.me()).filter(|_| !held.leadership.lost.is_cancelled())
            }
            // Its own key may outlive a leadership for a moment.
            None if next.leader.as_ref().is_some_and(|l| l.id == self.me().id) => {
                next.leader = None
            }
            None => {}
        }
        self.view.send_if_modified(|view| {
            next.epoch = next.epoch.max(view.epoch);
            let differs = *view != next;
            *view = next;
            differs
        });
    }

    /// Others may try first, until then.
    pub(super) fn stand_back_until(&self, until: Instant) {
        *lock(&self.stand_back) = Some(until);
    }

    /// Until when others may try first.
    pub(super) fn standing_back(&self) -> Option<Instant> {
        (*lock(&self.stand_back)).filter(|until| *until > Instant::now())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::etcd::control::LeaderValue;

    fn key(revision: i64) -> LeaderKey {
        let value = LeaderValue {
            info: MasterInfo::default(),
            node: 1,
            nonce: 7,
            base: 0,
        };
        LeaderKey {
            bytes: serde_json::to_vec(&value).unwrap(),
            value,
            create_revision: revision,
        }
    }

    fn lease() -> Arc<Lease> {
        Arc::new(Lease::new(1, Duration::from_secs(8), Instant::now()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_leadership_ends_by_this_masters_own_clock() {
        let (seat, lease) = (Seat::new(MasterInfo::default()), lease());
        let leadership = seat.take(key(5), Arc::clone(&lease));
        tokio::time::advance(Duration::from_millis(6999)).await;
        assert!(seat.held_in(Epoch(5)).is_some());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(seat.held_in(Epoch(5)).is_none(), "8 s minus the margin");
        assert!(leadership.lost.is_cancelled());
        // An answer that comes now is no reason to believe in it again.
        lease.renew(Instant::now());
        assert!(seat.held_in(Epoch(5)).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_counts_from_the_sending_of_its_keep_alive() {
        let lease = lease();
        let sent = Instant::now() + Duration::from_secs(2);
        tokio::time::advance(Duration::from_secs(5)).await;
        lease.renew(sent);
        assert_eq!(lease.good_until(), sent + Duration::from_secs(7));
        // Answers out of order take nothing away.
        lease.renew(sent - Duration::from_secs(1));
        assert_eq!(lease.good_until(), sent + Duration::from_secs(7));
        tokio::time::timeout(Duration::from_secs(5), lease.over())
            .await
            .unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_over_in_etcd_is_over_here() {
        let seat = Seat::new(MasterInfo::default());
        let mut control = Control {
            revision: 4,
            ..Control::default()
        };
        let leadership = seat.take(key(5), lease());
        seat.reconcile(&control);
        assert!(seat.holds(5), "a listing from before the win says nothing");
        control.revision = 6;
        control.leader = Some(key(5));
        seat.reconcile(&control);
        assert!(seat.holds(5));
        let mut other = key(5);
        other.bytes.push(b' ');
        control.leader = Some(other);
        seat.reconcile(&control);
        assert!(
            leadership.lost.is_cancelled(),
            "the same revision in another etcd is another leadership"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_of_another_cluster_ends_the_leadership() {
        let seat = Seat::new(MasterInfo::default());
        let leadership = seat.take(key(5), lease());
        seat.reconcile(&Control {
            revision: 2,
            unfit: Some("wiped".into()),
            ..Control::default()
        });
        assert!(leadership.lost.is_cancelled());
    }
}
