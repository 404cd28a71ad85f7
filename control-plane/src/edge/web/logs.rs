//! The output of any process, through any master: the leader says where it runs, the master that shows the page asks
//! the agent itself. So a log that is followed goes on through a failover, and costs the leader nothing.

use std::{sync::Arc, time::Duration};

use askama::Template;
use axum::{
    Json, Router,
    body::Body,
    extract::{Path, State},
    response::{IntoResponse, Response},
    routing::get,
};
use futures::StreamExt;
use http::{HeaderName, HeaderValue, StatusCode, header, request::Parts};
use interrex_core::ids::{AppId, ExecutorId};
use interrex_web::{
    answer,
    format::{count, plain},
    frame::Frame,
    list::{self, BadQuery},
    marks::{Link, Pill, path},
};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::{
    LOG_STREAMS_MAX, Site,
    context::{Context, Who},
    serve::{self, PageError},
};
use crate::{
    edge::{
        status::{log_page_of_driver, log_page_of_executor},
        validate,
    },
    metrics::{Queue, refused},
    runtime::view::{ClusterView, Found},
};

/// What a page shows of a log, in bytes.
const SLICE_BYTES: u64 = 64 << 10;
/// How long an agent may take for a slice, or to begin one that is followed.
const AGENT_TIMEOUT: Duration = Duration::from_secs(4);
/// How long the leader may take to say where something runs.
const PLACE_TIMEOUT: Duration = Duration::from_secs(2);
/// Where the body of an agent's answer begins.
const OFFSET: HeaderName = HeaderName::from_static("x-interrex-offset");
/// On a followed log: the worker that it is of.
const WORKER: HeaderName = HeaderName::from_static("interrex-worker");

/// Whose output it is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Driver(String),
    Executor(String, u32),
}

/// Where it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    /// The id under which its agent knows it.
    id: String,
    state: String,
    over: bool,
    worker: String,
    /// The agent's address; empty: it is nowhere yet.
    web: String,
    /// Where one of Spark's own workers shows it, but for the name of the output; else empty.
    #[serde(default)]
    log_page: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Asked {
    output: Option<String>,
    offset: Option<String>,
}

/// Part of a log.
#[derive(Debug, Default)]
struct Slice {
    begin: u64,
    text: String,
    bytes: u64,
}

#[derive(Template)]
#[template(path = "log.html")]
struct LogPage {
    frame: Frame,
    who: Who,
    title: String,
    back: Link,
    state: Pill,
    worker: Link,
    tabs: Vec<(&'static str, String, bool)>,
    words: String,
    text: String,
    /// Where the script goes on; none: this is a part of the past.
    follow: Option<String>,
    offset: u64,
    worker_id: String,
    place: String,
    earlier: Option<String>,
    end: String,
    over: bool,
}

/// The pages, and what their script asks.
pub(super) fn router() -> Router<Arc<Site>> {
    type Of = Path<(String, u32)>;
    let executor = |Path((app, id)): Of| Source::Executor(app, id);
    let driver = |Path(id): Path<String>| Source::Driver(id);
    Router::new()
        .route(
            "/logs/driver/{id}",
            get(
                async move |State(site): State<Arc<Site>>, id: Path<String>, parts: Parts| {
                    show(site, parts, driver(id)).await
                },
            ),
        )
        .route(
            "/logs/driver/{id}/stream",
            get(
                async move |State(site): State<Arc<Site>>, id: Path<String>, parts: Parts| {
                    stream(site, parts, driver(id)).await
                },
            ),
        )
        .route(
            "/logs/driver/{id}/place",
            get(
                async move |State(site): State<Arc<Site>>, id: Path<String>, parts: Parts| {
                    place(site, parts, driver(id)).await
                },
            ),
        )
        .route(
            "/logs/app/{app}/{id}",
            get(
                async move |State(site): State<Arc<Site>>, id: Of, parts: Parts| {
                    show(site, parts, executor(id)).await
                },
            ),
        )
        .route(
            "/logs/app/{app}/{id}/stream",
            get(
                async move |State(site): State<Arc<Site>>, id: Of, parts: Parts| {
                    stream(site, parts, executor(id)).await
                },
            ),
        )
        .route(
            "/logs/app/{app}/{id}/place",
            get(
                async move |State(site): State<Arc<Site>>, id: Of, parts: Parts| {
                    place(site, parts, executor(id)).await
                },
            ),
        )
}

// === impl Source ===

impl Source {
    /// Where it is, as `view` knows it.
    fn find(&self, view: &ClusterView) -> Option<Place> {
        let (id, state, over, worker, log_page) = match self {
            Self::Driver(id) => {
                let Some(Found::Driver(driver)) = view.find(id) else {
                    return None;
                };
                let (id, state) = (driver.id.to_string(), driver.state);
                let (worker, page) = (driver.worker.clone(), log_page_of_driver(view, &driver));
                (id, state.name(), state.is_final(), worker, page)
            }
            Self::Executor(app, number) => {
                let Some(Found::App(app)) = view.find(app) else {
                    return None;
                };
                let executor = view.executor(&AppId::new(app.id.as_str()), ExecutorId(*number))?;
                let state = executor.state;
                let worker = Some(executor.worker.clone());
                let page = log_page_of_executor(view, executor);
                let id = app.id.to_string();
                (id, state.name(), state.is_final(), worker, page)
            }
        };
        let known = worker.as_ref().and_then(|worker| view.worker(worker));
        Some(Place {
            id,
            state: state.to_owned(),
            over,
            worker: worker.map(|worker| worker.to_string()).unwrap_or_default(),
            web: known
                .map(|worker| worker.spec.web.clone())
                .unwrap_or_default(),
            log_page,
        })
    }

