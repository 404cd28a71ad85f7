//! Reads: linearizable, for each submission on its own.
//!
//! A submission goes forward only: to a later attempt, or to a later state of the same attempt, and once over it stays
//! as it is. So a history of reads is linearizable exactly if no read that began after another had ended shows
//! something earlier; and a read that began after an acknowledgement finds the submission.

use std::collections::BTreeMap;

use super::{Violation, violation};
use crate::history::{History, Kind, Op, Record};

/// How far a submission is. Ordered: later is larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Progress {
    over: bool,
    attempt: u32,
    step: u8,
}

struct Read<'a> {
    began: u64,
    ended: u64,
    progress: Option<Progress>,
    record: &'a Record,
}

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for (id, reads) in reads(history) {
        for read in &reads {
            let earlier = reads
                .iter()
                .filter(|other| other.ended < read.began)
                .max_by_key(|other| other.progress);
            let Some(earlier) = earlier else { continue };
            if read.progress < earlier.progress {
                let message = format!(
                    "{} reads {} after {} had read {}",
                    read.record.process,
                    shown(read.record),
                    earlier.record.process,
                    shown(earlier.record)
                );
                found.push(violation("reads", read.ended, id, message));
            }
        }
    }
    found
}

/// Reads and acknowledgements, which show that it is there.
fn reads(history: &History) -> BTreeMap<&str, Vec<Read<'_>>> {
    let mut began: BTreeMap<(&str, &str, Op), u64> = BTreeMap::new();
    let mut reads: BTreeMap<&str, Vec<Read<'_>>> = BTreeMap::new();
    for record in history.records() {
        if record.op != Op::Status && record.op != Op::Submit {
            continue;
        }
        let call = (record.process.as_str(), record.id.as_str(), record.op);
        match record.kind {
            Kind::Invoke => {
                began.insert(call, record.time);
            }
            Kind::Ok => {
                let read = Read {
                    began: began.get(&call).copied().unwrap_or(record.time),
                    ended: record.time,
                    progress: progress(record),
                    record,
                };
                reads.entry(&record.id).or_default().push(read);
            }
            Kind::Fail | Kind::Unknown | Kind::Info => {}
        }
    }
    reads
}

/// What a read or an acknowledgement shows; `None`: nothing is there.
pub(super) fn progress(record: &Record) -> Option<Progress> {
    let attempt = record.attempt.unwrap_or(0);
    let (over, step) = match record.text("state") {
        "NOT_FOUND" => return None,
        "LAUNCHING" => (false, 1),
        "RUNNING" => (false, 2),
        "RELAUNCHING" => (false, 3),
        "FINISHED" | "KILLED" | "FAILED" | "ERROR" => (true, 0),
        _submitted => (false, 0),
    };
    Some(Progress {
        over,
        attempt,
        step,
    })
}

fn shown(record: &Record) -> String {
    if record.op == Op::Submit {
        "that it is accepted".to_owned()
    } else {
        format!(
            "{} (attempt {})",
            record.text("state"),
            record.attempt.unwrap_or(0)
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::history::tests::record;

    fn read(history: &mut History, process: &str, began: u64, ended: u64, state: &str) {
        history.push(record(began, process, Kind::Invoke, Op::Status, "s1"));
        history.push(Record {
            attempt: Some(1),
            value: json!({"state": state}),
            ..record(ended, process, Kind::Ok, Op::Status, "s1")
        });
    }

    #[test]
    fn a_read_that_shows_less_than_one_before_it_is_stale() {
        let mut history = History::default();
        read(&mut history, "c1", 1, 2, "RUNNING");
        read(&mut history, "c2", 3, 4, "FINISHED");
        assert_eq!(check(&history), []);
        read(&mut history, "c1", 5, 6, "RUNNING");
        assert_eq!(check(&history).len(), 1);
    }

    #[test]
    fn reads_at_the_same_time_may_show_either() {
        let mut history = History::default();
        read(&mut history, "c1", 1, 10, "FINISHED");
        read(&mut history, "c2", 5, 12, "RUNNING");
        assert_eq!(check(&history), []);
    }

    #[test]
    fn what_was_acknowledged_is_found() {
        let mut history = History::default();
        history.push(record(1, "c1", Kind::Invoke, Op::Submit, "s1"));
        history.push(record(2, "c1", Kind::Ok, Op::Submit, "s1"));
        read(&mut history, "c2", 3, 4, "NOT_FOUND");
        assert_eq!(check(&history).len(), 1);
    }
}
