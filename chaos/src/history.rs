//! What happened, as JSON lines: the one format that the simulator and the live harness write and the oracle reads.
//!
//! Requests are told twice: when they are made (`invoke`), and when their outcome is known (`ok`, `fail`) or never will
//! be (`unknown`: a timeout is not "absent"). Everything else is told once (`info`): faults, leaders, processes that
//! start and end, as the machine itself knows them and never as a master says.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a record says about its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It is asked for.
    Invoke,
    /// It was done; the value is the answer.
    Ok,
    /// It was surely not done.
    Fail,
    /// Nobody knows.
    Unknown,
    /// A fact.
    Info,
}

/// What a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// What the whole run is, said once at its beginning: `scenario`, `seed`, `command`, and what was started.
    Run,
    /// The process of a node runs from now on.
    Up,
    /// The process of a node is gone; the value has `how`, and `asked`: somebody has ended it on purpose.
    Down,
    /// A submission. `id`: its request id; the value of `invoke`: `supervise`, `at_most_once`; of `ok`: `driver`.
    Submit,
    /// A kill of a submission.
    Kill,
    /// A linearizable read of a submission; the value of `ok`: `state`, `attempt`.
    Status,
    /// A worker is to be emptied, or to work again.
    Drain,
    /// A master leads from now on, in `epoch`.
    Lead,
    /// A master has ended its leadership of `epoch`.
    StepDown,
    /// An agent offers `cores` and `memory_mib` from now on.
    Offer,
    /// A process has started: `id` and `attempt` name it, the value has `cores`, `memory_mib` `submission`, and
    /// `heard`: the largest epoch that its agent had heard of when it was ordered; live, as its log says. Live `alone` says
    /// that the kernel found no other attempt of the submission running, `short` how many cores were not free, `pid`.
    Start,
    /// All of a process is gone; the value has `success`. Live: its work is done, or (`killed`) it was seen to be gone; then
    /// the time is the latest at which it can have ended.
    End,
    /// A fault begins or ends; `id`: its name. The value has `node`, whom it is done to (`m1`, `m1 w2`, `all`), `hit`, if it
    /// has done something (a fault of which no record has it was not tried), and either `phase`, which is `begin`, `end` or
    /// `once`, or `until`, when it will be over, in microseconds since the start. Live it may have `probe`: the submission that was made
    /// when it began, to see how long nobody answers.
    Fault,
    /// The faults are over: from here on everything must converge.
    Calm,
    /// Everything has converged.
    Converged,
    /// At the very end: a submission as the leader knows it; the value has `state`, `attempt`, `exit_code`.
    Final,
    /// At the very end: a process that is alive though nothing of the kind should be.
    Alive,
    /// At the very end: the hash of what a master knows; the value has `hash`, and `at`, how much of the log it has seen; live also `records`.
    Hash,
    /// Somebody who follows the event log gets an event: the value has its `sequence` and a `digest` of its content, or
    /// `relist`, if what was asked for is no longer kept.
    Event,
    /// A machine's own invariant does not hold.
    Broken,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Microseconds since the start of the run.
    pub time: u64,
    /// Who: `m1`, `w1`, `a1`, `c1`, or `nemesis`.
    pub process: String,
    /// What is said.
    pub kind: Kind,
    /// About what.
    pub op: Op,
    /// Which one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Which attempt of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// In which epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// What else there is to say.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub value: Value,
}

/// All that happened, in order of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    records: Vec<Record>,
}

/// Why a history cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The file cannot be read.
    #[error("cannot read the history: {0}")]
    Io(#[from] io::Error),
    /// A line is none.
    #[error("line {line} of the history is no record: {error}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// Why.
        error: serde_json::Error,
    },
}

// === impl History ===

impl History {
    /// Adds a record.
    pub fn push(&mut self, record: Record) {
        self.records.push(record);
    }

    /// Adds a record, to be completed.
    pub fn push_mut(&mut self, record: Record) -> &mut Record {
        let index = self.records.len();
        self.records.push(record);
        &mut self.records[index]
    }

    /// All records, in order.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Records about one operation.
    pub fn about(&self, op: Op) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(move |record| record.op == op)
    }

    /// When the faults were over.
    #[must_use]
    pub fn calm_at(&self) -> Option<u64> {
        self.about(Op::Calm).next().map(|record| record.time)
    }

    /// Writes one line a record.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for record in &self.records {
            serde_json::to_writer(&mut *out, record)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Reads what [`Self::write`] wrote.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn read(from: impl BufRead) -> Result<Self, HistoryError> {
        let mut history = Self::default();
        for (number, line) in from.lines().enumerate() {
            let record = serde_json::from_str(&line?).map_err(|error| HistoryError::Line {
                line: number + 1,
                error,
            })?;
            history.push(record);
        }
        Ok(history)
    }
}

// === impl Record ===

impl Record {
    /// A field of the value, as a number.
    #[must_use]
    pub fn number(&self, field: &str) -> Option<i64> {
        self.value.get(field).and_then(Value::as_i64)
    }

    /// A field of the value, as text; empty if there is none.
    #[must_use]
    pub fn text(&self, field: &str) -> &str {
        self.value
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// A field of the value, as a flag; false if there is none.
    #[must_use]
    pub fn flag(&self, field: &str) -> bool {
        self.value
            .get(field)
            .and_then(Value::as_bool)
            .unwrap_or_default()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// A record, for tests of the checks.
    pub(crate) fn record(time: u64, process: &str, kind: Kind, op: Op, id: &str) -> Record {
        Record {
            time,
            process: process.to_owned(),
            kind,
            op,
            id: id.to_owned(),
            attempt: None,
            epoch: None,
            value: Value::Null,
        }
    }

    #[test]
    fn a_history_comes_back_from_its_lines() {
        let mut history = History::default();
        history.push(record(1, "c1", Kind::Invoke, Op::Submit, "s1"));
        history.push(Record {
            attempt: Some(2),
            epoch: Some(7),
            value: json!({"success": true}),
            ..record(5, "w1", Kind::Info, Op::End, "driver-1")
        });
        let mut lines = Vec::new();
        history.write(&mut lines).unwrap();
        assert_eq!(History::read(lines.as_slice()).unwrap(), history);
    }

    #[test]
    fn a_line_that_is_no_record_is_named() {
        let error = History::read("{\"time\":1}\n".as_bytes()).unwrap_err();
        assert!(
            error.to_string().starts_with("line 1 of the history"),
            "{error}"
        );
    }
}
