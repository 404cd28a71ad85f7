//! A worker: what runs there, and whether it takes more.

use super::{Explanation, Facts, PROCESSES_LISTED_MAX, verdict::with_reason, words};
use crate::{
    state::worker::{Drain, Worker, WorkerState},
    time::Timestamp,
};

pub(super) fn explain(facts: &impl Facts, worker: &Worker, now: Timestamp) -> Explanation {
    let (cores, memory) = facts.in_use(&worker.id);
    let spec = &worker.spec;
    let (drivers, executors) = (facts.drivers_on(&worker.id), facts.executors_on(&worker.id));
    let used = format!(
        "{} of {} and {} of {} MiB are in use by {} and {}",
        cores.0,
        words::count(u64::from(spec.cores.0), "core"),
        memory.0,
        spec.memory.0,
        words::count(drivers.len() as u64, "driver"),
        words::count(executors.len() as u64, "executor"),
    );
    let standing = match (worker.state, &worker.drain) {
        (WorkerState::Alive, None) if worker.takes_work() => "takes new work",
        (WorkerState::Alive, None) => "takes no new work",
        (WorkerState::Alive, Some(_)) => "is being drained: it takes no new work",
        (WorkerState::Unknown, _) => {
            "its agent has not reported to this leader yet: it keeps what it runs and takes no new work"
        }
        (WorkerState::Dead, _) => "is dead: what it ran is lost",
    };
    let mut details = Vec::new();
    details.extend(worker.drain.as_ref().map(|drain| draining(drain, now)));
    if !worker.not_accepting.is_empty() {
        details.push(with_reason("takes no new work", &worker.not_accepting));
    }
    let running = drivers.len() + executors.len();
    let driver_lines = drivers.iter().filter_map(|id| {
        let driver = facts.driver(id)?;
        let amounts = words::amounts(&driver.spec.demand());
        Some(format!(
            "driver {id}, attempt {}, {}: {amounts}",
            driver.attempt,
            driver.state.name()
        ))
    });
    let executor_lines = executors.iter().filter_map(|(app, id)| {
        let executor = facts.executor(app, *id)?;
        Some(format!(
            "executor {app}/{id}, {}: {}, {} MiB",
            executor.state.name(),
            words::count(u64::from(executor.cores.0), "core"),
            executor.memory.0
        ))
    });
    details.extend(
        driver_lines
            .chain(executor_lines)
            .take(PROCESSES_LISTED_MAX),
    );
    if running > PROCESSES_LISTED_MAX {
        details.push(format!("and {} more", running - PROCESSES_LISTED_MAX));
    }
    Explanation {
        id: worker.id.to_string(),
        kind: "worker",
        state: worker.state_name().to_owned(),
        summary: format!("{standing}; {used}"),
        details,
        waits: Vec::new(),
    }
}

fn draining(drain: &Drain, now: Timestamp) -> String {
    let end = match drain.deadline {
        Some(deadline) if deadline > now => {
            format!(
                "what still runs in {} is ended",
                words::until(deadline, now)
            )
        }
        Some(_) => "its deadline has passed: what still runs is being ended".to_owned(),
        None => "what runs may end by itself".to_owned(),
    };
    format!("{}; {end}", with_reason("drain", &drain.reason))
}
