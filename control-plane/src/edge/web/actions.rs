//! What pages can change: kill, drain, undrain, hand leadership over. Each is asked for on a page of its own, with a
//! form that works without script, and done once however often the form is sent, because the form has the request's id.
//!
//! What must never happen: that another site's page, or a page under a false name, changes something; or that anything
//! is changed where pages are to show only.

use std::{sync::Arc, time::Duration};

use askama::Template;
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Path, Request, State},
    response::Response,
    routing::get,
};
use http::request::Parts;
use interrex_core::{command::Command, transition::Rejection};
use interrex_proto::v1;
use interrex_web::{
    answer,
    frame::Frame,
    list::{BadQuery, read},
    marks::path,
};
use serde::Deserialize;
use tokio::time::timeout;

use super::{
    Site,
    context::{Context, Who},
    relay::Relayed,
    serve::{self, Made, PageError},
};
use crate::{
    access::{self, audit},
    edge::{
        convert,
        grpc::{control::TRANSFER_TIMEOUT, drains},
        validate,
    },
    runtime::error::RequestError,
};

/// Largest form, in bytes.
const FORM_BYTES_MAX: usize = 8 << 10;
/// How long the leader may take to make a change durable.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest deadline of a drain that the form takes, in minutes: a year.
const DRAIN_MINUTES_MAX: usize = 365 * 24 * 60;

/// What is to be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Act {
    KillDriver(String),
    KillApp(String),
    Drain(String),
    Undrain(String),
    Transfer,
}

/// The fields of all forms.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Form {
    request: String,
    reason: Option<String>,
    minutes: Option<String>,
    to: Option<String>,
    token: Option<String>,
}

#[derive(Template)]
#[template(path = "confirm.html")]
struct Confirm {
    frame: Frame,
    who: Who,
    heading: String,
    text: &'static str,
    label: &'static str,
    danger: bool,
    action: String,
    back: String,
    request: String,
    is_drain: bool,
    wants_token: bool,
    minutes_max: usize,
    candidates: Vec<String>,
}

/// The pages that ask, and what their forms do.
pub(super) fn router() -> Router<Arc<Site>> {
    Router::new()
        .route("/drivers/{id}/kill", about(Act::KillDriver))
        .route("/apps/{id}/kill", about(Act::KillApp))
        .route("/workers/{id}/drain", about(Act::Drain))
        .route("/workers/{id}/undrain", about(Act::Undrain))
        .route(
            "/leadership",
            get(async |State(site): State<Arc<Site>>, parts: Parts| {
                ask(site, parts, Act::Transfer).await
            })
            .post(async |State(site): State<Arc<Site>>, request: Request| {
                act(site, request, Act::Transfer).await
            }),
        )
}

fn about(make: fn(String) -> Act) -> axum::routing::MethodRouter<Arc<Site>> {
    let asked = async move |State(site): State<Arc<Site>>, Path(id): Path<String>, parts: Parts| {
        ask(site, parts, make(id)).await
    };
    let sent = async move |State(site): State<Arc<Site>>,
                           Path(id): Path<String>,
                           request: Request| { act(site, request, make(id)).await };
    get(asked).post(sent)
}

// === impl Act ===

impl Act {
    fn heading(&self) -> String {
        match self {
            Self::KillDriver(id) => format!("Kill driver {id}?"),
            Self::KillApp(id) => format!("Kill application {id}?"),
            Self::Drain(id) => format!("Drain worker {id}?"),
            Self::Undrain(id) => format!("Give worker {id} work again?"),
            Self::Transfer => "Hand leadership over?".to_owned(),
        }
    }

    fn text(&self) -> &'static str {
        match self {
            Self::KillDriver(_) => {
                "Its process is asked to end, and ended by force if it does not. It is not started again."
            }
            Self::KillApp(_) => "All its executors are ended, and it gets no others.",
            Self::Drain(_) => {
                "It gets no new work. Drivers there go on until they are done, or until the deadline; executors are \
                 replaced on other workers."
            }
            Self::Undrain(_) => "The drain is taken back: it gets new work at once.",
            Self::Transfer => {
                "What is under way is finished first; then another master leads. Nothing that runs notices, and this \
                 page goes on with the new leader."
            }
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::KillDriver(_) | Self::KillApp(_) => "Kill it",
            Self::Drain(_) => "Drain it",
            Self::Undrain(_) => "Give it work",
            Self::Transfer => "Hand over",
        }
    }

    /// Where its form is.
    fn action(&self) -> String {
        match self {
            Self::KillDriver(id) => path(&["drivers", id, "kill"]),
            Self::KillApp(id) => path(&["apps", id, "kill"]),
            Self::Drain(id) => path(&["workers", id, "drain"]),
            Self::Undrain(id) => path(&["workers", id, "undrain"]),
            Self::Transfer => "/leadership".to_owned(),
        }
    }

    /// Where one sees what it has changed.
    fn back(&self) -> String {
        match self {
            Self::KillDriver(id) => path(&["drivers", id]),
            Self::KillApp(id) => path(&["apps", id]),
            Self::Drain(id) | Self::Undrain(id) => path(&["workers", id]),
            Self::Transfer => "/".to_owned(),
        }
    }

    fn nav(&self) -> &'static str {
        match self {
            Self::KillDriver(_) => "/drivers",
            Self::KillApp(_) => "/apps",
            Self::Drain(_) | Self::Undrain(_) => "/workers",
            Self::Transfer => "/",
        }
    }

    fn is_dangerous(&self) -> bool {
        match self {
            Self::KillDriver(_) | Self::KillApp(_) => true,
            Self::Drain(_) | Self::Undrain(_) | Self::Transfer => false,
        }
    }
}

