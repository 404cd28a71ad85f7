//! Faults of a history as spans of time: what was broken, where, from when until when.

use std::collections::BTreeMap;

use crate::history::{History, Op, Record};

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FaultSpan {
    /// Its kind: `master-crash`.
    pub(super) kind: String,
    /// Whom it hits: `m1`, `m1 w2`, `all`; empty if nobody said.
    pub(super) on: String,
    /// When it began, in microseconds.
    pub(super) from: u64,
    /// When it was over. The same for what only takes an instant.
    pub(super) to: u64,
}

/// All faults, in the order in which they began; none is longer than the history, whose last record is at `end`.
///
/// A record begins a fault; one with `"phase": "end"` ends it. If nothing does, the field `until` says when it is over (in
/// microseconds since the start), or the calm does, whatever comes first.
pub(super) fn faults(history: &History, end: u64) -> Vec<FaultSpan> {
    let calm = history.calm_at().unwrap_or(end);
    let mut open: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut found: Vec<FaultSpan> = Vec::new();
    for record in history.about(Op::Fault) {
        let on = target(record);
        let key = (record.id.as_str(), on);
        if record.text("phase") == "end" {
            if let Some(span) = open.remove(&key).and_then(|n| found.get_mut(n)) {
                span.to = record.time.max(span.from);
            }
            continue;
        }
        let until = record.number("until").and_then(|at| u64::try_from(at).ok());
        let to = match until {
            Some(at) => at.min(calm).max(record.time),
            None if record.text("phase") == "begin" => calm.max(record.time),
            None => record.time,
        };
        open.insert(key, found.len());
        found.push(FaultSpan {
            kind: record.id.clone(),
            on: on.to_owned(),
            from: record.time,
            to,
        });
    }
    found
}

fn target(record: &Record) -> &str {
    record.text("node")
}

// === impl FaultSpan ===

impl FaultSpan {
    /// Whether it hits this node.
    pub(super) fn hits(&self, node: &str) -> bool {
        self.on == "all" || self.on.split(' ').any(|on| on == node)
    }

    /// Whether a process that it hits is dead until it is over.
    pub(super) fn kills(&self) -> bool {
        ["crash", "kill", "power-cut", "restart", "death"]
            .iter()
            .any(|word| self.kind.contains(word))
    }

    /// Whether what it hits cannot talk to others until it is over.
    pub(super) fn cuts(&self) -> bool {
        !self.kills()
            && ["cut", "partition", "split", "isolate"]
                .iter()
                .any(|word| self.kind.contains(word))
    }

    /// Whether a process that it hits stands still until it is over.
    pub(super) fn stops(&self) -> bool {
        ["pause", "freeze", "stop"]
            .iter()
            .any(|word| self.kind.contains(word))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::history::{Kind, tests::record};

    fn fault(time: u64, kind: &str, value: serde_json::Value) -> Record {
        Record {
            value,
            ..record(time, "nemesis", Kind::Info, Op::Fault, kind)
        }
    }

    #[test]
    fn a_fault_lasts_until_it_is_ended_or_everything_is_calm() {
        let mut history = History::default();
        history.push(fault(1, "kill", json!({"node": "m1", "phase": "begin"})));
        history.push(fault(2, "reset", json!({"node": "w1"})));
        history.push(fault(3, "pause", json!({"node": "m2", "until": 500})));
        history.push(fault(4, "kill", json!({"node": "m1", "phase": "end"})));
        history.push(fault(5, "cut", json!({"node": "m1 w1", "phase": "begin"})));
        history.push(record(9, "nemesis", Kind::Info, Op::Calm, ""));
        let spans: Vec<_> = faults(&history, 20)
            .into_iter()
            .map(|span| (span.kind.clone(), span.from, span.to, span.hits("w1")))
            .collect();
        let want = [
            ("kill", 1, 4, false),
            ("reset", 2, 2, true),
            ("pause", 3, 9, false),
            ("cut", 5, 9, true),
        ];
        assert_eq!(
            spans,
            want.map(|(kind, from, to, hits)| (kind.to_owned(), from, to, hits))
        );
    }
}
