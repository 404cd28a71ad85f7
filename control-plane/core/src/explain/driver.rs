//! A driver: why it waits, where it runs, how it ended.

use super::{
    Explanation, Facts, Queue, Wait, Waits,
    verdict::{verdicts, with_reason},
    words,
};
use crate::{
    state::driver::{Driver, DriverState},
    time::Timestamp,
};

const ORDER: &str =
    "by priority, then first come, first served; one that does not fit now lets others pass";

pub(super) fn explain(facts: &impl Facts, driver: &Driver, now: Timestamp) -> Explanation {
    let mut explanation = Explanation {
        id: driver.id.to_string(),
        kind: "driver",
        state: driver.state.name().to_owned(),
        ..Explanation::default()
    };
    match driver.state {
        DriverState::Submitted | DriverState::Relaunching => {
            waiting(facts, driver, now, &mut explanation);
        }
        DriverState::Launching => {
            explanation.summary = format!(
                "was sent to {}; its agent has not confirmed it yet",
                place(driver)
            );
        }
        DriverState::Running => explanation.summary = format!("runs on {}", place(driver)),
        DriverState::Finished | DriverState::Killed | DriverState::Failed | DriverState::Error => {
            explanation.summary = ended(driver);
        }
    }
    if driver.kill_requested && !driver.state.is_final() {
        let details = &mut explanation.details;
        details.push("is to be killed: waits for its agent to say that it has ended".to_owned());
    }
    explanation
}

fn waiting(facts: &impl Facts, driver: &Driver, now: Timestamp, explanation: &mut Explanation) {
    let demand = driver.spec.demand();
    let reason = Waits::of(facts).driver_reason(driver);
    let failures = words::failures(driver);
    let backs_off = driver.not_before.map(|at| {
        let why = failures.as_deref().unwrap_or("was lost");
        format!("back-off: {why}; next attempt in {}", words::until(at, now))
    });
    if backs_off.is_none() {
        explanation.details.extend(failures);
    }
    let (workers, more_workers) = verdicts(facts, &demand);
    let fits = workers.iter().find(|verdict| verdict.fits);
    let words = match (backs_off, fits) {
        _ if reason.hopeless => reason.words,
        (Some(words), _) => words,
        (None, Some(verdict)) if reason.held.is_empty() => {
            format!("fits on {}: is about to be placed", verdict.worker)
        }
        (None, Some(_) | None) => reason.words,
    };
    explanation.summary.clone_from(&words);
    explanation.waits.push(Wait {
        needs: words::needs(&demand),
        reason: words,
        hopeless: reason.hopeless,
        queue: place_in_queue(facts, driver),
        held: reason.held,
        workers,
        more_workers,
        ..Wait::default()
    });
}

/// Costs a look at all drivers.
fn place_in_queue(facts: &impl Facts, driver: &Driver) -> Queue {
    let mine = driver.place();
    let waiting = facts.drivers().filter(|other| match other.state {
        DriverState::Submitted => true,
        DriverState::Relaunching => other.not_before.is_none(),
        DriverState::Launching
        | DriverState::Running
        | DriverState::Finished
        | DriverState::Killed
        | DriverState::Failed
        | DriverState::Error => false,
    });
    let (before, behind) =
        waiting
            .filter(|other| other.id != driver.id)
            .fold((0, 0), |(before, behind), other| {
                if other.place() < mine {
                    (before + 1, behind)
                } else {
                    (before, behind + 1)
                }
            });
    Queue {
        before,
        length: before + behind + 1,
        order: ORDER,
    }
}

fn place(driver: &Driver) -> String {
    let worker = driver.worker.as_ref().map_or("no worker", |id| id.as_str());
    format!("{worker} as attempt {}", driver.attempt)
}

fn ended(driver: &Driver) -> String {
    let how = match driver.state {
        DriverState::Finished => "finished",
        DriverState::Killed => "was killed",
        DriverState::Error => "could not be run",
        DriverState::Failed
        | DriverState::Submitted
        | DriverState::Launching
        | DriverState::Running
        | DriverState::Relaunching => "failed",
    };
    let how = match &driver.worker {
        Some(_) => format!("{how} on {}", place(driver)),
        None => format!("{how} before it was placed"),
    };
    let exit = driver.exit.map(|exit| exit.describe()).unwrap_or_default();
    let reason = match driver.message.as_str() {
        "" => exit,
        message if exit.is_empty() || message.contains(&exit) => message.to_owned(),
        message => format!("{exit}: {message}"),
    };
    with_reason(&how, &reason)
}
