//! Rows that several pages show.

use std::collections::BTreeMap;

use interrex_core::{
    event::Event,
    state::{driver::Driver, executor::Executor},
};
use interrex_web::{
    format::{Lasted, When, mebibytes},
    marks::{Link, Pill, Tone, words},
};

use crate::runtime::view::ClusterView;

/// An entry of the event log.
pub(super) struct EventRow {
    pub(super) sequence: u64,
    pub(super) at: When,
    pub(super) what: Pill,
    pub(super) subject: Link,
    pub(super) worker: Option<Link>,
    pub(super) attempt: String,
    pub(super) who: String,
    pub(super) why: String,
}

/// A driver in a table.
pub(super) struct DriverRow {
    pub(super) link: Link,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) user: Link,
    pub(super) state: Pill,
    pub(super) worker: Link,
    pub(super) cores: u32,
    pub(super) memory: String,
    pub(super) attempt: Link,
    pub(super) submitted: When,
    pub(super) lasted: Lasted,
}

/// An executor in a table.
pub(super) struct ExecutorRow {
    pub(super) key: String,
    pub(super) app: Link,
    pub(super) id: u32,
    pub(super) state: Pill,
    pub(super) worker: Link,
    pub(super) cores: u32,
    pub(super) memory: String,
    pub(super) lasted: Lasted,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) message: String,
}

// === impl EventRow ===

impl EventRow {
    pub(super) fn new(event: &Event, now_ms: u64) -> Self {
        let fact = &event.fact;
        let (group, rest) = fact.kind.parts();
        let name = fact.kind.to_string();
        let attempt = fact.attempt.filter(|attempt| attempt.0 > 0);
        Self {
            sequence: event.sequence.0,
            at: When::new(fact.at.0, now_ms),
            what: Pill::new(&name, tone(group, rest)),
            subject: subject(group, &fact.subject),
            worker: fact.worker.as_ref().map(|worker| {
                let id = worker.as_str();
                Link::to(id, &["workers", id])
            }),
            attempt: attempt.map(|a| format!("attempt {a}")).unwrap_or_default(),
            who: fact.who.to_string(),
            why: fact.why.clone(),
        }
    }

    /// For where it is clear whom it is about.
    pub(super) fn without_subject(self) -> Self {
        Self {
            subject: Link::default(),
            ..self
        }
    }
}

fn tone(group: &str, rest: &str) -> Tone {
    match group {
        "REPORT" => Tone::Quiet,
        _others => Tone::of(rest),
    }
}

/// Whom an event is about, as a link to its page.
fn subject(group: &str, subject: &str) -> Link {
    match group {
        "DRIVER" => Link::to(subject, &["drivers", subject]),
        "APP" => Link::to(subject, &["apps", subject]),
        "EXECUTOR" => {
            let app = subject.split('/').next().unwrap_or(subject);
            Link::to(subject, &["apps", app])
        }
        "WORKER" => Link::to(subject, &["workers", subject]),
        _others => Link::none(subject),
    }
}

// === impl DriverRow ===

impl DriverRow {
    pub(super) fn new(driver: &Driver, now_ms: u64) -> Self {
        let id = driver.id.as_str();
        let worker = driver.worker.as_ref().map(|worker| worker.as_str());
        let started = driver.started_at.map(|at| at.0).unwrap_or_default();
        let finished = driver.finished_at.map(|at| at.0).unwrap_or_default();
        Self {
            link: Link::to(id, &["drivers", id]),
            id: id.to_owned(),
            name: driver.spec.name.clone(),
            user: Link::none(driver.spec.user.clone()),
            state: driver_state(driver),
            worker: worker.map_or_else(Link::default, |id| Link::to(id, &["workers", id])),
            cores: driver.spec.cores.0,
            memory: mebibytes(driver.spec.memory.0),
            attempt: Link::none(match driver.attempt.0 {
                0 => String::new(),
                attempt => attempt.to_string(),
            }),
            submitted: When::new(driver.submitted_at.0, now_ms),
            lasted: Lasted::new(started, finished, now_ms),
        }
    }
}

/// A driver's state; one that is to end says so.
pub(super) fn driver_state(driver: &Driver) -> Pill {
    if driver.kill_requested && !driver.state.is_final() {
        Pill::new("KILL_REQUESTED", Tone::Wait)
    } else {
        Pill::of(driver.state.name())
    }
}

// === impl ExecutorRow ===

impl ExecutorRow {
    pub(super) fn new(executor: &Executor, now_ms: u64) -> Self {
        let (app, worker) = (executor.app.as_str(), executor.worker.as_str());
        let started = executor.started_at.map(|at| at.0).unwrap_or_default();
        let finished = executor.finished_at.map(|at| at.0).unwrap_or_default();
        let log = interrex_web::marks::path(&["logs", "app", app, &executor.id.to_string()]);
        Self {
            key: format!("{app}/{}", executor.id),
            app: Link::to(app, &["apps", app]),
            id: executor.id.0,
            state: Pill::of(executor.state.name()),
            worker: Link::to(worker, &["workers", worker]),
            cores: executor.cores.0,
            memory: mebibytes(executor.memory.0),
            lasted: Lasted::new(started, finished, now_ms),
            stderr: format!("{log}?output=stderr"),
            stdout: log,
            message: match (&executor.exit, executor.message.as_str()) {
                (Some(exit), "") => exit_words(exit.code, exit.signal),
                (_, message) => message.to_owned(),
            },
        }
    }
}

/// `exit code 1`, `signal 9`.
pub(super) fn exit_words(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => String::new(),
    }
}

/// Custom resources by name: `gpu: 0, 1`.
pub(super) fn addresses(resources: &BTreeMap<String, Vec<String>>) -> String {
    let one = |(name, list): (&String, &Vec<String>)| format!("{name}: {}", list.join(", "));
    resources.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Custom resources by amount: `2 gpu`.
pub(super) fn amounts(resources: &BTreeMap<String, u32>) -> String {
    let one = |(name, amount): (&String, &u32)| format!("{amount} {name}");
    resources.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What drivers and executors hold on a worker, by id; unknown ids are left out.
pub(super) fn drivers_on(
    view: &ClusterView,
    ids: &[interrex_core::ids::DriverId],
    now_ms: u64,
) -> Vec<DriverRow> {
    let found = ids.iter().filter_map(|id| view.driver(id));
    found.map(|driver| DriverRow::new(driver, now_ms)).collect()
}

/// A yes or no that is worth saying.
pub(super) fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

/// The state names of something, in words, with how many there are.
pub(super) fn tally<S: Copy>(
    counts: &BTreeMap<S, u64>,
    name: impl Fn(S) -> &'static str,
) -> String {
    let some = counts.iter().filter(|(_, n)| **n > 0);
    let parts = some.map(|(state, n)| format!("{n} {}", words(name(*state)).to_lowercase()));
    parts.collect::<Vec<_>>().join(", ")
}
