//! The oracle: what must be true of every history, whoever wrote it. One file a property.
//!
//! A check sees the history only. It says what is broken, with the time of the first record that shows it; that nothing
//! is broken is a finding only if the history shows that there was something to judge. A run in which a fault that was
//! to be tried never happened is unknown, not valid.

mod acknowledged;
mod agreement;
mod attempts;
mod capacity;
mod convergence;
mod events;
mod invariants;
mod leaders;
mod leftovers;
mod linearizable;
mod reads;
mod truth;

use serde::Serialize;

use crate::history::{History, Kind, Op};

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
    /// What it judges; without any of it, it has judged nothing.
    of: Of,
    run: fn(&History) -> Vec<Violation>,
    /// Why it cannot tell, if it cannot.
    undecided: fn(&History) -> Option<String>,
}

/// What a check judges.
#[derive(Debug, Clone, Copy)]
struct Of {
    op: Op,
    /// A run without it proves nothing.
    needed: bool,
}

/// What became of one property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Its name.
    pub name: &'static str,
    /// What it says, for people.
    pub says: &'static str,
    /// How many things there were to judge.
    pub judged: u64,
    /// What is broken, in order of time.
    pub violations: Vec<Violation>,
    /// Why nothing can be said, if nothing is broken and that proves nothing.
    pub undecided: Option<String>,
}

/// What a run is worth, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// Valid only if all properties hold, could be judged, and all required faults happened.
    pub verdict: Verdict,
    /// The properties; the machines' own invariants first.
    pub checks: Vec<Judged>,
    /// Required faults that never happened.
    pub missing: Vec<String>,
}

/// All properties.
pub const CHECKS: [Check; 14] = [
    Check::new(
        "acknowledged-survives",
        "an acknowledged submission is never lost",
        Of::needed(Op::Submit),
        acknowledged::check,
    )
    .or_undecided(acknowledged::undecided),
    Check::new(
        "one-effect",
        "a repeated submission has one effect",
        Of::some(Op::Submit),
        acknowledged::one_effect,
    ),
    Check::new(
        "single-success",
        "an unsupervised submission runs once, and succeeds at most once",
        Of::some(Op::Start),
        attempts::single_success,
    ),
    Check::new(
        "no-overlap",
        "attempts of an at-most-once submission never overlap",
        Of::some(Op::Start),
        attempts::no_overlap,
    ),
    Check::new(
        "one-leader",
        "an epoch has one leader, and epochs rise",
        Of::needed(Op::Lead),
        leaders::check,
    ),
    Check::new(
        "old-orders",
        "no agent obeys an order of an epoch older than one it has obeyed before",
        Of::some(Op::Start),
        leaders::obedience,
    ),
    Check::new(
        "capacity",
        "no agent ever runs more than it offers",
        Of::some(Op::Start),
        capacity::check,
    ),
    Check::new(
        "no-leftovers",
        "what is over has no process left",
        Of::some(Op::End),
        leftovers::check,
    ),
    Check::new(
        "true-results",
        "what is said of a submission at the end is what happened",
        Of::some(Op::Final),
        truth::check,
    ),
    Check::new(
        "reads",
        "reads of a submission never go back in time",
        Of::some(Op::Status),
        reads::check,
    ),
    Check::new(
        "linearizable",
        "the state of a submission reads as if there were one copy of it",
        Of::some(Op::Status),
        linearizable::check,
    )
    .or_undecided(linearizable::undecided),
    Check::new(
        "event-stream",
        "whoever follows the events misses none, gets none twice, and all get the same",
        Of::some(Op::Event),
        events::check,
    ),
    Check::new(
        "agreement",
        "all masters know the same when everything is quiet",
        Of::some(Op::Hash),
        agreement::check,
    ),
    Check::new(
        "convergence",
        "when the faults are over everything comes to rest",
        Of::needed(Op::Calm),
        convergence::check,
    ),
];

// === impl Violation ===

impl Violation {
    /// When it shows, in seconds since the start.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.time as f64 / 1e6
    }
}

// === impl Check ===

impl Check {
    const fn new(
        name: &'static str,
        says: &'static str,
        of: Of,
        run: fn(&History) -> Vec<Violation>,
    ) -> Self {
        Self {
            name,
            says,
            of,
            run,
            undecided: |_history| None,
        }
    }

    const fn or_undecided(mut self, undecided: fn(&History) -> Option<String>) -> Self {
        self.undecided = undecided;
        self
    }

