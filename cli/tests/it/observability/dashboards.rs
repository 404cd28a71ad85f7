//! Every question of every dashboard has an answer, on a cluster under load and through a failover.

use nix::sys::signal::Signal;
use serde_json::Value;

use super::prometheus::{Prometheus, free_address, grafana, has_data, installed};
use crate::support::{Cluster, alone, expect_code, get, interrex, processes_of, start, wait_for};

/// What Grafana makes of `$__rate_interval` when a point is 15 s and a scrape 1 s.
const RATE_INTERVAL: &str = "16s";

/// What a live run alone counts begins with this.
const LIVE_RUN: &str = "interrex_chaos_";

/// Queries that have nothing to show on such a cluster: a part of the query, and why.
const EMPTY: &[(&str, &str)] = &[
    (
        LIVE_RUN,
        "no live run is scraped here, but by the test below",
    ),
    (
        "interrex_etcd_",
        "this cluster keeps its records with Raft, not in etcd",
    ),
    (
        "interrex_raft_snapshot_build_",
        "20,000 entries come before the first snapshot",
    ),
    (
        "interrex_raft_snapshot_install_",
        "nobody is so far behind that it needs a snapshot",
    ),
    (
        "interrex_snapshot_age_seconds",
        "20,000 entries come before the first snapshot",
    ),
];

/// A question of a dashboard.
struct Question {
    place: String,
    expression: String,
    instant: bool,
}

impl Question {
    fn is_answered(&self, prometheus: &Prometheus) -> bool {
        let series = match self.instant {
            true => prometheus.instant(&self.expression),
            false => prometheus.range(&self.expression),
        };
        has_data(&series)
    }
}

fn dashboards() -> Vec<(String, Value)> {
    let files = std::fs::read_dir(grafana("dashboards")).expect("the folder");
    let mut all: Vec<_> = files
        .map(|file| {
            let path = file.expect("an entry").path();
            let text = std::fs::read(&path).expect("a file");
            (
                path.display().to_string(),
                serde_json::from_slice(&text).expect("JSON"),
            )
        })
        .collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    all
}

/// The expression as Grafana sends it when "All" is chosen.
fn substituted(expression: &str) -> String {
    expression
        .replace("$cluster", ".*")
        .replace("$instance", ".*")
        .replace("$__rate_interval", RATE_INTERVAL)
}

fn questions() -> Vec<Question> {
    let mut all = Vec::new();
    for (file, dashboard) in dashboards() {
        let panels = dashboard["panels"].as_array().expect("panels").iter();
        for panel in panels {
            for target in panel["targets"].as_array().into_iter().flatten() {
                all.push(Question {
                    place: format!("{file}: {}", panel["title"]),
                    expression: substituted(target["expr"].as_str().expect("an expression")),
                    instant: target["instant"] == true,
                });
            }
        }
        for annotation in dashboard["annotations"]["list"]
            .as_array()
            .expect("annotations")
        {
            all.push(Question {
                place: format!("{file}: annotation {}", annotation["name"]),
                expression: substituted(annotation["expr"].as_str().expect("an expression")),
                instant: false,
            });
        }
    }
    assert!(all.len() > 100, "only {} questions found", all.len());
    all
}

/// Work of every kind: drivers by both ways in, an application, one that does not fit, and one that cannot start.
fn load(cluster: &Cluster) {
    for _ in 0..5 {
        expect_code(&cluster.run(&["submit", "--wait", "--", "true"]), 0);
    }
    expect_code(&cluster.run(&["run", "--executors", "2", "--", "true"]), 0);
    cluster.submit(&["--cores", "1000", "--", "true"]);
    expect_code(
        &cluster.run(&["submit", "--wait", "--", "/no/such/program"]),
        10,
    );
    expect_code(&cluster.run(&["status", "no-such-driver"]), 5);
    cluster.json(&["list", "drivers"]);
    for rest in cluster.addresses("rest") {
        // One that was just killed answers nothing.
        get(&rest, "/v1/submissions/status/driver-0");
    }
}