/// The page that asks.
async fn ask(site: Arc<Site>, parts: Parts, act: Act) -> Response {
    serve::page(site, parts, move |context| confirm(context, &act)).await
}

fn confirm(context: &Context, act: &Act) -> Made {
    if context.site.options.read_only {
        return Err(read_only());
    }
    let me = &context.status.me.id;
    let others = context
        .status
        .masters
        .iter()
        .filter(|master| master.id != *me);
    let page = Confirm {
        who: context.who(),
        heading: act.heading(),
        text: act.text(),
        label: act.label(),
        danger: act.is_dangerous(),
        action: act.action(),
        back: act.back(),
        request: format!("ui-{}", uuid::Uuid::now_v7()),
        is_drain: matches!(act, Act::Drain(_)),
        wants_token: context.site.handle.access().is_limited(),
        minutes_max: DRAIN_MINUTES_MAX,
        candidates: match act {
            Act::Transfer => others.map(|master| master.id.clone()).collect(),
            Act::KillDriver(_) | Act::KillApp(_) | Act::Drain(_) | Act::Undrain(_) => Vec::new(),
        },
        frame: context.still_frame(act.nav()),
    };
    Ok(page.render()?)
}

/// What a form does: here if this master leads, else at the leader.
async fn act(site: Arc<Site>, request: Request, act: Act) -> Response {
    let (parts, body) = request.into_parts();
    let context = serve::context(&site, &parts);
    match try_act(&site, &context, &parts, body, &act).await {
        Ok(response) => response,
        Err(error) => serve::failure(&context, &error),
    }
}

async fn try_act(
    site: &Arc<Site>,
    context: &Context,
    parts: &Parts,
    body: Body,
    act: &Act,
) -> Result<Response, PageError> {
    if site.options.read_only {
        return Err(read_only());
    }
    // A master that hands a form on has looked at where it comes from. No page of another site can set its header; one
    // that was led here under a false name could.
    let hosts = &site.options.hosts;
    match context.via {
        None => answer::check_origin(&parts.headers, hosts),
        Some(_) => answer::check_host(&parts.headers, hosts),
    }
    .map_err(|foreign| PageError::Refused(foreign.to_string()))?;
    let body = to_bytes(body, FORM_BYTES_MAX).await;
    let body =
        body.map_err(|_large| BadQuery(format!("the form is larger than {FORM_BYTES_MAX} bytes")))?;
    let text = String::from_utf8(body.to_vec());
    let text = text.map_err(|_binary| BadQuery("the form is no text".to_owned()))?;
    let form = parse(&text)?;
    let token = form.token.as_deref().map(str::trim);
    let caller = site
        .handle
        .access()
        .caller(token.filter(|token| !token.is_empty()));
    let caller = caller.map_err(|denied| {
        access::refused(denied, "web", &act.heading());
        PageError::Refused(denied.to_string())
    })?;
    if context.leads() {
        audit::named(caller, obey(site, act, form)).await?;
        return Ok(answer::see_other(&act.back()));
    }
    let me = &context.status.me;
    let leader = context
        .status
        .leader
        .as_ref()
        .filter(|leader| leader.id != me.id);
    match leader.filter(|leader| context.via.is_none() && !leader.web.is_empty()) {
        Some(leader) => match site.relay.post(leader, &parts.uri, text, &me.id).await {
            Relayed::Answered(response) => Ok(response),
            Relayed::Silent(reason) => {
                Err(PageError::Unavailable(format!("{reason} Send it again.")))
            }
        },
        None => Err(PageError::Unavailable(
            "Nobody leads at the moment. Send it again.".to_owned(),
        )),
    }
}

/// The fields of a form are written like those of a query.
fn parse(text: &str) -> Result<Form, PageError> {
    let uri = format!("/?{text}").parse::<http::Uri>();
    let uri = uri.map_err(|error| BadQuery(format!("the form cannot be read: {error}")))?;
    let form = read::<Form>(&uri)?;
    validate::request_id("request", &form.request).map_err(bad)?;
    Ok(form)
}

