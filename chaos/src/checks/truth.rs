//! Truth: the final state of a submission is what its processes did.

use std::collections::BTreeMap;

use super::{Violation, violation};
use crate::history::{History, Op, Record};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut ends: BTreeMap<(&str, u32), &Record> = BTreeMap::new();
    let mut success: BTreeMap<&str, bool> = BTreeMap::new();
    for record in history.about(Op::End) {
        ends.insert((&record.id, record.attempt.unwrap_or(0)), record);
        *success.entry(&record.id).or_default() |= record.flag("success");
    }
    let mut found = Vec::new();
    for record in history.about(Op::Final) {
        let driver = record.text("driver");
        let attempt = record.attempt.unwrap_or(0);
        let end = ends.get(&(driver, attempt));
        let succeeded = end.is_some_and(|end| end.flag("success"));
        let fault = match record.text("state") {
            "FINISHED" if !succeeded => {
                Some("is FINISHED, but that attempt never ended with success")
            }
            "FAILED" if succeeded => Some("is FAILED, but that attempt ended with success"),
            // Its agent came back and did not have it: the result was forgotten.
            "ERROR" if succeeded && record.flag("forgotten") => {
                Some("is ERROR because its agent has forgotten it; it had ended with success")
            }
            _other => None,
        };
        if let Some(fault) = fault {
            let message = format!("{driver}, attempt {attempt}, {fault}");
            found.push(violation("true-results", record.time, &record.id, message));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::history::{Kind, tests::record};

    #[test]
    fn a_success_that_nobody_had_and_a_failure_that_was_none_are_found() {
        for (state, success, faults) in [
            ("FINISHED", true, 0),
            ("FINISHED", false, 1),
            ("FAILED", false, 0),
            ("FAILED", true, 1),
        ] {
            let mut history = History::default();
            history.push(Record {
                attempt: Some(1),
                value: json!({"success": success}),
                ..record(1, "w1", Kind::Info, Op::End, "driver-1")
            });
            history.push(Record {
                attempt: Some(1),
                value: json!({"driver": "driver-1", "state": state}),
                ..record(2, "m1", Kind::Info, Op::Final, "s1")
            });
            assert_eq!(check(&history).len(), faults, "{state} {success}");
        }
    }
}
