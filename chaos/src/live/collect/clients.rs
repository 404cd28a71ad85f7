//! A client's part of the history, completed: what it had begun and not finished when it ended is unknown.

use std::collections::BTreeMap;

use serde_json::json;

use crate::history::{Kind, Op, Record};

/// The records of one client's file. A line that was being written when the client was killed is left out: then what it
/// tells had not been told to anybody.
pub(super) fn records(text: &str, end: u64) -> Vec<Record> {
    let lines = text.lines();
    let mut records: Vec<Record> = lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let mut open: BTreeMap<(String, Op, String), Record> = BTreeMap::new();
    for record in &records {
        let call = (record.process.clone(), record.op, record.id.clone());
        match record.kind {
            Kind::Invoke => {
                open.insert(call, record.clone());
            }
            Kind::Ok | Kind::Fail | Kind::Unknown => {
                open.remove(&call);
            }
            Kind::Info => {}
        }
    }
    records.extend(open.into_values().map(|invoked| Record {
        time: end,
        kind: Kind::Unknown,
        value: json!({"reason": "the client was gone before it knew"}),
        ..invoked
    }));
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_had_not_finished_is_unknown() {
        let text = concat!(
            r#"{"time":1,"process":"c1","kind":"invoke","op":"submit","id":"s1"}"#,
            "\n",
            r#"{"time":2,"process":"c1","kind":"invoke","op":"submit","id":"s2"}"#,
            "\n",
            r#"{"time":3,"process":"c1","kind":"ok","op":"submit","id":"s1"}"#,
            "\n",
            r#"{"time":4,"process":"c1","kind":"ok","op":"sub"#
        );
        let records = records(text, 99);
        let seen: Vec<_> = records
            .iter()
            .map(|r| (r.time, r.kind, r.id.as_str()))
            .collect();
        assert_eq!(
            seen,
            [
                (1, Kind::Invoke, "s1"),
                (2, Kind::Invoke, "s2"),
                (3, Kind::Ok, "s1"),
                (99, Kind::Unknown, "s2")
            ]
        );
    }
}
