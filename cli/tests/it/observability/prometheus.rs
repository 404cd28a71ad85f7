//! A real Prometheus that scrapes a test's cluster once a second.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;

use crate::support::{Cluster, Process, wait_for};

/// How often it scrapes, and looks at its rules.
const INTERVAL: &str = "1s";

/// A running Prometheus; dropping it ends it.
pub(super) struct Prometheus {
    address: String,
    began: f64,
    _process: Process,
    _folder: tempfile::TempDir,
}

/// Whether Debian's package is there; says so where it is not.
pub(super) fn installed() -> bool {
    let found = ["prometheus", "promtool"].iter().all(|program| {
        let asked = Command::new(program).arg("--version").output();
        asked.is_ok_and(|output| output.status.success())
    });
    if !found {
        eprintln!(
            "SKIPPED: needs prometheus and promtool (apt-get install prometheus; `make setup`)"
        );
    }
    found
}

/// A folder or file of `grafana/`.
pub(super) fn grafana(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../grafana")
        .join(path)
}

/// An address of this machine. Free now; whoever takes it in between makes the test fail, not lie.
pub(super) fn free_address() -> String {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    free.expect("a free port").to_string()
}

fn now() -> f64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "Prometheus goes by the wall clock"
    )]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

/// Everything but letters and digits, as `%XX`.
fn encoded(text: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(one).collect()
}

// === impl Prometheus ===

