//! A run in figures, for programs: `summary.json`. The facts of the run are in it, so that a stored history can be judged
//! again as it was.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Failover, Measures, ReportError, RunFacts, Spread, faults::faults, making};
use crate::{
    calls::calls,
    checks::{Judgement, Verdict, Violation},
    history::{History, Op},
};

/// Violations of one check that are written out; the rest is counted.
const VIOLATIONS_MAX: usize = 20;

/// What became of one property.
#[derive(Debug, Clone, Serialize)]
pub struct CheckSummary {
    /// Its name.
    pub name: String,
    /// What it says.
    pub says: String,
    /// Whether it holds.
    pub verdict: Verdict,
    /// How many things it had to judge.
    pub judged: u64,
    /// Why it is undecided; empty if it is not.
    pub undecided: String,
    /// How often it is broken.
    pub broken: usize,
    /// The first of them.
    pub violations: Vec<Violation>,
}

/// A run in figures.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// What the run is worth.
    pub verdict: Verdict,
    /// What was run.
    pub run: RunFacts,
    /// How long it was, in seconds.
    pub seconds: f64,
    /// Records of its history.
    pub records: usize,
    /// How often leadership began.
    pub leaderships: usize,
    /// How often each kind of fault happened.
    pub faults: BTreeMap<String, u64>,
    /// Faults that were required and never happened.
    pub missing: Vec<String>,
    /// What was asked, and what became of it.
    pub requests: Measures,
    /// Acknowledged submissions that were lost.
    pub lost: usize,
    /// Submissions that had more than one effect, or ran twice though they must not.
    pub doubled: usize,
    /// From the loss of a leader to the next one, in seconds.
    pub failover_seconds: Option<Spread>,
    /// From the loss of a leader to the next acknowledged submission that waited for it, in seconds.
    pub acknowledged_seconds: Option<Spread>,
    /// The properties.
    pub checks: Vec<CheckSummary>,
}

// === impl Summary ===

impl Summary {
    pub(super) fn new(
        facts: &RunFacts,
        history: &History,
        judgement: &Judgement,
        failovers: &[Failover],
    ) -> Self {
        let end = history.records().last().map_or(0, |record| record.time);
        let mut counts = BTreeMap::new();
        for fault in faults(history, end) {
            *counts.entry(fault.kind).or_default() += 1;
        }
        let checks: Vec<_> = judgement.checks.iter().map(CheckSummary::from).collect();
        let broken = |names: &[&str]| {
            let of = checks.iter().filter(|c| names.contains(&c.name.as_str()));
            of.map(|check| check.broken).sum()
        };
        Self {
            verdict: judgement.verdict,
            run: facts.clone(),
            seconds: end as f64 / 1e6,
            records: history.records().len(),
            leaderships: history.about(Op::Lead).count(),
            faults: counts,
            missing: judgement.missing.clone(),
            requests: Measures::new(&calls(history)),
            lost: broken(&["acknowledged-survives"]),
            doubled: broken(&["one-effect", "single-success", "no-overlap"]),
            failover_seconds: Spread::of(failovers.iter().map(|f| f.leader_after).collect()),
            acknowledged_seconds: Spread::of(
                failovers
                    .iter()
                    .filter_map(|failover| failover.acknowledged_after)
                    .collect(),
            ),
            checks,
        }
    }

    pub(super) fn to_json(&self) -> Result<Vec<u8>, ReportError> {
        let bytes = serde_json::to_vec_pretty(self).map_err(|error| error.to_string());
        bytes.map_err(making("the summary"))
    }
}

impl From<&crate::checks::Judged> for CheckSummary {
    fn from(judged: &crate::checks::Judged) -> Self {
        Self {
            name: judged.name.to_owned(),
            says: judged.says.to_owned(),
            verdict: judged.verdict(),
            judged: judged.judged,
            undecided: judged.undecided.clone().unwrap_or_default(),
            broken: judged.violations.len(),
            violations: judged
                .violations
                .iter()
                .take(VIOLATIONS_MAX)
                .cloned()
                .collect(),
        }
    }
}
