//! Attempts: how often something ran, and whether two ran at once.

use std::collections::{BTreeMap, BTreeSet};

use super::{Violation, violation};
use crate::history::{History, Kind, Op, Record};

struct Asked {
    supervised: bool,
    at_most_once: bool,
}

/// An unsupervised submission never has two processes that ran; what may not run again must not.
pub(super) fn single_success(history: &History) -> Vec<Violation> {
    let asked = asked(history);
    let mut started: BTreeMap<&str, &Record> = BTreeMap::new();
    let mut found = Vec::new();
    for record in history.about(Op::Start) {
        let submission = record.text("submission");
        if asked
            .get(submission)
            .is_none_or(|asked| asked.supervised || asked.at_most_once)
        {
            continue;
        }
        if let Some(first) = started.insert(submission, record) {
            let message = format!(
                "attempt {} has started on {}, attempt {} had on {}, and it is not supervised",
                record.attempt.unwrap_or(0),
                record.process,
                first.attempt.unwrap_or(0),
                first.process
            );
            found.push(violation(
                "single-success",
                record.time,
                submission,
                message,
            ));
        }
    }
    found
}

/// At-most-once submissions never have two processes at the same time.
pub(super) fn no_overlap(history: &History) -> Vec<Violation> {
    let asked = asked(history);
    let mut running: BTreeMap<&str, BTreeSet<(u32, &str)>> = BTreeMap::new();
    let mut submission_of: BTreeMap<&str, &str> = BTreeMap::new();
    let mut found = Vec::new();
    for record in history.records() {
        let process = (record.attempt.unwrap_or(0), record.process.as_str());
        if record.op == Op::Start {
            let submission = record.text("submission");
            submission_of.insert(&record.id, submission);
            if asked
                .get(submission)
                .is_none_or(|asked| !asked.at_most_once)
            {
                continue;
            }
            let now = running.entry(submission).or_default();
            if let Some((attempt, worker)) = now.first() {
                let message = format!(
                    "attempt {} starts on {} while attempt {attempt} runs on {worker}",
                    process.0, process.1
                );
                found.push(violation("no-overlap", record.time, submission, message));
            }
            now.insert(process);
        } else if record.op == Op::End
            && let Some(now) = submission_of
                .get(record.id.as_str())
                .and_then(|submission| running.get_mut(submission))
        {
            now.remove(&process);
        }
    }
    found
}

fn asked(history: &History) -> BTreeMap<&str, Asked> {
    history
        .about(Op::Submit)
        .filter(|record| record.kind == Kind::Invoke)
        .map(|record| {
            let asked = Asked {
                supervised: record.flag("supervise"),
                at_most_once: record.flag("at_most_once"),
            };
            (record.id.as_str(), asked)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::history::tests::record;

    fn submission(flag: &str) -> Record {
        Record {
            value: json!({flag: true}),
            ..record(1, "c1", Kind::Invoke, Op::Submit, "s1")
        }
    }

    fn process(time: u64, op: Op, attempt: u32, worker: &str) -> Record {
        Record {
            attempt: Some(attempt),
            value: json!({"submission": "s1"}),
            ..record(time, worker, Kind::Info, op, "driver-1")
        }
    }

    #[test]
    fn a_second_run_of_an_unsupervised_submission_is_found() {
        for (flag, faults) in [("plain", 1), ("supervise", 0)] {
            let mut history = History::default();
            history.push(submission(flag));
            history.push(process(2, Op::Start, 1, "w1"));
            history.push(process(3, Op::End, 1, "w1"));
            history.push(process(4, Op::Start, 2, "w2"));
            assert_eq!(single_success(&history).len(), faults, "{flag}");
        }
    }

    #[test]
    fn only_attempts_that_may_run_once_must_not_overlap() {
        for (flag, faults) in [("at_most_once", 1), ("supervise", 0)] {
            let mut history = History::default();
            history.push(submission(flag));
            history.push(process(2, Op::Start, 1, "w1"));
            history.push(process(4, Op::Start, 2, "w2"));
            assert_eq!(no_overlap(&history).len(), faults, "{flag}");
        }
        let mut history = History::default();
        history.push(submission("at_most_once"));
        history.push(process(2, Op::Start, 1, "w1"));
        history.push(process(3, Op::End, 1, "w1"));
        history.push(process(4, Op::Start, 2, "w2"));
        assert_eq!(no_overlap(&history), []);
    }
}
