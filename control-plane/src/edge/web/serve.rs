//! From a request to a page: made here if this master leads, fetched from the leader if not, and in words where that
//! cannot be.

use std::{sync::Arc, time::Duration};

use askama::Template;
use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, Method, StatusCode, header, request::Parts};
use interrex_web::{answer, frame::Frame, list::BadQuery};
use tokio::time::timeout;

use super::{
    RENDERS_MAX, Site,
    context::{Context, Who},
    relay::{FORWARDED_BY, Relayed},
};
use crate::{
    edge::validate,
    metrics::{Queue, refused},
};

/// How long a page waits for its turn to be made.
const TURN_TIMEOUT: Duration = Duration::from_secs(3);
/// A browser without script asks again after so many seconds while nobody leads.
const REFRESH_S: u32 = 2;

/// What making a page gives.
pub(super) type Made = Result<String, PageError>;

/// Why there is no such page.
#[derive(Debug, thiserror::Error)]
pub(super) enum PageError {
    /// The question cannot be.
    #[error(transparent)]
    BadQuery(#[from] BadQuery),
    /// What the address names does not exist, or is forgotten.
    #[error("{0}")]
    NotFound(String),
    /// This may not be asked for from there.
    #[error("{0}")]
    Refused(String),
    /// The leader has refused it.
    #[error("{0}")]
    Rejected(String),
    /// Nobody can answer now.
    #[error("{0}")]
    Unavailable(String),
    /// A fault of this program.
    #[error("the page could not be made: {0}")]
    Broken(String),
}

/// A page that says what is wrong.
#[derive(Template)]
#[template(path = "message.html")]
struct Message {
    frame: Frame,
    who: Who,
    heading: &'static str,
    text: String,
    masters: Vec<(String, String)>,
}

// === impl PageError ===

impl From<askama::Error> for PageError {
    fn from(error: askama::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

impl PageError {
    fn heading(&self) -> &'static str {
        match self {
            Self::BadQuery(_) => "This question cannot be answered",
            Self::NotFound(_) => "There is nothing here",
            Self::Refused(_) | Self::Rejected(_) => "This was not done",
            Self::Unavailable(_) => "No leader answers at the moment",
            Self::Broken(_) => "Something went wrong",
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::BadQuery(_) => StatusCode::BAD_REQUEST,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Refused(_) => StatusCode::FORBIDDEN,
            Self::Rejected(_) => StatusCode::CONFLICT,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// A page about the cluster: made by the leader.
pub(super) async fn page(
    site: Arc<Site>,
    parts: Parts,
    make: impl FnOnce(&Context) -> Made + Send + 'static,
) -> Response {
    let context = context(&site, &parts);
    if context.leads() {
        return render(context, make).await;
    }
    match relayed(&site, &context, &parts).await {
        Ok(response) => response,
        Err(reason) => failure(&context, &PageError::Unavailable(reason)),
    }
}

/// A page about this master alone: never relayed.
pub(super) async fn own_page(
    site: Arc<Site>,
    parts: Parts,
    make: impl FnOnce(&Context) -> Made + Send + 'static,
) -> Response {
    render(context(&site, &parts), make).await
}

/// The answer to an address that means nothing.
pub(super) async fn nothing_here(State(site): State<Arc<Site>>, parts: Parts) -> Response {
    let path = validate::cut(parts.uri.path());
    let text = format!("No page has the address {path}.");
    failure(&context(&site, &parts), &PageError::NotFound(text))
}

pub(super) fn context(site: &Arc<Site>, parts: &Parts) -> Context {
    let is_read = parts.method == Method::GET || parts.method == Method::HEAD;
    Context {
        is_read,
        ..Context::new(site, parts.uri.clone(), forwarded_by(parts))
    }
}

/// The id of the master that has handed this request on.
pub(super) fn forwarded_by(parts: &Parts) -> Option<String> {
    let value = parts.headers.get(FORWARDED_BY)?.to_str().ok()?;
    validate::id("interrex-forwarded-by", value).ok()?;
    Some(value.to_owned())
}

/// What the leader makes of the same request; else why there is nothing.
pub(super) async fn relayed(
    site: &Site,
    context: &Context,
    parts: &Parts,
) -> Result<Response, String> {
    let me = &context.status.me.id;
    if context.status.recovery == "RESTORING" {
        return Err(format!(
            "{me} restores a snapshot; pages come when that has ended."
        ));
    }
    let leader = context.status.leader.as_ref();
    match leader.filter(|leader| leader.id != *me && !leader.web.is_empty()) {
        Some(_) if context.via.is_some() => Err(format!("{me} does not lead (any more).")),
        Some(leader) => match site.relay.fetch(leader, &parts.uri, me).await {
            Relayed::Answered(response) => Ok(response),
            Relayed::Silent(reason) => Err(reason),
        },
        None => Err(format!(
            "The masters are electing a leader. {me} waits for it and shows the cluster as soon as there is one."
        )),
    }
}

async fn render(
    context: Context,
    make: impl FnOnce(&Context) -> Made + Send + 'static,
) -> Response {
    let turn = timeout(
        TURN_TIMEOUT,
        Arc::clone(&context.site.renders).acquire_owned(),
    )
    .await;
    let Ok(Ok(turn)) = turn else {
        refused(Queue::Pages);
        let text =
            format!("{RENDERS_MAX} pages are being made and others wait. Try again in a moment.");
        return failure(&context, &PageError::Unavailable(text));
    };
    let (made, context) = {
        let work = context.clone();
        let made = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            make(&work)
        });
        let made = made.await;
        (
            made.unwrap_or_else(|error| Err(PageError::Broken(error.to_string()))),
            context,
        )
    };
    match made {
        Ok(html) => finish(&context, StatusCode::OK, html),
        Err(error) => failure(&context, &error),
    }
}

/// A page that says why there is no other.
pub(super) fn failure(context: &Context, error: &PageError) -> Response {
    let status = error.status();
    if status == StatusCode::INTERNAL_SERVER_ERROR {
        tracing::error!(path = context.uri.path(), %error, "a page could not be made");
    }
    let frame = Frame {
        // What became of a form is said once; everything else may be cured by itself.
        live: context.is_read,
        ..context.frame("")
    };
    let masters = context.status.masters.iter();
    let message = Message {
        who: context.who(),
        heading: error.heading(),
        text: error.to_string(),
        masters: masters.map(|m| (m.id.clone(), m.web.clone())).collect(),
        frame,
    };
    let html = message
        .render()
        .unwrap_or_else(|_fault| error.heading().to_owned());
    let mut response = finish(context, status, html);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        headers.insert(header::REFRESH, HeaderValue::from(REFRESH_S));
    }
    response
}

pub(super) fn finish(context: &Context, status: StatusCode, html: String) -> Response {
    let masters = context
        .status
        .masters
        .iter()
        .map(|master| master.web.clone());
    answer::page(status, html, &masters.collect::<Vec<_>>()).into_response()
}
