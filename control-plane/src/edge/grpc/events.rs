//! The event log for clients: pages of it, and streams that follow it.
//!
//! A stream is pulled: it holds a place in the log and no queue, so whoever reads slowly falls behind in the log, and
//! is told so when what it has not read is no longer kept. What must never happen: a stream that leaves an event out
//! without saying so. Only what is committed is in a view, so nobody ever sees an event that is lost later.

use std::{iter, pin::Pin, sync::Arc, time::Duration};

use futures::Stream;
use interrex_core::{
    event::{Event, EventKind, Who},
    ids::RequestId,
    state::meta::Created,
};
use interrex_proto::{
    limits::{CALL_TIMEOUT, PAGE_SIZE_MAX},
    v1,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, sleep, sleep_until},
};
use tonic::Status;

use super::{errors, list::LIST_SCAN_MAX};
use crate::{
    edge::validate,
    metrics::{self, Queue},
    runtime::{
        handle::MasterHandle,
        view::{ClusterView, EventLog},
    },
};

/// Streams that one master serves at a time.
pub const WATCHERS_MAX: usize = 256;
/// How often a stream says that it lives, and asks the quorum whether this master still leads.
pub const WATCH_BEAT: Duration = Duration::from_secs(2);
/// Commits that come within this time are looked at together.
const WATCH_PAUSE: Duration = Duration::from_millis(10);

/// What a watcher gets.
pub(super) type Events =
    Pin<Box<dyn Stream<Item = Result<v1::WatchEventsResponse, Status>> + Send>>;

/// Which events are asked for.
#[derive(Debug)]
pub(super) struct Filter {
    id: String,
    /// As which driver or application `id` is known, where it is a request's.
    created: Option<String>,
    kind: String,
}

/// A stream's place in the log.
#[derive(Debug)]
struct Watch {
    handle: MasterHandle,
    views: watch::Receiver<Arc<ClusterView>>,
    filter: Filter,
    /// Everything up to this event was looked at.
    place: u64,
    beat_at: Instant,
    over: bool,
    _permit: OwnedSemaphorePermit,
}

/// One page.
///
/// # Errors
/// `INVALID_ARGUMENT` for a filter that cannot be.
pub(super) fn page(
    view: &ClusterView,
    request: v1::ListEventsRequest,
) -> Result<v1::ListEventsResponse, Status> {
    let mut filter = Filter::parse(request.filter)?;
    filter.resolve(view);
    let log = view.events();
    if let Some(must_relist) = missing(log, request.after_sequence) {
        return Ok(v1::ListEventsResponse {
            must_relist: Some(must_relist),
            ..v1::ListEventsResponse::default()
        });
    }
    let size = match request.page_size.min(PAGE_SIZE_MAX) {
        0 => PAGE_SIZE_MAX,
        size => size,
    };
    let place = begin(log, &filter, request.after_sequence, request.last);
    Ok(cut(log, &filter, place, size))
}

/// A stream from the asked place on; ends when this master stops leading.
///
/// # Errors
/// `INVALID_ARGUMENT` for a filter that cannot be, `RESOURCE_EXHAUSTED` when too many watch.
pub(super) fn watch(
    handle: MasterHandle,
    watchers: &Arc<Semaphore>,
    view: &ClusterView,
    request: v1::WatchEventsRequest,
) -> Result<Events, Status> {
    let mut filter = Filter::parse(request.filter)?;
    filter.resolve(view);
    let permit = Arc::clone(watchers)
        .try_acquire_owned()
        .map_err(|_none_left| {
            metrics::refused(Queue::EventWatchers);
            Status::resource_exhausted(format!(
                "{WATCHERS_MAX} clients follow the event log here; try again later"
            ))
        })?;
    let log = view.events();
    // What is missing is said by the stream itself.
    let place = match missing(log, request.after_sequence) {
        Some(_) => request.after_sequence.unwrap_or_default(),
        None => begin(log, &filter, request.after_sequence, request.last),
    };
    let watch = Watch {
        views: handle.watch(),
        handle,
        filter,
        place,
        // At once: a watcher learns its place even when nothing happens.
        beat_at: Instant::now(),
        over: false,
        _permit: permit,
    };
    Ok(Box::pin(futures::stream::unfold(watch, Watch::next)))
}

// === impl Watch ===

impl Watch {
    async fn next(mut self) -> Option<(Result<v1::WatchEventsResponse, Status>, Self)> {
        if self.over {
            return None;
        }
        let answer = self.answer().await;
        self.over = match &answer {
            Ok(answer) => answer.must_relist.is_some(),
            Err(_status) => true,
        };
        Some((answer, self))
    }

    async fn answer(&mut self) -> Result<v1::WatchEventsResponse, Status> {
        loop {
            let view = Arc::clone(&self.views.borrow_and_update());
            if view.is_empty() {
                return Err(errors::request(&self.handle.not_leader()));
            }
            let log = view.events();
            if let Some(must_relist) = missing(log, Some(self.place)) {
                return Ok(v1::WatchEventsResponse {
                    through: self.place,
                    must_relist: Some(must_relist),
                    events: Vec::new(),
                });
            }
            self.filter.resolve(&view);
            let page = cut(log, &self.filter, self.place, PAGE_SIZE_MAX);
            self.place = page.through;
            if !page.events.is_empty() || page.more {
                self.beat_at = Instant::now() + WATCH_BEAT;
                return Ok(self.here(page.events));
            }
            tokio::select! {
                changed = self.views.changed() => match changed {
                    Ok(()) => sleep(WATCH_PAUSE).await,
                    Err(_closed) => return Err(errors::request(&self.handle.not_leader())),
                },
                () = sleep_until(self.beat_at) => {
                    // A leader that was deposed unnoticed must not keep its watchers.
                    let confirmed = self.handle.read(CALL_TIMEOUT).await;
                    confirmed.map_err(|error| errors::request(&error))?;
                    self.beat_at = Instant::now() + WATCH_BEAT;
                    return Ok(self.here(Vec::new()));
                }
            }
        }
    }