    /// Its page on a master.
    fn page(&self) -> String {
        match self {
            Self::Driver(id) => path(&["logs", "driver", id]),
            Self::Executor(app, id) => path(&["logs", "app", app, &id.to_string()]),
        }
    }

    /// Its log at the agent.
    fn at_agent(&self, place: &Place, output: &str) -> String {
        let path = match self {
            Self::Driver(_) => path(&["logs", "driver", &place.id, output]),
            Self::Executor(_, id) => path(&["logs", "app", &place.id, &id.to_string(), output]),
        };
        format!("http://{}{path}", place.web)
    }

    fn title(&self) -> String {
        match self {
            Self::Driver(id) => id.clone(),
            Self::Executor(app, id) => format!("{app}/{id}"),
        }
    }

    fn owner(&self) -> Link {
        match self {
            Self::Driver(id) => Link::to("Driver", &["drivers", id]),
            Self::Executor(app, _) => Link::to("Application", &["apps", app]),
        }
    }
}

/// Where something runs: for the script, and for other masters.
async fn place(site: Arc<Site>, parts: Parts, source: Source) -> Response {
    let context = serve::context(&site, &parts);
    match look(&site, &context, &source).await {
        Ok(place) => {
            let mut response = Json(place).into_response();
            answer::guard(response.headers_mut());
            response
        }
        Err(error) => serve::failure(&context, &error),
    }
}

async fn look(site: &Site, context: &Context, source: &Source) -> Result<Place, PageError> {
    let missing = || {
        PageError::NotFound(format!(
            "Nothing is known of {}.",
            validate::cut(&source.title())
        ))
    };
    if context.leads() {
        return source.find(&context.view).ok_or_else(missing);
    }
    let me = &context.status.me.id;
    let leader = context
        .status
        .leader
        .as_ref()
        .filter(|leader| leader.id != *me);
    let Some(leader) = leader.filter(|leader| context.via.is_none() && !leader.web.is_empty())
    else {
        return Err(PageError::Unavailable(
            "Nobody leads at the moment.".to_owned(),
        ));
    };
    let path = format!("{}/place", source.page());
    let found = site.relay.json(leader, &path, me, PLACE_TIMEOUT).await;
    found
        .ok_or_else(|| PageError::Unavailable(format!("{} does not say where it runs.", leader.id)))
}

fn asked(parts: &Parts) -> Result<(&'static str, Option<u64>), BadQuery> {
    let Asked { output, offset } = list::read(&parts.uri)?;
    let output = output.unwrap_or_else(|| "stdout".to_owned());
    let output = list::one_of("output", &output, &["stdout", "stderr"])?;
    let offset = offset.map(|text| {
        let wrong = |_| BadQuery(format!("offset: {}; give a number", validate::shown(&text)));
        text.parse::<u64>().map_err(wrong)
    });
    Ok((output, offset.transpose()?))
}

/// The page: the end of the log, which the script then follows, or a part of its past.
async fn show(site: Arc<Site>, parts: Parts, source: Source) -> Response {
    let context = serve::context(&site, &parts);
    match make(&site, &context, &parts, &source).await {
        Ok(html) => serve::finish(&context, StatusCode::OK, html),
        Err(error) => serve::failure(&context, &error),
    }
}

async fn make(site: &Site, context: &Context, parts: &Parts, source: &Source) -> serve::Made {
    let (output, offset) = asked(parts)?;
    let place = look(site, context, source).await?;
    let (slice, words) = if !place.log_page.is_empty() {
        let (page, words) = (
            &place.log_page,
            "One of Spark's own workers has it, and shows it at",
        );
        (Slice::default(), format!("{words} {page}{output}"))
    } else if place.web.is_empty() {
        (
            Slice::default(),
            "It has no place yet and has written nothing.".to_owned(),
        )
    } else {
        match read(site, source, &place, output, offset).await {
            Ok(slice) => {
                let words = words(&slice);
                (slice, words)
            }
            Err(why) => (Slice::default(), why),
        }
    };
    let page = source.page();
    let tab = |name| (name, format!("{page}?output={name}"), output == name);
    let before = slice.begin.saturating_sub(SLICE_BYTES);
    let log = LogPage {
        who: context.who(),
        title: match source {
            Source::Driver(_) => place.id.clone(),
            Source::Executor(_, number) => format!("{}/{number}", place.id),
        },
        back: source.owner(),
        state: Pill::of(&place.state),
        worker: Link::to(place.worker.clone(), &["workers", &place.worker]),
        tabs: vec![tab("stdout"), tab("stderr")],
        words,
        follow: (offset.is_none() && place.log_page.is_empty())
            .then(|| format!("{page}/stream?output={output}")),
        offset: slice.begin + slice.bytes,
        text: slice.text,
        worker_id: place.worker.clone(),
        place: format!("{page}/place"),
        earlier: (slice.begin > 0).then(|| format!("{page}?output={output}&offset={before}")),
        end: format!("{page}?output={output}"),
        over: place.over,
        frame: context.still_frame(match source {
            Source::Driver(_) => "/drivers",
            Source::Executor(..) => "/apps",
        }),
    };
    Ok(log.render()?)
}

/// A part of the log: from `offset` on, else its end.
async fn read(
    site: &Site,
    source: &Source,
    place: &Place,
    output: &str,
    offset: Option<u64>,
) -> Result<Slice, String> {
    let from = offset.map_or_else(|| format!("-{SLICE_BYTES}"), |offset| offset.to_string());
    let url = format!(
        "{}?offset={from}&limit={SLICE_BYTES}",
        source.at_agent(place, output)
    );
    let silent = |_| format!("Worker {} does not answer at {}.", place.worker, place.web);
    let request = site.relay.client().get(url).timeout(AGENT_TIMEOUT);
    let answer = request.send().await.map_err(silent)?;
    let status = answer.status();
    if status == StatusCode::NOT_FOUND {
        return Err(
            "Worker has no such output: it has written nothing, or it is no longer kept."
                .to_owned(),
        );
    }
    if !status.is_success() {
        return Err(format!("Worker {} answered {status}.", place.worker));
    }
    let begin = answer
        .headers()
        .get(&OFFSET)
        .and_then(|value| value.to_str().ok());
    let begin = begin.and_then(|text| text.parse().ok()).unwrap_or_default();
    let mut bytes = Vec::new();
    let mut chunks = answer.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        bytes.extend(chunk.map_err(silent)?);
        if bytes.len() as u64 > SLICE_BYTES {
            return Err(format!(
                "Worker {} sent more than it was asked for.",
                place.worker
            ));
        }
    }
    Ok(Slice {
        begin,
        bytes: bytes.len() as u64,
        text: plain(&String::from_utf8_lossy(&bytes)),
    })
}

