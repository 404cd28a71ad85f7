//! Figures of a run: how many requests, what became of them, how long they took.

use serde::Serialize;

use crate::{
    calls::{Call, Outcome},
    history::Op,
};

/// What became of requests of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Outcomes {
    /// Done.
    pub ok: u64,
    /// Surely not done.
    pub fail: u64,
    /// Nobody knows.
    pub unknown: u64,
}

/// How some times are spread, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// How many there are.
    pub count: usize,
    /// The smallest.
    pub min: f64,
    /// Half of them are not longer.
    pub p50: f64,
    /// 9 of 10 are not longer.
    pub p90: f64,
    /// 99 of 100 are not longer.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// Figures of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measures {
    /// Submissions.
    pub submissions: Outcomes,
    /// Kills.
    pub kills: Outcomes,
    /// Reads of a submission's state.
    pub reads: Outcomes,
    /// How long acknowledged submissions took.
    pub submission_seconds: Option<Spread>,
    /// How long answered reads took.
    pub read_seconds: Option<Spread>,
}

// === impl Measures ===

impl Measures {
    /// Of all requests of a history.
    pub(super) fn new(calls: &[Call<'_>]) -> Self {
        let of = |op| {
            let mut outcomes = Outcomes::default();
            for call in calls.iter().filter(|call| call.op == op) {
                match call.outcome {
                    Outcome::Ok => outcomes.ok += 1,
                    Outcome::Fail => outcomes.fail += 1,
                    Outcome::Unknown => outcomes.unknown += 1,
                }
            }
            outcomes
        };
        let took = |op| Spread::of(latencies(calls, op).map(|(_, took)| took).collect());
        Self {
            submissions: of(Op::Submit),
            kills: of(Op::Kill),
            reads: of(Op::Status),
            submission_seconds: took(Op::Submit),
            read_seconds: took(Op::Status),
        }
    }
}

/// When each answered request of one kind was made, and how long it took; both in seconds.
pub(super) fn latencies<'a>(
    calls: &'a [Call<'_>],
    op: Op,
) -> impl Iterator<Item = (f64, f64)> + 'a {
    calls
        .iter()
        .filter(move |call| call.op == op && call.outcome == Outcome::Ok)
        .filter_map(|call| Some((call.from, call.to?)))
        .map(|(from, to)| (from as f64 / 1e6, to.saturating_sub(from) as f64 / 1e6))
}

// === impl Outcomes ===

impl Outcomes {
    /// All of them.
    #[must_use]
    pub fn total(self) -> u64 {
        self.ok + self.fail + self.unknown
    }
}

// === impl Spread ===

impl Spread {
    /// Of these times; `None` if there are none.
    #[must_use]
    pub fn of(mut times: Vec<f64>) -> Option<Self> {
        times.sort_by(f64::total_cmp);
        let (min, max) = (*times.first()?, *times.last()?);
        // The nearest rank: a time that was really measured.
        let at = |percent: usize| {
            let rank = (times.len() * percent).div_ceil(100).max(1);
            times.get(rank - 1).copied().unwrap_or(max)
        };
        Some(Self {
            count: times.len(),
            min,
            p50: at(50),
            p90: at(90),
            p99: at(99),
            max,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let spread = Spread::of((1..=200).map(f64::from).collect());
        let spread = spread.map(|s| (s.count, s.min, s.p50, s.p90, s.p99, s.max));
        assert_eq!(spread, Some((200, 1.0, 100.0, 180.0, 198.0, 200.0)));
        assert_eq!(Spread::of(Vec::new()), None);
        let one = Spread::of(vec![0.5]);
        assert_eq!(one.map(|s| (s.p50, s.p99)), Some((0.5, 0.5)));
    }
}
