//! Who has led, from the masters' own logs: a master says so itself, and says it once for each leadership.

use serde::Deserialize;
use serde_json::Value;

use crate::{
    history::{Kind, Op, Record},
    live::clock::Clock,
};

/// The part of a log line that matters here.
#[derive(Debug, Deserialize)]
struct Line {
    timestamp: String,
    target: String,
    message: String,
    epoch: Option<u64>,
    reason: Option<String>,
}

/// The leaderships of `master`.
pub(super) fn records(master: &str, log: &str, clock: Clock) -> Vec<Record> {
    let lines = log.lines();
    let told = lines.filter_map(|line| {
        // Panics and the like are text, and none of ours.
        let line: Line = serde_json::from_str(line).ok()?;
        if !line.target.starts_with("interrex_control_plane::runtime") {
            return None;
        }
        let op = match line.message.as_str() {
            "leading" => Op::Lead,
            "stepping down" => Op::StepDown,
            _other => return None,
        };
        let at = humantime::parse_rfc3339(&line.timestamp).ok()?;
        Some(Record {
            time: clock.of_wall(at),
            process: master.to_owned(),
            kind: Kind::Info,
            op,
            id: String::new(),
            attempt: None,
            epoch: line.epoch,
            value: line
                .reason
                .map_or(Value::Null, |reason| serde_json::json!({"reason": reason})),
        })
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaderships_are_found_among_everything_else() {
        let log = concat!(
            r#"{"timestamp":"2026-01-01T00:00:00.5Z","level":"INFO","message":"leading","master":"m1","epoch":3,"term":3,"target":"interrex_persistence::raft::election"}"#,
            "\n",
            r#"{"timestamp":"2026-01-01T00:00:00.6Z","level":"INFO","message":"leading","epoch":3,"took_ms":2,"target":"interrex_control_plane::runtime::role"}"#,
            "\nthread panicked\n",
            r#"{"timestamp":"2026-01-01T00:00:01Z","level":"INFO","message":"stepping down","epoch":3,"reason":"fenced","target":"interrex_control_plane::runtime::leader_loop"}"#,
            "\n"
        );
        let records = records("m1", log, Clock::began_at(0));
        let seen: Vec<_> = records.iter().map(|r| (r.op, r.epoch)).collect();
        assert_eq!(seen, [(Op::Lead, Some(3)), (Op::StepDown, Some(3))]);
        assert_eq!(records[1].time - records[0].time, 400_000);
        assert_eq!(records[1].text("reason"), "fenced");
    }
}
