//! A live master and a live agent serve what the tables describe, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use interrex_proto::metric::{Kind, Metric};

use super::documentation::tables;
use crate::support::{Cluster, expect_code, get, wait_for};

/// One series of a scrape: its metric, without the endings of histograms, and its labels.
struct Series {
    metric: String,
    labels: BTreeMap<String, String>,
}

/// What a scrape says.
struct Scrape {
    series: Vec<Series>,
    /// By metric.
    help: BTreeMap<String, String>,
}

fn scrape(address: &str) -> Scrape {
    let (status, body) = get(address, "/metrics");
    assert_eq!(status, 200, "{body}");
    let mut scrape = Scrape {
        series: Vec::new(),
        help: BTreeMap::new(),
    };
    let mut histograms = BTreeSet::new();
    for line in body.lines().filter(|line| !line.is_empty()) {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, text) = help.split_once(' ').expect("a name and a text");
            scrape.help.insert(name.to_owned(), text.to_owned());
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            if let Some(name) = kind.strip_suffix(" histogram") {
                histograms.insert(name.to_owned());
            }
            assert!(!kind.ends_with(" summary"), "{kind}: without buckets");
        } else {
            let (name, labels) = parse(line);
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|ending| {
                name.strip_suffix(ending)
                    .filter(|base| histograms.contains(*base))
            });
            let metric = base.unwrap_or(&name).to_owned();
            scrape.series.push(Series { metric, labels });
        }
    }
    scrape
}

/// `name{label="value",...} number`; no value of ours has a quote or a comma in it.
fn parse(line: &str) -> (String, BTreeMap<String, String>) {
    let (series, _value) = line.rsplit_once(' ').expect("a value");
    let Some((name, labels)) = series.split_once('{') else {
        return (series.to_owned(), BTreeMap::new());
    };
    let pairs = labels
        .trim_end_matches('}')
        .split("\",")
        .filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| {
        let (label, value) = pair.split_once("=\"").expect("a label");
        (label.to_owned(), value.trim_end_matches('"').to_owned())
    });
    (name.to_owned(), pairs.collect())
}

/// Checks a scrape against the tables that `of` names by their titles.
fn check(what: &str, scrape: &Scrape, of: &[&str]) {
    let chosen: Vec<_> = tables()
        .into_iter()
        .filter(|table| of.iter().any(|word| table.title.starts_with(word)))
        .collect();
    assert_eq!(chosen.len(), of.len(), "{what}: {of:?}");
    let described: BTreeMap<&str, &Metric> = chosen
        .iter()
        .flat_map(|table| table.metrics)
        .map(|metric| (metric.name, metric))
        .collect();
    let shown: BTreeSet<&str> = scrape
        .series
        .iter()
        .map(|series| series.metric.as_str())
        .collect();
    for metric in described.values() {
        assert!(
            metric.when.is_some() || shown.contains(metric.name),
            "{what} does not show {}",
            metric.name
        );
    }
    for series in &scrape.series {
        let name = series.metric.as_str();
        if name.starts_with("process_") {
            continue;
        }
        let metric = described
            .get(name)
            .unwrap_or_else(|| panic!("{what} shows {name}, which no table has"));
        assert_eq!(
            scrape.help.get(name).map(String::as_str),
            Some(metric.help),
            "{what}: {name}"
        );
        let mut labels: BTreeSet<&str> = series.labels.keys().map(String::as_str).collect();
        if metric.kind == Kind::Histogram {
            labels.remove("le");
        }
        let named: BTreeSet<&str> = metric.labels.iter().map(|label| label.name).collect();
        assert_eq!(labels, named, "{what}: labels of {name}");
        for label in metric
            .labels
            .iter()
            .filter(|label| !label.values.is_empty())
        {
            let value = series.labels[label.name].as_str();
            assert!(
                label.values.contains(&value),
                "{what}: {name} has {}={value}, which its table does not",
                label.name
            );
        }
    }
}

#[test]
fn masters_and_agents_show_what_is_described_and_nothing_else() {
    let cluster = Cluster::start(&[]);
    expect_code(&cluster.run(&["submit", "--wait", "--", "true"]), 0);
    expect_code(&cluster.run(&["run", "--executors", "2", "--", "true"]), 0);
    expect_code(&cluster.run(&["cluster", "transfer-leader"]), 0);
    expect_code(&cluster.run(&["submit", "--wait", "--", "true"]), 0);
    let masters = cluster.addresses("web");
    for master in &masters {
        // Figures of the log are taken once a second.
        wait_for("the figures of Raft", || {
            get(master, "/metrics")
                .1
                .contains("\ninterrex_raft_voters 3")
                .then_some(())
        });
        check(
            master,
            &scrape(master),
            &["Masters", "Store", "Raft engine", "Traces"],
        );
    }
    let agents = cluster.manifest()["agents"]
        .as_array()
        .expect("agents")
        .clone();
    for agent in agents {
        let web = agent["web"].as_str().expect("an address");
        wait_for("the first look at the disk", || {
            get(web, "/metrics")
                .1
                .contains("interrex_agent_disk_free_bytes")
                .then_some(())
        });
        check(web, &scrape(web), &["Agents", "Sessions", "Traces"]);
    }
}