async fn obey(site: &Site, act: &Act, form: Form) -> Result<(), PageError> {
    let request = form.request.clone();
    let command = match act {
        Act::KillDriver(id) | Act::KillApp(id) => {
            validate::id("id", id).map_err(bad)?;
            Command::Kill {
                request: Some(convert::request_key(request, "kill", id)),
                id: id.clone(),
            }
        }
        Act::Drain(id) => drain(id, form)?,
        Act::Undrain(id) => {
            let undrain = v1::UndrainWorkersRequest {
                request_id: request,
                worker_id: id.clone(),
                ..Default::default()
            };
            drains::undrain(undrain).map_err(|status| BadQuery(status.message().to_owned()))?
        }
        Act::Transfer => return transfer(site, form.to).await,
    };
    let reply = site.handle.submit(command, CHANGE_TIMEOUT).await;
    reply.map(drop).map_err(|error| refusal(&error))
}

fn drain(id: &str, form: Form) -> Result<Command, PageError> {
    let minutes = form.minutes.filter(|text| !text.trim().is_empty());
    let minutes = minutes.map(|text| {
        let text = Some(text.trim().to_owned());
        interrex_web::list::number("minutes", text, 1, DRAIN_MINUTES_MAX)
    });
    let drain = v1::DrainWorkersRequest {
        request_id: form.request,
        worker_id: id.to_owned(),
        deadline_ms: minutes.transpose()?.map(|minutes| minutes as u64 * 60_000),
        reason: form.reason.unwrap_or_default().trim().to_owned(),
        ..Default::default()
    };
    let command = drains::drain(drain);
    Ok(command.map_err(|status| BadQuery(status.message().to_owned()))?)
}

async fn transfer(site: &Site, to: Option<String>) -> Result<(), PageError> {
    let to = to.filter(|to| !to.is_empty());
    if let Some(to) = &to {
        validate::id("to", to).map_err(bad)?;
    }
    let heir = match timeout(TRANSFER_TIMEOUT, site.handle.transfer_leader(to)).await {
        Ok(Ok(heir)) => heir,
        Ok(Err(error)) => return Err(PageError::Rejected(error.to_string())),
        Err(_elapsed) => {
            let s = TRANSFER_TIMEOUT.as_secs();
            return Err(PageError::Rejected(format!(
                "nobody has taken over within {s} s"
            )));
        }
    };
    let _heard_of = site.handle.epoch_of(&heir).await;
    Ok(())
}

fn refusal(error: &RequestError) -> PageError {
    match error {
        RequestError::Rejected(Rejection::NotFound { .. } | Rejection::UnknownWorker { .. }) => {
            PageError::NotFound(error.to_string())
        }
        RequestError::Rejected(_) | RequestError::Restoring { .. } => {
            PageError::Rejected(error.to_string())
        }
        RequestError::NotLeader { .. }
        | RequestError::OutcomeUnknown
        | RequestError::Busy { .. }
        | RequestError::DeadlineExceeded { .. }
        | RequestError::ShuttingDown => {
            PageError::Unavailable(format!("{error}. Sending the form again is safe."))
        }
    }
}

fn bad(error: validate::FieldError) -> PageError {
    BadQuery(error.to_string()).into()
}

fn read_only() -> PageError {
    PageError::Refused("These pages only show: the option ui.read_only is set.".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_must_have_the_id_of_its_request() {
        assert!(matches!(parse("reason=x"), Err(PageError::BadQuery(_))));
        assert!(matches!(
            parse("request=a&colour=red"),
            Err(PageError::BadQuery(_))
        ));
        let form = parse("request=ui-1&reason=a+b%26c&minutes=").expect("a form");
        assert_eq!(form.reason.as_deref(), Some("a b&c"));
    }

    #[test]
    fn a_drain_takes_its_deadline_in_minutes() {
        let form = |minutes: &str| Form {
            request: "ui-1".to_owned(),
            minutes: Some(minutes.to_owned()),
            ..Form::default()
        };
        let Ok(Command::DrainWorkers { deadline, .. }) = drain("w1", form("10")) else {
            panic!("a drain");
        };
        assert_eq!(deadline, Some(Duration::from_secs(600)));
        let Ok(Command::DrainWorkers { deadline, .. }) = drain("w1", form(" ")) else {
            panic!("a drain");
        };
        assert_eq!(deadline, None);
        for minutes in ["0", "ten", "525601"] {
            let refused = drain("w1", form(minutes))
                .expect_err("must be refused")
                .to_string();
            assert!(refused.starts_with("minutes: "), "{refused}");
        }
    }

    #[test]
    fn every_form_leads_back_to_what_it_has_changed() {
        let drain = Act::Drain("a/b".to_owned());
        assert_eq!(
            (drain.action().as_str(), drain.back().as_str()),
            ("/workers/a%2Fb/drain", "/workers/a%2Fb")
        );
    }
}
