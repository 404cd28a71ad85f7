//! What the harness itself adds to the history: faults, processes that come and go, the end of the faults.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::clock::Clock;
use crate::{
    history::{Kind, Op, Record},
    metrics,
};

/// Records of the harness, in order. Clones add to the same list, which is bounded by what one run does.
#[derive(Debug, Clone)]
pub(super) struct Journal {
    clock: Clock,
    records: Arc<Mutex<Vec<Record>>>,
}

// === impl Journal ===

impl Journal {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            records: Arc::default(),
        }
    }

    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    /// A fact about `process`, now.
    pub(super) fn info(&self, process: &str, op: Op, id: &str, value: Value) {
        self.push(Record {
            time: self.clock.now(),
            process: process.to_owned(),
            kind: Kind::Info,
            op,
            id: id.to_owned(),
            attempt: None,
            epoch: None,
            value,
        });
    }

    pub(super) fn push(&self, record: Record) {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.push(record);
    }

    /// A fault that lasts begins.
    pub(super) fn begin(&self, name: &str, node: &str) {
        self.fault(name, json!({"node": node, "phase": "begin"}));
    }

    /// It ends; `hit`: it has done something.
    pub(super) fn end(&self, name: &str, node: &str, hit: bool) {
        self.fault(name, json!({"node": node, "phase": "end", "hit": hit}));
    }

    /// A record of a fault, with whatever there is to say.
    pub(super) fn fault(&self, name: &str, value: Value) {
        if value.get("hit").and_then(Value::as_bool) == Some(true) {
            metrics::fault(name);
        }
        self.info("nemesis", Op::Fault, name, value);
    }

    /// Something that must not be.
    pub(super) fn broken(&self, process: &str, what: &str) {
        self.info(process, Op::Broken, "", json!({"what": what}));
    }

    /// How often the fault `name` has done something.
    pub(super) fn hits(&self, name: &str) -> u64 {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let hits = records
            .iter()
            .filter(|record| record.op == Op::Fault && record.id == name && record.flag("hit"));
        hits.count() as u64
    }

    /// All records so far.
    pub(super) fn records(&self) -> Vec<Record> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.clone()
    }
}
