//! The figures of a run, counted from its history and from nothing else.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::history::{History, Kind, Op, Record};

/// What a run came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Submissions that were made.
    pub submitted: u64,
    /// Submissions that were acknowledged.
    pub acknowledged: u64,
    /// Submissions that were refused.
    pub refused: u64,
    /// Submissions of which nobody was told what became of them.
    pub unknown: u64,
    /// Acknowledged submissions that are not known at the end, or are over with nothing to show for it.
    pub lost: u64,
    /// Submissions that may run once and had two attempts, or that were done twice.
    pub doubled: u64,
    /// Attempts that ran beside another one of a submission that may not.
    pub overlapping: u64,
    /// Processes that were left over.
    pub orphans: u64,
    /// Attempts that started.
    pub attempts: u64,
    /// Attempts that did their work.
    pub finished: u64,
    /// Reads that were answered.
    pub reads: u64,
    /// Leaderships.
    pub leaderships: u64,
    /// Leaders that were killed.
    pub kills: u64,
    /// Kills after which a submission that was made at that moment was acknowledged.
    pub kills_survived: u64,
    /// How long such submissions took, where the leader was killed.
    pub failover: Option<Times>,
    /// How often each fault has done something.
    pub faults: BTreeMap<String, u64>,
}

/// Times, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// Half of them are at most this.
    pub median: f64,
    /// All but one in a hundred are at most this.
    pub p99: f64,
    /// All are.
    pub max: f64,
}

/// What became of a submission, as its clients know it: the best that one of them was told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    #[default]
    Nothing,
    Refused,
    Acknowledged,
}

#[derive(Debug, Default)]
struct Submission {
    supervised: bool,
    at_most_once: bool,
    told: Told,
    /// Its state at the end, where it is known then.
    state: Option<String>,
    starts: u64,
    successes: u64,
    beside: u64,
}

// === impl Figures ===

impl Figures {
    /// Counts.
    #[must_use]
    pub fn of(history: &History) -> Self {
        let submissions = submissions(history);
        let count = |which: &dyn Fn(&Submission) -> bool| {
            submissions.values().filter(|s| which(s)).count() as u64
        };
        let about = |op| history.about(op).count() as u64;
        let failovers = failovers(history);
        let kills: Vec<&Record> = history
            .about(Op::Fault)
            .filter(|record| record.id == "leader-kill" && record.flag("hit"))
            .collect();
        Self {
            submitted: submissions.len() as u64,
            acknowledged: count(&|s| s.told == Told::Acknowledged),
            refused: count(&|s| s.told == Told::Refused),
            unknown: count(&|s| s.told == Told::Nothing),
            lost: count(&Submission::is_lost),
            doubled: count(&Submission::is_doubled),
            overlapping: submissions
                .values()
                .filter(|s| s.at_most_once)
                .map(|s| s.beside)
                .sum(),
            orphans: about(Op::Alive),
            attempts: about(Op::Start),
            finished: history
                .about(Op::End)
                .filter(|end| end.flag("success"))
                .count() as u64,
            reads: history
                .about(Op::Status)
                .filter(|read| read.kind == Kind::Ok)
                .count() as u64,
            leaderships: about(Op::Lead),
            kills: kills.len() as u64,
            kills_survived: failovers.len() as u64,
            failover: Times::of(failovers),
            faults: faults(history),
        }
    }
}

/// How long the probes of killed leaders took, in seconds.
fn failovers(history: &History) -> Vec<f64> {
    let answered: BTreeMap<&str, u64> = history
        .about(Op::Submit)
        .filter(|record| record.kind == Kind::Ok)
        .map(|record| (record.id.as_str(), record.time))
        .collect();
    let kills = history
        .about(Op::Fault)
        .filter(|record| record.id == "leader-kill" && record.flag("hit"));
    kills
        .filter_map(|kill| {
            let began = u64::try_from(kill.number("at")?).ok()?;
            let answered = answered.get(kill.text("probe"))?;
            Some(answered.saturating_sub(began) as f64 / 1e6)
        })
        .collect()
}

fn faults(history: &History) -> BTreeMap<String, u64> {
    let mut faults = BTreeMap::new();
    for fault in history.about(Op::Fault).filter(|fault| fault.flag("hit")) {
        *faults.entry(fault.id.clone()).or_default() += 1;
    }
    faults
}

