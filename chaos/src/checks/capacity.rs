//! Capacity: the sum of what runs on an agent never exceeds what it offers.

use std::collections::BTreeMap;

use super::{Violation, violation};
use crate::history::{History, Op};

#[derive(Debug, Default)]
struct Worker {
    offered: (i64, i64),
    running: BTreeMap<(String, u32), (i64, i64)>,
}

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut workers: BTreeMap<&str, Worker> = BTreeMap::new();
    let mut found = Vec::new();
    for record in history.records() {
        let key = || (record.id.clone(), record.attempt.unwrap_or(0));
        let needs = || {
            (
                record.number("cores").unwrap_or(0),
                record.number("memory_mib").unwrap_or(0),
            )
        };
        if record.op == Op::Offer {
            workers.entry(&record.process).or_default().offered = needs();
        } else if record.op == Op::End {
            if let Some(worker) = workers.get_mut(record.process.as_str()) {
                worker.running.remove(&key());
            }
        } else if record.op == Op::Start {
            let worker = workers.entry(&record.process).or_default();
            worker.running.insert(key(), needs());
            let (cores, memory) = worker
                .running
                .values()
                .fold((0, 0), |sum, needs| (sum.0 + needs.0, sum.1 + needs.1));
            if cores > worker.offered.0 || memory > worker.offered.1 {
                let message = format!(
                    "{} runs {cores} cores and {memory} MiB; it offers {} and {}",
                    record.process, worker.offered.0, worker.offered.1
                );
                found.push(violation("capacity", record.time, &record.id, message));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::history::{Kind, Record, tests::record};

    #[test]
    fn more_than_is_offered_is_found_and_what_has_ended_counts_no_more() {
        let of = |time, op, id: &str, cores: u32| Record {
            value: json!({"cores": cores, "memory_mib": 1}),
            ..record(time, "w1", Kind::Info, op, id)
        };
        let mut history = History::default();
        let mut offer = of(0, Op::Offer, "", 4);
        offer.value = json!({"cores": 4, "memory_mib": 100});
        history.push(offer);
        history.push(of(1, Op::Start, "d1", 3));
        history.push(of(2, Op::End, "d1", 0));
        history.push(of(3, Op::Start, "d2", 3));
        assert_eq!(check(&history), []);
        history.push(of(4, Op::Start, "d3", 2));
        assert_eq!(check(&history).len(), 1);
    }
}
