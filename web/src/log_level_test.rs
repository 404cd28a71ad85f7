//! Who may change what is logged, and with what.

use std::sync::Mutex;

use axum::{body::to_bytes, http::Request};
use tower::ServiceExt;

use super::*;

/// A logger that takes every filter but `bad`.
#[derive(Default)]
struct Logger(Mutex<Option<String>>);

impl LogFilter for Logger {
    fn get(&self) -> String {
        let now = self.0.lock().unwrap();
        now.clone().unwrap_or_else(|| "info".to_owned())
    }

    fn set(&self, filter: Option<&str>) -> Result<String, String> {
        if filter == Some("bad") {
            return Err("`bad`: no such level".to_owned());
        }
        *self.0.lock().unwrap() = filter.map(str::to_owned);
        Ok(self.get())
    }
}

struct Server(Router);

impl Server {
    fn new(read_only: bool) -> Self {
        Self::with(Rules {
            read_only,
            hosts: vec!["m1.example".to_owned()],
            gate: None,
        })
    }

    fn with(rules: Rules) -> Self {
        Self(router(Some(LogControl::new(Logger::default())), rules))
    }

    async fn ask(&self, method: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let mut request = Request::builder().method(method).uri(PATH);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let response = self.0.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }
}

const HERE: (&str, &str) = ("host", "127.0.0.1:8080");

#[tokio::test]
async fn what_is_logged_is_shown_changed_and_set_back() {
    let server = Server::new(false);
    let is = |text: &str| (200, format!("{text}\n"));
    assert_eq!(server.ask("GET", &[HERE], "").await, is("info"));
    assert_eq!(server.ask("PUT", &[HERE], "debug\n").await, is("debug"));
    assert_eq!(server.ask("GET", &[HERE], "").await, is("debug"));
    let (status, text) = server.ask("PUT", &[HERE], "bad").await;
    assert_eq!((status, text.contains("no such level")), (400, true));
    assert_eq!(server.ask("GET", &[HERE], "").await, is("debug"));
    assert_eq!(server.ask("PUT", &[HERE], "").await, is("info"));
    let long = "x".repeat(FILTER_BYTES_MAX + 1);
    assert_eq!(server.ask("PUT", &[HERE], &long).await.0, 400);
}

#[tokio::test]
async fn only_who_may_act_on_pages_may_change_what_is_logged() {
    let server = Server::new(false);
    let own = ("origin", "http://127.0.0.1:8080");
    let named = ("host", "m1.example:8080");
    assert_eq!(server.ask("PUT", &[HERE, own], "debug").await.0, 200);
    assert_eq!(server.ask("PUT", &[named], "debug").await.0, 200);
    let foreign = ("origin", "http://evil.example");
    assert_eq!(server.ask("PUT", &[HERE, foreign], "trace").await.0, 403);
    let rebound = ("host", "evil.example:8080");
    let as_named = ("origin", "http://evil.example:8080");
    assert_eq!(server.ask("PUT", &[rebound], "trace").await.0, 403);
    assert_eq!(
        server.ask("PUT", &[rebound, as_named], "trace").await.0,
        403
    );
    // A browser asks with this before it sends a PUT to another site.
    let asked = [HERE, foreign, ("access-control-request-method", "PUT")];
    assert_eq!(server.ask("OPTIONS", &asked, "").await.0, 405);
    assert_eq!(server.ask("GET", &[HERE], "").await.1, "debug\n");
}

#[tokio::test]
async fn a_server_that_only_shows_changes_nothing() {
    let server = Server::new(true);
    let (status, text) = server.ask("PUT", &[HERE], "debug").await;
    assert_eq!((status, text.contains("read_only")), (403, true));
    assert_eq!(server.ask("GET", &[HERE], "").await.1, "info\n");
}

#[tokio::test]
async fn where_there_is_a_gate_a_change_needs_a_token_and_a_look_does_not() {
    let server = Server::with(Rules {
        gate: Some(Gate::new(|shown| {
            let known = shown.is_some_and(|value| value == "Bearer secret");
            known.then_some(()).ok_or_else(|| "show a token".to_owned())
        })),
        ..Rules::default()
    });
    let (status, text) = server.ask("PUT", &[HERE], "debug").await;
    assert_eq!((status, text.as_str()), (401, "show a token\n"));
    let wrong = ("authorization", "Bearer guess");
    assert_eq!(server.ask("PUT", &[HERE, wrong], "debug").await.0, 401);
    assert_eq!(server.ask("GET", &[HERE], "").await.1, "info\n");
    let right = ("authorization", "Bearer secret");
    assert_eq!(server.ask("PUT", &[HERE, right], "debug").await.0, 200);
}
