//! A seeded world of the production machines, in one thread and without tokio, bit for bit repeatable.
//!
//! Nodes wrap `LeaderMachine` with `ClusterState`, `SessionMachine` and `WorkerMachine` as the pumps do. The network
//! delays, loses, cuts (also one way) and holds back; the store and the election take every liberty that their contract
//! leaves them; agents' disks fail and lose what was not written; nodes crash, stop and go on, with clocks that differ.
//! What happened is a [`History`](crate::history::History), judged by the same [`checks`] as every
//! other.

mod agent;
mod app;
mod batch;
pub(crate) mod chance;
mod client;
mod clock;
mod env;
mod follow;
mod master;
mod nemesis;
mod net;
mod plan;
pub mod plant;
mod store;
mod tally;
mod world;

use std::{collections::BTreeMap, time::Duration};

pub use self::{batch::run_all, tally::Tally};
use self::{clock::At, plan::Plan, plant::Plant, world::World};
use crate::{
    checks::{self, Violation},
    report::RunFacts,
};

/// Lines of the trace that are shown for a broken property.
const TRACE_SHOWN: usize = 80;
/// How long a trace goes on after what it is to show.
const TRACE_AFTER: Duration = Duration::from_millis(1);

/// What one seed came to.
#[derive(Debug)]
pub struct SeedReport {
    /// The seed.
    pub seed: u64,
    /// What is broken; empty: nothing.
    pub violations: Vec<Violation>,
    /// How often each kind of fault hit something.
    pub hits: BTreeMap<&'static str, u64>,
    /// Batches that were stored.
    pub commits: u64,
    /// Leaderships.
    pub epochs: u64,
    /// Records of the history.
    pub records: usize,
    /// How long the world was, in its own time.
    pub lasted: Duration,
}

/// Runs the world of a seed and judges it.
#[must_use]
pub fn run(seed: u64, plant: Option<Plant>) -> SeedReport {
    let outcome = World::new(seed, plant).run(None);
    SeedReport {
        seed,
        violations: checks::judge(&outcome.history),
        hits: outcome.hits,
        commits: outcome.commits,
        epochs: outcome.epochs,
        records: outcome.history.records().len(),
        lasted: outcome.lasted,
    }
}

/// The history of a seed, as JSON lines.
#[must_use]
pub fn history(seed: u64, plant: Option<Plant>) -> crate::history::History {
    World::new(seed, plant).run(None).history
}

/// What a report says about the world of a seed.
#[must_use]
pub fn facts(seed: u64, plant: Option<Plant>) -> RunFacts {
    let plan = Plan::drawn(seed);
    let planted = plant.map(Plant::name);
    let option = planted.map_or_else(String::new, |plant| format!(" --plant {plant}"));
    let facts = RunFacts {
        name: format!("simulated world {seed}"),
        seed: Some(seed),
        command: format!("interrex chaos sim --seed {seed}{option} --report out"),
        ..RunFacts::default()
    };
    let facts = facts
        .with("masters", plan.masters)
        .with("agents", plan.agents.len())
        .with("clients", plan.clients)
        .with("applications", plan.apps.len());
    match planted {
        Some(plant) => facts.with("planted bug", plant),
        None => facts,
    }
}

/// The last things that happened before a broken property showed, those about it first of all.
#[must_use]
pub fn trace(seed: u64, plant: Option<Plant>, violation: &Violation) -> Vec<String> {
    let until = At(violation.time).plus(TRACE_AFTER);
    let lines = World::new(seed, plant).run(Some(until)).trace;
    // What is about it, however long ago; and what happened last, except for heartbeats.
    let about = |line: &String| !violation.id.is_empty() && line.contains(&violation.id);
    let skipped = lines.len().saturating_sub(TRACE_SHOWN);
    lines
        .into_iter()
        .enumerate()
        .filter(|(n, line)| about(line) || (*n >= skipped && !line.contains("heartbeat")))
        .map(|(_, line)| line)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_world_bit_for_bit() {
        for seed in [1, 2, 3] {
            assert_eq!(history(seed, None), history(seed, None), "seed {seed}");
        }
    }
}
