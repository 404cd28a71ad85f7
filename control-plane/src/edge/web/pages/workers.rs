//! All workers: sorted, filtered, page by page.

use std::sync::Arc;

use askama::Template;
use interrex_core::state::worker::Worker;
use interrex_web::{
    format::{When, counted, mebibytes},
    frame::Frame,
    list::{Column, ListFrame, ListQuery, Schema},
    marks::{Bar, Link, Pill},
};

use crate::{
    edge::web::{
        context::{Context, Who},
        serve::Made,
    },
    runtime::view::ClusterView,
};

pub(super) const SCHEMA: Schema = Schema {
    path: "/workers",
    columns: &[
        Column::text("Worker", "id"),
        Column::text("State", "state"),
        Column::text("Host", "host"),
        Column::number("Cores in use", "cores"),
        Column::number("Memory in use", "memory"),
        Column::number("Drivers", "drivers"),
        Column::number("Executors", "executors"),
        Column::number("Last heard of", "heard"),
        Column::text("Note", ""),
    ],
    states: &["ALIVE", "DECOMMISSIONED", "UNKNOWN", "DEAD"],
    sort: "id",
    descending: false,
};

#[derive(Template)]
#[template(path = "workers.html")]
struct Workers {
    frame: Frame,
    who: Who,
    list: ListFrame,
    total: String,
    masters: String,
    rows: Vec<WorkerRow>,
}

/// A worker in a table.
pub(super) struct WorkerRow {
    pub(super) link: Link,
    pub(super) id: String,
    pub(super) host: String,
    pub(super) state: Pill,
    pub(super) cores: String,
    pub(super) cores_bar: Bar,
    pub(super) memory: String,
    pub(super) memory_bar: Bar,
    pub(super) drivers: usize,
    pub(super) executors: usize,
    pub(super) heard: When,
    pub(super) note: String,
}

// === impl WorkerRow ===

impl WorkerRow {
    pub(super) fn new(view: &ClusterView, worker: &Worker, now_ms: u64) -> Self {
        let (id, load) = (worker.id.as_str(), view.load(&worker.id));
        let (cores, of) = (load.cores.0, worker.spec.cores.0);
        let (memory, memory_of) = (load.memory.0, worker.spec.memory.0);
        let heard = view.last_heartbeat(&worker.id).unwrap_or_default();
        Self {
            link: Link::to(id, &["workers", id]),
            id: id.to_owned(),
            host: worker.spec.host.clone(),
            state: Pill::of(worker.state_name()),
            cores: format!("{cores} of {of}"),
            cores_bar: Bar::new(u64::from(cores), u64::from(of)),
            memory: format!("{} of {}", mebibytes(memory), mebibytes(memory_of)),
            memory_bar: Bar::new(memory, memory_of),
            drivers: load.drivers.len(),
            executors: load.executors.len(),
            heard: When::new(heard.0, now_ms),
            note: note(worker),
        }
    }
}

/// Why a worker gets no work, in its own or its operator's words.
fn note(worker: &Worker) -> String {
    match &worker.drain {
        Some(drain) if drain.reason.is_empty() => "is being drained".to_owned(),
        Some(drain) => format!("is being drained: {}", drain.reason),
        None => worker.not_accepting.clone(),
    }
}

pub(super) fn make(context: &Context) -> Made {
    let query = ListQuery::parse(&context.uri, &SCHEMA)?;
    let (view, now) = (&context.view, context.now.0);
    let takes = |worker: &&Arc<Worker>| {
        query.wants(worker.state_name())
            && query.finds(&[worker.id.as_str(), &worker.spec.host, &worker.not_accepting])
    };
    let all: Vec<&Arc<Worker>> = view.workers().filter(takes).collect();
    let (rows, found) = match query.sort {
        "state" => query.cut(all, |w| w.state_name()),
        "host" => query.cut(all, |w| w.spec.host.as_str()),
        "cores" => query.cut(all, |w| view.load(&w.id).cores),
        "memory" => query.cut(all, |w| view.load(&w.id).memory),
        "drivers" => query.cut(all, |w| view.load(&w.id).drivers.len()),
        "executors" => query.cut(all, |w| view.load(&w.id).executors.len()),
        "heard" => query.cut(all, |w| view.last_heartbeat(&w.id)),
        _id => query.cut(all, |w| &w.id),
    };
    let masters = context
        .status
        .masters
        .iter()
        .map(|master| master.rpc.as_str());
    let page = Workers {
        who: context.who(),
        list: query.frame(&SCHEMA, found),
        total: counted(view.counts().workers.values().sum(), "worker"),
        masters: masters.collect::<Vec<_>>().join(","),
        rows: rows
            .into_iter()
            .map(|worker| WorkerRow::new(view, worker, now))
            .collect(),
        frame: context.frame("/workers"),
    };
    Ok(page.render()?)
}
