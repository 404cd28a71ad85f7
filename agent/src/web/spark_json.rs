//! Spark's `/json/` of a worker, with the names and the order of its fields. As in Spark it knows no drivers.
//!
//! What an agent is not told stays empty: who runs the application, and how many cores that may have in all. Of the
//! command only the program is shown: arguments and environment may hold secrets.
//!
//! //= spark `WorkerPage.renderJson`, `JsonProtocol.writeWorkerState`

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use interrex_web::answer;
use serde::Serialize;

use super::{Shared, WebError};
use crate::{
    process::WorkKey,
    worker::view::{ProcessView, WorkerView},
};

/// The state of a worker.
#[derive(Debug, Serialize)]
struct WorkerState {
    id: String,
    masterurl: String,
    masterwebuiurl: String,
    cores: u32,
    coresused: u32,
    memory: u64,
    memoryused: u64,
    resources: BTreeMap<String, Resource>,
    resourcesused: BTreeMap<String, Resource>,
    executors: Vec<Executor>,
    finishedexecutors: Vec<Executor>,
}

/// Addresses of one custom resource.
#[derive(Debug, Serialize)]
struct Resource {
    name: String,
    addresses: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Executor {
    id: u32,
    memory: u64,
    resources: BTreeMap<String, Resource>,
    appid: String,
    appdesc: Application,
}

#[derive(Debug, Serialize)]
struct Application {
    name: String,
    cores: u32,
    memoryperexecutor: u64,
    resourcesperexecutor: Vec<Requirement>,
    memoryperslave: u64,
    resourcesperslave: Vec<Requirement>,
    user: String,
    command: String,
}

/// How much of a custom resource an executor needs.
#[derive(Debug, Clone, Serialize)]
struct Requirement {
    name: String,
    amount: usize,
}

/// `/json`
pub(super) async fn show(State(shared): State<Arc<Shared>>) -> Result<Response, WebError> {
    let state = WorkerState::of(&shared.view().await?);
    let mut response = Json(state).into_response();
    answer::guard(response.headers_mut());
    Ok(response)
}

// === impl WorkerState ===

impl WorkerState {
    fn of(view: &WorkerView) -> Self {
        let held = || view.processes.iter().filter(|it| it.state != "waiting");
        let mut used: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, addresses) in held().flat_map(|process| &process.resources) {
            let of = used.entry(name.clone()).or_default();
            of.extend(addresses.iter().cloned());
        }
        let web = view.leader_web.as_str();
        Self {
            id: view.worker_id.clone(),
            masterurl: prefixed("spark://", view.leader.as_deref().unwrap_or_default()),
            masterwebuiurl: prefixed("http://", web),
            cores: view.cores,
            coresused: held().map(|process| process.cores).sum(),
            memory: view.memory_mib,
            memoryused: held().map(|process| process.memory_mib).sum(),
            resources: resources(&view.resources),
            resourcesused: resources(&used),
            executors: held().filter_map(Executor::of).collect(),
            finishedexecutors: view
                .executors_over
                .iter()
                .filter_map(Executor::of)
                .collect(),
        }
    }
}

// === impl Executor ===

impl Executor {
    /// `None`: it is a driver.
    fn of(process: &ProcessView) -> Option<Self> {
        let WorkKey::Executor {
            app_id,
            executor_id,
        } = &process.work
        else {
            return None;
        };
        let needs: Vec<Requirement> = process.resources.iter().map(requirement).collect();
        Some(Self {
            id: *executor_id,
            memory: process.memory_mib,
            resources: resources(&process.resources),
            appid: app_id.clone(),
            appdesc: Application {
                name: process.name.clone(),
                cores: 0,
                memoryperexecutor: process.memory_mib,
                resourcesperexecutor: needs.clone(),
                memoryperslave: process.memory_mib,
                resourcesperslave: needs,
                user: String::new(),
                command: process.program.clone(),
            },
        })
    }
}

