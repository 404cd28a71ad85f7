//! `/debug/log-level`: what a process logs, seen and changed while it runs.
//!
//! `GET` says it, `PUT` changes it, and an empty `PUT` goes back to what the process was started with. What must never
//! happen: that a page of another site, or one under a false name, changes it. Browsers ask before they send a `PUT` to
//! another site, and are not answered; what comes from a page has to come from a page of this server.

use std::{fmt, sync::Arc};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::State,
    response::{IntoResponse, Response},
    routing::get,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::answer;

/// Where it is served.
pub const PATH: &str = "/debug/log-level";
/// Longest filter, in bytes.
const FILTER_BYTES_MAX: usize = 4 << 10;

/// What the logger of a process can do.
pub trait LogFilter: Send + Sync {
    /// What is logged now.
    fn get(&self) -> String;

    /// Logs what `filter` says from now on; `None`: what the process was started with. Returns what counts now.
    ///
    /// # Errors
    /// In words: a filter that cannot be read; then nothing changes.
    fn set(&self, filter: Option<&str>) -> Result<String, String>;
}

/// The logger of this process, for its web server.
#[derive(Clone)]
pub struct LogControl(Arc<dyn LogFilter>);

/// Judges the value of the header `authorization`, if there is one.
#[derive(Clone)]
pub struct Gate(Arc<Judge>);

/// Says in words why somebody may not.
type Judge = dyn Fn(Option<&HeaderValue>) -> Result<(), String> + Send + Sync;

/// Who may change something.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Whoever shows a token that it lets in; everybody where there is none.
    pub gate: Option<Gate>,
    /// Nobody.
    pub read_only: bool,
    /// Names of this server besides its addresses and `localhost`.
    pub hosts: Vec<String>,
}

#[derive(Debug, Clone)]
struct Shared {
    log: LogControl,
    rules: Rules,
}

// === impl Gate ===

impl Gate {
    /// Lets in whom `judge` does.
    pub fn new(
        judge: impl Fn(Option<&HeaderValue>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(judge))
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}

// === impl LogControl ===

impl LogControl {
    /// Makes `filter` reachable.
    pub fn new(filter: impl LogFilter + 'static) -> Self {
        Self(Arc::new(filter))
    }
}

impl fmt::Debug for LogControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogControl").field(&self.0.get()).finish()
    }
}

/// Serves `log`; without one there is nothing at [`PATH`].
pub fn router<S: Clone + Send + Sync + 'static>(
    log: Option<LogControl>,
    rules: Rules,
) -> Router<S> {
    let Some(log) = log else {
        return Router::new();
    };
    Router::new()
        .route(PATH, get(show).put(change))
        .with_state(Shared { log, rules })
}

async fn show(State(shared): State<Shared>) -> Response {
    said(StatusCode::OK, &shared.log.0.get())
}

async fn change(State(shared): State<Shared>, headers: HeaderMap, body: Body) -> Response {
    if shared.rules.read_only {
        return said(
            StatusCode::FORBIDDEN,
            "this server only shows (ui.read_only)",
        );
    }
    // Whoever is no browser names no page; a browser always does, with this method.
    let hosts = &shared.rules.hosts;
    let from = match headers.contains_key(header::ORIGIN) {
        true => answer::check_origin(&headers, hosts),
        false => answer::check_host(&headers, hosts),
    };
    if let Err(foreign) = from {
        return said(StatusCode::FORBIDDEN, &foreign.to_string());
    }
    let shown = headers.get(header::AUTHORIZATION);
    if let Some(Gate(judge)) = &shared.rules.gate
        && let Err(why) = judge(shown)
    {
        return said(StatusCode::UNAUTHORIZED, &why);
    }
    let Ok(body) = to_bytes(body, FILTER_BYTES_MAX).await else {
        let text = format!("the filter is not whole, or longer than {FILTER_BYTES_MAX} bytes");
        return said(StatusCode::BAD_REQUEST, &text);
    };
    let Ok(text) = std::str::from_utf8(&body) else {
        return said(StatusCode::BAD_REQUEST, "the filter is no text");
    };
    let filter = Some(text.trim()).filter(|text| !text.is_empty());
    match shared.log.0.set(filter) {
        Ok(now) => said(StatusCode::OK, &now),
        Err(error) => said(StatusCode::BAD_REQUEST, &format!("log filter {error}")),
    }
}

fn said(status: StatusCode, text: &str) -> Response {
    let mut response = (status, format!("{text}\n")).into_response();
    answer::guard(response.headers_mut());
    response
}

#[cfg(test)]
#[path = "log_level_test.rs"]
mod log_level_test;
