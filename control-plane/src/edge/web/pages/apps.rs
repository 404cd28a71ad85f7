//! All applications: sorted, filtered, page by page.

use std::sync::Arc;

use askama::Template;
use interrex_core::state::app::Application;
use interrex_web::{
    format::{Lasted, When, counted, mebibytes},
    frame::Frame,
    list::{Column, ListFrame, ListQuery, Schema},
    marks::{Link, Pill},
};

use crate::{
    edge::web::{
        context::{Context, Who},
        serve::Made,
    },
    runtime::view::ClusterView,
};

pub(super) const SCHEMA: Schema = Schema {
    path: "/apps",
    columns: &[
        Column::text("Application", "id"),
        Column::text("Name", "name"),
        Column::text("State", "state"),
        Column::text("User", "user"),
        Column::number("Executors", "executors"),
        Column::number("Cores held", "cores"),
        Column::number("Memory each", "memory"),
        Column::number("Registered", "registered"),
        Column::number("Lasted", "lasted"),
    ],
    states: &["WAITING", "RUNNING", "FINISHED", "FAILED", "KILLED"],
    sort: "registered",
    descending: true,
};

#[derive(Template)]
#[template(path = "apps.html")]
struct Apps {
    frame: Frame,
    who: Who,
    list: ListFrame,
    total: String,
    rows: Vec<AppRow>,
}

/// An application in a table.
pub(super) struct AppRow {
    pub(super) link: Link,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) user: Link,
    pub(super) state: Pill,
    pub(super) executors: u64,
    pub(super) cores: u64,
    pub(super) memory: String,
    pub(super) registered: When,
    pub(super) lasted: Lasted,
}

// === impl AppRow ===

impl AppRow {
    pub(super) fn new(view: &ClusterView, app: &Application, now_ms: u64) -> Self {
        let id = app.id.as_str();
        let (executors, cores) = held(view, app);
        let finished = app.finished_at.map(|at| at.0).unwrap_or_default();
        Self {
            link: Link::to(id, &["apps", id]),
            id: id.to_owned(),
            name: app.spec.name.clone(),
            user: Link::none(app.spec.user.clone()),
            state: Pill::of(app.state.name()),
            executors,
            cores,
            memory: mebibytes(app.spec.memory_per_executor.0),
            registered: When::new(app.registered_at.0, now_ms),
            lasted: Lasted::new(app.registered_at.0, finished, now_ms),
        }
    }
}

pub(super) fn make(context: &Context) -> Made {
    let query = ListQuery::parse(&context.uri, &SCHEMA)?;
    let (view, now) = (&context.view, context.now.0);
    let all: Vec<&Arc<Application>> = view.apps().filter(|app| takes(&query, app)).collect();
    let lasted = |app: &Application| {
        let end = app.finished_at.map_or(now, |at| at.0);
        end.saturating_sub(app.registered_at.0)
    };
    let (rows, found) = match query.sort {
        "name" => query.cut(all, |a| a.spec.name.as_str()),
        "state" => query.cut(all, |a| a.state.name()),
        "user" => query.cut(all, |a| a.spec.user.as_str()),
        "executors" => query.cut(all, |a| held(view, a).0),
        "cores" => query.cut(all, |a| held(view, a).1),
        "memory" => query.cut(all, |a| a.spec.memory_per_executor),
        "registered" => query.cut(all, |a| (a.registered_at, a.queue)),
        "lasted" => query.cut(all, |a| lasted(a)),
        _id => query.cut(all, |a| &a.id),
    };
    let page = Apps {
        who: context.who(),
        list: query.frame(&SCHEMA, found),
        total: counted(view.counts().apps.values().sum(), "application"),
        rows: rows
            .into_iter()
            .map(|app| AppRow::new(view, app, now))
            .collect(),
        frame: context.frame("/apps"),
    };
    Ok(page.render()?)
}

fn takes(query: &ListQuery, app: &Application) -> bool {
    if !query.filters() {
        return true;
    }
    query.wants(app.state.name())
        && query.finds(&[
            app.id.as_str(),
            app.request.as_str(),
            &app.spec.name,
            &app.spec.user,
        ])
}

/// Executors that are not over, and their cores.
fn held(view: &ClusterView, app: &Application) -> (u64, u64) {
    let live = view
        .executors_of(&app.id)
        .filter(|executor| !executor.state.is_final());
    live.fold((0, 0), |(n, cores), executor| {
        (n + 1, cores + u64::from(executor.cores.0))
    })
}
