//! One look at the cluster: who leads, the leader's figures, and the newest events.

use std::time::Duration;

use interrex_client::control::ControlClient;
use interrex_proto::v1::{ClusterResponse, Event, ListEventsRequest};
use tokio::time::Instant;

use super::figures::Figures;
use crate::{connect::Connect, exit::Failure};

/// Events that are shown.
const EVENTS: u32 = 12;
/// How long one answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// What was seen last.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// What any master said; `None`: none has answered yet.
    pub(super) cluster: Option<ClusterResponse>,
    /// The leader's figures, and those before.
    pub(super) now: Figures,
    pub(super) before: Figures,
    /// The time between the two.
    pub(super) over: Duration,
    /// The newest events, the oldest first.
    pub(super) events: Vec<Event>,
    /// Why this is old, if it is.
    pub(super) trouble: Option<String>,
}

/// Looks again and again.
#[derive(Debug)]
pub(super) struct Looker {
    client: ControlClient,
    web: reqwest::Client,
    seen: Seen,
    /// Whose figures they are, and since when.
    from: Option<(String, Instant)>,
}

// === impl Looker ===

impl Looker {
    pub(super) fn new(connect: &Connect, interval: Duration) -> Result<Self, Failure> {
        let within = ANSWER_WITHIN.max(interval);
        let web = reqwest::Client::builder()
            .no_proxy()
            .timeout(within)
            .build();
        Ok(Self {
            client: connect.client_within(within)?,
            web: web.map_err(|e| Failure::failed(format!("a client for HTTP: {e}")))?,
            seen: Seen::default(),
            from: None,
        })
    }

    /// Looks once. What does not answer leaves what was seen before, and is named.
    pub(super) async fn look(&mut self) -> &Seen {
        self.seen.trouble = self.try_look().await.err();
        &self.seen
    }

    async fn try_look(&mut self) -> Result<(), String> {
        let cluster = self.client.cluster().await.map_err(|e| e.to_string())?;
        let leader = cluster.leader.clone();
        let web = cluster
            .masters
            .iter()
            .find(|m| m.id == leader)
            .map(|m| m.web.clone());
        self.seen.cluster = Some(cluster);
        let web = web.ok_or("there is no leader; figures are those of the last one")?;
        let asked = self.web.get(format!("http://{web}/metrics")).send();
        let answer = asked.await.map_err(|e| format!("{leader}: {e}"))?;
        let text = answer.text().await.map_err(|e| format!("{leader}: {e}"))?;
        self.take(leader, Figures::parse(&text));
        let request = ListEventsRequest {
            page_size: EVENTS,
            last: Some(EVENTS),
            ..ListEventsRequest::default()
        };
        self.seen.events = self
            .client
            .list_events(request)
            .await
            .map_err(|e| e.to_string())?
            .events;
        Ok(())
    }

    fn take(&mut self, leader: String, figures: Figures) {
        let now = Instant::now();
        self.seen.before = std::mem::replace(&mut self.seen.now, figures);
        match &self.from {
            Some((same, at)) if *same == leader => self.seen.over = now - *at,
            // Counters of two masters make no rate.
            Some(_) | None => {
                self.seen.before = self.seen.now.clone();
                self.seen.over = Duration::ZERO;
            }
        }
        self.from = Some((leader, now));
    }
}