    fn judge(self, history: &History) -> Judged {
        let Self { name, says, .. } = self;
        let judged = self.of.count(history);
        let mut violations = (self.run)(history);
        violations.sort_by_key(|violation| violation.time);
        let nothing = || {
            let nothing = judged == 0 && self.of.needed;
            nothing.then(|| "there was nothing to judge".to_owned())
        };
        let undecided = if violations.is_empty() {
            nothing().or_else(|| (self.undecided)(history))
        } else {
            None
        };
        Judged {
            name,
            says,
            judged,
            violations,
            undecided,
        }
    }
}

// === impl Of ===

impl Of {
    const fn needed(op: Op) -> Self {
        Self { op, needed: true }
    }

    const fn some(op: Op) -> Self {
        Self { op, needed: false }
    }

    /// Answers, or facts.
    fn count(self, history: &History) -> u64 {
        let about = history.about(self.op);
        about
            .filter(|record| matches!(record.kind, Kind::Ok | Kind::Info))
            .map(|_record| 1)
            .sum()
    }
}

// === impl Judged ===

impl Judged {
    /// What became of it.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if !self.violations.is_empty() {
            Verdict::Invalid
        } else if self.undecided.is_some() {
            Verdict::Unknown
        } else {
            Verdict::Valid
        }
    }
}

// === impl Judgement ===

impl Judgement {
    /// Judges a history in which each fault of `required` must have happened.
    #[must_use]
    pub fn of(history: &History, required: &[String]) -> Self {
        let own = invariants::check(history);
        let mut checks = vec![Judged {
            name: "invariants",
            says: "what a machine must always be true of, by its own account",
            judged: u64::try_from(history.records().len()).unwrap_or(u64::MAX),
            violations: own,
            undecided: None,
        }];
        checks.extend(CHECKS.into_iter().map(|check| check.judge(history)));
        let hit = |fault: &String| {
            let mut records = history.about(Op::Fault);
            records.any(|record| record.id == *fault && record.flag("hit"))
        };
        let missing: Vec<_> = required.iter().filter(|f| !hit(f)).cloned().collect();
        let any = |verdict| checks.iter().any(|check| check.verdict() == verdict);
        let verdict = if any(Verdict::Invalid) {
            Verdict::Invalid
        } else if any(Verdict::Unknown) || !missing.is_empty() {
            Verdict::Unknown
        } else {
            Verdict::Valid
        };
        Self {
            verdict,
            checks,
            missing,
        }
    }

    /// Everything that is broken, in order of time.
    #[must_use]
    pub fn violations(&self) -> Vec<&Violation> {
        let mut all: Vec<_> = self.checks.iter().flat_map(|c| &c.violations).collect();
        all.sort_by_key(|violation| violation.time);
        all
    }
}

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::history::{Record, tests::record};

    fn quiet_run() -> History {
        let mut history = History::default();
        history.push(record(1, "m1", Kind::Info, Op::Lead, ""));
        history.push(record(2, "c1", Kind::Invoke, Op::Submit, "s1"));
        history.push(record(3, "c1", Kind::Ok, Op::Submit, "s1"));
        for (fault, hit) in [("kill", true), ("slow-disk", false)] {
            history.push(Record {
                value: json!({"hit": hit}),
                ..record(4, "nemesis", Kind::Info, Op::Fault, fault)
            });
        }
        history.push(record(5, "nemesis", Kind::Info, Op::Calm, ""));
        history.push(record(6, "nemesis", Kind::Info, Op::Converged, ""));
        history.push(record(7, "m1", Kind::Info, Op::Final, "s1"));
        history
    }

    #[test]
    fn a_required_fault_that_never_happened_leaves_the_verdict_open() {
        let history = quiet_run();
        let verdict = |required: &[String]| Judgement::of(&history, required).verdict;
        assert_eq!(verdict(&["kill".to_owned()]), Verdict::Valid);
        let required = ["pause", "kill", "slow-disk"].map(str::to_owned);
        let judgement = Judgement::of(&history, &required);
        assert_eq!(judgement.verdict, Verdict::Unknown);
        assert_eq!(judgement.missing, ["pause", "slow-disk"]);
    }

    #[test]
    fn a_run_in_which_nothing_was_done_proves_nothing() {
        let judgement = Judgement::of(&History::default(), &[]);
        assert_eq!(judgement.verdict, Verdict::Unknown);
        let open = judgement.checks.iter().filter(|c| c.undecided.is_some());
        let open: Vec<_> = open.map(|check| check.name).collect();
        assert_eq!(open, ["acknowledged-survives", "one-leader", "convergence"]);
    }

    #[test]
    fn what_is_broken_outdoes_what_was_not_tried() {
        let mut history = quiet_run();
        history.push(record(8, "w1", Kind::Info, Op::Broken, ""));
        let judgement = Judgement::of(&history, &["pause".to_owned()]);
        assert_eq!(judgement.verdict, Verdict::Invalid);
        assert_eq!(judgement.violations().len(), 1);
    }
}
