//! One request of the submission API: read, check, then do it here or at the leader.
//!
//! While nobody leads, a request waits for a leader for a bounded time: a submission that arrives in the
//! middle of a failover is acknowledged after it. Repeating within that time is safe, because the id of a request
//! that changes something is fixed before the first try.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::Request,
};
use http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts};
use interrex_core::{
    command::Command,
    transition::{Rejection, Reply},
};
use interrex_proto::trace::{TRACEPARENT, Traceparent};
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument, Span};

use super::{
    Server, body,
    create::{self, Create},
    errors::RestError,
    forward::{FORWARDED_BY, Forwarded, IDEMPOTENCY_KEY, LEADER, Outgoing, REPLAYED, header_value},
    model::{Answer, CONTENT_TYPE},
    route::Route,
};
use crate::{
    access::{Caller, audit},
    edge::convert,
    metrics::{self, Queue, Source},
    runtime::{error::RequestError, handle::Role, traces, view::Found},
};

/// Pause before the next look for a leader, where no change of this master's role ends it earlier.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// Longest wait for the proof that the leader leads, for `readyz`.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// What a request asks of the leader.
enum Order {
    Create(Box<Create>),
    Kill(String),
    KillAll,
    Status(String),
    Clear,
}

/// A request on its way.
struct Task {
    order: Order,
    outgoing: Outgoing,
    /// Another master has forwarded it.
    forwarded: bool,
}

/// An answer with what belongs into its headers.
struct Done {
    answer: Answer,
    replayed: bool,
}

// === impl Server ===

