//! Before every gRPC call: whoever wants to change something shows a token, where tokens are in use.
//!
//! What only shows something is named here; all else needs a token, so that a call that is added later is guarded
//! before anybody thinks of it.

use std::task::{Context, Poll};

use futures::future::{Either, Ready, ready};
use tonic::{Status, body::Body};
use tower::{Layer, Service};

use crate::{
    access::{Access, audit},
    runtime::handle::MasterHandle,
};

/// Calls that change nothing: whole services, and methods of `interrex.v1.Control`.
const OPEN_SERVICES: [&str; 2] = [
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
];
const CONTROL: &str = "interrex.v1.Control";
const OPEN_METHODS: [&str; 7] = [
    "GetStatus",
    "Wait",
    "List",
    "Explain",
    "ListEvents",
    "WatchEvents",
    "GetCluster",
];

/// Puts a [`Guarded`] around the routes.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    access: Access,
}

/// Routes behind a [`Guard`].
#[derive(Debug, Clone)]
pub(crate) struct Guarded<S> {
    inner: S,
    access: Access,
}

// === impl Guard ===

impl Guard {
    pub(crate) fn new(handle: &MasterHandle) -> Self {
        Self {
            access: handle.access().clone(),
        }
    }
}

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded {
            inner,
            access: self.access.clone(),
        }
    }
}

// === impl Guarded ===

impl<S> Service<http::Request<Body>> for Guarded<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<
        tokio::task::futures::TaskLocalFuture<crate::access::Caller, S::Future>,
        Ready<Result<S::Response, S::Error>>,
    >;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let path = request.uri().path();
        let caller = if is_open(path) {
            Ok(crate::access::Caller::Anybody)
        } else {
            let header = request.headers().get(http::header::AUTHORIZATION);
            self.access.bearer(header, "grpc", path)
        };
        match caller {
            Ok(caller) => Either::Left(audit::named(caller, self.inner.call(request))),
            Err(denied) => {
                let refusal = Status::unauthenticated(denied.to_string()).into_http();
                Either::Right(ready(Ok(refusal)))
            }
        }
    }
}

/// Whether a call changes nothing. `path`: `/package.Service/Method`.
fn is_open(path: &str) -> bool {
    let Some((service, method)) = path.strip_prefix('/').and_then(|path| path.split_once('/'))
    else {
        return false;
    };
    OPEN_SERVICES.contains(&service) || service == CONTROL && OPEN_METHODS.contains(&method)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_to_change_nothing_is_open() {
        for path in [
            "/interrex.v1.Control/GetStatus",
            "/interrex.v1.Control/WatchEvents",
            "/grpc.health.v1.Health/Check",
        ] {
            assert!(is_open(path), "{path}");
        }
        for path in [
            "/interrex.v1.Control/Submit",
            "/interrex.v1.Control/SomethingNew",
            "/interrex.v1.Session/Attach",
            "/interrex.v1.Snapshots/Save",
            "/interrex.v1.RaftPeer/Vote",
            "/interrex.v1.Other/GetStatus",
            "GetStatus",
            "",
        ] {
            assert!(!is_open(path), "{path}");
        }
    }
}