#[test]
fn every_panel_has_data_under_load_and_through_a_failover() {
    if !installed() {
        return;
    }
    let cluster = Cluster::start(&["--respawn"]);
    let prometheus = Prometheus::start(&cluster, "1m");
    load(&cluster);
    let app = start(&mut cluster.command(&["run", "--executors", "2", "--", "sleep", "3"]));
    let (old, _) = cluster.leader();
    cluster.signal(&old, Signal::SIGKILL);
    load(&cluster);
    expect_code(&app.finish(), 0);
    wait_for("all masters answer again", || {
        (prometheus.value("sum(up)")? > 4.5).then_some(())
    });
    // A rate needs two scrapes of whatever came last.
    let scrapes =
        |prometheus: &Prometheus| prometheus.value("min(count_over_time(interrex_epoch[5m]))");
    let before = scrapes(&prometheus).unwrap_or(0.0);
    wait_for("three more scrapes", || {
        (scrapes(&prometheus)? >= before + 3.0).then_some(())
    });
    let (mut silent, mut answered) = (Vec::new(), Vec::new());
    for question in questions() {
        let expected = EMPTY
            .iter()
            .find(|(part, _)| question.expression.contains(part));
        match (question.is_answered(&prometheus), expected) {
            (true, None) | (false, Some(_)) => {}
            (true, Some((part, reason))) => answered.push(format!(
                "{}: {part} has data, but: {reason}",
                question.place
            )),
            (false, None) => silent.push(question),
        }
    }
    // On a machine that is busy some scrapes are late; each panel must have something to show in time.
    for question in silent {
        let what = format!("{} has data\n    {}", question.place, question.expression);
        wait_for(&what, || question.is_answered(&prometheus).then_some(()));
    }
    assert!(
        answered.is_empty(),
        "not empty any more:\n{}",
        answered.join("\n")
    );
    variables_have_values(&prometheus);
}

#[test]
fn the_faults_of_a_live_run_are_shown() {
    if !installed() {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a directory");
    let address = free_address();
    let prometheus = Prometheus::of(&address);
    let args = [
        "--scenario",
        "client-retry",
        "--seconds",
        "60",
        "--seed",
        "7",
    ];
    let mut run = interrex();
    run.args(["chaos", "live", "--patient", "--metrics-addr", &address])
        .args(args)
        .arg("--report")
        .arg(folder.path().join("run"));
    let run = start(&mut run);
    let asked: Vec<Question> = questions()
        .into_iter()
        .filter(|question| question.expression.contains(LIVE_RUN))
        .collect();
    assert!(!asked.is_empty(), "a panel shows the faults");
    for question in asked {
        let more = format!("{} > 0", question.expression);
        // Alone it says when Prometheus answers at all.
        wait_for(&question.place, || prometheus.value(&more));
        wait_for(&question.place, || {
            has_data(&prometheus.range(&more)).then_some(())
        });
    }
    drop(run);
    wait_for("the run has taken its cluster along", || {
        processes_of(folder.path()).is_empty().then_some(())
    });
}

fn variables_have_values(prometheus: &Prometheus) {
    for (file, dashboard) in dashboards() {
        let variables = dashboard["templating"]["list"]
            .as_array()
            .expect("variables")
            .iter();
        for variable in variables.filter(|variable| variable["type"] == "query") {
            let query = variable["query"]["query"].as_str().expect("a query");
            let inside = query
                .strip_prefix("label_values(")
                .and_then(|rest| rest.strip_suffix(')'));
            let (selector, label) = inside
                .and_then(|inside| inside.rsplit_once(", "))
                .expect("label_values(...)");
            let values = prometheus.label_values(label, &substituted(selector));
            let expected = if label == "cluster" { 1 } else { 5 };
            assert_eq!(values.len(), expected, "{file}: {query}: {values:?}");
        }
    }
}
