//! Spark's `/json/` for its tools, with the names and the order of its fields. As in Spark a standby answers for
//! itself: its status is `STANDBY`, and it knows nothing.
//!
//! //= spark `MasterPage.renderJson`, `JsonProtocol`

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Path, State},
    response::{IntoResponse, Response},
    routing::get,
};
use http::{StatusCode, request::Parts};
use interrex_core::{
    resources::{Addresses, Amounts},
    spec::DriverPayload,
    state::{
        app::Application,
        driver::{Driver, DriverState},
        worker::{Worker, WorkerState},
    },
};
use interrex_web::{answer, list::read};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Site, context::Context};
use crate::runtime::view::ClusterView;

/// What is over, of each kind; as many as Spark keeps.
const COMPLETED_MAX: usize = 200;
/// What is not over, of each kind.
const ACTIVE_MAX: usize = 20_000;
/// How long an answer waits for its turn to be made.
const TURN_TIMEOUT: Duration = Duration::from_secs(3);

/// The state of a master.
#[derive(Debug, Serialize)]
struct MasterState {
    url: String,
    workers: Vec<Value>,
    aliveworkers: usize,
    cores: u64,
    coresused: u64,
    memory: u64,
    memoryused: u64,
    resources: Vec<Value>,
    resourcesused: Vec<Value>,
    activeapps: Vec<AppState>,
    completedapps: Vec<AppState>,
    activedrivers: Vec<DriverJson>,
    completeddrivers: Vec<DriverJson>,
    status: &'static str,
}

#[derive(Debug, Serialize)]
struct WorkerJson {
    id: String,
    host: String,
    port: u16,
    webuiaddress: String,
    cores: u32,
    coresused: u32,
    coresfree: u32,
    memory: u64,
    memoryused: u64,
    memoryfree: u64,
    resources: Value,
    resourcesused: Value,
    resourcesfree: Value,
    state: &'static str,
    lastheartbeat: u64,
}

#[derive(Debug, Serialize)]
struct AppState {
    id: String,
    starttime: u64,
    name: String,
    cores: u64,
    user: String,
    memoryperexecutor: u64,
    memoryperslave: u64,
    resourcesperexecutor: Vec<Value>,
    resourcesperslave: Vec<Value>,
    submitdate: String,
    state: &'static str,
    duration: u64,
}

#[derive(Debug, Serialize)]
struct DriverJson {
    id: String,
    starttime: String,
    state: &'static str,
    cores: u32,
    memory: u64,
    resources: Value,
    submitdate: String,
    worker: String,
    mainclass: String,
}

#[derive(Debug, Serialize)]
struct Utilization {
    #[serde(rename = "waitingDrivers")]
    waiting_drivers: u64,
    cores: u64,
    coresused: u64,
    coresutilization: u64,
    memory: u64,
    memoryused: u64,
    memoryutilization: u64,
}

/// What is asked of `/app/json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AppQuery {
    #[serde(rename = "appId")]
    app_id: String,
}

/// `/json/` and what is below it, and `/app/json`.
pub(super) fn router() -> Router<Arc<Site>> {
    let all = get(async |State(site): State<Arc<Site>>| answer_with(site, None).await);
    let one = get(
        async |State(site): State<Arc<Site>>, Path(key): Path<String>| {
            answer_with(site, Some(key)).await
        },
    );
    Router::new()
        .route("/json", all.clone())
        .route("/json/", all)
        .route("/json/{key}", one.clone())
        .route("/json/{key}/", one)
        .route("/app/json", get(app))
        .route("/app/json/", get(app))
}

async fn answer_with(site: Arc<Site>, key: Option<String>) -> Response {
    in_turn(site, move |context| make(context, key.as_deref())).await
}

