//! Pages for people (port 8080), served by every master, and Spark's `/json/` for its tools.
//!
//! A page about the cluster is made by the leader from the published view; a standby fetches it there and hands it
//! on, so that whoever has a page open on a living master keeps it through a failover. What must never happen: a
//! viewer who costs the leader's loop anything. Pages read the view, are made on threads for such work, few at a
//! time, and are asked for again only when one small stream of [`live`] beats says that something has changed.
//!
//! ```text
//!  browser ── GET page ──▶ serve ── leader? ── yes ──▶ pages/* on a blocking thread ──▶ HTML
//!     ▲                       └── no ──▶ relay ──▶ the leader's serve
//!     └── /live (one beat a second at most) ◀── live ◀── watch of the view; standbys ask the leader
//!  browser ── POST action ─▶ actions: same origin? read only? ──▶ command ──▶ the page of what was changed
//!  browser ── GET log ─────▶ logs ──▶ the agent, whoever leads
//! ```

mod actions;
mod context;
mod history;
mod live;
mod logs;
mod pages;
mod relay;
mod serve;
mod spark_json;

use std::sync::Arc;

use axum::{Router, routing::get};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use self::live::VIEWERS_MAX;
use self::{live::Live, relay::Relay};
use crate::{metrics::Queue, options::UiOptions, runtime::handle::MasterHandle};

/// Pages that one master makes at a time; further ones wait a little, then are refused.
pub const RENDERS_MAX: usize = 2;
/// Logs that one master hands on at a time.
pub const LOG_STREAMS_MAX: usize = 128;

/// What all requests share.
#[derive(Debug)]
struct Site {
    handle: MasterHandle,
    options: UiOptions,
    live: Arc<Live>,
    relay: Relay,
    renders: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    prometheus: Option<PrometheusHandle>,
}

/// The pages, and the task that keeps them up to date: it must run as long as they are served.
///
/// # Errors
/// [`reqwest::Error`] where the client for relaying cannot be built; trying again does not help.
pub fn router(
    handle: MasterHandle,
    mut options: UiOptions,
    prometheus: Option<PrometheusHandle>,
    stop: CancellationToken,
) -> Result<(Router, impl Future<Output = ()> + Send + use<>), reqwest::Error> {
    options.hosts = options.known_hosts(&handle.status().me.web);
    let relay = Relay::new()?;
    let live = Arc::new(Live::new(handle.clone(), relay.clone()));
    let (renders, streams) = (
        Arc::new(Semaphore::new(RENDERS_MAX)),
        Arc::new(Semaphore::new(LOG_STREAMS_MAX)),
    );
    handle.watch_places(Queue::Pages, &renders, RENDERS_MAX);
    handle.watch_places(Queue::PageLogs, &streams, LOG_STREAMS_MAX);
    let site = Arc::new(Site {
        handle,
        options,
        live: Arc::clone(&live),
        relay,
        renders,
        streams,
        prometheus,
    });
    let router = pages::router()
        .merge(actions::router())
        .merge(logs::router())
        .merge(spark_json::router())
        .route("/live", get(live::stream))
        .route("/live/beat", get(live::beat))
        .merge(interrex_web::assets::router())
        .fallback(serve::nothing_here)
        .with_state(site);
    Ok((router, async move { live.run(&stop).await }))
}
