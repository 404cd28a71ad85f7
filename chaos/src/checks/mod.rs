//! The oracle: what must be true of every history, whoever wrote it. One file a property.
//!
//! A check sees the history only. It says what is broken, with the time of the first record that shows it; that nothing
//! is broken is a finding only if the history shows that there was something to judge.

mod acknowledged;
mod attempts;
mod capacity;
mod convergence;
mod invariants;
mod leaders;
mod leftovers;
mod reads;
mod truth;

use serde::Serialize;

use crate::history::History;

/// What a history is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Everything holds.
    Valid,
    /// Something is broken.
    Invalid,
    /// Nothing is broken, but something that was to be tried did not happen.
    Unknown,
}

/// One broken property.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Which check found it.
    pub check: &'static str,
    /// When it shows, in microseconds since the start.
    pub time: u64,
    /// What it is about.
    pub id: String,
    /// In words.
    pub message: String,
}

/// One property.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Its name, for reports.
    pub name: &'static str,
    /// What it says, for people.
    pub says: &'static str,
    run: fn(&History) -> Vec<Violation>,
}

/// All properties.
pub const CHECKS: [Check; 11] = [
    Check {
        name: "acknowledged-survives",
        says: "an acknowledged submission is never lost",
        run: acknowledged::check,
    },
    Check {
        name: "one-effect",
        says: "a repeated submission has one effect",
        run: acknowledged::one_effect,
    },
    Check {
        name: "single-success",
        says: "an unsupervised submission runs once, and succeeds at most once",
        run: attempts::single_success,
    },
    Check {
        name: "no-overlap",
        says: "attempts of an at-most-once submission never overlap",
        run: attempts::no_overlap,
    },
    Check {
        name: "one-leader",
        says: "an epoch has one leader, and epochs rise",
        run: leaders::check,
    },
    Check {
        name: "old-orders",
        says: "no agent obeys an order of an epoch older than one it has obeyed before",
        run: leaders::obedience,
    },
    Check {
        name: "capacity",
        says: "no agent ever runs more than it offers",
        run: capacity::check,
    },
    Check {
        name: "no-leftovers",
        says: "what is over has no process left",
        run: leftovers::check,
    },
    Check {
        name: "true-results",
        says: "what is said of a submission at the end is what happened",
        run: truth::check,
    },
    Check {
        name: "reads",
        says: "reads of a submission never go back in time",
        run: reads::check,
    },
    Check {
        name: "convergence",
        says: "when the faults are over everything converges, and all masters' records agree",
        run: convergence::check,
    },
];

/// Runs all checks, and what the machines said of themselves.
#[must_use]
pub fn judge(history: &History) -> Vec<Violation> {
    let mut found = invariants::check(history);
    for check in CHECKS {
        found.extend((check.run)(history));
    }
    found.sort_by_key(|violation| violation.time);
    found
}

fn violation(check: &'static str, time: u64, id: &str, message: impl Into<String>) -> Violation {
    Violation {
        check,
        time,
        id: id.to_owned(),
        message: message.into(),
    }
}
