//! One application: how it stands and why, its executors and its events.

use std::collections::BTreeMap;

use askama::Template;
use interrex_core::{explain::Topic, state::app::Application};
use interrex_web::{
    format::{counted, mebibytes},
    frame::Frame,
    marks::path,
};

use super::{
    apps::AppRow,
    driver::{command_line, no_such},
    rows::{ExecutorRow, amounts, tally},
    why::{Timeline, Why},
};
use crate::{
    edge::web::{
        context::{Context, Who},
        serve::Made,
    },
    runtime::view::{ClusterView, Found},
};

/// Executors that a page lists; the others are counted.
pub(super) const EXECUTORS_SHOWN: usize = 500;

#[derive(Template)]
#[template(path = "app.html")]
struct AppPage {
    frame: Frame,
    who: Who,
    row: AppRow,
    why: Why,
    ui: Option<String>,
    wanted: String,
    cores_max: String,
    cores_each: String,
    resources: String,
    priority: i32,
    min_executors: u32,
    completed: u32,
    failures: u32,
    message: String,
    command: String,
    profiles: Vec<String>,
    executors: Executors,
    timeline: Timeline,
    kill: String,
    can_kill: bool,
}

/// A table of executors.
pub(super) struct Executors {
    pub(super) words: String,
    /// Whether it names the application, or else the worker.
    pub(super) with_app: bool,
    pub(super) rows: Vec<ExecutorRow>,
}

pub(super) fn make(context: &Context, asked: &str) -> Made {
    let view = &context.view;
    let Some(Found::App(app)) = view.find(asked) else {
        return Err(no_such("application", asked));
    };
    let (id, spec) = (app.id.as_str(), &app.spec);
    let page = AppPage {
        who: context.who(),
        row: AppRow::new(view, &app, context.now.0),
        why: Why::about(context, &Topic::App(app.id.clone())),
        // Anything else could be a script.
        ui: Some(spec.ui_url.clone())
            .filter(|url| url.starts_with("http://") || url.starts_with("https://")),
        wanted: app
            .executors_wanted
            .map(|n| n.to_string())
            .unwrap_or_default(),
        cores_max: spec
            .cores_max
            .map(|cores| cores.0.to_string())
            .unwrap_or_default(),
        cores_each: spec.cores_per_executor.map_or_else(
            || "all that a worker has".to_owned(),
            |cores| cores.0.to_string(),
        ),
        resources: amounts(&spec.resources_per_executor),
        priority: spec.priority,
        min_executors: spec.min_executors,
        completed: app.executors_completed,
        failures: app.executor_failures,
        message: app.message.clone(),
        command: command_line(&spec.command).0,
        profiles: profiles(&app),
        executors: executors(view, &app, context.now.0),
        timeline: Timeline::of(context, id),
        kill: path(&["apps", id, "kill"]),
        can_kill: !app.state.is_final() && !context.site.options.read_only,
        frame: context.frame("/apps"),
    };
    Ok(page.render()?)
}

/// Those that are not over first, then the newest of the others.
fn executors(view: &ClusterView, app: &Application, now: u64) -> Executors {
    let mut all: Vec<_> = view.executors_of(&app.id).collect();
    all.sort_by_key(|executor| (executor.state.is_final(), std::cmp::Reverse(executor.id)));
    let mut counts = BTreeMap::new();
    for executor in &all {
        *counts.entry(executor.state).or_insert(0) += 1;
    }
    let left = all.len().saturating_sub(EXECUTORS_SHOWN);
    let mut words = tally(&counts, |state| state.name());
    if left > 0 {
        words.push_str(&format!("; {left} are not shown"));
    }
    let rows = all
        .iter()
        .take(EXECUTORS_SHOWN)
        .map(|e| ExecutorRow::new(e, now));
    Executors {
        words,
        with_app: false,
        rows: rows.collect(),
    }
}

fn profiles(app: &Application) -> Vec<String> {
    let one = |(id, profile): (
        &interrex_core::ids::ProfileId,
        &interrex_core::state::app::Profile,
    )| {
        let needs = &profile.needs;
        let cores = needs.cores.map(|cores| counted(u64::from(cores.0), "core"));
        let memory = needs.memory.map(|memory| mebibytes(memory.0));
        let resources = Some(amounts(&needs.resources)).filter(|text| !text.is_empty());
        let parts: Vec<String> = [cores, memory, resources].into_iter().flatten().collect();
        let wanted = counted(u64::from(profile.wanted), "executor");
        format!("{id}: {}; {wanted} wanted", parts.join(", "))
    };
    app.profiles.iter().map(one).collect()
}
