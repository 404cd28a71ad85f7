//! The event log, newest first.

use askama::Template;
use interrex_core::event::Event;
use interrex_web::{
    format::count,
    frame::Frame,
    list::{self, BadQuery},
    marks::path,
};
use serde::Deserialize;

use super::{rows::EventRow, why::about};
use crate::edge::{
    validate,
    web::{
        context::{Context, Who},
        serve::Made,
    },
};

/// Events of a page.
const EVENTS_SHOWN: usize = 100;
/// What one can look for: what the names of kinds begin with.
const GROUPS: [&str; 9] = [
    "DRIVER", "APP", "EXECUTOR", "WORKER", "LEADER", "RECOVERY", "REQUEST", "REPORT", "RECORD",
];

#[derive(Template)]
#[template(path = "events.html")]
struct Events {
    frame: Frame,
    who: Who,
    id: String,
    kind: String,
    groups: Vec<(&'static str, String, bool)>,
    filtered: bool,
    events: Vec<EventRow>,
    kept: String,
    newest: Option<String>,
    older: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Asked {
    id: Option<String>,
    kind: Option<String>,
    before: Option<String>,
}

pub(super) fn make(context: &Context) -> Made {
    let asked: Asked = list::read(&context.uri)?;
    let id = named("id", asked.id)?;
    let kind = named("kind", asked.kind)?.to_uppercase();
    let before = list::number("before", asked.before, usize::MAX, usize::MAX)? as u64;
    let log = context.view.events();
    let takes = |event: &&Event| {
        event.sequence.0 < before && event.fact.kind.to_string().starts_with(&kind)
    };
    let found: Vec<&Event> = if id.is_empty() {
        log.newest_first()
            .filter(takes)
            .take(EVENTS_SHOWN + 1)
            .collect()
    } else {
        about(context, &id)
            .filter(takes)
            .take(EVENTS_SHOWN + 1)
            .collect()
    };
    let shown = found.get(..EVENTS_SHOWN).unwrap_or(&found);
    let more = found.len() > EVENTS_SHOWN;
    let last = shown.last().filter(|_| more).map(|event| event.sequence.0);
    let link = |before: Option<u64>| address(&id, &kind, before);
    let is_group = |group: &str| kind == group || kind.strip_suffix('_') == Some(group);
    let page = Events {
        who: context.who(),
        groups: GROUPS
            .map(|group| (group, interrex_web::marks::words(group), is_group(group)))
            .to_vec(),
        filtered: !id.is_empty() || !kind.is_empty(),
        events: shown
            .iter()
            .map(|event| EventRow::new(event, context.now.0))
            .collect(),
        kept: format!(
            "{} events are kept, from {} to {}",
            count(log.newest().saturating_sub(log.oldest()) + 1),
            count(log.oldest()),
            count(log.newest())
        ),
        newest: (before != usize::MAX as u64).then(|| link(None)),
        older: last.map(|last| link(Some(last))),
        frame: context.frame("/events"),
        id,
        kind,
    };
    Ok(page.render()?)
}

/// An id or the beginning of a kind; an executor is named behind its application.
fn named(field: &'static str, text: Option<String>) -> Result<String, BadQuery> {
    let text = text.unwrap_or_default().trim().to_owned();
    for part in text.splitn(2, '/').filter(|_| !text.is_empty()) {
        validate::id(field, part).map_err(|error| BadQuery(error.to_string()))?;
    }
    Ok(text)
}

fn address(id: &str, kind: &str, before: Option<u64>) -> String {
    let encoded = |text: &str| path(&[text]).trim_start_matches('/').to_owned();
    let mut parts = Vec::new();
    if !id.is_empty() {
        parts.push(format!("id={}", encoded(id)));
    }
    if !kind.is_empty() {
        parts.push(format!("kind={}", encoded(kind)));
    }
    parts.extend(before.map(|before| format!("before={before}")));
    match parts.is_empty() {
        true => "/events".to_owned(),
        false => format!("/events?{}", parts.join("&")),
    }
}
