//! What a report says about its run that the history does not: what was run, how to run it again, what it needed.

use serde::{Deserialize, Serialize};

/// One more thing that is known about a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// What it is about: `masters`, `engine`.
    pub name: String,
    /// What it is.
    pub value: String,
}

/// A file that belongs to a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFile {
    /// Whose: `m1`.
    pub name: String,
    /// Where, relative to the report.
    pub path: String,
}

/// What is known about a run beside its history.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunFacts {
    /// What was run: `sim`, or the scenario's name.
    pub name: String,
    /// The seed.
    pub seed: Option<u64>,
    /// The command that repeats it.
    pub command: String,
    /// Faults that must have happened, or the run proves nothing. By the ids of fault records.
    pub required: Vec<String>,
    /// More of what is worth knowing, in this order.
    pub facts: Vec<Fact>,
    /// Logs and other files beside the report.
    pub logs: Vec<LogFile>,
}

// === impl RunFacts ===

impl RunFacts {
    /// Adds a fact.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.facts.push(Fact {
            name: name.to_owned(),
            value: value.to_string(),
        });
        self
    }
}
