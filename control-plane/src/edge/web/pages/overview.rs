//! The overview: who leads, how full the cluster is, what happens. Costs the same however large the cluster is.

use askama::Template;
use interrex_core::state::{
    app::ApplicationState, driver::DriverState, executor::ExecutorState, worker::WorkerState,
};
use interrex_proto::v1;
use interrex_web::{
    chart::Sparkline,
    format::{When, count, mebibytes},
    frame::Frame,
    marks::{Bar, Link, Pill, Tone, used_of},
};

use super::rows::EventRow;
use crate::{
    edge::{
        cluster,
        web::{
            context::{Context, Who},
            history::SECONDS_A_POINT,
            serve::Made,
        },
    },
    runtime::view::{ClusterView, Counts},
};

/// Events shown.
const EVENTS_SHOWN: usize = 12;

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    who: Who,
    state: Pill,
    cluster_id: String,
    since: When,
    quarantined: usize,
    change: String,
    masters: Vec<Master>,
    tiles: Vec<Tile>,
    meters: Vec<Meter>,
    spark: Sparkline,
    spark_top: String,
    submitted: String,
    ended: String,
    events: Vec<EventRow>,
}

/// One master.
struct Master {
    id: String,
    link: Link,
    role: Pill,
    leads: bool,
    rpc: String,
    lag: String,
}

/// A number with its parts.
struct Tile {
    label: &'static str,
    href: &'static str,
    total: String,
    words: &'static str,
    parts: Vec<(String, &'static str, String)>,
}

/// How much of something is in use.
struct Meter {
    label: &'static str,
    text: String,
    percent: u64,
    bar: Bar,
}

pub(super) fn make(context: &Context) -> Made {
    let view = &context.view;
    let cluster = cluster::describe(&context.site.handle);
    let line = context.history().line(context.now);
    let spark_words = format!(
        "Drivers submitted in the last five minutes: {}. Leaders elected: {}.",
        line.submitted_total,
        line.elections.len()
    );
    let spark = Sparkline::new(line.submitted.clone(), line.elections.clone(), spark_words);
    let now = context.now.0;
    let events = view.events().newest_first().take(EVENTS_SHOWN);
    let page = Overview {
        who: context.who(),
        state: Pill::of(context.status.recovery),
        cluster_id: context.status.cluster_id.clone(),
        since: When::new(view.events().elected_at().unwrap_or_default().0, now),
        quarantined: view.quarantined(),
        change: cluster.change.clone(),
        masters: masters(&cluster),
        tiles: tiles(view.counts()),
        meters: meters(view),
        spark_top: rate(spark.top()),
        spark,
        submitted: count(line.submitted_total),
        ended: count(line.ended_total),
        events: events.map(|event| EventRow::new(event, now)).collect(),
        frame: context.frame("/"),
    };
    Ok(page.render()?)
}

fn masters(cluster: &v1::ClusterResponse) -> Vec<Master> {
    let of = |master: &v1::MasterStatus| Master {
        link: Link::out(master.id.clone(), &master.web, "/internals"),
        role: role(&master.role, master.healthy),
        leads: master.role == "leader",
        rpc: master.rpc.clone(),
        lag: match master.lag {
            Some(0) => "in step".to_owned(),
            Some(lag) => format!("{} behind", count(lag)),
            None if master.role == "leader" => String::new(),
            None => "place unknown".to_owned(),
        },
        id: master.id.clone(),
    };
    cluster.masters.iter().map(of).collect()
}

/// What a master is, as a pill.
pub(super) fn role(role: &str, healthy: bool) -> Pill {
    match (role, healthy) {
        ("leader", _) => Pill::new("LEADER", Tone::Good),
        ("unknown", false) => Pill::new("NOT_REACHED", Tone::Bad),
        ("standby", true) => Pill::new("STANDBY", Tone::Quiet),
        (role, _) => Pill::new(&role.to_uppercase(), Tone::Wait),
    }
}

fn tiles(counts: &Counts) -> Vec<Tile> {
    let driver = |state| counts.drivers.get(&state).copied().unwrap_or_default();
    let app = |state| counts.apps.get(&state).copied().unwrap_or_default();
    let executor = |state| counts.executors.get(&state).copied().unwrap_or_default();
    let worker = |name| counts.workers.get(name).copied().unwrap_or_default();
    let part = |n: u64, words: &'static str, href: &str| (count(n), words, href.to_owned());
    let waiting = driver(DriverState::Submitted) + driver(DriverState::Relaunching);
    let failed = driver(DriverState::Failed) + driver(DriverState::Error);
    let not_alive = worker(WorkerState::Dead.name()) + worker(WorkerState::Unknown.name());
    vec![
        Tile {
            label: "Drivers",
            href: "/drivers?state=RUNNING",
            total: count(driver(DriverState::Running) + driver(DriverState::Launching)),
            words: "running",
            parts: vec![
                part(waiting, "waiting", "/queue"),
                part(
                    driver(DriverState::Finished),
                    "finished",
                    "/drivers?state=FINISHED",
                ),
                part(failed, "failed", "/drivers?state=FAILED"),
            ],
        },
        Tile {
            label: "Applications",
            href: "/apps?state=RUNNING",
            total: count(app(ApplicationState::Running)),
            words: "running",
            parts: vec![
                part(
                    app(ApplicationState::Waiting),
                    "waiting",
                    "/apps?state=WAITING",
                ),
                part(
                    executor(ExecutorState::Running) + executor(ExecutorState::Launching),
                    "executors",
                    "/apps",
                ),
            ],
        },
        Tile {
            label: "Workers",
            href: "/workers?state=ALIVE",
            total: count(worker(WorkerState::Alive.name())),
            words: "alive",
            parts: vec![
                part(
                    worker("DECOMMISSIONED"),
                    "draining",
                    "/workers?state=DECOMMISSIONED",
                ),
                part(not_alive, "not here", "/workers?state=DEAD"),
            ],
        },
    ]
}

fn meters(view: &ClusterView) -> Vec<Meter> {
    let counts = view.counts();
    let meter = |label, text, used, of| {
        let bar = Bar::new(used, of);
        Meter {
            label,
            text,
            percent: bar.percent(),
            bar,
        }
    };
    let (used, of) = (counts.cores_used, counts.cores_offered);
    let (mib, mib_of) = (counts.memory_mib_used, counts.memory_mib_offered);
    let memory = format!("{} of {}", mebibytes(mib), mebibytes(mib_of));
    vec![
        meter("Cores", used_of(used, of, "core"), used, of),
        meter("Memory", memory, mib, mib_of),
    ]
}

/// The height of a point of the line, as a rate.
fn rate(point: u64) -> String {
    match point % SECONDS_A_POINT {
        0 => format!("{} a second", count(point / SECONDS_A_POINT)),
        _ => format!("{:.1} a second", point as f64 / SECONDS_A_POINT as f64),
    }
}
