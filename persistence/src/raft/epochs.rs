//! Which epoch a term is. Pure; part of what every replica applies alike.
//!
//! An epoch is a term, plus a number that is zero until a snapshot of another cluster is restored: agents have seen that
//! cluster's epochs, so the next leadership has to begin above them. The number changes from one term to the next, never
//! within one, so that a leader's epoch stays what it is: no two terms have one epoch, and later terms have larger ones.

use serde::{Deserialize, Serialize};

use crate::epoch::Epoch;

/// What is added to a term.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Epochs {
    /// To terms up to `raised_in`.
    before: u64,
    /// To later ones.
    after: u64,
    /// The term whose leader raised it last; zero: nobody has.
    raised_in: u64,
}

// === impl Epochs ===

impl Epochs {
    /// The epoch of `term`.
    pub(super) fn of(&self, term: u64) -> Epoch {
        let added = if term > self.raised_in {
            self.after
        } else {
            self.before
        };
        Epoch(term.saturating_add(added))
    }

    /// The term of `epoch`; of an epoch that no term has, one that nobody leads in when its epoch is the newest.
    pub(super) fn term(&self, epoch: Epoch) -> u64 {
        if epoch.0 > self.after.saturating_add(self.raised_in) {
            epoch.0 - self.after
        } else {
            epoch.0.saturating_sub(self.before)
        }
    }

    /// Whether the leader of `term` has raised the epochs of later ones.
    pub(super) fn raised_in(&self, term: u64) -> bool {
        self.raised_in != 0 && self.raised_in == term
    }

    /// Terms after `term` get epochs larger than `floor`, if they have not anyway.
    pub(super) fn raise(&mut self, floor: Epoch, term: u64) {
        if self.after.saturating_add(term) >= floor.0 {
            return;
        }
        if term > self.raised_in {
            self.before = self.after;
            self.raised_in = term;
        }
        self.after = floor.0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_floor_takes_effect_with_the_next_term() {
        let mut epochs = Epochs::default();
        epochs.raise(Epoch(100), 5);
        assert_eq!([4, 5, 6, 7].map(|term| epochs.of(term).0), [4, 5, 106, 107]);
        assert!(epochs.raised_in(5) && !epochs.raised_in(6));
    }

    #[test]
    fn a_floor_that_is_reached_changes_nothing() {
        let mut epochs = Epochs::default();
        epochs.raise(Epoch(3), 5);
        assert_eq!(epochs, Epochs::default());
        epochs.raise(Epoch(100), 5);
        let raised = epochs;
        epochs.raise(Epoch(100), 5);
        epochs.raise(Epoch(100), 9);
        assert_eq!(epochs, raised);
    }

    proptest! {
        /// Whatever is raised when: epochs rise with terms, are above every floor, and lead back to their terms.
        #[test]
        fn epochs_rise_and_name_their_term(steps in prop::collection::vec((0_u64..4, 0_u64..1000), 0..20)) {
            let mut epochs = Epochs::default();
            let (mut term, mut last, mut floor_max) = (1, Epoch(0), 0);
            for (later, floor) in steps {
                if later > 0 {
                    term += later;
                    prop_assert!(epochs.of(term) > last);
                    prop_assert!(epochs.of(term).0 > floor_max);
                }
                let now = epochs.of(term);
                last = now;
                prop_assert_eq!(epochs.term(now), term);
                epochs.raise(Epoch(floor), term);
                floor_max = floor_max.max(floor);
                prop_assert_eq!(epochs.of(term), now, "a leader's epoch stays what it is");
                prop_assert_eq!(epochs.term(now), term);
            }
        }
    }
}
