//! What an agent serves over HTTP: health, metrics, its processes, their logs, and pages of all that. Nothing of the cluster
//! is changed here; what this process logs can be.

mod health;
mod log_page;
mod logs;
mod page;
mod spark_json;

use std::{path::PathBuf, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderValue, StatusCode},
    response::{IntoResponse, Response},
    routing::get,
};
use interrex_proto::credentials::Credentials;
use interrex_web::{
    log_level::{self, LogControl},
    names,
    patience::{Patient, WEB_CONNECTIONS_MAX},
    server,
};
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    metrics::{self, Queue},
    worker::{
        pump::{Board, Query},
        view::WorkerView,
    },
};

/// How long the pump may take to answer.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
/// Most log requests at a time; further ones are answered 503.
const LOG_READERS_MAX: usize = 128;
/// How long open answers may take when the agent stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// What the pages are made of.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) queries: mpsc::Sender<Query>,
    pub(crate) board: Board,
    pub(crate) work_dir: PathBuf,
    pub(crate) prometheus: Option<PrometheusHandle>,
    pub(crate) log: Option<LogControl>,
    /// The name under which others reach this machine.
    pub(crate) host: String,
    /// Its token, if it has one.
    pub(crate) credentials: Credentials,
}

/// What every handler shares.
#[derive(Debug)]
struct Shared {
    site: Site,
    readers: Arc<Semaphore>,
    connections: Arc<Semaphore>,
    process: metrics_process::Collector,
    stopped: CancellationToken,
}

/// An error, told as `{"error": "..."}`.
#[derive(Debug)]
struct WebError {
    status: StatusCode,
    message: String,
}

#[derive(Debug, Serialize)]
struct ErrorBody<'message> {
    error: &'message str,
}

/// Serves until `stopped`.
pub(crate) async fn serve(listener: TcpListener, site: Site, stopped: CancellationToken) {
    let process = metrics_process::Collector::default();
    process.describe();
    metrics::describe();
    let readers = Arc::new(Semaphore::new(LOG_READERS_MAX));
    let connections = Arc::new(Semaphore::new(WEB_CONNECTIONS_MAX));
    let hosts = vec![site.host.clone()];
    let own = site.credentials.clone();
    let gate = log_level::Gate::new(move |shown| {
        let admitted = own.admits(shown.map(HeaderValue::as_bytes));
        admitted.then_some(()).ok_or_else(|| {
            "this agent has a token, and a change needs that very one: set --token-file".to_owned()
        })
    });
    let rules = log_level::Rules {
        gate: Some(gate),
        hosts: hosts.clone(),
        read_only: false,
    };
    let log = log_level::router(site.log.clone(), rules);
    let shared = Arc::new(Shared {
        site,
        readers,
        connections: Arc::clone(&connections),
        process,
        stopped: stopped.clone(),
    });
    let pages = Router::new()
        .route("/", get(page::show))
        .route("/pages/driver/{driver_id}/{output}", get(log_page::driver))
        .route(
            "/pages/app/{app_id}/{executor_id}/{output}",
            get(log_page::executor),
        )
        .merge(interrex_web::assets::router())
        .merge(log)
        .route("/api/processes", get(processes))
        .route("/json", get(spark_json::show))
        .route("/json/", get(spark_json::show))
        .route("/logs/driver/{driver_id}/{output}", get(logs::driver))
        .route(
            "/logs/app/{app_id}/{executor_id}/{output}",
            get(logs::executor),
        )
        .fallback(async || WebError::new(StatusCode::NOT_FOUND, "there is nothing at this path"));
    let pages = match listener.local_addr() {
        Ok(at) => names::guarded(pages, at, hosts),
        // It is not told where it listens: nobody else is, either.
        Err(_unknown) => pages,
    };
    let router = pages
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .with_state(shared);
    let refused = || metrics::refused(Queue::WebConnections);
    let listener = Patient::new(listener, connections, refused);
    let drained = async {
        stopped.cancelled().await;
        tokio::time::sleep(DRAIN_TIMEOUT).await;
    };
    tokio::select! {
        () = server::serve(listener, router, stopped.clone()) => {}
        () = drained => {}
    }
}

async fn processes(State(shared): State<Arc<Shared>>) -> Result<Json<WorkerView>, WebError> {
    shared.view().await.map(Json)
}

// === impl Shared ===

impl Shared {
    /// The gauges of what this server holds; at each scrape.
    fn refresh(&self) {
        let queries = &self.site.queries;
        let limit = queries.max_capacity();
        metrics::queue(Queue::Questions, limit - queries.capacity(), limit);
        let places = |queue, places: &Semaphore, limit: usize| {
            metrics::queue(
                queue,
                limit.saturating_sub(places.available_permits()),
                limit,
            );
        };
        places(Queue::LogReaders, &self.readers, LOG_READERS_MAX);
        places(
            Queue::WebConnections,
            &self.connections,
            WEB_CONNECTIONS_MAX,
        );
        self.process.collect();
    }

    async fn view(&self) -> Result<WorkerView, WebError> {
        let busy = |message| WebError::new(StatusCode::SERVICE_UNAVAILABLE, message);
        let (answer, view) = oneshot::channel();
        self.site
            .queries
            .try_send(Query(answer))
            .map_err(|_refused| {
                metrics::refused(Queue::Questions);
                busy("too many questions wait for the agent: try again")
            })?;
        match timeout(QUERY_TIMEOUT, view).await {
            Ok(Ok(view)) => Ok(view),
            Ok(Err(_)) => Err(busy("the agent is stopping")),
            Err(_) => Err(busy(
                "the agent does not answer: it may be waiting for its disk",
            )),
        }
    }
}

// === impl WebError ===

impl WebError {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }
}

impl IntoResponse for WebError {
    fn into_response(self) -> Response {
        let body = Json(ErrorBody {
            error: &self.message,
        });
        (self.status, body).into_response()
    }
}
