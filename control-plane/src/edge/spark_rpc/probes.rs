//! Which peers are being asked what their classes look like, and which were asked in vain.
//!
//! Only with `--spark-probe`. Each question costs the peer an error in its log, so the same peer is not asked on two
//! connections at once, nor again right after it has answered something else; and only some peers at a time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use interrex_spark_wire::Address;
use tokio::time::Instant;

/// Peers that are asked at the same time.
const ASKED_MAX: usize = 8;
/// How long a peer that was asked in vain is left alone. A driver gives up after 60 s.
const LEFT_ALONE: Duration = Duration::from_secs(120);
/// Peers that are remembered so.
const VAIN_MAX: usize = 256;

/// See the module.
#[derive(Debug)]
pub(super) struct Probes {
    is_on: bool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    asked: BTreeSet<Address>,
    vain: BTreeMap<Address, Vain>,
}

#[derive(Debug)]
struct Vain {
    until: Instant,
    why: String,
}

/// The place of a peer that is being asked; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    probes: Arc<Probes>,
    peer: Address,
}

/// Why a peer is not asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotAsked {
    /// Nobody is.
    #[error("masters ask nobody without --spark-probe")]
    Off,
    /// It passes.
    #[error("it, or {ASKED_MAX} others, are being asked just now")]
    Busy,
    /// It was, a moment ago.
    #[error("asked what its classes look like, in vain: {0}")]
    Vain(String),
}

// === impl Probes ===

impl Probes {
    pub(super) fn new(is_on: bool) -> Arc<Self> {
        let inner = Mutex::default();
        Arc::new(Self { is_on, inner })
    }

    /// Whether peers are asked at all.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// A place for this peer.
    pub(super) fn begin(self: &Arc<Self>, peer: &Address) -> Result<Place, NotAsked> {
        if !self.is_on {
            return Err(NotAsked::Off);
        }
        if let Some(why) = self.in_vain(peer) {
            return Err(NotAsked::Vain(why));
        }
        let mut inner = self.lock();
        if inner.asked.len() >= ASKED_MAX || !inner.asked.insert(peer.clone()) {
            return Err(NotAsked::Busy);
        }
        drop(inner);
        let (probes, peer) = (Arc::clone(self), peer.clone());
        Ok(Place { probes, peer })
    }

    /// It has answered something else, or nothing.
    pub(super) fn failed(&self, peer: &Address, why: &str) {
        let now = Instant::now();
        let mut inner = self.lock();
        inner.vain.retain(|_, vain| vain.until > now);
        if inner.vain.len() >= VAIN_MAX {
            inner.vain.pop_first();
        }
        let vain = Vain {
            until: now + LEFT_ALONE,
            why: why.to_owned(),
        };
        inner.vain.insert(peer.clone(), vain);
    }

    /// Why this peer is left alone for now, if it is.
    pub(super) fn in_vain(&self, peer: &Address) -> Option<String> {
        let inner = self.lock();
        let vain = inner.vain.get(peer)?;
        (vain.until > Instant::now()).then(|| vain.why.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No change of the sets can panic half way.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Place ===

impl Drop for Place {
    fn drop(&mut self) {
        self.probes.lock().asked.remove(&self.peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(port: u16) -> Address {
        Address::new("h1", port)
    }

    #[test]
    fn a_master_without_the_switch_asks_nobody() {
        let refused = Probes::new(false).begin(&peer(1)).expect_err("off");
        assert_eq!(refused, NotAsked::Off);
    }

    #[test]
    fn only_some_peers_are_asked_at_once_and_each_of_them_once() {
        let probes = Probes::new(true);
        let first = probes.begin(&peer(0)).expect("free");
        assert_eq!(probes.begin(&peer(0)).expect_err("asked"), NotAsked::Busy);
        let more: Vec<Place> = (1..8)
            .map(|p| probes.begin(&peer(p)).expect("free"))
            .collect();
        assert_eq!(probes.begin(&peer(8)).expect_err("full"), NotAsked::Busy);
        drop(first);
        probes.begin(&peer(0)).expect("free again");
        drop(more);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_was_asked_in_vain_is_left_alone_for_a_while() {
        let probes = Probes::new(true);
        for port in 0..=u16::try_from(VAIN_MAX).expect("few") {
            probes.failed(&peer(port), "it said no");
        }
        let vain = NotAsked::Vain("it said no".to_owned());
        assert_eq!(probes.begin(&peer(1)).expect_err("vain"), vain);
        assert_eq!(probes.lock().vain.len(), VAIN_MAX);
        tokio::time::sleep(LEFT_ALONE).await;
        probes.begin(&peer(1)).expect("another time");
    }
}
