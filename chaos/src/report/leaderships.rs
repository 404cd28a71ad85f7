//! Who led when, as far as the history shows: bands of the timeline, and what failovers are measured between.

use super::faults::FaultSpan;
use crate::history::{History, Op};

/// One master's leadership in one epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leadership {
    /// Who led.
    pub(super) master: String,
    /// In which epoch.
    pub(super) epoch: u64,
    /// Since when, in microseconds.
    pub(super) from: u64,
    /// Until when it acted: it stepped down, died, or the history ends.
    pub(super) to: u64,
}

/// All leaderships, in the order in which they began.
pub(super) fn leaderships(history: &History, faults: &[FaultSpan], end: u64) -> Vec<Leadership> {
    let mut found: Vec<Leadership> = Vec::new();
    for record in history.records() {
        let epoch = record.epoch.unwrap_or(0);
        if record.op == Op::Lead {
            found.push(Leadership {
                master: record.process.clone(),
                epoch,
                from: record.time,
                to: end,
            });
        } else if matches!(record.op, Op::StepDown | Op::Down)
            && let Some(newest) = found
                .iter_mut()
                .rev()
                .find(|lead| lead.master == record.process)
            && (record.op == Op::Down || newest.epoch == epoch)
        {
            newest.to = newest.to.min(record.time.max(newest.from));
        }
    }
    // Who dies says nothing any more.
    for lead in &mut found {
        let death = faults
            .iter()
            .filter(|fault| fault.kills() && fault.hits(&lead.master))
            .filter(|fault| fault.from >= lead.from && fault.from < lead.to)
            .map(|fault| fault.from)
            .min();
        lead.to = death.unwrap_or(lead.to);
    }
    // And who leads again has ended what was before, in whatever way.
    for n in 0..found.len() {
        let next = found
            .iter()
            .skip(n + 1)
            .find(|later| later.master == found[n].master)
            .map(|later| later.from);
        if let Some(next) = next {
            found[n].to = found[n].to.min(next);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::faults::faults;
    use super::*;
    use crate::history::{Kind, Record, tests::record};

    #[test]
    fn a_leadership_ends_with_its_word_its_death_or_the_history() {
        let of = |time, op, master: &str, epoch| Record {
            epoch: Some(epoch),
            ..record(time, master, Kind::Info, op, "")
        };
        let mut history = History::default();
        history.push(of(10, Op::Lead, "m1", 1));
        history.push(of(20, Op::StepDown, "m1", 1));
        history.push(of(30, Op::Lead, "m2", 2));
        history.push(Record {
            value: json!({"node": "m2"}),
            ..record(40, "nemesis", Kind::Info, Op::Fault, "master-crash")
        });
        history.push(of(50, Op::Lead, "m3", 3));
        history.push(record(60, "m3", Kind::Info, Op::Down, ""));
        history.push(of(70, Op::Lead, "m1", 4));
        let spans: Vec<_> = leaderships(&history, &faults(&history, 99), 99)
            .into_iter()
            .map(|lead| (lead.master, lead.from, lead.to))
            .collect();
        let want = [
            ("m1", 10, 20),
            ("m2", 30, 40),
            ("m3", 50, 60),
            ("m1", 70, 99),
        ];
        assert_eq!(
            spans,
            want.map(|(master, from, to)| (master.to_owned(), from, to))
        );
    }
}
