//! From a standby to the leader: the same request, once more, with its id.
//!
//! A forwarded request is marked, and a marked one is never forwarded again: two masters that take each other
//! for the leader answer, they do not loop. Since the id travels along, sending again is safe (promise P2).

use axum::body::{Body, Bytes};
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use interrex_persistence::election::MasterInfo;
use interrex_proto::trace::{TRACEPARENT, Traceparent};
use interrex_web::server;

use super::model::CONTENT_TYPE;
use crate::options::rest::RestOptions;

/// Marks a request that a master has forwarded; its value is that master's id.
pub(super) const FORWARDED_BY: HeaderName = HeaderName::from_static("interrex-forwarded-by");
/// The client's id for a request that changes something.
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// On answers: this id had been accepted before.
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// On answers: the leader's id.
pub(super) const LEADER: HeaderName = HeaderName::from_static("interrex-leader");
/// Headers of the leader's answer that are handed on.
const HANDED_ON: [HeaderName; 4] = [header::CONTENT_TYPE, header::RETRY_AFTER, REPLAYED, LEADER];
/// Connections kept open to one leader.
const IDLE_CONNECTIONS_MAX: usize = 256;

/// A request as it is sent on.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    pub(super) method: Method,
    /// Path without host, as the client sent it.
    pub(super) path: String,
    pub(super) body: Bytes,
    /// Set for what changes something.
    pub(super) key: Option<String>,
    /// The caller's token, which the leader checks again.
    pub(super) authorization: Option<HeaderValue>,
    /// Where the client stands in a trace.
    pub(super) trace: Option<Traceparent>,
}

/// What came of forwarding.
#[derive(Debug)]
pub(super) enum Forwarded {
    /// The leader answered.
    Answered(http::Response<Body>),
    /// It could not be reached, or does not lead (any more): worth another try.
    TryAgain(String),
}

/// The client for forwarding.
#[derive(Debug)]
pub(super) struct Forwarder {
    client: reqwest::Client,
}

// === impl Forwarder ===

impl Forwarder {
    pub(super) fn new(options: &RestOptions) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .connect_timeout(interrex_proto::limits::CONNECT_TIMEOUT)
            .timeout(options.call_timeout)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .pool_idle_timeout(server::KEPT_IDLE)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()?;
        Ok(Self { client })
    }

    /// Sends `request` to `leader` in the name of the master `me`.
    pub(super) async fn send(
        &self,
        request: &Outgoing,
        leader: &MasterInfo,
        me: &str,
    ) -> Forwarded {
        let url = format!("http://{}{}", leader.rest, request.path);
        let mut outgoing = self
            .client
            .request(request.method.clone(), url)
            .header(header::CONTENT_TYPE, CONTENT_TYPE)
            .header(FORWARDED_BY, me)
            .body(request.body.clone());
        if let Some(token) = &request.authorization {
            outgoing = outgoing.header(header::AUTHORIZATION, token);
        }
        if let Some(key) = &request.key {
            outgoing = outgoing.header(IDEMPOTENCY_KEY, key);
        }
        if let Some(trace) = &request.trace {
            outgoing = outgoing.header(TRACEPARENT, trace.as_str());
        }
        let answer = match outgoing.send().await {
            Ok(answer) => answer,
            Err(error) => return Forwarded::TryAgain(unreachable(leader, &error)),
        };
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = match answer.bytes().await {
            Ok(body) => body,
            Err(error) => return Forwarded::TryAgain(unreachable(leader, &error)),
        };
        if status == StatusCode::SERVICE_UNAVAILABLE {
            return Forwarded::TryAgain(format!("{} cannot answer at this moment", leader.id));
        }
        let mut response = http::Response::new(Body::from(body));
        *response.status_mut() = status;
        for name in HANDED_ON {
            if let Some(value) = headers.get(&name) {
                response.headers_mut().insert(name, value.clone());
            }
        }
        response
            .headers_mut()
            .entry(LEADER)
            .or_insert_with(|| header_value(&leader.id));
        Forwarded::Answered(response)
    }
}

/// An id as a header's value; empty where it cannot be one.
pub(super) fn header_value(id: &str) -> HeaderValue {
    HeaderValue::from_str(id).unwrap_or(HeaderValue::from_static(""))
}

fn unreachable(leader: &MasterInfo, error: &reqwest::Error) -> String {
    let why = match (error.is_timeout(), error.is_connect()) {
        (_, true) => "cannot be reached",
        (true, false) => "did not answer in time",
        (false, false) => "broke off",
    };
    tracing::debug!(leader = %leader.id, address = %leader.rest, %error, "forwarding did not succeed");
    format!("leader {} at {} {why}", leader.id, leader.rest)
}
