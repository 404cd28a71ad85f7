//! One driver: how it stands and why, what it is, its attempts and its events.

use std::collections::BTreeMap;

use askama::Template;
use interrex_core::{
    event::{Event, EventKind},
    explain::Topic,
    spec::{CommandLine, DriverPayload},
    state::driver::DriverState,
};
use interrex_web::{
    format::When,
    frame::Frame,
    marks::{Link, Pill, path},
};

use super::{
    rows::{DriverRow, addresses, amounts, exit_words, yes},
    why::{Timeline, Why, about},
};
use crate::{
    edge::{
        validate,
        web::{
            context::{Context, Who},
            serve::{Made, PageError},
        },
    },
    runtime::view::Found,
};

/// How much of a command is shown, in characters.
const COMMAND_CHARS_MAX: usize = 4_000;

#[derive(Template)]
#[template(path = "driver.html")]
struct DriverPage {
    frame: Frame,
    who: Who,
    row: DriverRow,
    why: Why,
    submission: String,
    resources: String,
    priority: i32,
    started: When,
    finished: When,
    supervise: &'static str,
    at_most_once: &'static str,
    exit: String,
    message: String,
    command: String,
    variables: String,
    attempts: Vec<AttemptRow>,
    timeline: Timeline,
    logs: String,
    kill: String,
    can_kill: bool,
}

/// One attempt, as far as the event log still knows it.
#[derive(Default)]
struct AttemptRow {
    number: u32,
    state: Pill,
    worker: Link,
    placed: When,
    started: When,
    ended: When,
    why: String,
}

pub(super) fn make(context: &Context, asked: &str) -> Made {
    let Some(Found::Driver(driver)) = context.view.find(asked) else {
        return Err(no_such("driver", asked));
    };
    let (id, now) = (driver.id.as_str(), context.now.0);
    let exit = driver.exit.unwrap_or_default();
    let instant =
        |at: Option<interrex_core::time::Timestamp>| When::new(at.unwrap_or_default().0, now);
    let (command, variables) = payload(&driver.spec.payload);
    let page = DriverPage {
        who: context.who(),
        row: DriverRow::new(&driver, now),
        why: Why::about(context, &Topic::Driver(driver.id.clone())),
        submission: driver.submission.to_string(),
        resources: match driver.resources.is_empty() {
            true => amounts(&driver.spec.resources),
            false => addresses(&driver.resources),
        },
        priority: driver.spec.priority,
        started: instant(driver.started_at),
        finished: instant(driver.finished_at),
        supervise: yes(driver.spec.supervise),
        at_most_once: yes(driver.spec.at_most_once),
        exit: exit_words(exit.code, exit.signal),
        message: driver.message.clone(),
        command,
        variables,
        attempts: attempts(about(context, id), now),
        timeline: Timeline::of(context, id),
        logs: path(&["logs", "driver", id]),
        kill: path(&["drivers", id, "kill"]),
        can_kill: !driver.state.is_final() && !context.site.options.read_only,
        frame: context.frame("/drivers"),
    };
    Ok(page.render()?)
}

/// What there is to say about an id that names nothing.
pub(super) fn no_such(what: &str, id: &str) -> PageError {
    let id = validate::cut(id);
    PageError::NotFound(format!(
        "There is no {what} {id}; what is over is forgotten in time."
    ))
}

/// The command in one line, and the names of its variables: their values may be secrets.
fn payload(payload: &DriverPayload) -> (String, String) {
    match payload {
        DriverPayload::Command(command) => command_line(command),
        DriverPayload::Spark(spark) => {
            let words = [spark.main_class.as_str(), spark.app_resource.as_str()];
            let args = spark.app_args.iter().map(String::as_str);
            let line: Vec<&str> = words.into_iter().chain(args).collect();
            (cut(&line.join(" ")), names(&spark.environment))
        }
    }
}

/// The same for a plain program.
pub(super) fn command_line(command: &CommandLine) -> (String, String) {
    let args = command.args.iter().map(String::as_str);
    let line: Vec<&str> = std::iter::once(command.program.as_str())
        .chain(args)
        .collect();
    (cut(&line.join(" ")), names(&command.env))
}

fn names(env: &BTreeMap<String, String>) -> String {
    cut(&env.keys().map(String::as_str).collect::<Vec<_>>().join(" "))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(COMMAND_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Newest first.
fn attempts<'a>(events: impl Iterator<Item = &'a Event>, now: u64) -> Vec<AttemptRow> {
    let mut rows: BTreeMap<u32, AttemptRow> = BTreeMap::new();
    for event in events {
        let fact = &event.fact;
        let (EventKind::Driver(state), Some(number)) = (&fact.kind, fact.attempt) else {
            continue;
        };
        if number.0 == 0 {
            continue;
        }
        let row = rows.entry(number.0).or_insert_with(|| AttemptRow {
            number: number.0,
            // Events come newest first: the first one says how it stands.
            state: Pill::of(state.name()),
            why: fact.why.clone(),
            ..AttemptRow::default()
        });
        if let Some(worker) = &fact.worker {
            row.worker = Link::to(worker.as_str(), &["workers", worker.as_str()]);
        }
        let at = When::new(fact.at.0, now);
        match state {
            DriverState::Launching => row.placed = at,
            DriverState::Running => row.started = at,
            DriverState::Relaunching
            | DriverState::Finished
            | DriverState::Killed
            | DriverState::Failed
            | DriverState::Error => row.ended = at,
            DriverState::Submitted => {}
        }
    }
    rows.into_values().rev().collect()
}
