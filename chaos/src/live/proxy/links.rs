//! All links of a run: who talks to whom, under which rule, and what the rules have done so far.
//!
//! A link exists from the first time that it is ruled or dialled, and for the rest of the run: there are as many as pairs
//! of nodes, which is bounded by the size of the cluster.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::watch;

use super::rule::Rule;

/// A node by its name: `m1`, `w1`, `c1`, `a1`, `etcd`; `me` is the harness itself.
pub type Node = String;

/// The rules of all links.
#[derive(Debug, Clone, Default)]
pub struct Links {
    links: Arc<Mutex<ByEnds>>,
}

/// Links by the one who dials and the one who is dialled.
type ByEnds = BTreeMap<(Node, Node), Arc<Link>>;

/// One link: from the one who dials to the one who is dialled.
#[derive(Debug)]
pub(super) struct Link {
    rule: watch::Sender<State>,
    counts: Counts,
}

/// The rule of a link, and how often its connections were reset.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct State {
    pub(super) rule: Rule,
    pub(super) resets: u64,
}

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicU64,
    forth: AtomicU64,
    back: AtomicU64,
    touched: AtomicU64,
}

/// What has happened on a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Connections that were made.
    pub connections: u64,
    /// Bytes that have passed from the one who dials.
    pub forth: u64,
    /// Bytes that have passed to the one who dials.
    pub back: u64,
    /// How often a rule has done something to bytes or a connection.
    pub touched: u64,
}

/// What a link counts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Count {
    Connection,
    Forth(usize),
    Back(usize),
    Touched,
}

// === impl Links ===

impl Links {
    /// Puts the links from `from` to `to` under `rule`.
    pub fn set(&self, from: &str, to: &str, rule: Rule) {
        let link = self.link(from, to);
        link.rule.send_modify(|state| state.rule = rule);
    }

    /// Cuts or mends both links between two nodes: `rule` for the one, its mirror image for the other.
    pub fn set_between(&self, one: &str, other: &str, rule: Rule) {
        self.set(one, other, rule);
        let mirrored = Rule {
            forth: rule.back,
            back: rule.forth,
            refuse: rule.refuse,
        };
        self.set(other, one, mirrored);
    }

    /// Resets every connection from `from` to `to` that is open now.
    pub fn reset(&self, from: &str, to: &str) {
        let link = self.link(from, to);
        link.rule.send_modify(|state| state.resets += 1);
    }

    /// Mends every link.
    pub fn mend_all(&self) {
        for link in self.lock().values() {
            link.rule.send_if_modified(|state| {
                let changes = !state.rule.is_open();
                state.rule = Rule::default();
                changes
            });
        }
    }

    /// What has happened on the link from `from` to `to`.
    #[must_use]
    pub fn traffic(&self, from: &str, to: &str) -> Traffic {
        self.link(from, to).counts.read()
    }

    /// How often any rule has done something, on all links that `concerns` picks.
    #[must_use]
    pub fn touched(&self, concerns: impl Fn(&str, &str) -> bool) -> u64 {
        let links = self.lock();
        let picked = links
            .iter()
            .filter(|((from, to), _)| concerns(from, to))
            .map(|(_, link)| link.counts.read().touched);
        picked.sum()
    }

    pub(super) fn link(&self, from: &str, to: &str) -> Arc<Link> {
        let mut links = self.lock();
        let link = links
            .entry((from.to_owned(), to.to_owned()))
            .or_insert_with(|| {
                Arc::new(Link {
                    rule: watch::channel(State::default()).0,
                    counts: Counts::default(),
                })
            });
        Arc::clone(link)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ByEnds> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Link ===

impl Link {
    pub(super) fn watch(&self) -> watch::Receiver<State> {
        self.rule.subscribe()
    }

    pub(super) fn count(&self, what: Count) {
        let add = |counter: &AtomicU64, number: u64| {
            counter.fetch_add(number, Ordering::Relaxed);
        };
        match what {
            Count::Connection => add(&self.counts.connections, 1),
            Count::Forth(bytes) => add(&self.counts.forth, bytes as u64),
            Count::Back(bytes) => add(&self.counts.back, bytes as u64),
            Count::Touched => add(&self.counts.touched, 1),
        }
    }
}

// === impl Counts ===

impl Counts {
    fn read(&self) -> Traffic {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Traffic {
            connections: of(&self.connections),
            forth: of(&self.forth),
            back: of(&self.back),
            touched: of(&self.touched),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_nodes_a_rule_is_mirrored() {
        let links = Links::default();
        links.set_between("m1", "m2", Rule::NO_ANSWERS);
        let there = links.link("m1", "m2").watch().borrow().rule;
        let back = links.link("m2", "m1").watch().borrow().rule;
        assert_eq!(there, Rule::NO_ANSWERS);
        assert_eq!((back.forth, back.back), (there.back, there.forth));
        links.mend_all();
        assert!(links.link("m1", "m2").watch().borrow().rule.is_open());
        assert!(links.link("m2", "m1").watch().borrow().rule.is_open());
    }
}