fn submissions(history: &History) -> BTreeMap<&str, Submission> {
    let mut all: BTreeMap<&str, Submission> = BTreeMap::new();
    let mut of_driver: BTreeMap<&str, &str> = BTreeMap::new();
    let mut done: BTreeSet<(&str, u32)> = BTreeSet::new();
    for record in history.records() {
        let id = record.id.as_str();
        match (record.op, record.kind) {
            (Op::Submit, Kind::Invoke) => {
                let submission = all.entry(id).or_default();
                submission.supervised |= record.flag("supervise");
                submission.at_most_once |= record.flag("at_most_once");
            }
            (Op::Submit, Kind::Ok) => all.entry(id).or_default().hear(Told::Acknowledged),
            (Op::Submit, Kind::Fail) => all.entry(id).or_default().hear(Told::Refused),
            (Op::Final, _) => {
                all.entry(id).or_default().state = Some(record.text("state").to_owned());
            }
            (Op::Start, _) => {
                let name = record.text("submission");
                of_driver.insert(id, name);
                let submission = all.entry(name).or_default();
                submission.starts += 1;
                submission.beside += u64::from(!record.flag("alone"));
            }
            (Op::End, _) if record.flag("success") => {
                let first = done.insert((id, record.attempt.unwrap_or(0)));
                if let Some(submission) = of_driver.get(id).and_then(|name| all.get_mut(name)) {
                    submission.successes += u64::from(first);
                }
            }
            (_, _) => {}
        }
    }
    all
}

// === impl Submission ===

impl Submission {
    fn hear(&mut self, told: Told) {
        self.told = self.told.max(told);
    }

    fn is_lost(&self) -> bool {
        let nothing_done = self.state.as_deref() == Some("FINISHED") && self.successes == 0;
        self.told == Told::Acknowledged && (self.state.is_none() || nothing_done)
    }

    /// A supervised one may run again, and so may what is made to run at most once at a time; neither is done twice
    /// while one agent has it, which `no-overlap` and the final states tell.
    fn is_doubled(&self) -> bool {
        let once = !self.supervised && !self.at_most_once;
        (once && self.starts > 1) || (!self.supervised && self.successes > 1)
    }
}

// === impl Times ===

impl Times {
    fn of(mut seconds: Vec<f64>) -> Option<Self> {
        seconds.sort_by(f64::total_cmp);
        let last = seconds.len().checked_sub(1)?;
        let at = |share: f64| {
            let index = (share * seconds.len() as f64).ceil() as usize;
            seconds
                .get(index.saturating_sub(1).min(last))
                .copied()
                .unwrap_or_default()
        };
        Some(Self {
            count: seconds.len() as u64,
            median: at(0.5),
            p99: at(0.99),
            max: at(1.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::history::tests::record;

    fn with(mut record: Record, value: serde_json::Value) -> Record {
        record.value = value;
        record
    }

    #[test]
    fn losses_and_doubles_are_counted_from_what_ran() {
        let mut history = History::default();
        for id in ["s1", "s2"] {
            history.push(record(1, "c1", Kind::Invoke, Op::Submit, id));
            history.push(record(2, "c1", Kind::Ok, Op::Submit, id));
        }
        for attempt in [1, 2] {
            let mut start = record(3, "w1", Kind::Info, Op::Start, "d1");
            start.attempt = Some(attempt);
            history.push(with(start, json!({"submission": "s1", "alone": true})));
            let mut end = record(4, "w1", Kind::Info, Op::End, "d1");
            end.attempt = Some(attempt);
            history.push(with(end, json!({"success": true})));
        }
        let known = record(9, "me", Kind::Info, Op::Final, "s1");
        history.push(with(known, json!({"state": "FINISHED"})));
        let figures = Figures::of(&history);
        assert_eq!((figures.submitted, figures.acknowledged), (2, 2));
        assert_eq!((figures.lost, figures.doubled), (1, 1));
        assert_eq!((figures.attempts, figures.finished), (2, 2));
    }

    #[test]
    fn a_failover_lasts_from_the_kill_to_the_answer() {
        let mut history = History::default();
        for (kill, answer) in [(1_000_000, 1_500_000), (5_000_000, 5_700_000)] {
            let probe = format!("probe-{kill}");
            let fault = record(kill, "nemesis", Kind::Info, Op::Fault, "leader-kill");
            history.push(with(
                fault,
                json!({"hit": true, "at": kill, "probe": probe}),
            ));
            history.push(record(answer, "probe", Kind::Ok, Op::Submit, &probe));
        }
        let figures = Figures::of(&history);
        let times = figures.failover.unwrap();
        assert_eq!(
            (figures.kills, figures.kills_survived, times.count),
            (2, 2, 2)
        );
        assert_eq!((times.median, times.p99, times.max), (0.5, 0.7, 0.7));
        assert_eq!(figures.faults["leader-kill"], 2);
    }
}
