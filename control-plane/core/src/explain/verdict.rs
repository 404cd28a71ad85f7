//! Each worker in turn: could it take this, and if not, what is in the way.

use std::collections::BTreeMap;

use super::{Facts, Verdict, WORKERS_LISTED_MAX, words};
use crate::{
    resources::{Addresses, Demand},
    state::{
        index::place::Gate,
        worker::{Worker, WorkerState},
    },
};

/// How many executors of a gated group could start at once on all workers: as they are, and if they were empty.
pub(super) fn rooms(facts: &impl Facts, demand: &Demand, gate: Gate) -> (u64, u64) {
    let (mut now, mut empty) = (0_u64, 0_u64);
    let can = |worker: &Worker| {
        worker.takes_work() && !(demand.needs_agent && worker.spec.spark.is_some())
    };
    for worker in facts.workers().filter(|worker| can(worker)) {
        let spec = &worker.spec;
        let (cores, memory) = facts.in_use(&worker.id);
        let offered = |name: &str| spec.resources.get(name).map_or(0, Vec::len) as u64;
        let left = |name: &str| offered(name).saturating_sub(held(facts, worker, name));
        let free = (
            u64::from(spec.cores.0.saturating_sub(cores.0)),
            spec.memory.0.saturating_sub(memory.0),
        );
        let all = (u64::from(spec.cores.0), spec.memory.0);
        let fits = room(demand, gate, free, left);
        if fits > 0 && !holds_unoffered(facts, worker) {
            now = now.saturating_add(fits);
        }
        empty = empty.saturating_add(room(demand, gate, all, offered));
    }
    (now, empty)
}

fn room(demand: &Demand, gate: Gate, free: (u64, u64), addresses: impl Fn(&str) -> u64) -> u64 {
    let times = |free: u64, each: u64| free.checked_div(each).unwrap_or(u64::MAX);
    let by_cores = times(free.0, u64::from(demand.cores.0));
    let by_memory = times(free.1, demand.memory.0);
    let resources = demand.resources.iter();
    let by_resources = resources.map(|(name, amount)| times(addresses(name), u64::from(*amount)));
    let room = by_resources.fold(by_cores.min(by_memory), u64::min);
    if gate.one_a_worker { room.min(1) } else { room }
}

/// What is to be said about a worker: a word for counting, and a sentence.
struct Finding {
    kind: &'static str,
    words: String,
}

const FITS: &str = "fits";

