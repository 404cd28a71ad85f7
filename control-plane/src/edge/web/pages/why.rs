//! "Why": what the core says about something, and what the event log has of it.

use interrex_core::{
    event::Event,
    explain::{self, Topic, Wait},
};
use interrex_web::{
    format::count,
    marks::{Link, path, sentence},
};

use super::rows::EventRow;
use crate::edge::web::context::Context;

/// Events that a timeline shows.
const TIMELINE_MAX: usize = 100;
/// Workers whose verdict a page shows; the others are counted.
const VERDICTS_SHOWN: usize = 50;
/// Details that a page shows.
const DETAILS_SHOWN: usize = 50;

/// An explanation as a page shows it.
pub(super) struct Why {
    pub(super) heading: &'static str,
    pub(super) summary: String,
    pub(super) details: Vec<String>,
    pub(super) waits: Vec<WaitShown>,
}

/// One thing that waits for room.
pub(super) struct WaitShown {
    pub(super) needs: String,
    pub(super) reason: String,
    pub(super) hopeless: bool,
    pub(super) queue: String,
    pub(super) verdicts: Vec<(Link, String)>,
    pub(super) more: String,
}

/// What the event log has about something, newest first.
pub(super) struct Timeline {
    pub(super) all: String,
    pub(super) events: Vec<EventRow>,
}

// === impl Why ===

impl Why {
    /// The core's words about `topic`.
    pub(super) fn about(context: &Context, topic: &Topic) -> Self {
        let found = explain::explain(&*context.view, topic, context.now).unwrap_or_default();
        let heading = match (topic, found.waits.is_empty()) {
            (_, false) => "Why it waits",
            (Topic::Worker(_), true) => "How it is",
            (Topic::Driver(_) | Topic::App(_), true) => "How it stands",
        };
        let mut details = found.details;
        let left = details.len().saturating_sub(DETAILS_SHOWN);
        if left > 0 {
            details.truncate(DETAILS_SHOWN);
            details.push(format!("… and {} more", count(left as u64)));
        }
        Self {
            heading,
            // What it waits for says the same, in its place.
            summary: match found.waits.as_slice() {
                [only] if only.reason == found.summary => String::new(),
                _others => sentence(&found.summary),
            },
            details,
            waits: found.waits.into_iter().map(WaitShown::new).collect(),
        }
    }
}

// === impl WaitShown ===

impl WaitShown {
    fn new(wait: Wait) -> Self {
        let unseen = wait.workers.len().saturating_sub(VERDICTS_SHOWN) as u64;
        let mut more: Vec<String> = wait
            .more_workers
            .iter()
            .map(|(words, n)| format!("{} more: {words}", count(*n)))
            .collect();
        if unseen > 0 {
            more.insert(
                0,
                format!("{} more workers: see `interrex explain`", count(unseen)),
            );
        }
        let shown = wait.workers.iter().take(VERDICTS_SHOWN).map(|verdict| {
            let id = verdict.worker.as_str();
            (Link::to(id, &["workers", id]), verdict.words.clone())
        });
        let queue = &wait.queue;
        let queue = match queue.length {
            0 => String::new(),
            length => format!(
                "Place {} of {} in the queue: {}.",
                count(queue.before + 1),
                count(length),
                queue.order
            ),
        };
        Self {
            verdicts: shown.collect(),
            more: more.join("; "),
            queue,
            needs: wait.needs,
            reason: sentence(&wait.reason),
            hopeless: wait.hopeless,
        }
    }
}

// === impl Timeline ===

impl Timeline {
    /// What is about `id`, or about something of it (`app/3`), or happened to it there.
    pub(super) fn of(context: &Context, id: &str) -> Self {
        let events = about(context, id).take(TIMELINE_MAX);
        let link = format!(
            "{}?id={}",
            path(&["events"]),
            path(&[id]).trim_start_matches('/')
        );
        Self {
            all: link,
            events: events
                .map(|event| {
                    let row = EventRow::new(event, context.now.0);
                    // Its own name is above the timeline already.
                    match *event.fact.subject == *id {
                        true => row.without_subject(),
                        false => row,
                    }
                })
                .collect(),
        }
    }
}

/// The events about `id`, newest first. The log is bounded, so looking through all of it is, too.
pub(super) fn about<'a>(context: &'a Context, id: &'a str) -> impl Iterator<Item = &'a Event> {
    let is_about = move |event: &&Event| {
        let rest = event.fact.subject.strip_prefix(id);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            || event
                .fact
                .worker
                .as_ref()
                .is_some_and(|worker| worker.as_str() == id)
    };
    context.view.events().newest_first().filter(is_about)
}
