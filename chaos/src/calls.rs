//! Requests of a history, each with its outcome: what checks judge, measures count and the timeline shows.

use std::collections::BTreeMap;

use crate::history::{History, Kind, Op, Record};

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// Done.
    Ok,
    /// Surely not done.
    Fail,
    /// Nobody knows; also what the history ends before.
    Unknown,
}

/// A request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call<'a> {
    /// Who asked.
    pub(crate) process: &'a str,
    /// What for.
    pub(crate) op: Op,
    /// About what.
    pub(crate) id: &'a str,
    /// When, in microseconds.
    pub(crate) from: u64,
    /// When it was over; `None`: never, as far as the history goes.
    pub(crate) to: Option<u64>,
    /// How it ended.
    pub(crate) outcome: Outcome,
    /// The record that says so, or the question.
    pub(crate) last: &'a Record,
}

// === impl Outcome ===

impl Outcome {
    /// As a history says it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Fail => "fail",
            Self::Unknown => "unknown",
        }
    }
}

/// All requests, in the order in which they were made.
pub(crate) fn calls(history: &History) -> Vec<Call<'_>> {
    let mut open: BTreeMap<(&str, Op, &str), usize> = BTreeMap::new();
    let mut calls: Vec<Call<'_>> = Vec::new();
    for record in history.records() {
        let key = (record.process.as_str(), record.op, record.id.as_str());
        let outcome = match record.kind {
            Kind::Info => continue,
            Kind::Invoke => {
                open.insert(key, calls.len());
                calls.push(Call {
                    process: &record.process,
                    op: record.op,
                    id: &record.id,
                    from: record.time,
                    to: None,
                    outcome: Outcome::Unknown,
                    last: record,
                });
                continue;
            }
            Kind::Ok => Outcome::Ok,
            Kind::Fail => Outcome::Fail,
            Kind::Unknown => Outcome::Unknown,
        };
        if let Some(call) = open.remove(&key).and_then(|n| calls.get_mut(n)) {
            call.to = Some(record.time);
            call.outcome = outcome;
            call.last = record;
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::record;

    #[test]
    fn a_request_without_an_answer_is_unknown() {
        let mut history = History::default();
        history.push(record(1, "c1", Kind::Invoke, Op::Submit, "s1"));
        history.push(record(2, "c2", Kind::Invoke, Op::Submit, "s2"));
        history.push(record(5, "c1", Kind::Ok, Op::Submit, "s1"));
        let calls = calls(&history);
        let short: Vec<_> = calls
            .iter()
            .map(|call| (call.id, call.to, call.outcome))
            .collect();
        assert_eq!(
            short,
            [("s1", Some(5), Outcome::Ok), ("s2", None, Outcome::Unknown)]
        );
    }
}