/// What workers say: those that are listed, and how many more there are of each kind.
pub(super) type Verdicts = (Vec<Verdict>, Vec<(&'static str, u64)>);

/// Asks every worker, in the order of ids.
pub(super) fn verdicts(facts: &impl Facts, demand: &Demand) -> Verdicts {
    let mut listed = Vec::new();
    let mut more: BTreeMap<&'static str, u64> = BTreeMap::new();
    for worker in facts.workers() {
        let finding = finding(facts, worker, demand);
        if listed.len() < WORKERS_LISTED_MAX {
            listed.push(Verdict {
                worker: worker.id.clone(),
                fits: finding.kind == FITS,
                words: finding.words,
            });
        } else {
            *more.entry(finding.kind).or_default() += 1;
        }
    }
    (listed, more.into_iter().collect())
}

fn finding(facts: &impl Facts, worker: &Worker, demand: &Demand) -> Finding {
    let spec = &worker.spec;
    let says = |kind, words: &str| Finding {
        kind,
        words: words.to_owned(),
    };
    match worker.state {
        WorkerState::Alive => {}
        WorkerState::Unknown => {
            return says(
                "not alive",
                "not alive: its agent has not reported to this leader yet",
            );
        }
        WorkerState::Dead => return says("not alive", "not alive: dead"),
    }
    if let Some(drain) = &worker.drain {
        return says("draining", &with_reason("draining", &drain.reason));
    }
    if !worker.not_accepting.is_empty() {
        let words = with_reason("takes no new work", &worker.not_accepting);
        return says("takes no new work", &words);
    }
    if let Some((kind, words)) = cannot(worker, demand) {
        return says(kind, &words);
    }
    let (cores, memory) = facts.in_use(&worker.id);
    let shrunk = || {
        says(
            "offers less than it holds",
            "offers less than what runs there holds",
        )
    };
    if cores > spec.cores || memory > spec.memory {
        return shrunk();
    }
    let free = (spec.cores.0 - cores.0, spec.memory.0 - memory.0);
    let mut lacks = Vec::new();
    if free.0 < demand.cores.0 {
        let words = lack("cores", u64::from(free.0), u64::from(spec.cores.0), "");
        lacks.push(("lacks cores", words));
    }
    if free.1 < demand.memory.0 {
        lacks.push((
            "lacks memory",
            lack("memory", free.1, spec.memory.0, " MiB"),
        ));
    }
    for (name, amount) in &demand.resources {
        let offered = spec.resources.get(name).map_or(0, Vec::len) as u64;
        let free = offered.saturating_sub(held(facts, worker, name));
        if free < u64::from(*amount) {
            lacks.push((
                "lacks a resource",
                lack(&format!("resource {name}"), free, offered, ""),
            ));
        }
    }
    let Some((kind, _)) = lacks.first() else {
        // Asked last, because it costs what runs there.
        if holds_unoffered(facts, worker) {
            return shrunk();
        }
        return says(FITS, FITS);
    };
    let words: Vec<_> = lacks.iter().map(|(_, words)| words.as_str()).collect();
    says(kind, &format!("lacks {}", words.join(", ")))
}

/// What a worker can never do, however much room it has.
fn cannot(worker: &Worker, demand: &Demand) -> Option<(&'static str, String)> {
    if demand.needs_agent && worker.spec.spark.is_some() {
        return Some(("is no agent", format!("is no agent: {}", words::OF_SPARK)));
    }
    let capability = demand.capability.as_ref()?;
    let lacks = !worker.spec.capabilities.contains(capability);
    lacks.then(|| {
        let words = format!("lacks the capability `{capability}`");
        ("lacks a capability", words)
    })
}

/// `cores (has 1 of 4 free)`.
fn lack(what: &str, free: u64, offered: u64, unit: &str) -> String {
    format!("{what} (has {free} of {offered}{unit} free)")
}

/// Offered addresses of a resource that something holds. Costs what runs there.
fn held(facts: &impl Facts, worker: &Worker, resource: &str) -> u64 {
    let offered = worker.spec.resources.get(resource);
    let is_offered = |address: &&String| offered.is_some_and(|o| o.contains(*address));
    let all = holdings(facts, worker);
    let held = all.iter().filter_map(|held| held.get(resource)).flatten();
    held.filter(is_offered).count() as u64
}

/// Whether something holds an address that the worker does not offer any more. Costs what runs there.
fn holds_unoffered(facts: &impl Facts, worker: &Worker) -> bool {
    let is_offered = |name: &String, address: &String| {
        let offered = worker.spec.resources.get(name);
        offered.is_some_and(|offered| offered.contains(address))
    };
    holdings(facts, worker)
        .iter()
        .flatten()
        .any(|(name, held)| held.iter().any(|address| !is_offered(name, address)))
}

/// The addresses that each driver and executor of a worker holds.
fn holdings(facts: &impl Facts, worker: &Worker) -> Vec<Addresses> {
    let drivers = facts.drivers_on(&worker.id);
    let drivers = drivers.iter().filter_map(|id| facts.driver(id));
    let executors = facts.executors_on(&worker.id);
    let executors = executors
        .iter()
        .filter_map(|(app, id)| facts.executor(app, *id));
    let drivers = drivers.map(|driver| driver.resources.clone());
    let executors = executors.map(|executor| executor.resources.clone());
    drivers.chain(executors).collect()
}

/// `what`, and why if somebody said so.
pub(super) fn with_reason(what: &str, reason: &str) -> String {
    if reason.is_empty() {
        what.to_owned()
    } else {
        format!("{what}: {reason}")
    }
}
