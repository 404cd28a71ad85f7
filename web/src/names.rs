//! By which names a server may be asked that only its own machine reaches.
//!
//! A page of another site can give its name the address 127.0.0.1 once its script runs (DNS rebinding); the browser then lets
//! that script read what a server on loopback says. So such a server answers to its own names alone. One that listens for
//! other machines is known to them by names that nobody here can list; it only guards what changes something
//! ([`answer::check_host`]).

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use http::{StatusCode, header};

use crate::answer;

/// Has `pages`, which are served at `listener`, answer only to addresses, `localhost` and `hosts` where that is on loopback.
pub fn guarded<S: Clone + Send + Sync + 'static>(
    pages: Router<S>,
    listener: SocketAddr,
    hosts: Vec<String>,
) -> Router<S> {
    if !listener.ip().is_loopback() {
        return pages;
    }
    let hosts: Arc<[String]> = hosts.into();
    pages.layer(from_fn_with_state(hosts, check))
}

async fn check(State(hosts): State<Arc<[String]>>, request: Request, next: Next) -> Response {
    // A browser always says whom it asks.
    if request.headers().contains_key(header::HOST)
        && let Err(foreign) = answer::check_host(request.headers(), &hosts)
    {
        return (StatusCode::FORBIDDEN, format!("{foreign}\n")).into_response();
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request, routing::get};
    use tower::ServiceExt;

    use super::*;

    async fn status(listener: &str, host: Option<&str>) -> u16 {
        let pages = Router::new().route("/", get(async || "a page"));
        let pages: Router = guarded(
            pages,
            listener.parse().unwrap(),
            vec!["m1.example".to_owned()],
        );
        let mut request = Request::builder().uri("/");
        if let Some(host) = host {
            request = request.header("host", host);
        }
        let request = request.body(Body::empty()).unwrap();
        pages.oneshot(request).await.unwrap().status().as_u16()
    }

    #[tokio::test]
    async fn pages_on_loopback_answer_to_their_own_names_alone() {
        for host in [
            "127.0.0.1:8080",
            "localhost:8080",
            "[::1]:8080",
            "M1.example:9",
        ] {
            assert_eq!(status("127.0.0.1:8080", Some(host)).await, 200, "{host}");
        }
        assert_eq!(status("127.0.0.1:8080", None).await, 200);
        for listener in ["127.0.0.1:8080", "[::1]:8080"] {
            assert_eq!(status(listener, Some("evil.example:8080")).await, 403);
        }
    }

    #[tokio::test]
    async fn pages_for_other_machines_answer_to_every_name() {
        assert_eq!(status("10.0.0.1:8080", Some("any.example:8080")).await, 200);
        assert_eq!(status("0.0.0.0:8080", Some("any.example:8080")).await, 200);
    }
}
