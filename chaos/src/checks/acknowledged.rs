//! Acknowledged submissions: none is lost, and a repeat is the same one.

use std::collections::{BTreeMap, BTreeSet};

use super::{Violation, violation};
use crate::history::{History, Kind, Op};

/// Every acknowledged submission is known at the end.
pub(super) fn check(history: &History) -> Vec<Violation> {
    if !has_an_end(history) {
        return Vec::new();
    }
    let known: BTreeSet<_> = history
        .about(Op::Final)
        .map(|record| record.id.as_str())
        .collect();
    let acknowledged = history
        .about(Op::Submit)
        .filter(|record| record.kind == Kind::Ok);
    acknowledged
        .filter(|record| !known.contains(record.id.as_str()))
        .map(|record| {
            let message = format!(
                "acknowledged as {}, and unknown at the end",
                record.text("driver")
            );
            violation("acknowledged-survives", record.time, &record.id, message)
        })
        .collect()
}

/// A run that was broken off before anybody looked says nothing about what is known.
pub(super) fn undecided(history: &History) -> Option<String> {
    (!has_an_end(history)).then(|| "nobody looked at the end what is known".to_owned())
}

fn has_an_end(history: &History) -> bool {
    history
        .records()
        .iter()
        .any(|record| matches!(record.op, Op::Final | Op::Converged))
}

/// One request id has one driver, in every answer and in every process.
pub(super) fn one_effect(history: &History) -> Vec<Violation> {
    let mut drivers: BTreeMap<&str, &str> = BTreeMap::new();
    let mut found = Vec::new();
    for record in history.records() {
        let driver = match (record.op, record.kind) {
            (Op::Submit, Kind::Ok) => (record.id.as_str(), record.text("driver")),
            (Op::Start, _) => (record.text("submission"), record.id.as_str()),
            (_, _) => continue,
        };
        let (submission, driver) = driver;
        if submission.is_empty() {
            continue;
        }
        match drivers.insert(submission, driver) {
            Some(other) if other != driver => {
                let message = format!("is driver {driver}, and was driver {other}");
                found.push(violation("one-effect", record.time, submission, message));
            }
            Some(_) | None => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::history::{Record, tests::record};

    fn acknowledged(driver: &str) -> Record {
        Record {
            value: json!({"driver": driver}),
            ..record(3, "c1", Kind::Ok, Op::Submit, "s1")
        }
    }

    #[test]
    fn a_submission_that_is_unknown_at_the_end_was_lost() {
        let mut history = History::default();
        history.push(acknowledged("driver-1"));
        assert_eq!(check(&history), [], "nobody has looked");
        assert!(undecided(&history).is_some());
        history.push(record(8, "nemesis", Kind::Info, Op::Converged, ""));
        assert_eq!(check(&history).len(), 1);
        history.push(record(9, "m1", Kind::Info, Op::Final, "s1"));
        assert_eq!(check(&history), []);
    }

    #[test]
    fn two_drivers_of_one_submission_are_two_effects() {
        let mut history = History::default();
        history.push(acknowledged("driver-1"));
        history.push(acknowledged("driver-1"));
        assert_eq!(one_effect(&history), []);
        history.push(Record {
            value: json!({"submission": "s1"}),
            ..record(4, "w1", Kind::Info, Op::Start, "driver-2")
        });
        assert_eq!(one_effect(&history).len(), 1);
    }
}
