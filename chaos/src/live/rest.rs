//! The end of a run: everything is mended, comes to rest, is asked after, and is ended.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;

use super::{
    client::is_over,
    load::{APP, EXECUTORS, SUBMITTERS},
    options::{Engine, LiveError},
    places::ETCD,
    proc_marks::{self, Alive},
    stage::Stage,
};
use crate::history::{Kind, Op, Record};

/// How long everything may take to come to rest once nothing is broken any more.
pub(super) const CONVERGE_DEADLINE: Duration = Duration::from_secs(60);
/// How long clients go on while nothing is broken.
const CALM_LOAD: Duration = Duration::from_secs(2);
/// How long clients may take until all their requests are answered.
const CLIENTS_DEADLINE: Duration = Duration::from_secs(100);
/// How long replicas may take until all have the same.
const HASH_DEADLINE: Duration = Duration::from_secs(20);
/// How long a process of a run may take to be gone after its agent.
const GONE_DEADLINE: Duration = Duration::from_secs(15);

/// Mends all links, lets everything go on, and starts what is dead.
pub(super) async fn heal(stage: &mut Stage<'_>, engine: Engine) -> Result<(), LiveError> {
    stage.cluster.links.mend_all();
    for node in stage.cluster.running() {
        stage.cluster.signal(&node, Signal::SIGCONT);
    }
    let etcd = (engine == Engine::Etcd).then(|| ETCD.to_owned());
    let nodes = etcd
        .into_iter()
        .chain(stage.masters())
        .chain(stage.agents());
    for node in nodes.collect::<Vec<_>>() {
        if !stage.cluster.is_alive(&node) {
            stage.start(&node)?;
        }
    }
    stage.journal.info("nemesis", Op::Calm, "", json!(null));
    stage.pause(CALM_LOAD).await;
    Ok(())
}

/// Ends the clients: each waits until its requests are answered.
pub(super) async fn end_clients(stage: &mut Stage<'_>) {
    for client in SUBMITTERS {
        stage.cluster.signal(client, Signal::SIGTERM);
    }
    for client in SUBMITTERS {
        let ended = stage.ended(client, CLIENTS_DEADLINE).await;
        if ended.as_deref() != Some("exit code 0") {
            let how = ended.unwrap_or_else(|| "no end".to_owned());
            stage
                .journal
                .broken(client, &format!("was to end, and has {how}"));
        }
    }
}

/// Waits until all masters and agents are well and everything that was submitted is over.
pub(super) async fn converge(stage: &mut Stage<'_>) {
    let (masters, agents) = (stage.masters(), stage.agents());
    let observer = stage.observer.clone();
    let converged = stage
        .wait_until(CONVERGE_DEADLINE, async |stage| {
            if let Some(complaint) = observer.masters_unwell(&masters).await {
                return Some(complaint);
            }
            if let Some(complaint) = observer.agents_unwell(&agents).await {
                return Some(complaint);
            }
            if let Some(complaint) = observer.app_unwell(APP, EXECUTORS).await {
                return Some(complaint);
            }
            let drivers = match observer.drivers().await {
                Ok(drivers) => drivers,
                Err(error) => return Some(error.to_string()),
            };
            if let Some(driver) = drivers.iter().find(|driver| !is_over(&driver.state)) {
                return Some(format!("{} is {}", driver.id, driver.state));
            }
            match stage.running_attempts() {
                0 => None,
                running => Some(format!("{running} attempts run")),
            }
        })
        .await;
    match converged {
        Ok(()) => stage
            .journal
            .info("nemesis", Op::Converged, "", json!(null)),
        Err(complaint) => {
            let seconds = CONVERGE_DEADLINE.as_secs();
            stage.say(&format!("not at rest after {seconds} s: {complaint}"));
            stage
                .journal
                .broken("nemesis", &format!("does not come to rest: {complaint}"));
        }
    }
}

/// Ends the application, with its executors.
pub(super) async fn end_app(stage: &mut Stage<'_>) {
    stage.cluster.signal(APP, Signal::SIGINT);
    let ended = stage.ended(APP, CLIENTS_DEADLINE).await;
    // As `interrex run` says that it was interrupted, and that its executors were ended.
    if ended.as_deref() != Some("exit code 11") {
        let how = ended.unwrap_or_else(|| "no end".to_owned());
        stage
            .journal
            .broken(APP, &format!("was to end its executors, and has {how}"));
    }
}

