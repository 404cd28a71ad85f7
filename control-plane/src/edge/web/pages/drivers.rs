//! All drivers: sorted, filtered, page by page.

use std::sync::Arc;

use askama::Template;
use interrex_core::state::driver::Driver;
use interrex_web::{
    format::counted,
    frame::Frame,
    list::{Column, ListFrame, ListQuery, Schema},
};

use super::rows::DriverRow;
use crate::edge::web::{
    context::{Context, Who},
    serve::Made,
};

pub(super) const SCHEMA: Schema = Schema {
    path: "/drivers",
    columns: &[
        Column::text("Driver", "id"),
        Column::text("Name", "name"),
        Column::text("State", "state"),
        Column::text("User", "user"),
        Column::text("Worker", "worker"),
        Column::number("Cores", "cores"),
        Column::number("Memory", "memory"),
        Column::number("Attempt", "attempt"),
        Column::number("Submitted", "submitted"),
        Column::number("Ran for", "ran"),
    ],
    states: &[
        "SUBMITTED",
        "LAUNCHING",
        "RUNNING",
        "RELAUNCHING",
        "FINISHED",
        "KILLED",
        "FAILED",
        "ERROR",
    ],
    sort: "submitted",
    descending: true,
};

#[derive(Template)]
#[template(path = "drivers.html")]
struct Drivers {
    frame: Frame,
    who: Who,
    list: ListFrame,
    total: String,
    rows: Vec<DriverRow>,
}

pub(super) fn make(context: &Context) -> Made {
    let query = ListQuery::parse(&context.uri, &SCHEMA)?;
    let (view, now) = (&context.view, context.now.0);
    let all: Vec<&Arc<Driver>> = view
        .drivers()
        .filter(|driver| takes(&query, driver))
        .collect();
    let (rows, found) = cut(&query, all, now);
    let page = Drivers {
        who: context.who(),
        list: query.frame(&SCHEMA, found),
        total: counted(view.counts().drivers.values().sum(), "driver"),
        rows: rows
            .into_iter()
            .map(|driver| DriverRow::new(driver, now))
            .collect(),
        frame: context.frame("/drivers"),
    };
    Ok(page.render()?)
}

fn takes(query: &ListQuery, driver: &Driver) -> bool {
    // Then none of the many thousands is looked at.
    if !query.filters() {
        return true;
    }
    let worker = driver.worker.as_ref().map(|worker| worker.as_str());
    query.wants(driver.state.name())
        && query.finds(&[
            driver.id.as_str(),
            driver.submission.as_str(),
            &driver.spec.name,
            &driver.spec.user,
            worker.unwrap_or_default(),
        ])
}

fn cut<'a>(
    query: &ListQuery,
    all: Vec<&'a Arc<Driver>>,
    now: u64,
) -> (Vec<&'a Arc<Driver>>, usize) {
    match query.sort {
        "name" => query.cut(all, |d| d.spec.name.as_str()),
        "state" => query.cut(all, |d| d.state.name()),
        "user" => query.cut(all, |d| d.spec.user.as_str()),
        "worker" => query.cut(all, |d| d.worker.as_ref()),
        "cores" => query.cut(all, |d| d.spec.cores),
        "memory" => query.cut(all, |d| d.spec.memory),
        "attempt" => query.cut(all, |d| d.attempt),
        "submitted" => query.cut(all, |d| (d.submitted_at, d.queue)),
        "ran" => query.cut(all, |d| ran_ms(d, now)),
        _id => query.cut(all, |d| &d.id),
    }
}

fn ran_ms(driver: &Driver, now: u64) -> u64 {
    let end = driver.finished_at.map_or(now, |at| at.0);
    driver
        .started_at
        .map_or(0, |from| end.saturating_sub(from.0))
}
