//! What many seeds came to, all together.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

use super::{SeedReport, plan::Fault};
use crate::checks::Verdict;

/// From so many seeds on, each kind of fault must have happened.
const SEEDS_FOR_EVERY_FAULT: u64 = 100;

/// The sum of many reports.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Tally {
    /// Seeds.
    pub seeds: u64,
    /// Seeds in which something is broken.
    pub broken: u64,
    /// Batches that were stored.
    pub commits: u64,
    /// Leaderships.
    pub epochs: u64,
    /// Records of all histories.
    pub records: u64,
    /// How long all worlds were, in their own time.
    pub lasted: Duration,
    /// How often each kind of fault hit something.
    pub hits: BTreeMap<&'static str, u64>,
}

// === impl Tally ===

impl Tally {
    /// Adds a report.
    pub fn add(&mut self, report: &SeedReport) {
        self.seeds += 1;
        self.broken += u64::from(!report.violations.is_empty());
        self.commits += report.commits;
        self.epochs += report.epochs;
        self.records += u64::try_from(report.records).unwrap_or(u64::MAX);
        self.lasted += report.lasted;
        for (fault, count) in &report.hits {
            *self.hits.entry(fault).or_default() += count;
        }
    }

    /// Faults that were to happen and never did.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        if self.seeds < SEEDS_FOR_EVERY_FAULT {
            return Vec::new();
        }
        Fault::ALL
            .into_iter()
            .map(Fault::name)
            .filter(|fault| !self.hits.contains_key(fault))
            .collect()
    }

    /// What it is worth: valid only if nothing is broken and everything was tried.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if self.broken > 0 {
            Verdict::Invalid
        } else if self.seeds == 0 || !self.missing().is_empty() {
            Verdict::Unknown
        } else {
            Verdict::Valid
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(fault: &'static str) -> SeedReport {
        SeedReport {
            seed: 0,
            violations: Vec::new(),
            hits: BTreeMap::from([(fault, 1)]),
            commits: 1,
            epochs: 1,
            records: 1,
            lasted: Duration::from_secs(1),
        }
    }

    #[test]
    fn a_run_that_never_hit_a_fault_is_not_a_pass() {
        let mut tally = Tally::default();
        assert_eq!(tally.verdict(), Verdict::Unknown, "nothing was run");
        tally.add(&report("reset"));
        assert_eq!(
            tally.verdict(),
            Verdict::Valid,
            "a few seeds need not have all"
        );
        for _ in 0..SEEDS_FOR_EVERY_FAULT {
            tally.add(&report("reset"));
        }
        assert_eq!(tally.verdict(), Verdict::Unknown);
        for fault in Fault::ALL {
            tally.add(&report(fault.name()));
        }
        assert_eq!(tally.verdict(), Verdict::Valid);
    }
}