    fn here(&self, events: Vec<v1::Event>) -> v1::WatchEventsResponse {
        v1::WatchEventsResponse {
            events,
            through: self.place,
            must_relist: None,
        }
    }
}

// === impl Filter ===

impl Filter {
    fn parse(filter: Option<v1::EventFilter>) -> Result<Self, Status> {
        let v1::EventFilter { id, kind } = filter.unwrap_or_default();
        for (field, value) in [("filter.id", &id), ("filter.kind", &kind)] {
            // An executor is named behind its application.
            for part in value.splitn(2, '/').filter(|_| !value.is_empty()) {
                validate::id(field, part).map_err(|e| errors::field(&e))?;
            }
        }
        Ok(Self {
            id,
            created: None,
            kind,
        })
    }

    /// Looks up what a request id stands for; a request may come after its watcher.
    fn resolve(&mut self, view: &ClusterView) {
        if self.created.is_some() || self.id.is_empty() {
            return;
        }
        let request = RequestId::from(self.id.as_str());
        self.created = match view.created_by(&request) {
            Some(Created::Driver(id)) => Some(id.to_string()),
            Some(Created::App(id)) => Some(id.to_string()),
            Some(Created::Killed(_) | Created::Count(_)) | None => None,
        };
    }

    fn takes(&self, event: &Event) -> bool {
        self.takes_kind(&event.fact.kind) && self.takes_subject(event)
    }

    fn takes_kind(&self, kind: &EventKind) -> bool {
        let (group, rest) = kind.parts();
        let mut name = group.bytes().chain(iter::once(b'_')).chain(rest.bytes());
        self.kind
            .bytes()
            .all(|wanted| name.next().is_some_and(|b| b.eq_ignore_ascii_case(&wanted)))
    }

    fn takes_subject(&self, event: &Event) -> bool {
        let fact = &event.fact;
        let about = |id: &str| {
            let rest = fact.subject.strip_prefix(id);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let asked = || match &fact.who {
            Who::Client(Some(request)) => request.as_str() == self.id,
            Who::Client(None)
            | Who::Agent(_)
            | Who::Application(_)
            | Who::Leader
            | Who::Other(_) => false,
        };
        self.id.is_empty()
            || about(&self.id)
            || self.created.as_deref().is_some_and(about)
            || fact
                .worker
                .as_ref()
                .is_some_and(|id| id.as_str() == self.id)
            || asked()
    }
}

/// What has to be said to somebody who has seen everything up to `after`, when what follows is not kept.
fn missing(log: &EventLog, after: Option<u64>) -> Option<v1::MustRelist> {
    let after = after?;
    (!log.follows(after)).then(|| v1::MustRelist {
        oldest: log.oldest(),
        newest: log.newest(),
    })
}

/// The place before the first event to show: the later of what was seen and the newest `last` events.
fn begin(log: &EventLog, filter: &Filter, after: Option<u64>, last: Option<u32>) -> u64 {
    let after = after.unwrap_or_else(|| log.oldest().saturating_sub(1));
    let Some(last) = last else {
        return after;
    };
    let Some(others) = last.min(PAGE_SIZE_MAX).checked_sub(1) else {
        return after.max(log.newest());
    };
    let mut shown = log
        .newest_first()
        .take(LIST_SCAN_MAX)
        .filter(|event| filter.takes(event));
    let others = usize::try_from(others).unwrap_or(usize::MAX);
    shown
        .nth(others)
        .map_or(after, |first| after.max(first.sequence.0.saturating_sub(1)))
}

/// Up to `size` events behind `place`, from a bounded look.
fn cut(log: &EventLog, filter: &Filter, place: u64, size: u32) -> v1::ListEventsResponse {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let mut page = v1::ListEventsResponse {
        through: place,
        ..v1::ListEventsResponse::default()
    };
    for (looked_at, event) in log.after(place).enumerate() {
        if page.events.len() == size || looked_at == LIST_SCAN_MAX {
            page.more = true;
            break;
        }
        if filter.takes(event) {
            page.events.push(message(event));
        }
        page.through = event.sequence.0;
    }
    page
}

fn message(event: &Event) -> v1::Event {
    let fact = &event.fact;
    let worker = fact.worker.as_ref().map(ToString::to_string);
    v1::Event {
        sequence: event.sequence.0,
        epoch: event.epoch.0,
        at_ms: fact.at.0,
        kind: fact.kind.to_string(),
        subject: fact.subject.to_string(),
        worker_id: worker.unwrap_or_default(),
        attempt: fact.attempt.map(|attempt| attempt.0),
        who: fact.who.to_string(),
        why: fact.why.clone(),
    }
}

#[cfg(test)]
#[path = "events_test.rs"]
mod tests;
