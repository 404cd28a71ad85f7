//! Everybody who looks at a cluster while people work with it: Prometheus, a browser, and somebody who follows a log.

use std::{ops::AddAssign, time::Duration};

use reqwest::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    super::submit::http,
    overview::{failed, get},
};
use crate::exit::Failure;

/// How often each master is scraped.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(1);

/// What was seen.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    pub(super) scrapes: u64,
    pub(super) pages: u64,
    pub(super) log_bytes: u64,
}

/// Those who look, until they are stopped.
#[derive(Debug)]
pub(super) struct Watchers {
    stop: CancellationToken,
    tasks: JoinSet<Result<Seen, Failure>>,
}

// === impl Watchers ===

impl Watchers {
    /// Scrapes every master of `webs`, keeps the overview of `leader` open, and follows the log of `driver` there. Returns when
    /// all of them have got their first answer.
    ///
    /// # Errors
    /// An answer that is none.
    pub(super) async fn start(
        webs: &[String],
        leader: &str,
        driver: &str,
    ) -> Result<Self, Failure> {
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        for web in webs {
            let url = format!("http://{web}/metrics");
            let http = http()?;
            get(&http, &url).await?;
            tasks.spawn(scrape(http, url, stop.clone()));
        }
        // Without a deadline: what is followed never ends.
        let endless = Client::builder().no_proxy().build();
        let endless = endless.map_err(|e| failed(&e))?;
        let beats = get(&endless, &format!("http://{leader}/live")).await?;
        tasks.spawn(view(
            beats,
            http()?,
            format!("http://{leader}/"),
            stop.clone(),
        ));
        let log = format!("http://{leader}/logs/driver/{driver}/stream?output=stdout&offset=0");
        tasks.spawn(follow(get(&endless, &log).await?, stop.clone()));
        Ok(Self { stop, tasks })
    }

    /// Stops looking; says what was seen.
    ///
    /// # Errors
    /// What went wrong with any of them.
    pub(super) async fn stop(mut self) -> Result<Seen, Failure> {
        self.stop.cancel();
        let mut all = Seen::default();
        while let Some(ended) = self.tasks.join_next().await {
            all += ended.map_err(|e| Failure::failed(format!("a viewer: {e}")))??;
        }
        Ok(all)
    }
}

impl AddAssign for Seen {
    fn add_assign(&mut self, other: Self) {
        self.scrapes += other.scrapes;
        self.pages += other.pages;
        self.log_bytes += other.log_bytes;
    }
}

/// As Prometheus does.
async fn scrape(http: Client, url: String, stop: CancellationToken) -> Result<Seen, Failure> {
    let mut seen = Seen::default();
    let mut due = tokio::time::interval(SCRAPE_INTERVAL);
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(seen),
            _ = due.tick() => {
                let text = get(&http, &url).await?.text().await;
                text.map_err(|e| failed(&e))?;
                seen.scrapes += 1;
            }
        }
    }
}

/// As the script of an open page does: loads the page again when it is told that something has changed.
async fn view(
    mut beats: reqwest::Response,
    http: Client,
    page: String,
    stop: CancellationToken,
) -> Result<Seen, Failure> {
    let mut seen = Seen::default();
    loop {
        let piece = tokio::select! {
            () = stop.cancelled() => return Ok(seen),
            piece = beats.chunk() => piece.map_err(|e| failed(&e))?,
        };
        let Some(piece) = piece else {
            return Err(Failure::failed("the page is not kept up to date any more"));
        };
        if piece.starts_with(b"data:") {
            let text = get(&http, &page).await?.text().await;
            text.map_err(|e| failed(&e))?;
            seen.pages += 1;
        }
    }
}

/// As the page of a log does.
async fn follow(mut log: reqwest::Response, stop: CancellationToken) -> Result<Seen, Failure> {
    let mut seen = Seen::default();
    loop {
        let piece = tokio::select! {
            () = stop.cancelled() => return Ok(seen),
            piece = log.chunk() => piece.map_err(|e| failed(&e))?,
        };
        let Some(piece) = piece else {
            return Err(Failure::failed("the log that is followed has ended"));
        };
        seen.log_bytes += piece.len() as u64;
    }
}
