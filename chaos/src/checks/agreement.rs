//! Agreement: when everything is quiet all masters know the same, and it is what is stored.

use std::collections::BTreeMap;

use super::{Violation, violation};
use crate::history::{History, Op};

/// Masters that were asked in the same epoch, or at the same place of the log, have the same hash.
///
/// A record's `at` says how much of the log its master had seen; hashes of different places are not compared, since one
/// master may be behind for a moment.
pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut first: BTreeMap<i64, (&str, &str)> = BTreeMap::new();
    let mut found = Vec::new();
    for record in history.about(Op::Hash) {
        let hash = record.text("hash");
        let at = record.number("at").unwrap_or(0);
        let (who, known) = *first.entry(at).or_insert((&record.process, hash));
        if known != hash {
            let message = format!("knows {hash} where {who} knows {known}");
            found.push(violation(
                "agreement",
                record.time,
                &record.process,
                message,
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::history::{Kind, Record, tests::record};

    fn hash(process: &str, at: u64, hash: &str) -> Record {
        Record {
            value: json!({"hash": hash, "at": at}),
            ..record(1, process, Kind::Info, Op::Hash, "")
        }
    }

    #[test]
    fn a_master_that_knows_something_else_is_found() {
        let mut history = History::default();
        for (process, known) in [("m1", "a"), ("m2", "a"), ("m3", "b")] {
            assert_eq!(check(&history), []);
            history.push(hash(process, 7, known));
        }
        let found = check(&history);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].id, "m3");
    }

    #[test]
    fn a_master_that_is_behind_is_not_compared() {
        let mut history = History::default();
        history.push(hash("m1", 7, "a"));
        history.push(hash("m2", 6, "b"));
        assert_eq!(check(&history), []);
    }
}
