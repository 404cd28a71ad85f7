//! What masters were told, and whether that can all be true.

use std::collections::{BTreeMap, BTreeSet};

use interrex_persistence::epoch::Epoch;

/// Everything that was acknowledged, by whom, in which order.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Which life of which master led in an epoch.
    leaders: BTreeMap<Epoch, String>,
    /// The largest epoch that was opened.
    opened: Epoch,
    /// Keys of acknowledged batches.
    acknowledged: BTreeSet<u64>,
    /// Keys that were ever proposed.
    proposed: BTreeSet<u64>,
    pub(super) violations: Vec<String>,
}

// === impl History ===

impl History {
    /// `who` leads in `epoch`.
    pub(super) fn elected(&mut self, who: &str, epoch: Epoch) {
        let first = self.leaders.entry(epoch).or_insert_with(|| who.to_owned());
        // One life of a master may win the same epoch again.
        if first != who {
            let text = format!("{first} and {who} lead in epoch {epoch}");
            self.violations.push(text);
        }
    }

    /// The largest epoch that is open, to be remembered before something is asked of the store.
    pub(super) fn opened(&self) -> Epoch {
        self.opened
    }

    /// `epoch` was opened with these records.
    pub(super) fn open(&mut self, who: &str, epoch: Epoch, before: Epoch, found: &BTreeSet<u64>) {
        if epoch < before {
            let text = format!("{who} opened {epoch}, though {before} was open");
            self.violations.push(text);
        }
        self.opened = self.opened.max(epoch);
        self.expect_all(&format!("{who} in epoch {epoch}"), found);
    }

    /// A key is about to be committed.
    pub(super) fn propose(&mut self, key: u64) {
        self.proposed.insert(key);
    }

    /// `key` is stored in `epoch`; `before` was open when that was asked for.
    pub(super) fn acknowledge(&mut self, who: &str, epoch: Epoch, before: Epoch, key: u64) {
        if epoch < before {
            let text = format!("{who} stored {key} in epoch {epoch}, though {before} was open");
            self.violations.push(text);
        }
        self.acknowledged.insert(key);
    }

    /// A quorum has confirmed that `who` leads in `epoch`; `before` was open when it was asked.
    pub(super) fn confirm(&mut self, who: &str, epoch: Epoch, before: Epoch) {
        if epoch < before {
            let text = format!("{who} was confirmed in epoch {epoch}, though {before} was open");
            self.violations.push(text);
        }
    }

    /// These are the records of `place`, which must have everything.
    pub(super) fn expect_all(&mut self, place: &str, found: &BTreeSet<u64>) {
        let lost: Vec<&u64> = self.acknowledged.difference(found).collect();
        if !lost.is_empty() {
            let text = format!("{place} lacks what was acknowledged: {lost:?}");
            self.violations.push(text);
        }
        let invented: Vec<&u64> = found.difference(&self.proposed).collect();
        if !invented.is_empty() {
            let text = format!("{place} has what nobody has proposed: {invented:?}");
            self.violations.push(text);
        }
    }

    pub(super) fn acknowledged(&self) -> usize {
        self.acknowledged.len()
    }

    pub(super) fn leaders(&self) -> usize {
        self.leaders.len()
    }
}

/// Every check has something that it objects to.
pub(super) fn finds_what_must_not_happen() {
    let found = |wrong: &dyn Fn(&mut History)| {
        let mut history = History::default();
        history.elected("m1", Epoch(1));
        history.open("m1", Epoch(1), Epoch(0), &BTreeSet::new());
        history.propose(1);
        history.acknowledge("m1", Epoch(1), Epoch(1), 1);
        history.elected("m2", Epoch(2));
        history.open("m2", Epoch(2), Epoch(1), &BTreeSet::from([1]));
        assert_eq!(history.violations, Vec::<String>::new());
        wrong(&mut history);
        history.violations.len()
    };
    assert_eq!(found(&|h| h.elected("m2", Epoch(2))), 0);
    assert_eq!(found(&|h| h.elected("m3", Epoch(2))), 1);
    assert_eq!(
        found(&|h| h.open("m1", Epoch(1), h.opened(), &BTreeSet::from([1]))),
        1
    );
    assert_eq!(found(&|h| h.acknowledge("m1", Epoch(1), h.opened(), 1)), 1);
    assert_eq!(found(&|h| h.confirm("m1", Epoch(1), h.opened())), 1);
    assert_eq!(found(&|h| h.expect_all("m3", &BTreeSet::new())), 1);
    assert_eq!(found(&|h| h.expect_all("m3", &BTreeSet::from([1, 9]))), 1);
}
