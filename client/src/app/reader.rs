//! The application's end of its events, and whether it comes back for them.
//!
//! The session is kept by a task of ours, which lives on when the application's own code hangs. So the task looks
//! whether somebody still comes for events, and tells the leader when nobody does: see [`Progress`].

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::mpsc, time::Instant};

use super::event::AppEvent;

/// Somebody waits for the next event.
const HERE: u64 = u64::MAX;

/// The events of one application, in order; at most [`APP_EVENT_QUEUE_LEN`](super::APP_EVENT_QUEUE_LEN) wait.
///
/// Whoever holds this is expected to come back for the next event within
/// [`AppOptions::progress_within`](super::AppOptions::progress_within): else the application is shown as `heartbeating, no
/// progress`. Drop it where nobody wants to hear anything.
#[derive(Debug)]
pub struct AppEvents {
    events: mpsc::Receiver<AppEvent>,
    reader: Arc<Reader>,
}

/// Whether somebody waits for an event now, and else since when not.
#[derive(Debug)]
pub(super) struct Reader {
    began: Instant,
    /// In milliseconds since `began`, or [`HERE`].
    away_since_ms: AtomicU64,
}

/// What the leader has to be told about the reader. Pure.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// For how long nobody has come, if that is too long.
    none_for: Option<Duration>,
    /// The leader believes that there is none.
    told: bool,
}

/// While this lives, somebody waits for an event.
struct Waiting<'a>(&'a Reader);

// === impl AppEvents ===

impl AppEvents {
    pub(super) fn new(events: mpsc::Receiver<AppEvent>) -> (Self, Arc<Reader>) {
        let reader = Arc::new(Reader {
            began: Instant::now(),
            away_since_ms: AtomicU64::new(0),
        });
        let events = Self {
            events,
            reader: Arc::clone(&reader),
        };
        (events, reader)
    }

    /// The next event; `None` after the last.
    ///
    /// # Cancel safety
    /// No event is lost.
    pub async fn recv(&mut self) -> Option<AppEvent> {
        let _waiting = Waiting::begin(&self.reader);
        self.events.recv().await
    }
}

// === impl Reader ===

impl Reader {
    /// For how long nobody has been waiting for an event; zero while somebody is.
    pub(super) fn away_for(&self) -> Duration {
        match self.away_since_ms.load(Ordering::Relaxed) {
            HERE => Duration::ZERO,
            since => self
                .began
                .elapsed()
                .saturating_sub(Duration::from_millis(since)),
        }
    }
}

// === impl Waiting ===

impl<'a> Waiting<'a> {
    fn begin(reader: &'a Reader) -> Self {
        reader.away_since_ms.store(HERE, Ordering::Relaxed);
        Self(reader)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let now = u64::try_from(self.0.began.elapsed().as_millis()).unwrap_or(HERE - 1);
        self.0.away_since_ms.store(now, Ordering::Relaxed);
    }
}

// === impl Progress ===

impl Progress {
    /// Nobody has come for `away`, and may stay away for `limit`. Whether the leader has to be told something.
    pub(super) fn look(&mut self, away: Duration, limit: Duration) -> bool {
        let stalled = away >= limit;
        self.none_for = stalled.then_some(away);
        stalled != self.told
    }

    /// Another leader, or another session: it knows nothing yet.
    pub(super) fn attached(&mut self) {
        self.told = false;
    }

    /// What the leader should know and perhaps does not.
    pub(super) fn owed(&self) -> Option<Duration> {
        match self.none_for {
            Some(none_for) => Some(none_for),
            None => self.told.then_some(Duration::ZERO),
        }
    }

    /// The leader was told what was owed.
    pub(super) fn said(&mut self) {
        self.told = self.none_for.is_some();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);
    const LONG: Duration = Duration::from_secs(75);

    #[test]
    fn a_leader_is_told_when_nobody_comes_and_when_somebody_does_again() {
        let mut progress = Progress::default();
        assert!(!progress.look(Duration::from_secs(59), LIMIT));
        assert_eq!(progress.owed(), None);
        assert!(progress.look(LONG, LIMIT));
        assert_eq!(progress.owed(), Some(LONG));
        progress.said();
        assert!(!progress.look(LONG + LONG, LIMIT), "it knows");
        // The next one does not.
        progress.attached();
        assert_eq!(progress.owed(), Some(LONG + LONG));
        progress.said();
        assert!(progress.look(Duration::ZERO, LIMIT));
        assert_eq!(progress.owed(), Some(Duration::ZERO));
        progress.said();
        assert_eq!(progress.owed(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_an_event_is_here_and_whoever_works_on_one_is_away() {
        let (tx, rx) = mpsc::channel(4);
        let (mut events, reader) = AppEvents::new(rx);
        tokio::time::advance(LONG).await;
        assert_eq!(reader.away_for(), LONG, "nobody has ever come");
        let waits = tokio::time::timeout(LONG, events.recv()).await;
        waits.expect_err("nothing has happened");
        assert_eq!(reader.away_for(), Duration::ZERO);
        tx.send(AppEvent::Disconnected).await.unwrap();
        assert_eq!(events.recv().await, Some(AppEvent::Disconnected));
        tokio::time::advance(LONG).await;
        assert_eq!(reader.away_for(), LONG);
        let ended = tokio::spawn(async move {
            drop(tx);
            events.recv().await
        });
        assert_eq!(ended.await.unwrap(), None);
    }
}
