//! Until when the attempts may run that must never run twice in a cluster.
//!
//! A lease counts from the instant at which the acknowledged heartbeat was *sent*: the leader heard it later, so it gives
//! such an attempt up for lost (a worker timeout after it heard of this worker) only when the lease and the time to
//! end the attempt are over. An acknowledgement that was a long time on its way gives accordingly little.

use std::{collections::VecDeque, time::Duration};

use crate::process::Lease;

/// Heartbeats whose acknowledgement is waited for; of older ones it would be worth nothing.
const SENT_MAX: usize = 16;
/// The longest time from SIGTERM to SIGKILL at the end of a lease; never more than a quarter of the lease.
const GRACE_MAX: Duration = Duration::from_secs(1);

/// The lease of one worker. Instants are those of the clock of leases.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct LeaseKeeper {
    length: Duration,
    until: Duration,
    sequence: u64,
    sent: VecDeque<(u64, Duration)>,
}

// === impl LeaseKeeper ===

impl LeaseKeeper {
    /// The leader says how long a lease is; zero: it gives none.
    pub(super) fn told(&mut self, length: Duration) {
        self.length = length;
        self.sent.clear();
    }

    /// There is no leader: whatever it did not acknowledge, nobody will.
    pub(super) fn detached(&mut self) {
        self.sent.clear();
    }

    /// A heartbeat leaves at `at`; its number.
    pub(super) fn sent(&mut self, at: Duration) -> u64 {
        self.sequence += 1;
        if self.sent.len() >= SENT_MAX {
            self.sent.pop_front();
        }
        self.sent.push_back((self.sequence, at));
        self.sequence
    }

    /// The leader has heard a heartbeat. True where the lease is longer now.
    pub(super) fn acknowledged(&mut self, sequence: u64) -> bool {
        let Some(found) = self.sent.iter().position(|(sent, _)| *sent == sequence) else {
            return false;
        };
        let at = self.sent.drain(..=found).next_back().map(|(_, at)| at);
        let until = at.map_or(Duration::ZERO, |at| at.saturating_add(self.length));
        let longer = !self.length.is_zero() && until > self.until;
        if longer {
            self.until = until;
        }
        longer
    }

    pub(super) fn is_over(&self, at: Duration) -> bool {
        self.until <= at
    }

    pub(super) fn until(&self) -> Duration {
        self.until
    }

    /// From SIGTERM to SIGKILL when it is over.
    pub(super) fn grace(&self) -> Duration {
        GRACE_MAX.min(self.length / 4)
    }

    pub(super) fn lease(&self) -> Lease {
        Lease::new(self.until, self.grace())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(10);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn keeper() -> LeaseKeeper {
        let mut keeper = LeaseKeeper::default();
        keeper.told(LENGTH);
        keeper
    }

    #[test]
    fn a_lease_counts_from_when_the_acknowledged_heartbeat_was_sent() {
        let mut keeper = keeper();
        let first = keeper.sent(seconds(100));
        let second = keeper.sent(seconds(105));
        assert!(keeper.is_over(seconds(100)), "nothing is acknowledged yet");
        assert!(keeper.acknowledged(first));
        assert!(!keeper.is_over(seconds(109)));
        assert!(keeper.is_over(seconds(110)));
        assert!(keeper.acknowledged(second));
        assert_eq!(keeper.until(), seconds(115));
    }

    #[test]
    fn acknowledgements_out_of_order_unknown_or_twice_never_shorten_it() {
        let mut keeper = keeper();
        let first = keeper.sent(seconds(100));
        let second = keeper.sent(seconds(105));
        assert!(keeper.acknowledged(second));
        assert!(!keeper.acknowledged(first));
        assert!(!keeper.acknowledged(second));
        assert!(!keeper.acknowledged(99));
        assert_eq!(keeper.until(), seconds(115));
    }

    #[test]
    fn an_acknowledgement_for_another_leader_gives_nothing() {
        let mut keeper = keeper();
        let old = keeper.sent(seconds(100));
        keeper.detached();
        assert!(!keeper.acknowledged(old));
        let old = keeper.sent(seconds(100));
        keeper.told(LENGTH);
        assert!(!keeper.acknowledged(old));
    }

    #[test]
    fn a_leader_that_gives_no_lease_gives_none() {
        let mut keeper = LeaseKeeper::default();
        let sent = keeper.sent(seconds(100));
        assert!(!keeper.acknowledged(sent));
        assert!(keeper.is_over(seconds(100)));
    }

    #[test]
    fn what_is_not_acknowledged_is_bounded() {
        let mut keeper = keeper();
        let first = keeper.sent(seconds(1));
        for at in 2..1_000 {
            keeper.sent(seconds(at));
        }
        assert_eq!(keeper.sent.len(), SENT_MAX);
        assert!(!keeper.acknowledged(first));
    }

    #[test]
    fn lease_and_grace_stay_below_the_shortest_worker_timeout_that_allows_the_lease() {
        for length in [40_u64, 400, 1_000, 4_000, 10_000, 600_000].map(Duration::from_millis) {
            let mut keeper = LeaseKeeper::default();
            keeper.told(length);
            // Masters allow a lease of at most three quarters of the timeout.
            let timeout = length * 4 / 3;
            assert!(length + keeper.grace() < timeout, "{length:?}");
        }
    }
}
