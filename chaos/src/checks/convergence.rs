//! Convergence: when the faults are over everything comes to rest.

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
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Kind, tests::record};

    #[test]
    fn a_run_that_does_not_come_to_rest_is_found() {
        let mut history = History::default();
        history.push(record(1, "nemesis", Kind::Info, Op::Calm, ""));
        assert_eq!(check(&history).len(), 1);
        history.push(record(2, "nemesis", Kind::Info, Op::Converged, ""));
        assert_eq!(check(&history), []);
    }
}
