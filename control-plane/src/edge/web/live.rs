//! The heart of open pages: one task a master that looks at what is published, and a small stream to every viewer that
//! says "something has changed", at most once a second. However many look, the leader's loop notices nothing.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Json,
    extract::State,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::stream;
use http::{StatusCode, header};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use super::{Site, history::History, relay::Relay};
use crate::{
    metrics::{Queue, refused},
    runtime::{
        handle::{MasterHandle, MasterStatus},
        view::ClusterView,
    },
};

/// Streams that one master serves at a time; whoever gets none asks now and then.
pub const VIEWERS_MAX: usize = 256;
/// How often the task looks whether somebody else leads.
const LOOK: Duration = Duration::from_millis(250);
/// Changes of the cluster are told this often, at most.
const BEAT_MIN: Duration = Duration::from_secs(1);
/// A beat comes at least this often while somebody leads: heartbeats change no view.
const BEAT_MAX: Duration = Duration::from_secs(5);
/// How often a stream says that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// How long a leader may take to say where it is.
const ASK_TIMEOUT: Duration = Duration::from_millis(800);

/// What an open page has to know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Beat {
    /// Who leads; none while nobody does.
    leader: Option<String>,
    epoch: u64,
    /// Another number: something has changed.
    change: u64,
}

/// What the task shares with the streams.
#[derive(Debug)]
pub(super) struct Live {
    handle: MasterHandle,
    relay: Relay,
    beats: watch::Sender<Beat>,
    viewers: Arc<Semaphore>,
    pub(super) history: Mutex<History>,
}

/// Where the task is.
struct Task<'a> {
    live: &'a Live,
    seen: Arc<ClusterView>,
    /// When the last change was told.
    told_at: Instant,
    asked_at: Instant,
}

// === impl Live ===

impl Live {
    pub(super) fn new(handle: MasterHandle, relay: Relay) -> Self {
        let viewers = Arc::new(Semaphore::new(VIEWERS_MAX));
        handle.watch_places(Queue::PageViewers, &viewers, VIEWERS_MAX);
        Self {
            handle,
            relay,
            beats: watch::Sender::default(),
            viewers,
            history: Mutex::default(),
        }
    }

    /// Looks at what is published until it is told to stop.
    ///
    /// # Cancel safety
    /// Safe.
    pub(super) async fn run(&self, stop: &CancellationToken) {
        let now = Instant::now();
        let mut task = Task {
            live: self,
            seen: Arc::default(),
            told_at: now,
            asked_at: now,
        };
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = looks.tick() => task.look().await,
            }
        }
    }

    /// How many pages are kept up to date here.
    pub(super) fn viewers(&self) -> usize {
        VIEWERS_MAX.saturating_sub(self.viewers.available_permits())
    }

    fn is_watched(&self) -> bool {
        self.viewers() > 0
    }
}

// === impl Task ===

impl Task<'_> {
    async fn look(&mut self) {
        let (status, view) = (self.live.handle.status(), self.live.handle.view());
        let mut beat = self.live.beats.borrow().clone();
        beat.leader = status.leader.as_ref().map(|leader| leader.id.clone());
        beat.epoch = status.epoch.0;
        let leads = !view.is_empty();
        if leads {
            self.beat(&view, &mut beat);
        } else {
            self.seen = Arc::default();
            self.ask(&status, &mut beat).await;
        }
        self.live.beats.send_if_modified(|old| {
            let changed = *old != beat;
            *old = beat;
            changed
        });
    }

    fn beat(&mut self, view: &Arc<ClusterView>, beat: &mut Beat) {
        let (now, since) = (Instant::now(), self.told_at.elapsed());
        let changed = !Arc::ptr_eq(view, &self.seen);
        if since >= BEAT_MAX || (changed && since >= BEAT_MIN) {
            self.told_at = now;
            self.seen = Arc::clone(view);
            beat.change = beat.change.wrapping_add(1);
            let history = self.live.history.lock();
            let mut history = history.unwrap_or_else(PoisonError::into_inner);
            history.absorb(view.events(), view.epoch(), self.live.handle.now());
        }
    }

    /// A standby's viewers want to know what changes at the leader; without viewers nobody is asked.
    async fn ask(&mut self, status: &MasterStatus, beat: &mut Beat) {
        let leader = status.leader.as_ref();
        let Some(leader) = leader.filter(|l| l.id != status.me.id && !l.web.is_empty()) else {
            return;
        };
        if !self.live.is_watched() || self.asked_at.elapsed() < BEAT_MIN {
            return;
        }
        self.asked_at = Instant::now();
        let relay = &self.live.relay;
        let me = &status.me.id;
        match relay
            .json::<Beat>(leader, "/live/beat", me, ASK_TIMEOUT)
            .await
        {
            Some(theirs) if theirs.leader.as_ref() == Some(&leader.id) => *beat = theirs,
            // It is dead, or has been deposed: what pages show is old.
            Some(_) | None => beat.leader = None,
        }
    }
}

/// Where this master is; other masters ask.
pub(super) async fn beat(State(site): State<Arc<Site>>) -> Response {
    let beat = site.live.beats.borrow().clone();
    ([(header::CACHE_CONTROL, "no-store")], Json(beat)).into_response()
}

/// The beats, one at once and then each that is new.
pub(super) async fn stream(State(site): State<Arc<Site>>) -> Response {
    let Ok(permit) = Arc::clone(&site.live.viewers).try_acquire_owned() else {
        refused(Queue::PageViewers);
        let text = format!("{VIEWERS_MAX} pages are kept up to date here: reload now and then\n");
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    let mut beats = site.live.beats.subscribe();
    beats.mark_changed();
    let events = stream::unfold((beats, permit), next);
    Sse::new(events)
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
        .into_response()
}

type Place = (watch::Receiver<Beat>, OwnedSemaphorePermit);

async fn next((mut beats, permit): Place) -> Option<(Result<Event, Infallible>, Place)> {
    beats.changed().await.ok()?;
    let beat = beats.borrow_and_update().clone();
    let text = serde_json::to_string(&beat).ok()?;
    Some((Ok(Event::default().data(text)), (beats, permit)))
}
