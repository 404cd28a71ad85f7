//! What agents were ordered, from their own logs: of which epoch an order was, and which one its agent had heard of by then.
//!
//! The line is written where an order comes in, before anything is decided about it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;

use crate::history::Record;

/// The largest epoch that was known when an order came first, by what was ordered and the epoch of the order.
pub(super) type Orders = BTreeMap<(String, u64), u64>;

/// The part of a log line that matters here.
#[derive(Debug, Deserialize)]
struct Line {
    target: String,
    message: String,
    work: String,
    epoch: u64,
    heard: u64,
}

/// All orders to start something that one agent has had.
pub(super) fn orders(log: &str) -> Orders {
    let mut orders = Orders::new();
    for line in log.lines() {
        let Ok(line) = serde_json::from_str::<Line>(line) else {
            continue;
        };
        if line.target.starts_with("interrex_agent") && line.message == "ordered to start" {
            // A repeat of an order that was obeyed may come later than a newer epoch: it starts nothing.
            orders.entry((line.work, line.epoch)).or_insert(line.heard);
        }
    }
    orders
}

/// Adds to a start what its agent had heard of when it was ordered, where its log says so.
pub(super) fn add_heard(start: &mut Record, orders: Option<&Orders>) {
    let work = format!("driver {} attempt {}", start.id, start.attempt.unwrap_or(0));
    let order = (work, start.epoch.unwrap_or(0));
    let heard = orders.and_then(|orders| orders.get(&order));
    if let (Some(heard), Some(value)) = (heard, start.value.as_object_mut()) {
        value.insert("heard".to_owned(), json!(heard));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Kind, Op, tests::record};

    fn line(work: &str, epoch: u64, heard: u64) -> String {
        json!({
            "timestamp": "2026-01-01T00:00:00Z", "message": "ordered to start", "work": work, "epoch": epoch,
            "heard": heard, "target": "interrex_agent::worker::pump",
        })
        .to_string()
    }

    #[test]
    fn a_start_is_told_what_was_heard_when_its_order_came_first() {
        let log = [
            "a panic, perhaps".to_owned(),
            line("driver d1 attempt 1", 5, 5),
            line("driver d1 attempt 1", 5, 6),
            line("driver d1 attempt 1", 6, 6),
            line("executor app-1/0", 6, 7),
        ];
        let orders = orders(&log.join("\n"));
        let mut start = record(1, "w1", Kind::Info, Op::Start, "d1");
        start.attempt = Some(1);
        start.epoch = Some(5);
        start.value = json!({"pid": 7});
        add_heard(&mut start, Some(&orders));
        assert_eq!(start.number("heard"), Some(5));
        // Of a start without an order nothing is said.
        start.attempt = Some(2);
        start.value = json!({});
        add_heard(&mut start, Some(&orders));
        add_heard(&mut start, None);
        assert_eq!(start.number("heard"), None);
    }
}
