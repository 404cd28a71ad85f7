//! Starts and ends of attempts, from the ledger and from the kernel.
//!
//! An attempt that was killed has no `END`: when it was seen to be gone is the latest that it can have ended. The locks say
//! more: whoever has got a lock that it held began when it was gone. So its end is the earliest of these, and two attempts
//! are never said to overlap only because nobody looked in time.

use std::collections::BTreeMap;

use serde_json::json;

use crate::{
    history::{Kind, Op, Record},
    live::{
        clock::Clock,
        ledger::{Entry, Event, Gone},
    },
};

/// All starts and ends.
pub(super) fn records(entries: &[Entry], gone: &[Gone], clock: Clock) -> Vec<Record> {
    let key = |entry: &Entry| (entry.field("driver").to_owned(), entry.attempt, entry.pid);
    let gone: BTreeMap<_, _> = gone.iter().map(|g| (key(&g.start), g.at_us)).collect();
    let mut records = Vec::new();
    for entry in entries {
        match entry.event {
            Event::Start => {
                records.push(start(entry, clock));
                if entry.number("short") > 0 {
                    records.push(over_committed(entry, clock));
                }
                if let Some(seen) = gone.get(&key(entry)) {
                    let at_us = next_holder(entry, entries).map_or(*seen, |next| next.min(*seen));
                    let value = json!({"success": false, "killed": true});
                    records.push(record(entry, at_us.max(entry.at_us), Op::End, value, clock));
                }
            }
            Event::End => {
                let value = json!({"success": entry.number("code") == 0, "exit_code": entry.number("code")});
                records.push(record(entry, entry.at_us, Op::End, value, clock));
            }
        }
    }
    records
}

fn start(entry: &Entry, clock: Clock) -> Record {
    let value = json!({
        "submission": entry.submission, "cores": entry.number("cores"),
        "memory_mib": entry.number("memory"), "pid": entry.pid,
        "alone": entry.number("alone") == 1, "short": entry.number("short"),
    });
    record(entry, entry.at_us, Op::Start, value, clock)
}

/// The kernel has said so, so it needs no sums.
fn over_committed(entry: &Entry, clock: Clock) -> Record {
    let worker = entry.field("worker");
    let (short, cores) = (entry.number("short"), entry.number("cores"));
    let what =
        format!("runs more than it offers: {short} of {cores} cores of an attempt were in use");
    Record {
        process: worker.to_owned(),
        ..record(entry, entry.at_us, Op::Broken, json!({"what": what}), clock)
    }
}

/// When the first one began that holds a lock which `entry` held, just before that.
fn next_holder(entry: &Entry, entries: &[Entry]) -> Option<u64> {
    let slots = |entry: &Entry| -> Vec<String> {
        let words = entry.field("slots").split(',');
        words
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let held = slots(entry);
    let later = entries.iter().filter(|other| {
        let same_work = other.submission == entry.submission && other.number("alone") == 1;
        let same_core = other.field("worker") == entry.field("worker")
            && slots(other).iter().any(|slot| held.contains(slot));
        other.event == Event::Start && other.at_us > entry.at_us && (same_work || same_core)
    });
    later.map(|other| other.at_us.saturating_sub(1)).min()
}

fn record(entry: &Entry, at_us: u64, op: Op, value: serde_json::Value, clock: Clock) -> Record {
    Record {
        time: clock.of_boot(at_us),
        process: entry.field("worker").to_owned(),
        kind: Kind::Info,
        op,
        id: entry.field("driver").to_owned(),
        attempt: Some(entry.attempt),
        epoch: Some(entry.epoch),
        value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(event: Event, attempt: u32, at_us: u64, more: &[(&str, &str)]) -> Entry {
        let fields = [("driver", "d1"), ("worker", "w1")].into_iter();
        let all = fields.chain(more.iter().copied());
        Entry {
            submission: "s1".into(),
            attempt,
            epoch: 1,
            pid: 10 + attempt,
            event,
            at_us,
            more: all.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
        }
    }

    fn ends(records: &[Record]) -> Vec<(u64, bool)> {
        let ends = records.iter().filter(|record| record.op == Op::End);
        ends.map(|record| (record.time, record.flag("success")))
            .collect()
    }

    #[test]
    fn what_was_killed_has_ended_before_the_next_one_had_its_lock() {
        let first = entry(Event::Start, 1, 100, &[("slots", "0"), ("alone", "1")]);
        let again = entry(Event::Start, 2, 150, &[("slots", "1"), ("alone", "1")]);
        let gone = [Gone {
            start: first.clone(),
            at_us: 180,
        }];
        let clock = Clock::began_at(0);
        let told = records(&[first.clone(), again], &gone, clock);
        assert_eq!(ends(&told), [(149, false)]);
        // One that ran beside it says nothing about its end.
        let beside = entry(Event::Start, 2, 150, &[("slots", "1"), ("alone", "0")]);
        let told = records(&[first.clone(), beside], &gone, clock);
        assert_eq!(ends(&told), [(180, false)]);
        // Nor does one on another core, while one on the same core does.
        let mut other = entry(Event::Start, 3, 160, &[("slots", "0"), ("alone", "1")]);
        other.submission = "s2".into();
        let told = records(&[first, other], &gone, clock);
        assert_eq!(ends(&told), [(159, false)]);
    }

    #[test]
    fn what_is_done_has_its_own_word_and_too_few_cores_are_a_fault() {
        let start = entry(Event::Start, 1, 100, &[("cores", "2"), ("short", "1")]);
        let end = entry(Event::End, 1, 200, &[("code", "0")]);
        let told = records(&[start, end], &[], Clock::began_at(50));
        let ops: Vec<_> = told.iter().map(|r| (r.op, r.time)).collect();
        assert_eq!(ops, [(Op::Start, 50), (Op::Broken, 50), (Op::End, 150)]);
        assert!(told[2].flag("success"));
    }
}
