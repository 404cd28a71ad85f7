//! Counts the leaderships that this master hears of, and how long it was without one, whatever the engine.

use interrex_core::ids::Epoch;
use interrex_persistence::election::LeaderView;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::metrics;

/// What was seen of the leaders so far.
#[derive(Debug, Default)]
struct Seen {
    /// The newest leadership: who, and in which epoch.
    newest: Option<(String, Epoch)>,
    /// Since when none is known; `None`: one is, or none has ever been.
    without_since: Option<Instant>,
}

/// Runs until `stop`.
pub(crate) async fn run(mut leaders: watch::Receiver<LeaderView>, stop: CancellationToken) {
    let mut seen = Seen::default();
    loop {
        let view = leaders.borrow_and_update().clone();
        if let Some(new) = seen.look(&view, Instant::now()) {
            metrics::leader_seen(new);
        }
        match stop.run_until_cancelled(leaders.changed()).await {
            Some(Ok(())) => {}
            Some(Err(_)) | None => break,
        }
    }
}

// === impl Seen ===

impl Seen {
    /// `Some` for a leadership that was not seen before, with how long this master knew none.
    fn look(&mut self, view: &LeaderView, now: Instant) -> Option<Option<std::time::Duration>> {
        let Some(leader) = &view.leader else {
            if self.newest.is_some() {
                self.without_since.get_or_insert(now);
            }
            return None;
        };
        let without = self.without_since.take();
        let leadership = (leader.id.clone(), Epoch(view.epoch.0));
        if self.newest.as_ref() == Some(&leadership) {
            return None;
        }
        self.newest = Some(leadership);
        Some(without.map(|since| now.saturating_duration_since(since)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use interrex_persistence::{election::MasterInfo, epoch};

    use super::*;

    fn view(leader: Option<&str>, epoch: u64) -> LeaderView {
        LeaderView {
            leader: leader.map(|id| MasterInfo {
                id: id.to_owned(),
                ..MasterInfo::default()
            }),
            epoch: epoch::Epoch(epoch),
            ..LeaderView::default()
        }
    }

    #[test]
    fn each_leadership_is_counted_once_with_the_time_without_one() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut seen = Seen::default();
        assert_eq!(seen.look(&view(None, 0), at(0)), None);
        assert_eq!(seen.look(&view(Some("m1"), 1), at(10)), Some(None));
        assert_eq!(seen.look(&view(Some("m1"), 1), at(20)), None);
        assert_eq!(seen.look(&view(None, 0), at(100)), None);
        assert_eq!(seen.look(&view(None, 0), at(200)), None);
        let gap = Duration::from_millis(500);
        assert_eq!(seen.look(&view(Some("m2"), 2), at(600)), Some(Some(gap)));
        // Handed over without a gap.
        assert_eq!(seen.look(&view(Some("m1"), 3), at(700)), Some(None));
        // Not heard of for a while, and still the same.
        assert_eq!(seen.look(&view(None, 0), at(800)), None);
        assert_eq!(seen.look(&view(Some("m1"), 3), at(900)), None);
    }
}
