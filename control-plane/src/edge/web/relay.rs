//! From a standby to the leader: the same request, once more. A relayed request is marked, and a marked one is never
//! relayed again: two masters that take each other for the leader answer, they do not loop.

use std::time::Duration;

use axum::{body::Body, response::Response};
use futures::StreamExt;
use http::{HeaderName, StatusCode, Uri, header};
use interrex_persistence::election::MasterInfo;
use interrex_web::{answer, server};

/// Marks a request that a master hands on; its value is that master's id. A browser sends such a header only to its
/// own site, so it also shows that no other site's page has made the request.
pub(super) const FORWARDED_BY: HeaderName = HeaderName::from_static("interrex-forwarded-by");
/// How long the leader may take for a page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(6);
/// Largest page, in bytes.
const PAGE_BYTES_MAX: usize = 8 << 20;
/// Connections kept open to one leader.
const IDLE_CONNECTIONS_MAX: usize = 16;
/// Headers of the leader's answer that are handed on.
const HANDED_ON: [HeaderName; 3] = [
    header::CONTENT_TYPE,
    header::CONTENT_SECURITY_POLICY,
    header::LOCATION,
];

/// What came of it.
#[derive(Debug)]
pub(super) enum Relayed {
    /// The leader has answered.
    Answered(Response),
    /// It has not, or cannot at this moment: why, in words.
    Silent(String),
}

/// The client for relaying. Cloning costs a reference count.
#[derive(Debug, Clone)]
pub(super) struct Relay {
    client: reqwest::Client,
}

// === impl Relay ===

impl Relay {
    pub(super) fn new() -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .connect_timeout(interrex_proto::limits::CONNECT_TIMEOUT)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .pool_idle_timeout(server::KEPT_IDLE)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()?;
        Ok(Self { client })
    }

    /// The client, for those who ask agents.
    pub(super) fn client(&self) -> &reqwest::Client {
        &self.client
    }

    /// Fetches a page from `leader` in the name of the master `me`.
    pub(super) async fn fetch(&self, leader: &MasterInfo, uri: &Uri, me: &str) -> Relayed {
        let request = self.client.get(address(leader, uri));
        self.send(request, leader, me).await
    }

    /// Hands a form on. It may be repeated only where its fields say so themselves.
    pub(super) async fn post(
        &self,
        leader: &MasterInfo,
        uri: &Uri,
        form: String,
        me: &str,
    ) -> Relayed {
        let request = self.client.post(address(leader, uri));
        let kind = "application/x-www-form-urlencoded";
        let request = request.header(header::CONTENT_TYPE, kind).body(form);
        self.send(request, leader, me).await
    }

    /// Asks `leader` something that is answered with JSON; `None`: no answer in time.
    pub(super) async fn json<T: serde::de::DeserializeOwned>(
        &self,
        leader: &MasterInfo,
        path: &str,
        me: &str,
        limit: Duration,
    ) -> Option<T> {
        let url = format!("http://{}{path}", leader.web);
        let request = self.client.get(url).header(FORWARDED_BY, me).timeout(limit);
        let answer = request.send().await.ok()?.error_for_status().ok()?;
        answer.json().await.ok()
    }

    async fn send(
        &self,
        request: reqwest::RequestBuilder,
        leader: &MasterInfo,
        me: &str,
    ) -> Relayed {
        let request = request.header(FORWARDED_BY, me).timeout(PAGE_TIMEOUT);
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) => return Relayed::Silent(silent(leader, &error)),
        };
        let (status, headers) = (answer.status(), answer.headers().clone());
        if status == StatusCode::SERVICE_UNAVAILABLE {
            let text = format!("{} cannot answer at this moment.", leader.id);
            return Relayed::Silent(text);
        }
        let mut body = Vec::new();
        let mut chunks = answer.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            match chunk {
                Ok(chunk) if body.len() + chunk.len() <= PAGE_BYTES_MAX => body.extend(chunk),
                Ok(_) => {
                    return Relayed::Silent(format!("The page of {} is too large.", leader.id));
                }
                Err(error) => return Relayed::Silent(silent(leader, &error)),
            }
        }
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        for name in HANDED_ON {
            if let Some(value) = headers.get(&name) {
                response.headers_mut().insert(name, value.clone());
            }
        }
        answer::guard(response.headers_mut());
        Relayed::Answered(response)
    }
}

fn address(leader: &MasterInfo, uri: &Uri) -> String {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    format!("http://{}{path}", leader.web)
}

fn silent(leader: &MasterInfo, error: &reqwest::Error) -> String {
    tracing::debug!(leader = %leader.id, address = %leader.web, %error, "relaying did not succeed");
    let why = match (error.is_timeout(), error.is_connect()) {
        (_, true) => "cannot be reached",
        (true, false) => "does not answer in time",
        (false, false) => "broke off",
    };
    format!("Leader {} at {} {why}.", leader.id, leader.web)
}
