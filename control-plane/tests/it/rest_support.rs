//! Masters on the memory engine with real sockets, and a client for the submission API.

use std::time::Duration;

use interrex_control_plane::{
    app::{Listeners, Master, MasterOptions, RunningMaster},
    options::{MasterConfig, RestOptions},
    runtime::handle::{MasterHandle, Role},
};
use interrex_persistence::{election::MasterInfo, memory::MemoryCluster};
use metrics_exporter_prometheus::PrometheusHandle;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

/// Longest wait for anything that must happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// Masters that share a store.
#[derive(Default)]
pub(crate) struct Cluster {
    pub(crate) store: MemoryCluster,
}

/// An answer of the submission API.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    pub(crate) json: Value,
}

/// Waits of the submission API that suit a test: a leader is waited for, but not for long.
pub(crate) fn patient() -> RestOptions {
    RestOptions {
        leader_wait: PATIENCE,
        ..RestOptions::default()
    }
}

/// As [`patient`], for tests in which no leader will come.
pub(crate) fn impatient() -> RestOptions {
    RestOptions {
        leader_wait: Duration::from_millis(200),
        ..RestOptions::default()
    }
}

/// A submission of a plain program.
pub(crate) fn command_body() -> Value {
    json!({
        "action": "CreateSubmissionRequest",
        "command": ["sh", "-c", "true"],
        "sparkProperties": {"spark.driver.memory": "64m"},
    })
}

/// A submission as Spark's client sends it.
pub(crate) fn spark_body() -> Value {
    json!({
        "action": "CreateSubmissionRequest",
        "appArgs": ["10"],
        "appResource": "file:/examples.jar",
        "clientSparkVersion": "4.3.0",
        "environmentVariables": {},
        "mainClass": "org.apache.spark.examples.SparkPi",
        "sparkProperties": {"spark.app.name": "pi", "spark.app.submitTime": "1"},
    })
}

// === impl Cluster ===

impl Cluster {
    /// Starts a master; it campaigns.
    pub(crate) fn start(&self, id: &str, rest: RestOptions) -> RunningMaster {
        self.start_measured(id, rest, None)
    }

    /// As [`start`](Self::start), with what `/metrics` shows.
    pub(crate) fn start_measured(
        &self,
        id: &str,
        rest: RestOptions,
        prometheus: Option<PrometheusHandle>,
    ) -> RunningMaster {
        let mut config = MasterConfig {
            id: id.to_owned(),
            rest,
            ..MasterConfig::default()
        };
        for address in [
            &mut config.server.rpc,
            &mut config.server.rest,
            &mut config.server.web,
        ] {
            address.set_port(0);
        }
        let listeners = Listeners::bind(&config.server).expect("free ports");
        let options = MasterOptions {
            prometheus,
            ..MasterOptions::from_config(&config, &listeners)
        };
        let backend = self.store.join(options.me.clone());
        Master::start(options, listeners, backend).expect("a master")
    }

    /// Starts a master and waits until it leads.
    pub(crate) async fn start_leader(&self, id: &str) -> RunningMaster {
        let master = self.start(id, patient());
        leads(&master.handle).await;
        master
    }

    /// Lets somebody lead who answers nothing, with `rest` as its address. Whoever leads is deposed.
    pub(crate) async fn phantom_leader(&self, rest: &str) {
        let me = MasterInfo {
            id: "phantom".into(),
            rest: rest.into(),
            ..MasterInfo::default()
        };
        let backend = self.store.join(me.clone());
        let campaign = backend.election.campaign(&me);
        tokio::pin!(campaign);
        let mut again = tokio::time::interval(Duration::from_millis(5));
        loop {
            tokio::select! {
                biased;
                won = &mut campaign => {
                    won.expect("leadership");
                    return;
                }
                // It stands in the queue since it was polled first: the next to lead is the phantom.
                _ = again.tick() => drop(self.store.depose()),
            }
        }
    }
}

/// Waits until this master leads.
pub(crate) async fn leads(handle: &MasterHandle) {
    let mut role = handle.watch_role();
    let leading = role.wait_for(|role| *role == Role::Leading);
    tokio::time::timeout(PATIENCE, leading)
        .await
        .expect("in time")
        .expect("a running master");
}

/// `POST` of JSON (or anything) to a path below `/v1/submissions`.
pub(crate) async fn post(master: &RunningMaster, path: &str, body: impl ToString) -> Answer {
    send(
        master,
        reqwest::Method::POST,
        &format!("/v1/submissions/{path}"),
        None,
        body.to_string(),
    )
    .await
}

/// `GET` of a path below `/v1/submissions`.
pub(crate) async fn get(master: &RunningMaster, path: &str) -> Answer {
    let path = format!("/v1/submissions/{path}");
    send(master, reqwest::Method::GET, &path, None, String::new()).await
}

/// A submission with an id.
pub(crate) async fn create(master: &RunningMaster, key: &str, body: &Value) -> Answer {
    let path = "/v1/submissions/create";
    send(
        master,
        reqwest::Method::POST,
        path,
        Some(key),
        body.to_string(),
    )
    .await
}

/// Any request.
pub(crate) async fn send(
    master: &RunningMaster,
    method: reqwest::Method,
    path: &str,
    key: Option<&str>,
    body: String,
) -> Answer {
    let address = master.rest_addr.expect("the submission API is on");
    let mut request = reqwest::Client::builder()
        .no_proxy()
        .timeout(PATIENCE)
        .build()
        .expect("a client")
        .request(method, format!("http://{address}{path}"))
        .body(body);
    if let Some(key) = key {
        request = request.header("Idempotency-Key", key);
    }
    let response = request.send().await.expect("an answer");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.expect("a body");
    let json = serde_json::from_str(&text).unwrap_or(Value::Null);
    Answer {
        status,
        headers,
        text,
        json,
    }
}

// === impl Answer ===

impl Answer {
    /// The text of a field; empty where there is none.
    pub(crate) fn text_of(&self, field: &str) -> &str {
        self.json[field].as_str().unwrap_or_default()
    }

    /// The text of a header; empty where there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// Checks what holds for every refusal, and returns its message.
    pub(crate) fn refused(&self, status: u16) -> &str {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(
            self.header("content-type"),
            "application/json;charset=utf-8",
            "{self:?}"
        );
        assert_eq!(self.text_of("action"), "ErrorResponse", "{self:?}");
        assert_eq!(self.text_of("serverSparkVersion"), "4.3.0", "{self:?}");
        assert_eq!(self.json.get("success"), None, "{self:?}");
        for forbidden in ["<html", "\tat ", "panicked"] {
            assert!(!self.text.contains(forbidden), "{self:?}");
        }
        self.text_of("message")
    }
}
