//! Which master to ask first: the leader as last known, then the others, and those that did not answer lately at
//! the end. Pure: time is an argument.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use crate::{masters, session::LEARNT_MASTERS_MAX};

/// What a client knows of the masters.
#[derive(Debug)]
pub(super) struct Book {
    masters: Vec<String>,
    /// Masters that the cluster has named, beside those.
    learnt: Vec<String>,
    leader: Option<String>,
    suspects: BTreeMap<String, Instant>,
    suspect_for: Duration,
}

// === impl Book ===

impl Book {
    pub(super) fn new(masters: Vec<String>, suspect_for: Duration) -> Self {
        Self {
            masters,
            learnt: Vec::new(),
            leader: None,
            suspects: BTreeMap::new(),
            suspect_for,
        }
    }

    /// Every address worth asking, the best first.
    pub(super) fn order(&mut self, now: Instant) -> Vec<String> {
        self.suspects.retain(|_, until| *until > now);
        let mut order: Vec<String> = self.leader.iter().cloned().collect();
        let known = self.masters.iter().chain(&self.learnt);
        order.extend(known.filter(|m| Some(*m) != self.leader.as_ref()).cloned());
        // Stable: within each half the order stays.
        order.sort_by_key(|master| self.suspects.contains_key(master));
        order
    }

    pub(super) fn is_suspect(&self, master: &str, now: Instant) -> bool {
        self.suspects.get(master).is_some_and(|until| *until > now)
    }

    /// The cluster says who its masters are: those that are not in the list are asked after it from now on.
    pub(super) fn learn(&mut self, named: impl Iterator<Item = String>) {
        let fresh = named.filter(|master| {
            masters::is_address(master) && !self.masters.iter().any(|known| known == master)
        });
        self.learnt = fresh.take(LEARNT_MASTERS_MAX).collect();
        let (masters, learnt) = (&self.masters, &self.learnt);
        self.suspects
            .retain(|master, _| masters.contains(master) || learnt.contains(master));
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
        let mut known = self.masters.iter().chain(&self.learnt);
        if known.any(|known| known == master) {
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

    #[test]
    fn masters_that_the_cluster_names_are_asked_last_and_bad_addresses_never() {
        let mut book = book();
        let named = ["a:1", "d:4", "no port", "e:5"].map(str::to_owned);
        book.learn(named.into_iter());
        let now = Instant::now();
        assert_eq!(book.order(now), ["a:1", "b:2", "c:3", "d:4", "e:5"]);
        book.suspect("d:4", now);
        book.learn(["e:5".to_owned()].into_iter());
        assert_eq!(book.order(now), ["a:1", "b:2", "c:3", "e:5"]);
        assert!(!book.is_suspect("d:4", now));
    }
}
