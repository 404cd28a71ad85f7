//! What the workers that take new work could hold if they were empty: whether something can ever fit.

use std::collections::{BTreeMap, BTreeSet};

use super::words;
use crate::{
    resources::Demand,
    state::worker::{Worker, WorkerState},
};

/// The different kinds of workers. Made by one pass over them, so once a request and not once an entity.
#[derive(Debug, Clone, Default)]
pub(super) struct Fleet {
    alive: usize,
    /// One of each kind: most clusters have a few.
    shapes: BTreeSet<Shape>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    cores: u32,
    memory: u64,
    resources: BTreeMap<String, usize>,
    capabilities: BTreeSet<String>,
    is_agent: bool,
}

// === impl Fleet ===

impl Fleet {
    pub(super) fn of<'a>(workers: impl Iterator<Item = &'a Worker>) -> Self {
        let mut fleet = Self::default();
        for worker in workers.filter(|worker| worker.state == WorkerState::Alive) {
            fleet.alive += 1;
            if worker.takes_work() {
                fleet.shapes.insert(Shape::of(worker));
            }
        }
        fleet
    }

    /// Why no worker could hold this, not even an empty one; `None`: one could.
    pub(super) fn never(&self, demand: &Demand) -> Option<String> {
        if self.alive == 0 {
            return Some("waiting for an agent: none is alive".to_owned());
        }
        if self.shapes.is_empty() {
            return Some(
                "waiting for an agent: those that are alive are being drained or take no new work"
                    .to_owned(),
            );
        }
        if self.shapes.iter().any(|shape| shape.holds(demand)) {
            return None;
        }
        if demand.needs_agent && self.shapes.iter().all(|shape| !shape.is_agent) {
            return Some(format!("waiting for an agent: {}", words::OF_SPARK));
        }
        if let Some(capability) = &demand.capability
            && !self
                .shapes
                .iter()
                .any(|shape| shape.capabilities.contains(capability))
        {
            return Some(format!("no agent offers the capability `{capability}`"));
        }
        for (name, amount) in &demand.resources {
            let most = self.shapes.iter().map(|shape| shape.amount(name)).max();
            let most = most.unwrap_or(0);
            if most < as_count(*amount) {
                return Some(format!(
                    "no agent offers {amount} {name}: the most is {most}"
                ));
            }
        }
        let cores = self.shapes.iter().map(|shape| shape.cores).max();
        let memory = self.shapes.iter().map(|shape| shape.memory).max();
        let (cores, memory) = (cores.unwrap_or(0), memory.unwrap_or(0));
        if demand.cores.0 > cores || demand.memory.0 > memory {
            return Some(format!(
                "no agent is large enough for {}: the largest offers {}, {memory} MiB",
                words::amounts(demand),
                words::count(u64::from(cores), "core"),
            ));
        }
        Some(format!("no agent offers {} together", words::needs(demand)))
    }
}

// === impl Shape ===

impl Shape {
    fn of(worker: &Worker) -> Self {
        let spec = &worker.spec;
        let counted = |(name, addresses): (&String, &Vec<String>)| (name.clone(), addresses.len());
        Self {
            cores: spec.cores.0,
            memory: spec.memory.0,
            resources: spec.resources.iter().map(counted).collect(),
            capabilities: spec.capabilities.iter().cloned().collect(),
            is_agent: spec.spark.is_none(),
        }
    }

    fn amount(&self, resource: &str) -> usize {
        self.resources.get(resource).copied().unwrap_or(0)
    }

    fn holds(&self, demand: &Demand) -> bool {
        let capability = demand.capability.as_ref();
        self.cores >= demand.cores.0
            && self.memory >= demand.memory.0
            && (self.is_agent || !demand.needs_agent)
            && capability.is_none_or(|name| self.capabilities.contains(name))
            && demand
                .resources
                .iter()
                .all(|(name, amount)| self.amount(name) >= as_count(*amount))
    }
}

fn as_count(amount: u32) -> usize {
    usize::try_from(amount).unwrap_or(usize::MAX)
}
