//! Spark's submission API (port 6066), served by every master: a standby forwards to the leader.
//!
//! Stateless but for a bound on the requests that are served at once. What differs from Spark's server is
//! listed in `docs/rest.md`; the rule behind it: every answer is JSON and says what to do.

pub mod create;
pub mod errors;
pub mod model;
pub mod route;

mod body;
mod forward;
mod properties;
mod serve;

use std::{convert::Infallible, sync::Arc};

use axum::{Router, extract::Request, response::Response};
use tokio::sync::Semaphore;

use crate::{metrics::Queue, options::rest::RestOptions, runtime::handle::MasterHandle};

/// The API of one master.
///
/// # Errors
/// [`reqwest::Error`] where the client for forwarding cannot be built; trying again does not help.
pub fn router(handle: MasterHandle, options: RestOptions) -> Result<Router, reqwest::Error> {
    let slots = Arc::new(Semaphore::new(options.concurrent_requests_max));
    handle.watch_places(Queue::RestRequests, &slots, options.concurrent_requests_max);
    let server = Arc::new(Server {
        forwarder: forward::Forwarder::new(&options)?,
        slots,
        handle,
        options,
    });
    // One service for all paths: Spark's rules for paths are its own, and every miss is a JSON answer too.
    let service = tower::service_fn(move |request: Request| {
        let server = Arc::clone(&server);
        async move { Ok::<Response, Infallible>(server.serve(request).await) }
    });
    Ok(Router::new().fallback_service(service))
}

/// What all requests share.
#[derive(Debug)]
struct Server {
    handle: MasterHandle,
    options: RestOptions,
    forwarder: forward::Forwarder,
    slots: Arc<Semaphore>,
}