impl Prometheus {
    /// Scrapes every master and agent of `cluster`, with the alerts of this tree, each of which waits for `for_all`.
    pub(super) fn start(cluster: &Cluster, for_all: &str) -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let rules = std::fs::read_to_string(grafana("prometheus/alerts.yml")).expect("the alerts");
        let shortened = |line: &str| match line.trim_start().starts_with("for: ") {
            true => format!("        for: {for_all}\n"),
            false => format!("{line}\n"),
        };
        let rules: String = rules.lines().map(shortened).collect();
        std::fs::write(folder.path().join("alerts.yml"), rules).expect("a file");
        let prometheus = Self::run(folder, &config(cluster));
        wait_for("Prometheus scrapes everybody", || {
            let up = prometheus.value("sum(up) == bool count(up)")?;
            let all = prometheus.value("count(up)")?;
            (up > 0.5 && all > 4.5).then_some(())
        });
        prometheus
    }

    /// Scrapes one address alone, which need not answer yet.
    pub(super) fn of(address: &str) -> Self {
        let config = format!(
            "global:\n  scrape_interval: {INTERVAL}\nscrape_configs:\n  - job_name: one\n    \
             static_configs:\n      - targets: [\"{address}\"]\n"
        );
        Self::run(tempfile::tempdir().expect("a directory"), &config)
    }

    fn run(folder: tempfile::TempDir, config: &str) -> Self {
        std::fs::write(folder.path().join("prometheus.yml"), config).expect("a file");
        let address = free_address();
        let mut command = Command::new("prometheus");
        command
            .arg(format!(
                "--config.file={}",
                folder.path().join("prometheus.yml").display()
            ))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=warn");
        Self {
            began: now(),
            _process: Process::start(command, &folder.path().join("prometheus.log")),
            _folder: folder,
            address,
        }
    }

    /// The answer of an API, `data` of it; `None` where it does not answer yet.
    ///
    /// # Errors
    /// What Prometheus says of the question.
    fn ask(&self, path: &str) -> Option<Result<Value, String>> {
        let asked = || {
            let mut stream = TcpStream::connect(&self.address)?;
            stream.set_read_timeout(Some(Duration::from_secs(30)))?;
            // Of 1.0, so that the answer comes in one piece.
            write!(stream, "GET {path} HTTP/1.0\r\nHost: x\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            std::io::Result::Ok(answer)
        };
        let answer = asked().ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let mut answer: Value = serde_json::from_str(body).ok()?;
        Some(match answer["status"] == "success" {
            true => Ok(answer["data"].take()),
            false => Err(answer["error"].to_string()),
        })
    }

    /// What `expression` is now: the series of the answer.
    pub(super) fn instant(&self, expression: &str) -> Vec<Value> {
        self.answer(
            &format!("/api/v1/query?query={}", encoded(expression)),
            expression,
        )
    }

    /// The same at every second since this was started, as a panel asks.
    pub(super) fn range(&self, expression: &str) -> Vec<Value> {
        let (start, end) = (self.began, now());
        let query = encoded(expression);
        self.answer(
            &format!("/api/v1/query_range?query={query}&start={start}&end={end}&step=1"),
            expression,
        )
    }

    fn answer(&self, path: &str, expression: &str) -> Vec<Value> {
        let data = self.ask(path).expect("Prometheus answers");
        let data = data.unwrap_or_else(|error| panic!("{error}\nin {expression}"));
        let series = data["result"].as_array();
        series.expect("series: a number has none").clone()
    }

    /// The number that `expression` is now, where it is one.
    pub(super) fn value(&self, expression: &str) -> Option<f64> {
        let path = format!("/api/v1/query?query={}", encoded(expression));
        let data = self.ask(&path)?.ok()?;
        data["result"][0]["value"][1].as_str()?.parse().ok()
    }

    /// Values of a label of the series that `selector` names, as the variables of a dashboard ask.
    pub(super) fn label_values(&self, label: &str, selector: &str) -> Vec<String> {
        let path = format!("/api/v1/label/{label}/values?match[]={}", encoded(selector));
        let data = self
            .ask(&path)
            .expect("Prometheus answers")
            .expect("a good question");
        let values = data.as_array().expect("a list").iter();
        values
            .map(|value| value.as_str().expect("a word").to_owned())
            .collect()
    }

    /// The alerts as it has loaded them.
    pub(super) fn rules(&self) -> Vec<Value> {
        let data = self
            .ask("/api/v1/rules")
            .expect("Prometheus answers")
            .expect("a good question");
        data["groups"][0]["rules"]
            .as_array()
            .expect("rules")
            .clone()
    }

    /// Names of the alerts that fire.
    pub(super) fn firing(&self) -> Vec<String> {
        let alerts = self.instant(r#"count by (alertname) (ALERTS{alertstate="firing"})"#);
        let name = |alert: &Value| {
            alert["metric"]["alertname"]
                .as_str()
                .expect("a name")
                .to_owned()
        };
        alerts.iter().map(name).collect()
    }
}

/// The configuration of this tree, with this cluster's addresses.
fn config(cluster: &Cluster) -> String {
    let list = |addresses: Vec<String>| format!("{addresses:?}");
    let masters = list(cluster.addresses("web"));
    let agents = cluster.manifest()["agents"]
        .as_array()
        .expect("agents")
        .clone();
    let agents = list(
        agents
            .iter()
            .map(|agent| agent["web"].as_str().expect("an address").to_owned())
            .collect(),
    );
    let text =
        std::fs::read_to_string(grafana("prometheus/prometheus.yml")).expect("the configuration");
    let (mut job, mut config) = (String::new(), String::new());
    for line in text.lines() {
        if let Some(name) = line.trim().strip_prefix("- job_name: ") {
            job = name.to_owned();
        }
        let line = match line.trim() {
            of if of.starts_with("- targets:") && job == "interrex-masters" => {
                format!("      - targets: {masters}")
            }
            of if of.starts_with("- targets:") && job == "interrex-agents" => {
                format!("      - targets: {agents}")
            }
            of if of.starts_with("scrape_interval:") => format!("  scrape_interval: {INTERVAL}"),
            of if of.starts_with("evaluation_interval:") => {
                format!("  evaluation_interval: {INTERVAL}")
            }
            _other => line.to_owned(),
        };
        config.push_str(&line);
        config.push('\n');
    }
    config
}

/// Whether an answer has a number in it; a panel shows nothing for "not a number".
pub(super) fn has_data(series: &[Value]) -> bool {
    let number = |point: &Value| {
        let value = point[1].as_str().and_then(|text| text.parse::<f64>().ok());
        value.is_some_and(f64::is_finite)
    };
    series.iter().any(|one| {
        let points = one["values"].as_array().into_iter().flatten();
        points.chain(one.get("value")).any(number)
    })
}