fn words(slice: &Slice) -> String {
    match slice.bytes {
        0 if slice.begin == 0 => "Nothing has been written yet.".to_owned(),
        bytes => format!(
            "Bytes {} to {}.",
            count(slice.begin),
            count(slice.begin + bytes)
        ),
    }
}

/// The log as it grows, from `offset` on.
async fn stream(site: Arc<Site>, parts: Parts, source: Source) -> Response {
    let context = serve::context(&site, &parts);
    match follow(&site, &context, &parts, &source).await {
        Ok(response) => response,
        Err(error) => serve::failure(&context, &error),
    }
}

async fn follow(
    site: &Site,
    context: &Context,
    parts: &Parts,
    source: &Source,
) -> Result<Response, PageError> {
    let (output, offset) = asked(parts)?;
    let permit = Arc::clone(&site.streams)
        .try_acquire_owned()
        .map_err(|_none| {
            refused(Queue::PageLogs);
            PageError::Unavailable(format!(
                "{LOG_STREAMS_MAX} logs are followed here. Try again later."
            ))
        })?;
    let place = look(site, context, source).await?;
    if place.web.is_empty() {
        return Err(PageError::Rejected("It has no place yet.".to_owned()));
    }
    let offset = offset.unwrap_or_default();
    let url = format!(
        "{}?offset={offset}&follow=true",
        source.at_agent(&place, output)
    );
    let silent = || PageError::Unavailable(format!("Worker {} does not answer.", place.worker));
    let asked = timeout(AGENT_TIMEOUT, site.relay.client().get(url).send()).await;
    let answer = asked
        .map_err(|_elapsed| silent())?
        .map_err(|_unreachable| silent())?;
    match answer.status() {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => {
            return Err(PageError::NotFound(
                "The worker has no such output.".to_owned(),
            ));
        }
        _busy => return Err(silent()),
    }
    let chunks = answer.bytes_stream().map(move |chunk| {
        // Held as long as the stream is.
        let _held = &permit;
        chunk
    });
    let mut response = Response::new(Body::from_stream(chunks));
    let headers = response.headers_mut();
    answer::guard(headers);
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    if let Ok(worker) = HeaderValue::from_str(&place.worker) {
        headers.insert(WORKER, worker);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_lead_out_of_the_logs_of_an_agent() {
        let place = Place {
            id: "../../etc".into(),
            web: "h:1".into(),
            ..Place::default()
        };
        let url = Source::Driver("x".into()).at_agent(&place, "stdout");
        assert_eq!(url, "http://h:1/logs/driver/..%2F..%2Fetc/stdout");
    }
}