fn requirement((name, addresses): (&String, &Vec<String>)) -> Requirement {
    Requirement {
        name: name.clone(),
        amount: addresses.len(),
    }
}

fn resources(held: &BTreeMap<String, Vec<String>>) -> BTreeMap<String, Resource> {
    let one = |(name, addresses): (&String, &Vec<String>)| {
        let resource = Resource {
            name: name.clone(),
            addresses: addresses.clone(),
        };
        (name.clone(), resource)
    };
    held.iter().map(one).collect()
}

/// An address with its scheme; nothing where there is no address.
fn prefixed(scheme: &str, address: &str) -> String {
    match address {
        "" => String::new(),
        address => format!("{scheme}{address}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(work: WorkKey, state: &'static str) -> ProcessView {
        ProcessView {
            work,
            name: "training".to_owned(),
            program: "/opt/train".to_owned(),
            resources: BTreeMap::from([("gpu".to_owned(), vec!["0".to_owned(), "1".to_owned()])]),
            state,
            pid: Some(7),
            cores: 2,
            memory_mib: 512,
            started_at_ms: 1,
            at_most_once: false,
        }
    }

    fn view() -> WorkerView {
        WorkerView {
            worker_id: "w1".to_owned(),
            host: "h".to_owned(),
            cores: 8,
            memory_mib: 4096,
            resources: BTreeMap::from([("gpu".to_owned(), vec!["0".to_owned()])]),
            masters: Vec::new(),
            cluster_id: String::new(),
            epoch: 3,
            leader: Some("m:7077".to_owned()),
            leader_web: "m:8080".to_owned(),
            refusals: BTreeMap::new(),
            stopping: false,
            not_accepting: None,
            unacknowledged: 0,
            processes: vec![
                process(WorkKey::driver("d1", 1), "running"),
                process(WorkKey::executor("app-1", 3), "running"),
                process(WorkKey::executor("app-1", 4), "waiting"),
            ],
            executors_over: vec![process(WorkKey::executor("app-1", 2), "ending")],
        }
    }

    //= spark JsonProtocol.writeWorkerState, writeExecutorRunner, writeApplicationDescription
    #[test]
    fn the_state_of_a_worker_has_sparks_fields_in_sparks_order() {
        let text = serde_json::to_string(&WorkerState::of(&view())).unwrap();
        let executor = |id: u32| {
            format!(
                concat!(
                    r#"{{"id":{id},"memory":512,"resources":{{"gpu":{{"name":"gpu","addresses":["0","1"]}}}},"#,
                    r#""appid":"app-1","appdesc":{{"name":"training","cores":0,"memoryperexecutor":512,"#,
                    r#""resourcesperexecutor":[{{"name":"gpu","amount":2}}],"memoryperslave":512,"#,
                    r#""resourcesperslave":[{{"name":"gpu","amount":2}}],"user":"","command":"/opt/train"}}}}"#,
                ),
                id = id
            )
        };
        let expected = [
            r#"{"id":"w1","masterurl":"spark://m:7077","masterwebuiurl":"http://m:8080","cores":8,"#,
            r#""coresused":4,"memory":4096,"memoryused":1024,"#,
            r#""resources":{"gpu":{"name":"gpu","addresses":["0"]}},"#,
            r#""resourcesused":{"gpu":{"name":"gpu","addresses":["0","1","0","1"]}},"#,
            &format!(
                r#""executors":[{}],"finishedexecutors":[{}]}}"#,
                executor(3),
                executor(2)
            ),
        ];
        assert_eq!(text, expected.concat());
    }

    #[test]
    fn without_a_leader_there_is_no_address_of_one() {
        let alone = WorkerView {
            leader: None,
            leader_web: String::new(),
            ..view()
        };
        let state = WorkerState::of(&alone);
        assert_eq!(
            (state.masterurl.as_str(), state.masterwebuiurl.as_str()),
            ("", "")
        );
    }
}
