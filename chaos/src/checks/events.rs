//! The event stream: whoever follows it gets every event once and in order, over failovers too, and everybody gets the
//! same under the same number.

use std::collections::BTreeMap;

use super::{Violation, violation};
use crate::history::{History, Op};

/// Numbers rise by one for each follower, unless it was told to list again; one number has one content.
///
/// A record's `sequence` is the number, its `digest` the content; `relist` stands where a follower was told that what it
/// wants is no longer kept.
pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut places: BTreeMap<&str, i64> = BTreeMap::new();
    let mut contents: BTreeMap<i64, (&str, i64)> = BTreeMap::new();
    let mut found = Vec::new();
    for record in history.about(Op::Event) {
        let who = record.process.as_str();
        if record.flag("relist") {
            places.remove(who);
            continue;
        }
        let Some(sequence) = record.number("sequence") else {
            continue;
        };
        let broken = |message: String| violation("event-stream", record.time, who, message);
        if let Some(last) = places.insert(who, sequence)
            && sequence != last + 1
        {
            let what = if sequence > last {
                "misses what is between"
            } else {
                "had that already"
            };
            let message = format!("gets event {sequence} after event {last}: {what}");
            found.push(broken(message));
        }
        let digest = record.number("digest").unwrap_or(0);
        let (other, known) = *contents.entry(sequence).or_insert((who, digest));
        if known != digest {
            let message = format!("gets another event {sequence} than {other} got");
            found.push(broken(message));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::history::{Kind, Record, tests::record};

    fn history(events: &[(&str, Value)]) -> History {
        let mut history = History::default();
        for (n, (who, value)) in events.iter().enumerate() {
            history.push(Record {
                value: value.clone(),
                ..record(n as u64, who, Kind::Info, Op::Event, "")
            });
        }
        history
    }

    fn event(sequence: u64, digest: u64) -> Value {
        json!({"sequence": sequence, "digest": digest})
    }

    #[test]
    fn every_event_once_and_in_order_is_right_wherever_it_begins() {
        let right = [
            ("c1", event(5, 50)),
            ("c1", event(6, 60)),
            ("c2", event(6, 60)),
            ("c1", event(7, 70)),
        ];
        assert_eq!(check(&history(&right)), []);
    }

    #[test]
    fn a_gap_a_repeat_and_another_content_are_found() {
        for (second, word) in [
            (event(7, 70), "misses"),
            (event(5, 50), "had that already"),
            (event(4, 40), "had that already"),
        ] {
            let found = check(&history(&[("c1", event(5, 50)), ("c1", second)]));
            assert!(
                found.len() == 1 && found[0].message.contains(word),
                "{found:?}"
            );
        }
        let found = check(&history(&[("c1", event(5, 50)), ("c2", event(5, 51))]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].id, "c2");
    }

    #[test]
    fn who_is_told_to_list_again_may_begin_elsewhere() {
        let told = [
            ("c1", event(5, 50)),
            ("c1", json!({"relist": true})),
            ("c1", event(90, 900)),
        ];
        assert_eq!(check(&history(&told)), []);
    }
}