/// Asks the leader for every submission that anybody has made.
pub(super) async fn ask_after_all(stage: &mut Stage<'_>, submissions: &[String]) {
    for id in submissions {
        let driver = match stage.observer.driver(id).await {
            Ok(driver) => driver,
            Err(error) => {
                stage
                    .journal
                    .broken("nemesis", &format!("{id} cannot be asked after: {error}"));
                continue;
            }
        };
        // Nothing is known of it: what was acknowledged and has no record here is lost.
        let Some(driver) = driver else { continue };
        let exit_code = driver.exit.and_then(|exit| exit.code);
        stage.journal.push(Record {
            time: stage.journal.clock().now(),
            process: "leader".to_owned(),
            kind: Kind::Info,
            op: Op::Final,
            id: id.clone(),
            attempt: Some(driver.attempt),
            epoch: None,
            value: json!({
                "driver": driver.id, "state": driver.state, "exit_code": exit_code,
                "worker": driver.worker_id, "message": driver.message,
            }),
        });
        stage.look().await;
    }
}

/// Compares the records of all masters.
pub(super) async fn compare_records(stage: &mut Stage<'_>) {
    let masters = stage.masters();
    let observer = stage.observer.clone();
    let mut seen = Vec::new();
    let compared = stage
        .wait_until(HASH_DEADLINE, async |_stage| {
            seen.clear();
            for master in &masters {
                match observer.records(master).await {
                    Ok(records) => seen.push((master.clone(), records)),
                    Err(error) => return Some(format!("{master}: {error}")),
                }
            }
            let (_, first) = seen.first()?;
            let differs = seen.iter().find(|(_, records)| records.hash != first.hash);
            differs.map(|(master, _)| format!("{master} knows something else"))
        })
        .await;
    if let Err(why) = compared {
        let what = format!("the records of all masters are not the same: {why}");
        stage.journal.broken("nemesis", &what);
    }
    for (master, records) in seen {
        let value = json!({
            "hash": records.hash, "at": records.sequence, "records": records.records,
        });
        stage.journal.info(&master, Op::Hash, "", value);
    }
}

/// Everything of the work that is alive though all of it is over.
pub(super) async fn look_for_leftovers(stage: &mut Stage<'_>) {
    let run = stage.site.run.clone();
    let alive = leftovers(stage, move || proc_marks::work_of(&run)).await;
    note_alive(stage, alive, "it is over, its agent runs");
}

/// Ends all agents, then all masters, then etcd; what is alive of the run after that belongs to nobody.
pub(super) async fn end_all(stage: &mut Stage<'_>, engine: Engine) {
    let etcd = (engine == Engine::Etcd).then(|| ETCD.to_owned());
    let nodes: Vec<String> = stage.agents().into_iter().chain(stage.masters()).collect();
    for node in &nodes {
        let how = stage.stop(node).await;
        if let Some(how) = how.filter(|how| how != "exit code 0") {
            stage
                .journal
                .broken(node, &format!("was told to end, and ended with {how}"));
        }
    }
    for node in etcd.into_iter().chain(stage.cluster.running()) {
        stage.kill(&node).await;
    }
    let (run, dir) = (stage.site.run.clone(), stage.cluster.places.data(""));
    let alive = leftovers(stage, move || proc_marks::all_of(&run, &dir)).await;
    note_alive(stage, alive, "every agent and every master has ended");
}

/// Looks until nothing is found, or for a while.
async fn leftovers(
    stage: &mut Stage<'_>,
    look: impl Fn() -> std::io::Result<Vec<Alive>> + Clone + Send + 'static,
) -> Vec<Alive> {
    let mut alive = Vec::new();
    let waited = stage
        .wait_until(GONE_DEADLINE, async |_stage| {
            let found = tokio::task::spawn_blocking(look.clone()).await;
            alive = found.ok().and_then(Result::ok).unwrap_or_default();
            (!alive.is_empty()).then(String::new)
        })
        .await;
    if waited.is_ok() { Vec::new() } else { alive }
}

fn note_alive(stage: &mut Stage<'_>, alive: Vec<Alive>, why: &str) {
    for process in alive {
        let value = json!({
            "why": format!("pid {}, {}: {why}", process.pid, process.command.trim()),
            "pid": process.pid,
        });
        stage.journal.push(Record {
            time: stage.journal.clock().now(),
            process: "machine".to_owned(),
            kind: Kind::Info,
            op: Op::Alive,
            id: process.driver,
            attempt: Some(process.attempt),
            epoch: None,
            value,
        });
    }
}
