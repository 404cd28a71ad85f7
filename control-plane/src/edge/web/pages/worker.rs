//! One worker: how it is, and what runs there.

use askama::Template;
use interrex_core::{
    explain::Topic,
    ids::{DriverId, WorkerId},
    state::worker::WorkerState,
};
use interrex_web::{
    format::{When, counted},
    frame::Frame,
    marks::path,
};

use super::{
    app::{EXECUTORS_SHOWN, Executors},
    driver::no_such,
    rows::{DriverRow, ExecutorRow, addresses, drivers_on},
    why::{Timeline, Why},
    workers::WorkerRow,
};
use crate::{
    edge::web::{
        context::{Context, Who},
        serve::Made,
    },
    runtime::view::{ClusterView, WorkerLoad},
};

/// Drivers that a page lists; the others are counted.
const DRIVERS_SHOWN: usize = 500;

#[derive(Template)]
#[template(path = "worker.html")]
struct WorkerPage {
    frame: Frame,
    who: Who,
    row: WorkerRow,
    why: Why,
    web: Option<String>,
    registered: When,
    resources: String,
    capabilities: String,
    driver_words: String,
    drivers: Vec<DriverRow>,
    executors: Executors,
    timeline: Timeline,
    drain: String,
    undrain: String,
    can_drain: bool,
    can_undrain: bool,
}

pub(super) fn make(context: &Context, asked: &str) -> Made {
    let (view, now) = (&context.view, context.now.0);
    let Some(worker) = view.worker(&WorkerId::new(asked)) else {
        return Err(no_such("worker", asked));
    };
    let (id, load) = (worker.id.as_str(), view.load(&worker.id));
    let first: Vec<DriverId> = load.drivers.iter().take(DRIVERS_SHOWN).cloned().collect();
    let writable = !context.site.options.read_only;
    let web = worker.spec.web.clone();
    let page = WorkerPage {
        who: context.who(),
        row: WorkerRow::new(view, worker, now),
        why: Why::about(context, &Topic::Worker(worker.id.clone())),
        web: Some(web).filter(|web| !web.is_empty() && !web.contains(['/', '\\', '@'])),
        registered: When::new(worker.registered_at.0, now),
        resources: addresses(&worker.spec.resources),
        capabilities: worker.spec.capabilities.join(", "),
        driver_words: words(load.drivers.len(), DRIVERS_SHOWN, "driver"),
        drivers: drivers_on(view, &first, now),
        executors: executors(view, &load, now),
        timeline: Timeline::of(context, id),
        drain: path(&["workers", id, "drain"]),
        undrain: path(&["workers", id, "undrain"]),
        can_drain: writable && worker.drain.is_none() && worker.state != WorkerState::Dead,
        can_undrain: writable && worker.drain.is_some(),
        frame: context.frame("/workers"),
    };
    Ok(page.render()?)
}

fn executors(view: &ClusterView, load: &WorkerLoad, now: u64) -> Executors {
    let first = load.executors.iter().take(EXECUTORS_SHOWN);
    let found = first.filter_map(|(app, id)| view.executor(app, *id));
    Executors {
        words: words(load.executors.len(), EXECUTORS_SHOWN, "executor"),
        with_app: true,
        rows: found
            .map(|executor| ExecutorRow::new(executor, now))
            .collect(),
    }
}

fn words(all: usize, shown: usize, what: &str) -> String {
    let text = counted(all as u64, what);
    match all.checked_sub(shown) {
        Some(left) if left > 0 => format!("{text}; {left} are not shown"),
        Some(_) | None => text,
    }
}
