//! Which master to ask first: the leader as last known, then the others, and those that did not answer lately at
//! the end. Pure: time is an argument.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

/// What a client knows of the masters.
#[derive(Debug)]
pub(super) struct Book {
    masters: Vec<String>,
    leader: Option<String>,
    suspects: BTreeMap<String, Instant>,
    suspect_for: Duration,
}

// === impl Book ===

impl Book {
    pub(super) fn new(masters: Vec<String>, suspect_for: Duration) -> Self {
        Self {
            masters,
            leader: None,
            suspects: BTreeMap::new(),
            suspect_for,
        }
    }

    /// Every address worth asking, the best first.
    pub(super) fn order(&mut self, now: Instant) -> Vec<String> {
        self.suspects.retain(|_, until| *until > now);
        let mut order: Vec<String> = self.leader.iter().cloned().collect();
        order.extend(
            self.masters
                .iter()
                .filter(|m| Some(*m) != self.leader.as_ref())
                .cloned(),
        );
        // Stable: within each half the order stays.
        order.sort_by_key(|master| self.suspects.contains_key(master));
        order
    }

    pub(super) fn is_suspect(&self, master: &str, now: Instant) -> bool {
        self.suspects.get(master).is_some_and(|until| *until > now)
    }

    /// `master` has answered; `leads`: as only a leader does.
    pub(super) fn answered(&mut self, master: &str, leads: bool) {
        self.suspects.remove(master);
        if leads {
            self.leader = Some(master.to_owned());
        }
    }

    /// `master` has said that it does not lead.
    pub(super) fn not_leader(&mut self, master: &str) {
        self.suspects.remove(master);
        if self.leader.as_deref() == Some(master) {
            self.leader = None;
        }
    }

    /// `master` could not be reached, or did not answer in time.
    pub(super) fn suspect(&mut self, master: &str, now: Instant) {
        // Only addresses that can be asked again are kept, so this stays as small as the list.
        if self.masters.iter().any(|known| known == master) {
            self.suspects
                .insert(master.to_owned(), now + self.suspect_for);
        }
        if self.leader.as_deref() == Some(master) {
            self.leader = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book() -> Book {
        let masters = ["a:1", "b:2", "c:3"].map(str::to_owned).to_vec();
        Book::new(masters, Duration::from_secs(5))
    }

    #[test]
    fn the_leader_is_asked_first_and_the_dead_last() {
        let now = Instant::now();
        let mut book = book();
        assert_eq!(book.order(now), ["a:1", "b:2", "c:3"]);
        book.answered("b:2", true);
        book.suspect("a:1", now);
        assert_eq!(book.order(now), ["b:2", "c:3", "a:1"]);
        book.not_leader("b:2");
        assert_eq!(book.order(now), ["b:2", "c:3", "a:1"]);
    }

    #[test]
    fn suspicion_ends_by_itself_and_takes_leadership_along() {
        let now = Instant::now();
        let mut book = book();
        book.answered("c:3", true);
        book.suspect("c:3", now);
        assert_eq!(book.order(now), ["a:1", "b:2", "c:3"]);
        book.suspect("a:1", now);
        assert_eq!(book.order(now), ["b:2", "a:1", "c:3"]);
        let later = now + Duration::from_secs(6);
        assert!(!book.is_suspect("a:1", later));
        assert_eq!(book.order(later), ["a:1", "b:2", "c:3"]);
    }

    #[test]
    fn a_leader_outside_the_list_is_asked_first() {
        let mut book = book();
        book.answered("d:4", true);
        assert_eq!(book.order(Instant::now()), ["d:4", "a:1", "b:2", "c:3"]);
    }
}
