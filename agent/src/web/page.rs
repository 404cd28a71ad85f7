//! The agent's page for people: what runs here, what is offered, whom it obeys. It only shows.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use askama::Template;
use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use http::StatusCode;
use interrex_web::{
    answer,
    format::{Lasted, When, count, counted, mebibytes},
    frame::{Frame, NavEntry},
    marks::{Bar, Pill, Tone, path, used_of},
};

use super::{Shared, WebError};
use crate::{
    cleanup::owners,
    process::{LogOwner, WorkKey},
    worker::view::{ProcessView, WorkerView},
};

/// Directories whose output is listed.
const KEPT_SHOWN: usize = 200;
const NAV: [NavEntry; 1] = [NavEntry {
    href: "/",
    label: "This agent",
}];

#[derive(Template)]
#[template(path = "agent.html")]
struct AgentPage {
    frame: Frame,
    id: String,
    host: String,
    state: Pill,
    notes: Vec<String>,
    meters: Vec<(&'static str, String, Bar)>,
    resources: String,
    cluster: String,
    unacknowledged: usize,
    masters: String,
    processes: Vec<ProcessRow>,
    kept: Vec<KeptRow>,
    kept_words: String,
}

/// One process.
struct ProcessRow {
    name: String,
    state: Pill,
    pid: String,
    cores: u32,
    memory: String,
    lasted: Lasted,
    at_most_once: &'static str,
    log: String,
}

/// The output of something that may be over.
struct KeptRow {
    name: String,
    changed: When,
    log: String,
}

/// The page.
pub(super) async fn show(State(shared): State<Arc<Shared>>) -> Response {
    match make(&shared).await {
        Ok(html) => answer::page(StatusCode::OK, html, &[]),
        Err(error) => error.into_response(),
    }
}

async fn make(shared: &Arc<Shared>) -> Result<String, WebError> {
    let view = shared.view().await?;
    let now = interrex_proto::clock::now_ms();
    let work_dir = shared.site.work_dir.clone();
    let kept = tokio::task::spawn_blocking(move || kept(&work_dir, now)).await;
    let (kept, all) = kept.unwrap_or_default();
    let page = AgentPage {
        frame: frame(&view, now, true),
        id: view.worker_id.clone(),
        host: view.host.clone(),
        state: state(&view),
        notes: notes(&view, shared.site.board.disk_trouble()),
        meters: meters(&view),
        resources: resources(&view),
        cluster: view.cluster_id.clone(),
        unacknowledged: view.unacknowledged,
        masters: view.masters.join(", "),
        processes: view
            .processes
            .iter()
            .map(|process| process_row(process, now))
            .collect(),
        kept_words: match all > kept.len() {
            true => format!("the newest {} of {}", kept.len(), count(all as u64)),
            false => String::new(),
        },
        kept,
    };
    page.render().map_err(|error| broken(&error))
}

/// The frame of every page of this agent.
pub(super) fn frame(view: &WorkerView, now_ms: u64, poll: bool) -> Frame {
    Frame {
        place: view.host.clone(),
        me: view.worker_id.clone(),
        now_ms,
        leader: view.leader.clone().unwrap_or_default(),
        epoch: view.epoch,
        poll,
        nav: Frame::navigation(&NAV, "/"),
        version: env!("CARGO_PKG_VERSION"),
        ..Frame::default()
    }
}

/// A page that cannot be made is a fault of this program.
pub(super) fn broken(error: &askama::Error) -> WebError {
    WebError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

fn state(view: &WorkerView) -> Pill {
    match (view.stopping, &view.leader, &view.not_accepting) {
        (true, _, _) => Pill::new("STOPPING", Tone::Wait),
        (false, None, _) => Pill::new("NO_LEADER", Tone::Bad),
        (false, Some(_), Some(_)) => Pill::of("NOT_ACCEPTING"),
        (false, Some(_), None) => Pill::of("READY"),
    }
}

fn notes(view: &WorkerView, disk: Option<String>) -> Vec<String> {
    let refused = view.refusals.iter();
    let refused = refused.map(|(master, reason)| format!("{master} refused this agent: {reason}"));
    let own = view
        .not_accepting
        .iter()
        .map(|why| format!("It takes no new work: {why}"));
    refused.chain(own).chain(disk).collect()
}

fn meters(view: &WorkerView) -> Vec<(&'static str, String, Bar)> {
    let holds = |process: &&ProcessView| process.state != "waiting";
    let held = || view.processes.iter().filter(holds);
    let cores: u64 = held().map(|process| u64::from(process.cores)).sum();
    let memory: u64 = held().map(|process| process.memory_mib).sum();
    let of = u64::from(view.cores);
    let text = format!("{} of {}", mebibytes(memory), mebibytes(view.memory_mib));
    vec![
        ("Cores", used_of(cores, of, "core"), Bar::new(cores, of)),
        ("Memory", text, Bar::new(memory, view.memory_mib)),
    ]
}

fn resources(view: &WorkerView) -> String {
    let one = |(name, addresses): (&String, &Vec<String>)| {
        format!(
            "{}: {}",
            counted(addresses.len() as u64, name),
            addresses.join(", ")
        )
    };
    view.resources
        .iter()
        .map(one)
        .collect::<Vec<_>>()
        .join("; ")
}

fn process_row(process: &ProcessView, now: u64) -> ProcessRow {
    let name = match &process.work {
        WorkKey::Driver { driver_id, attempt } => format!("{driver_id} (attempt {attempt})"),
        WorkKey::Executor {
            app_id,
            executor_id,
        } => format!("{app_id}/{executor_id}"),
    };
    ProcessRow {
        name,
        state: Pill::of(&process.state.to_uppercase()),
        pid: process.pid.map(|pid| pid.to_string()).unwrap_or_default(),
        cores: process.cores,
        memory: mebibytes(process.memory_mib),
        lasted: Lasted::new(process.started_at_ms, 0, now),
        at_most_once: if process.at_most_once { "yes" } else { "no" },
        log: log_page(&process.work.owner()),
    }
}

/// The directories in which there is output, the newest first, and how many there are.
fn kept(work_dir: &Path, now: u64) -> (Vec<KeptRow>, usize) {
    let found = owners(work_dir).unwrap_or_default();
    let mut found: Vec<(u64, LogOwner)> = found
        .into_iter()
        .map(|(owner, directory)| (changed_ms(&directory), owner))
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    let all = found.len();
    let rows = found
        .into_iter()
        .take(KEPT_SHOWN)
        .map(|(changed, owner)| KeptRow {
            name: name_of(&owner),
            changed: When::new(changed, now),
            log: log_page(&owner),
        });
    (rows.collect(), all)
}

/// When something was written there last.
fn changed_ms(directory: &Path) -> u64 {
    let of = |name: &str| {
        let meta = std::fs::symlink_metadata(directory.join(name)).ok()?;
        meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()
    };
    let last = of("stdout").max(of("stderr")).unwrap_or(Duration::ZERO);
    u64::try_from(last.as_millis()).unwrap_or(u64::MAX)
}

/// A driver's id, or an application's with the executor's number behind it.
pub(super) fn name_of(owner: &LogOwner) -> String {
    match owner {
        LogOwner::Driver(id) => id.clone(),
        LogOwner::Executor(app, id) => format!("{app}/{id}"),
    }
}

/// Where the pages of its log are; the output's name follows.
pub(super) fn log_page(owner: &LogOwner) -> String {
    match owner {
        LogOwner::Driver(id) => path(&["pages", "driver", id]),
        LogOwner::Executor(app, id) => path(&["pages", "app", app, &id.to_string()]),
    }
}
