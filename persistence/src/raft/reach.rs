//! Whether a peer answers the leader's heartbeats, told once for each change: openraft tells each missed one, which
//! is twenty lines a second for as long as a master is down.

use std::time::Duration;

use tokio::time::Instant;

/// A peer that has not answered for this long is told; less is a busy machine.
const SILENT_AFTER: Duration = Duration::from_secs(1);
/// Nor is it told before this many heartbeats in a row went unanswered: this master may have slept itself.
const UNANSWERED_MIN: u32 = 5;

/// What is known of one peer.
///
/// openraft drops a call that takes too long, so a miss is seen only when the next one begins.
#[derive(Debug, Default)]
pub(super) struct Reach {
    /// The last answer, or the first question.
    heard: Option<Instant>,
    unanswered: u32,
    told: bool,
}

// === impl Reach ===

impl Reach {
    /// A heartbeat is about to be sent; whether the peer has now been silent for so long that it is worth telling.
    pub(super) fn asked(&mut self, now: Instant) -> bool {
        let heard = *self.heard.get_or_insert(now);
        let silent = self.unanswered >= UNANSWERED_MIN
            && now.saturating_duration_since(heard) >= SILENT_AFTER;
        self.unanswered = self.unanswered.saturating_add(1);
        silent && !std::mem::replace(&mut self.told, true)
    }

    /// It was answered; how long the peer was silent, if that was told.
    pub(super) fn answered(&mut self, now: Instant) -> Option<Duration> {
        let heard = self.heard.replace(now);
        self.unanswered = 0;
        if !std::mem::take(&mut self.told) {
            return None;
        }
        heard.map(|heard| now.saturating_duration_since(heard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(50);

    #[test]
    fn a_silent_peer_is_told_once_and_so_is_its_return() {
        let start = Instant::now();
        let mut reach = Reach::default();
        let told: Vec<u32> = (0..90)
            .filter(|step| reach.asked(start + STEP * *step))
            .collect();
        assert_eq!(told, [20]);
        let back = start + STEP * 90;
        assert_eq!(reach.answered(back), Some(STEP * 90));
        assert_eq!(reach.answered(back), None);
    }

    #[test]
    fn a_few_missed_heartbeats_and_an_own_sleep_are_not_told() {
        let start = Instant::now();
        let mut reach = Reach::default();
        for step in 0..100 {
            let now = start + STEP * step;
            assert!(!reach.asked(now));
            if step % 10 == 0 {
                assert_eq!(reach.answered(now), None);
            }
        }
        let later = start + Duration::from_secs(60);
        reach.answered(later - Duration::from_secs(50));
        assert!(!reach.asked(later));
    }
}
