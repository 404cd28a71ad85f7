//! Convergence: when the faults are over everything comes to rest, and everybody knows the same.

use std::collections::BTreeSet;

use super::{Violation, violation};
use crate::history::{History, Op};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let last = history.records().last().map_or(0, |record| record.time);
    if let Some(calm) = history.calm_at()
        && history.about(Op::Converged).next().is_none()
    {
        let message = format!(
            "nothing has converged {} s after the faults",
            (last - calm) / 1_000_000
        );
        found.push(violation("convergence", last, "", message));
    }
    let hashes: BTreeSet<_> = history
        .about(Op::Hash)
        .map(|record| record.text("hash"))
        .collect();
    if hashes.len() > 1 {
        let message = format!("masters know different things: {hashes:?}");
        found.push(violation("convergence", last, "", message));
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::history::{Kind, Record, tests::record};

    #[test]
    fn a_run_that_does_not_come_to_rest_is_found() {
        let mut history = History::default();
        history.push(record(1, "nemesis", Kind::Info, Op::Calm, ""));
        assert_eq!(check(&history).len(), 1);
        history.push(record(2, "nemesis", Kind::Info, Op::Converged, ""));
        assert_eq!(check(&history), []);
    }

    #[test]
    fn masters_that_know_different_things_are_found() {
        let mut history = History::default();
        for (process, hash) in [("m1", "a"), ("m2", "a"), ("m3", "b")] {
            let faults = check(&history).len();
            assert_eq!(faults, 0);
            history.push(Record {
                value: json!({"hash": hash}),
                ..record(1, process, Kind::Info, Op::Hash, "")
            });
        }
        assert_eq!(check(&history).len(), 1);
    }
}
