//! Leaders: one an epoch, epochs rise, and an agent that has obeyed a newer one obeys an older one no more.

use std::collections::BTreeMap;

use super::{Violation, violation};
use crate::history::{History, Op};

/// One leader an epoch, and each master's epochs rise. (A slow master may begin in its epoch when a newer one has begun
/// elsewhere: it does not know, and the fences hold it.)
pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut leaders: BTreeMap<u64, &str> = BTreeMap::new();
    let mut newest_of: BTreeMap<&str, u64> = BTreeMap::new();
    let mut found = Vec::new();
    for record in history.about(Op::Lead) {
        let epoch = record.epoch.unwrap_or(0);
        let newest = newest_of.entry(&record.process).or_default();
        if epoch < *newest {
            let message = format!("leads in epoch {epoch}, after it has led in epoch {newest}");
            found.push(violation(
                "one-leader",
                record.time,
                &record.process,
                message,
            ));
        }
        *newest = epoch.max(*newest);
        match leaders.insert(epoch, &record.process) {
            Some(other) if other != record.process => {
                let message = format!("leads in epoch {epoch}, which is {other}'s");
                found.push(violation(
                    "one-leader",
                    record.time,
                    &record.process,
                    message,
                ));
            }
            Some(_) | None => {}
        }
    }
    found
}

/// Nothing is started by an order that came after a newer epoch had been heard of.
pub(super) fn obedience(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for record in history.about(Op::Start) {
        let epoch = record.epoch.unwrap_or(0);
        let heard = record
            .number("heard")
            .and_then(|heard| u64::try_from(heard).ok());
        if let Some(heard) = heard.filter(|heard| epoch < *heard) {
            let message = format!(
                "started by an order of epoch {epoch}; {} had heard of epoch {heard} before",
                record.process
            );
            found.push(violation("old-orders", record.time, &record.id, message));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::history::{Kind, Record, tests::record};

    fn of(time: u64, process: &str, op: Op, epoch: u64) -> Record {
        Record {
            epoch: Some(epoch),
            ..record(time, process, Kind::Info, op, "driver-1")
        }
    }

    #[test]
    fn two_leaders_of_one_epoch_and_a_falling_epoch_are_found() {
        let mut history = History::default();
        history.push(of(1, "m1", Op::Lead, 1));
        history.push(of(2, "m2", Op::Lead, 2));
        history.push(of(3, "m2", Op::Lead, 2));
        assert_eq!(check(&history), []);
        history.push(of(4, "m3", Op::Lead, 2));
        history.push(of(5, "m2", Op::Lead, 1));
        assert_eq!(check(&history).len(), 3, "epoch 1 is m1's, too");
    }

    #[test]
    fn an_order_of_an_older_epoch_that_is_obeyed_is_found() {
        let mut history = History::default();
        let ordered = |epoch, heard| Record {
            value: json!({"heard": heard}),
            ..of(1, "w1", Op::Start, epoch)
        };
        history.push(ordered(2, 2));
        history.push(ordered(1, 1));
        assert_eq!(obedience(&history), []);
        history.push(ordered(1, 2));
        assert_eq!(obedience(&history).len(), 1);
    }
}