/// One application. Spark fails where there is none of that id (`NullPointerException`); here that is said.
///
/// //= spark `ApplicationPage.renderJson`
async fn app(State(site): State<Arc<Site>>, parts: Parts) -> Response {
    let asked = match read::<AppQuery>(&parts.uri) {
        Ok(asked) if !asked.app_id.is_empty() => asked.app_id,
        Ok(_nothing) => return refusal(StatusCode::BAD_REQUEST, "appId: give an application's id"),
        Err(error) => return refusal(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    in_turn(site, move |context| {
        let found = context.view.app(&asked.as_str().into());
        Ok(match found {
            Some(app) => Json(app_json(&context.view, app, context.now.0)).into_response(),
            None => refusal(StatusCode::NOT_FOUND, "no application has this id"),
        })
    })
    .await
}

/// As pages are: few at a time, on threads for such work.
async fn in_turn(
    site: Arc<Site>,
    make: impl FnOnce(&Context) -> Result<Response, serde_json::Error> + Send + 'static,
) -> Response {
    let turn = timeout(TURN_TIMEOUT, Arc::clone(&site.renders).acquire_owned()).await;
    let Ok(Ok(turn)) = turn else {
        return (
            StatusCode::SERVICE_UNAVAILABLE,
            "too many questions at once\n",
        )
            .into_response();
    };
    let context = Context::new(&site, http::Uri::default(), None);
    let made = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        make(&context)
    });
    match made.await {
        Ok(Ok(mut response)) => {
            answer::guard(response.headers_mut());
            response
        }
        Ok(Err(_)) | Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn make(context: &Context, key: Option<&str>) -> Result<Response, serde_json::Error> {
    if key == Some("clusterutilization") {
        return Ok(Json(utilization(&context.view)).into_response());
    }
    let state = master_state(context);
    let Some(key) = key else {
        return Ok(Json(state).into_response());
    };
    // Letters, as in Spark; what follows them is ignored there, too.
    let key: String = key.chars().take_while(char::is_ascii_alphabetic).collect();
    let mut all = serde_json::to_value(state)?;
    let found = all.get_mut(&key).map_or_else(|| json!(""), Value::take);
    Ok(Json(BTreeMap::from([(key, found)])).into_response())
}

fn master_state(context: &Context) -> MasterState {
    let (view, now) = (&context.view, context.now.0);
    let alive: Vec<&Arc<Worker>> = view
        .workers()
        .filter(|w| w.state == WorkerState::Alive)
        .collect();
    let held = resources_used(view);
    let none = Addresses::new();
    let used_on = |worker: &Worker| held.get(worker.id.as_str()).unwrap_or(&none);
    let sum = |of: &dyn Fn(&Worker) -> u64| alive.iter().map(|worker| of(worker)).sum();
    let (active_apps, completed_apps) = split(view.apps(), |app| app.state.is_final());
    let (active, completed) = split(view.drivers(), |driver| driver.state.is_final());
    MasterState {
        url: format!("spark://{}", context.status.me.rpc),
        workers: view
            .workers()
            .take(ACTIVE_MAX)
            .map(|w| worker_json(view, w, used_on(w)))
            .collect(),
        aliveworkers: alive.len(),
        cores: sum(&|worker| u64::from(worker.spec.cores.0)),
        coresused: sum(&|worker| u64::from(view.load(&worker.id).cores.0)),
        memory: sum(&|worker| worker.spec.memory.0),
        memoryused: sum(&|worker| view.load(&worker.id).memory.0),
        resources: alive
            .iter()
            .map(|worker| resources(&worker.spec.resources))
            .collect(),
        resourcesused: alive
            .iter()
            .map(|worker| resources(used_on(worker)))
            .collect(),
        activeapps: active_apps
            .into_iter()
            .map(|app| app_json(view, app, now))
            .collect(),
        completedapps: completed_apps
            .into_iter()
            .map(|app| app_json(view, app, now))
            .collect(),
        activedrivers: active
            .into_iter()
            .map(|driver| driver_json(driver))
            .collect(),
        completeddrivers: completed
            .into_iter()
            .map(|driver| driver_json(driver))
            .collect(),
        status: context.status.recovery,
    }
}

/// What is not over, and the newest of what is, each bounded.
fn split<'a, T: 'a>(
    all: impl Iterator<Item = &'a Arc<T>>,
    is_over: impl Fn(&T) -> bool,
) -> (Vec<&'a Arc<T>>, Vec<&'a Arc<T>>) {
    let (mut over, mut active): (Vec<_>, Vec<_>) = all.partition(|one| is_over(one));
    active.truncate(ACTIVE_MAX);
    let old = over.len().saturating_sub(COMPLETED_MAX);
    (active, over.split_off(old))
}

/// Addresses of custom resources that are held, by worker.
fn resources_used(view: &ClusterView) -> BTreeMap<String, Addresses> {
    let mut used: BTreeMap<String, Addresses> = BTreeMap::new();
    let drivers = view.drivers().filter(|driver| driver.state.is_placed());
    let drivers = drivers.filter_map(|driver| Some((driver.worker.as_ref()?, &driver.resources)));
    let apps = view.apps().filter(|app| !app.state.is_final());
    let executors = apps.flat_map(|app| view.executors_of(&app.id));
    let executors = executors.filter(|executor| !executor.state.is_final());
    let executors = executors.map(|executor| (&executor.worker, &executor.resources));
    for (worker, addresses) in drivers
        .chain(executors)
        .filter(|(_, held)| !held.is_empty())
    {
        let on = used.entry(worker.to_string()).or_default();
        for (name, list) in addresses {
            on.entry(name.clone())
                .or_default()
                .extend(list.iter().cloned());
        }
    }
    used
}

fn worker_json(view: &ClusterView, worker: &Worker, used: &Addresses) -> Value {
    let (spec, load) = (&worker.spec, view.load(&worker.id));
    let port = spec
        .web
        .rsplit_once(':')
        .and_then(|(_, port)| port.parse().ok());
    let mut free = spec.resources.clone();
    for (name, list) in &mut free {
        let held = used.get(name);
        list.retain(|address| held.is_none_or(|held| !held.contains(address)));
    }
    let worker = WorkerJson {
        id: worker.id.to_string(),
        host: spec.host.clone(),
        port: port.unwrap_or_default(),
        webuiaddress: format!("http://{}", spec.web),
        cores: spec.cores.0,
        coresused: load.cores.0,
        coresfree: spec.cores.0.saturating_sub(load.cores.0),
        memory: spec.memory.0,
        memoryused: load.memory.0,
        memoryfree: spec.memory.0.saturating_sub(load.memory.0),
        resources: resources(&spec.resources),
        resourcesused: resources(used),
        resourcesfree: resources(&free),
        state: worker.state_name(),
        lastheartbeat: view.last_heartbeat(&worker.id).unwrap_or_default().0,
    };
    json!(worker)
}

fn app_json(view: &ClusterView, app: &Application, now: u64) -> AppState {
    let held = view
        .executors_of(&app.id)
        .filter(|executor| !executor.state.is_final());
    let memory = app.spec.memory_per_executor.0;
    let wanted = requirements(&app.spec.resources_per_executor);
    let end = app.finished_at.map_or(now, |at| at.0);
    AppState {
        id: app.id.to_string(),
        starttime: app.registered_at.0,
        name: app.spec.name.clone(),
        cores: held.map(|executor| u64::from(executor.cores.0)).sum(),
        user: app.spec.user.clone(),
        memoryperexecutor: memory,
        memoryperslave: memory,
        resourcesperexecutor: wanted.clone(),
        resourcesperslave: wanted,
        submitdate: date(app.registered_at.0),
        state: app.state.name(),
        duration: end.saturating_sub(app.registered_at.0),
    }
}

fn driver_json(driver: &Driver) -> DriverJson {
    let main = match &driver.spec.payload {
        DriverPayload::Command(command) => &command.program,
        DriverPayload::Spark(spark) => &spark.main_class,
    };
    DriverJson {
        id: driver.id.to_string(),
        starttime: driver.submitted_at.0.to_string(),
        state: driver.state.name(),
        cores: driver.spec.cores.0,
        memory: driver.spec.memory.0,
        resources: resources(&driver.resources),
        submitdate: date(driver.submitted_at.0),
        worker: driver
            .worker
            .as_ref()
            .map_or_else(|| "None".to_owned(), ToString::to_string),
        mainclass: main.clone(),
    }
}

fn utilization(view: &ClusterView) -> Utilization {
    let counts = view.counts();
    let alive = view
        .workers()
        .filter(|worker| worker.state == WorkerState::Alive);
    let (mut cores, mut coresused, mut memory, mut memoryused) = (0, 0, 0, 0);
    for worker in alive {
        let load = view.load(&worker.id);
        cores += u64::from(worker.spec.cores.0);
        coresused += u64::from(load.cores.0);
        memory += worker.spec.memory.0;
        memoryused += load.memory.0;
    }
    let waiting = [DriverState::Submitted, DriverState::Relaunching];
    let waiting = waiting.iter().filter_map(|state| counts.drivers.get(state));
    Utilization {
        waiting_drivers: waiting.sum(),
        cores,
        coresused,
        coresutilization: percent(coresused, cores),
        memory,
        memoryused,
        memoryutilization: percent(memoryused, memory),
    }
}

fn refusal(status: StatusCode, why: &str) -> Response {
    (status, Json(json!({ "error": why }))).into_response()
}

/// Of nothing, all is in use: as in Spark.
fn percent(used: u64, of: u64) -> u64 {
    used.saturating_mul(100).checked_div(of).unwrap_or(100)
}

fn resources(addresses: &Addresses) -> Value {
    let one = |(name, list): (&String, &Vec<String>)| {
        (name.clone(), json!({ "name": name, "addresses": list }))
    };
    Value::Object(addresses.iter().map(one).collect())
}

fn requirements(amounts: &Amounts) -> Vec<Value> {
    let one = |(name, amount): (&String, &u32)| json!({ "name": name, "amount": amount });
    amounts.iter().map(one).collect()
}

/// As Java writes a date: `Sun Nov 29 20:50:07 UTC 2026`.
fn date(ms: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    // `2026-11-29 20:50:07.123 UTC`
    let text = interrex_web::format::utc(ms);
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
    let month = part(5..7).parse::<usize>().unwrap_or(1).clamp(1, 12);
    let day = usize::try_from(ms / 86_400_000 % 7).unwrap_or_default();
    let (day, month) = (DAYS[day], MONTHS[month - 1]);
    format!(
        "{day} {month} {} {} UTC {}",
        part(8..10),
        part(11..19),
        part(0..4)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_written_as_java_writes_it() {
        assert_eq!(date(1_795_985_407_123), "Sun Nov 29 20:50:07 UTC 2026");
        assert_eq!(date(0), "Thu Jan 01 00:00:00 UTC 1970");
    }

    #[test]
    fn nothing_is_used_up() {
        assert_eq!(
            (percent(0, 0), percent(1, 3), percent(3, 3)),
            (100, 33, 100)
        );
    }
}