impl Server {
    /// Answers `request`; whatever happens, with JSON.
    pub(super) async fn serve(&self, request: Request) -> http::Response<Body> {
        let began = Instant::now();
        let (parts, body) = request.into_parts();
        let route = Route::parse(&parts.method, parts.uri.path());
        let endpoint = route.as_ref().map_or("other", Route::name);
        let response = match route {
            Ok(route) => match self.caller(&route, &parts.headers) {
                Ok(caller) => audit::named(caller, self.answer(route, parts, body)).await,
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        let response = response.unwrap_or_else(|error| self.refusal(error));
        metrics::http_handled(endpoint, response.status(), began.elapsed());
        response
    }

    /// Who asks; anybody may where nothing is changed.
    fn caller(&self, route: &Route, headers: &HeaderMap) -> Result<Caller, RestError> {
        match route {
            Route::Status(_) | Route::Readyz => Ok(Caller::Anybody),
            Route::Create | Route::Kill(_) | Route::KillAll | Route::Clear => {
                let token = headers.get(header::AUTHORIZATION);
                let caller = self.handle.access().bearer(token, "rest", route.name());
                caller.map_err(RestError::unauthorized)
            }
        }
    }

    async fn answer(
        &self,
        route: Route,
        parts: Parts,
        body: Body,
    ) -> Result<http::Response<Body>, RestError> {
        let max = self.options.concurrent_requests_max;
        let _slot = self.slots.try_acquire().map_err(|_full| {
            metrics::refused(Queue::RestRequests);
            RestError::overloaded(max)
        })?;
        let limit = self.options.body_bytes_max();
        let body = body::read(body, limit, self.options.body_timeout).await?;
        let forwarded = parts.headers.contains_key(FORWARDED_BY);
        let task = |order, key, body| Task {
            order,
            outgoing: Outgoing {
                method: parts.method.clone(),
                path: parts.uri.path().to_owned(),
                body,
                key,
                authorization: parts.headers.get(header::AUTHORIZATION).cloned(),
                trace: traceparent(&parts.headers),
            },
            forwarded,
        };
        let key = || {
            let given = create::request_id(idempotency_key(&parts.headers)?, None)?;
            Ok::<_, RestError>(Some(given.unwrap_or_else(fresh_id)))
        };
        match route {
            Route::Create => self.create(&parts.headers, body, task).await,
            Route::Kill(id) => self.run(&task(Order::Kill(id), key()?, body)).await,
            Route::KillAll => self.run(&task(Order::KillAll, key()?, body)).await,
            Route::Status(id) => self.run(&task(Order::Status(id), None, body)).await,
            Route::Clear => self.run(&task(Order::Clear, key()?, body)).await,
            Route::Readyz => self.readyz(forwarded).await,
        }
    }

    async fn create(
        &self,
        headers: &HeaderMap,
        body: Bytes,
        task: impl FnOnce(Order, Option<String>, Bytes) -> Task,
    ) -> Result<http::Response<Body>, RestError> {
        let began = Instant::now();
        let create = idempotency_key(headers).and_then(|key| Create::parse(&body, key, fresh_id));
        let create = match create {
            Ok(create) => create,
            Err(error) => {
                metrics::submission(Source::Rest, "invalid", began.elapsed());
                return Err(error);
            }
        };
        let key = Some(create.request.to_string());
        self.run(&task(Order::Create(Box::new(create)), key, body))
            .await
    }

    /// Carries the order out here or at the leader; waits for a leader within its bound.
    async fn run(&self, task: &Task) -> Result<http::Response<Body>, RestError> {
        let until = Instant::now() + self.options.leader_wait;
        let mut role = self.handle.watch_role();
        loop {
            role.mark_unchanged();
            let problem = match self.here(task).await {
                Ok(done) => return Ok(self.success(done)),
                Err(error) if worth_another_try(&error) => error,
                Err(error) => return Err(RestError::from(&error)),
            };
            let reason = match &problem {
                RequestError::NotLeader {
                    leader: Some(leader),
                    ..
                } if !task.forwarded && !leader.rest.is_empty() => {
                    let me = self.handle.status().me.id;
                    match self.forwarder.send(&task.outgoing, leader, &me).await {
                        Forwarded::Answered(response) => return Ok(response),
                        Forwarded::TryAgain(reason) => reason,
                    }
                }
                RequestError::NotLeader { .. }
                | RequestError::OutcomeUnknown
                | RequestError::Busy { .. }
                | RequestError::DeadlineExceeded { .. }
                | RequestError::Rejected(_)
                | RequestError::Restoring { .. }
                | RequestError::ShuttingDown => problem.to_string(),
            };
            // The first master waits for the whole chain; a forwarded request answers at once.
            if task.forwarded || Instant::now() + RETRY_PAUSE >= until {
                return Err(RestError::unavailable(format!(
                    "No leader can answer: {reason}."
                )));
            }
            let pause = Instant::now() + RETRY_PAUSE;
            let _woken = timeout_at(pause, role.changed()).await.is_ok();
        }
    }

    /// Carries the order out at this master, if it leads.
    async fn here(&self, task: &Task) -> Result<Done, RequestError> {
        let limit = self.options.call_timeout;
        let (order, key) = (&task.order, task.outgoing.key.as_deref());
        let request = |verb, target| key.map(|key| convert::request_key(key, verb, target));
        let command = match order {
            Order::Create(create) => {
                let caller = task.outgoing.trace.as_ref();
                // A standby hands the request on, again and again while nobody leads: that is no call of its own.
                let span = match self.handle.port() {
                    Ok(_) => traces::submission("POST /v1/submissions/create", caller),
                    Err(_stands_by) => Span::none(),
                };
                return self.create_here(create).instrument(span).await;
            }
            Order::Status(id) => return self.status_here(id).await,
            Order::Kill(id) => Command::Kill {
                request: request("kill", id),
                id: id.clone(),
            },
            Order::KillAll => Command::KillAllDrivers {
                request: request("kill all", ""),
            },
            Order::Clear => Command::ClearCompleted {
                request: request("clear", ""),
            },
        };
        let answer = match (order, self.handle.submit(command, limit).await) {
            (
                Order::Kill(id),
                Ok(
                    Reply::DriverKilled { already_over, .. }
                    | Reply::AppKilled { already_over, .. },
                ),
            ) => Answer::killed(id.clone(), !already_over),
            (Order::Kill(id), Err(RequestError::Rejected(Rejection::NotFound { .. }))) => {
                Answer::killed(id.clone(), false)
            }
            (Order::KillAll, Ok(Reply::Count(_))) => Answer::all_killed(),
            (Order::Clear, Ok(Reply::Count(_))) => Answer::cleared(),
            (_, Ok(other)) => return Err(unexpected(&other)),
            (_, Err(error)) => return Err(error),
        };
        Ok(Done {
            answer,
            replayed: false,
        })
    }

    async fn create_here(&self, create: &Create) -> Result<Done, RequestError> {
        let began = Instant::now();
        let command = Command::SubmitDriver {
            request: create.request.clone(),
            fingerprint: convert::driver_fingerprint(&create.spec),
            spec: Arc::new(create.spec.clone()),
        };
        let result = self.handle.submit(command, self.options.call_timeout).await;
        if let Some(label) = submission_label(&result) {
            metrics::submission(Source::Rest, label, began.elapsed());
            traces::named(create.request.as_str());
            traces::came_to(label);
        }
        let reply = result?;
        let Reply::DriverSubmitted { driver, replayed } = reply else {
            return Err(unexpected(&reply));
        };
        let answer = Answer::created(driver.id.to_string(), create.unknown_fields.clone());
        Ok(Done { answer, replayed })
    }

    async fn status_here(&self, id: &str) -> Result<Done, RequestError> {
        let view = self.handle.read(self.options.call_timeout).await?;
        let answer = match view.find(id) {
            Some(Found::Driver(driver)) => {
                let worker = driver.worker.as_ref();
                let web = worker
                    .and_then(|id| view.worker(id))
                    .map(|worker| worker.spec.web.clone());
                Answer {
                    message: Some(driver.message.clone()).filter(|text| !text.is_empty()),
                    worker_id: worker.map(ToString::to_string),
                    worker_host_port: web.filter(|web| !web.is_empty()),
                    ..Answer::status(id.to_owned(), driver.state)
                }
            }
            Some(Found::App(_)) | None => Answer::unknown_driver(id.to_owned()),
        };
        Ok(Done {
            answer,
            replayed: false,
        })
    }

    /// Ready: a leader has opened its epoch and can prove that it leads. Not worth a wait: the caller asks again.
    async fn readyz(&self, forwarded: bool) -> Result<http::Response<Body>, RestError> {
        let status = self.handle.status();
        let reason = match (self.handle.read(READY_TIMEOUT).await, status.leader) {
            (Ok(_proven), _) => {
                return Ok(self.success(Done {
                    answer: Answer::ready(),
                    replayed: false,
                }));
            }
            (
                Err(RequestError::NotLeader {
                    leader: Some(leader),
                    ..
                }),
                _,
            ) if !forwarded && !leader.rest.is_empty() => {
                let request = Outgoing {
                    method: http::Method::GET,
                    path: "/v1/submissions/readyz".to_owned(),
                    body: Bytes::new(),
                    key: None,
                    authorization: None,
                    trace: None,
                };
                let sent = self.forwarder.send(&request, &leader, &status.me.id);
                match timeout_at(Instant::now() + READY_TIMEOUT, sent).await {
                    Ok(Forwarded::Answered(response)) => return Ok(response),
                    Ok(Forwarded::TryAgain(reason)) => reason,
                    Err(_elapsed) => format!("leader {} did not answer in time", leader.id),
                }
            }
            (Err(error), _) => error.to_string(),
        };
        Err(RestError::unavailable(format!(
            "Master is not ready. {reason}."
        )))
    }

    fn success(&self, done: Done) -> http::Response<Body> {
        let mut response = self.json(StatusCode::OK, done.answer);
        if done.replayed {
            response
                .headers_mut()
                .insert(REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }

    fn refusal(&self, error: RestError) -> http::Response<Body> {
        let answer = Answer {
            highest_protocol_version: error.highest_protocol_version,
            ..Answer::error(error.message)
        };
        let mut response = self.json(error.status, answer);
        if let Some(after) = error.retry_after {
            let seconds = HeaderValue::from(after.as_secs().max(1));
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        if let Some(method) = error.allow {
            response
                .headers_mut()
                .insert(header::ALLOW, HeaderValue::from_static(method));
        }
        response
    }

    fn json(&self, status: StatusCode, mut answer: Answer) -> http::Response<Body> {
        answer
            .server_spark_version
            .clone_from(&self.options.server_spark_version);
        let body = answer.to_json().unwrap_or_else(|error| {
            tracing::error!(%error, "an answer could not be written as JSON");
            br#"{"action" : "ErrorResponse", "message" : "Internal server error"}"#.to_vec()
        });
        let mut response = http::Response::new(Body::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
        let master = self.handle.status();
        if let Some(leader) = master
            .leader
            .filter(|_| master.role == Role::Leading || status.is_server_error())
        {
            headers.insert(LEADER, header_value(&leader.id));
        }
        response
    }
}

/// An id for a request that came without one.
fn fresh_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// The `Idempotency-Key` header, if there is one.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, RestError> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(first) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(RestError::bad_request(
            "Malformed request: Idempotency-Key: is given twice.",
        ));
    }
    match first.to_str() {
        Ok(key) => Ok(Some(key)),
        Err(_binary) => Err(RestError::bad_request(
            "Malformed request: Idempotency-Key: has an unprintable character.",
        )),
    }
}

/// Where the client stands in a trace. What cannot be read is no reason to refuse anything.
fn traceparent(headers: &HeaderMap) -> Option<Traceparent> {
    Traceparent::parse(headers.get(TRACEPARENT)?.to_str().ok()?)
}

/// Whether the same request may succeed after a moment. A full queue is the client's to wait for.
fn worth_another_try(error: &RequestError) -> bool {
    match error {
        RequestError::NotLeader { .. }
        | RequestError::OutcomeUnknown
        | RequestError::DeadlineExceeded { .. }
        | RequestError::ShuttingDown => true,
        RequestError::Busy { .. } | RequestError::Restoring { .. } | RequestError::Rejected(_) => {
            false
        }
    }
}

/// The label of what came of a submission here; a standby counts nothing, the leader does.
fn submission_label(result: &Result<Reply, RequestError>) -> Option<&'static str> {
    match result {
        Ok(Reply::DriverSubmitted { replayed: true, .. }) => Some("replayed"),
        Ok(_) => Some("accepted"),
        Err(
            RequestError::NotLeader { .. }
            | RequestError::Restoring { .. }
            | RequestError::ShuttingDown,
        ) => None,
        Err(RequestError::OutcomeUnknown | RequestError::DeadlineExceeded { .. }) => {
            Some("unknown")
        }
        Err(RequestError::Busy { .. }) => Some("busy"),
        Err(RequestError::Rejected(Rejection::Conflict { .. })) => Some("conflict"),
        Err(RequestError::Rejected(Rejection::LimitReached { .. })) => Some("busy"),
        Err(RequestError::Rejected(_)) => Some("invalid"),
    }
}

/// The core answered with something that does not belong to the request: a fault of this program.
fn unexpected(reply: &Reply) -> RequestError {
    tracing::error!(
        ?reply,
        "the core gave an answer that does not belong to this request"
    );
    RequestError::OutcomeUnknown
}
