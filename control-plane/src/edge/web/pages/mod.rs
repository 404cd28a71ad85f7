//! The pages: each reads one view and writes one template. No page decides anything.

mod app;
mod apps;
mod driver;
mod drivers;
mod events;
mod internals;
mod overview;
mod queue;
mod rows;
mod why;
mod worker;
mod workers;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Path, State},
    response::Response,
    routing::get,
};
use http::request::Parts;

use super::{Site, context::Context, serve};

/// Every page.
pub(super) fn router() -> Router<Arc<Site>> {
    Router::new()
        .route("/", page(overview::make))
        .route("/drivers", page(drivers::make))
        .route("/drivers/{id}", page_of(driver::make))
        .route("/apps", page(apps::make))
        .route("/apps/{id}", page_of(app::make))
        .route("/workers", page(workers::make))
        .route("/workers/{id}", page_of(worker::make))
        .route("/queue", page(queue::make))
        .route("/events", page(events::make))
        .route("/internals", get(own_internals))
}

type Route = axum::routing::MethodRouter<Arc<Site>>;

fn page(make: fn(&Context) -> serve::Made) -> Route {
    get(async move |State(site): State<Arc<Site>>, parts: Parts| {
        serve::page(site, parts, make).await
    })
}

fn page_of(make: fn(&Context, &str) -> serve::Made) -> Route {
    get(
        async move |State(site): State<Arc<Site>>, Path(id): Path<String>, parts: Parts| {
            serve::page(site, parts, move |context| make(context, &id)).await
        },
    )
}

/// Of this master, whoever leads.
async fn own_internals(State(site): State<Arc<Site>>, parts: Parts) -> Response {
    serve::own_page(site, parts, internals::make).await
}
