//! Following the event log, from one leader to the next.
//!
//! What must never happen: an event that is left out without a word, or shown twice. The place in the log is kept
//! here; every stream is opened behind it, and what a master sends is checked against it.

use std::time::Duration;

use interrex_proto::credentials::MasterChannel;
use interrex_proto::v1::{
    Event, EventFilter, ListEventsRequest, ListEventsResponse, MustRelist, WatchEventsRequest,
    WatchEventsResponse, control_client::ControlClient as GrpcClient,
};
use tokio::time::{Instant, sleep, timeout};
use tonic::Streaming;

use super::{client::ControlClient, error::ClientError};

/// A leader says something at least this often (it means to every 2 s); a silent one is left.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventStart {
    /// With the oldest event that is kept.
    Oldest,
    /// Behind this event.
    After(u64),
    /// With so many of the newest events, at most 1,000; 0: with what comes.
    Last(u32),
}

/// What comes from the event log.
#[derive(Debug, Clone, PartialEq)]
pub enum EventNews {
    /// The next events, in order; perhaps none, as a sign of life.
    Events {
        /// Those that the filter takes.
        events: Vec<Event>,
        /// Everything up to this one has been looked at.
        through: u64,
    },
    /// Events are missing: they are no longer kept, or the log is of an older state than what has been seen (after a
    /// restore). What matters has to be read again; the next news begin with `oldest`.
    Gap {
        /// The last event that was seen.
        after: u64,
        /// The oldest event that is kept.
        oldest: u64,
        /// The newest event.
        newest: u64,
    },
}

/// Follows the event log.
#[derive(Debug)]
pub struct EventStream {
    client: ControlClient,
    filter: EventFilter,
    start: EventStart,
    /// Everything up to this event was given out or did not match.
    place: Option<u64>,
    stream: Option<Streaming<WatchEventsResponse>>,
    /// When a leader was heard of last.
    heard: Option<Instant>,
    /// The stream that broke last had said nothing.
    fruitless: bool,
}

// === impl ControlClient ===

impl ControlClient {
    /// One page of the event log, as the request asks for it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn list_events(
        &self,
        request: ListEventsRequest,
    ) -> Result<ListEventsResponse, ClientError> {
        let list = |mut c: GrpcClient<MasterChannel>, r| async move { c.list_events(r).await };
        self.caller.call(request, self.read(false), list).await
    }

    /// The event log from `start` on and as it grows, through failovers. Nothing is asked before the first
    /// [`EventStream::next`].
    #[must_use]
    pub fn watch_events(&self, start: EventStart, filter: EventFilter) -> EventStream {
        let place = match start {
            EventStart::After(sequence) => Some(sequence),
            EventStart::Oldest | EventStart::Last(_) => None,
        };
        EventStream {
            client: self.clone(),
            filter,
            start,
            place,
            stream: None,
            heard: None,
            fruitless: false,
        }
    }
}

// === impl EventStream ===

impl EventStream {
    /// The next news. Once a leader has been heard of, it is looked for again for
    /// [`outage_max`](super::ClientOptions::outage_max); before that, a call's usual deadline holds.
    ///
    /// # Errors
    /// [`ClientError`]; after it the next call goes on where this one was.
    ///
    /// # Cancel safety
    /// Safe: no news are lost.
    pub async fn next(&mut self) -> Result<EventNews, ClientError> {
        loop {
            if self.stream.is_none() {
                self.stream = Some(Self::open(&self.client, self.request(), self.heard).await?);
            }
            let Some(stream) = &mut self.stream else {
                continue;
            };
            match timeout(SILENCE_MAX, stream.message()).await {
                Ok(Ok(Some(answer))) => {
                    self.heard = Some(Instant::now());
                    self.fruitless = false;
                    if let Some(news) = self.take_in(answer) {
                        return Ok(news);
                    }
                }
                Ok(Ok(None)) => self.leave("the stream has ended").await,
                Ok(Err(status)) => self.leave(status.message()).await,
                Err(_elapsed) => self.leave("silence").await,
            }
        }
    }

    async fn open(
        client: &ControlClient,
        request: WatchEventsRequest,
        heard: Option<Instant>,
    ) -> Result<Streaming<WatchEventsResponse>, ClientError> {
        let options = client.caller.options();
        loop {
            let watch =
                |mut c: GrpcClient<MasterChannel>, r| async move { c.watch_events(r).await };
            let opened = client
                .caller
                .call(request.clone(), client.read(false), watch)
                .await;
            match opened {
                Err(error)
                    if error.retryable()
                        && heard.is_some_and(|at| at.elapsed() < options.outage_max) =>
                {
                    tracing::debug!(%error, "still looking for a leader");
                    sleep(options.backoff_max).await;
                }
                opened => return opened,
            }
        }
    }

    fn request(&self) -> WatchEventsRequest {
        let last = match (self.place, self.start) {
            (None, EventStart::Last(count)) => Some(count),
            (Some(_), _) | (None, EventStart::Oldest | EventStart::After(_)) => None,
        };
        WatchEventsRequest {
            after_sequence: self.place,
            filter: Some(self.filter.clone()),
            last,
        }
    }

    /// Another stream is opened next; not at once when this one was of no use.
    async fn leave(&mut self, why: &str) {
        tracing::debug!(
            why,
            place = self.place,
            "following the events at the next leader"
        );
        self.stream = None;
        if std::mem::replace(&mut self.fruitless, true) {
            sleep(self.client.caller.options().backoff_max).await;
        }
    }

    /// What is new in an answer; nothing where it is not what has to come next.
    fn take_in(&mut self, answer: WatchEventsResponse) -> Option<EventNews> {
        let WatchEventsResponse {
            mut events,
            through,
            must_relist,
        } = answer;
        let after = self.place;
        if let Some(MustRelist { oldest, newest }) = must_relist {
            self.stream = None;
            self.place = Some(oldest.saturating_sub(1));
            let after = after.unwrap_or_default();
            return Some(EventNews::Gap {
                after,
                oldest,
                newest,
            });
        }
        if let Some(place) = after {
            events.retain(|event| event.sequence > place);
        }
        let filtered = self.filter != EventFilter::default();
        let first = events.first().map(|event| event.sequence);
        let gap = match (after, first) {
            (Some(place), Some(first)) if !filtered && first != place.saturating_add(1) => {
                Some((place, first))
            }
            (Some(_) | None, _) => None,
        };
        if let Some((after, oldest)) = gap {
            // No master leaves anything out; if one did, nobody would notice but here.
            self.stream = None;
            self.place = Some(oldest.saturating_sub(1));
            return Some(EventNews::Gap {
                after,
                oldest,
                newest: through,
            });
        }
        self.place = Some(after.unwrap_or_default().max(through));
        Some(EventNews::Events { events, through })
    }
}
