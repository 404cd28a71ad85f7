//! The files are what the code says, and what Grafana and its users expect of them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on says so by failing"
)]

use std::{collections::BTreeSet, path::Path};

use interrex_dashboards::{dashboards, text};
use serde_json::Value;

fn panels(dashboard: &Value) -> Vec<&Value> {
    let all = dashboard["panels"].as_array().expect("panels");
    all.iter().filter(|panel| panel["type"] != "row").collect()
}

#[test]
fn the_files_are_what_the_code_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboards");
    let mut files = BTreeSet::new();
    for (file, dashboard) in dashboards() {
        let kept = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        // Not assert_eq: nobody wants to read two dashboards.
        assert!(
            kept == text(&dashboard),
            "{file} is not current: run `make dashboards`"
        );
        files.insert(file.to_owned());
    }
    let found = std::fs::read_dir(folder).expect("the folder");
    let found: BTreeSet<String> = found
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(found, files, "a dashboard that no code writes");
}

#[test]
fn every_panel_says_what_is_normal_and_has_queries_with_legends() {
    for (file, dashboard) in dashboards() {
        let mut titles = BTreeSet::new();
        for panel in panels(&dashboard) {
            let title = panel["title"].as_str().expect("a title");
            assert!(
                titles.insert((title, panel["gridPos"]["y"].as_u64())),
                "{file}: {title} twice"
            );
            let description = panel["description"].as_str().expect("a description");
            assert!(
                description.len() > 10 && description.ends_with('.'),
                "{file}: {title}"
            );
            let targets = panel["targets"].as_array().expect("targets");
            assert!(!targets.is_empty(), "{file}: {title} shows nothing");
            for target in targets {
                assert_ne!(target["legendFormat"], "", "{file}: {title}");
            }
        }
    }
}

#[test]
fn every_query_goes_by_the_variables_and_by_the_scrape_interval() {
    for (file, dashboard) in dashboards() {
        for panel in panels(&dashboard) {
            assert_eq!(
                panel["datasource"]["uid"], "${datasource}",
                "{file}: {}",
                panel["title"]
            );
            for target in panel["targets"].as_array().expect("targets") {
                let query = target["expr"].as_str().expect("an expression");
                let selectors = query.matches('{').count();
                assert!(selectors > 0, "{file}: {query}");
                assert_eq!(
                    query.matches(r#"cluster=~"$cluster""#).count(),
                    selectors,
                    "{file}: {query}"
                );
                assert_eq!(
                    query.matches(r#"instance=~"$instance""#).count(),
                    selectors,
                    "{file}: {query}"
                );
                let fixed = query.contains('[')
                    && !query.contains("[$__rate_interval]")
                    && !query.contains("[1h]");
                assert!(!fixed, "{file}: a fixed interval in {query}");
                assert_eq!(
                    query.matches('(').count(),
                    query.matches(')').count(),
                    "{file}: {query}"
                );
            }
        }
    }
}

#[test]
fn panels_lie_side_by_side() {
    for (file, dashboard) in dashboards() {
        let mut taken = BTreeSet::new();
        let mut ids = BTreeSet::new();
        for panel in dashboard["panels"].as_array().expect("panels") {
            assert!(ids.insert(panel["id"].as_u64()), "{file}: an id twice");
            let at = |name: &str| panel["gridPos"][name].as_u64().expect("a number");
            assert!(
                at("x") + at("w") <= 24,
                "{file}: {} is cut off",
                panel["title"]
            );
            for x in at("x")..at("x") + at("w") {
                for y in at("y")..at("y") + at("h") {
                    assert!(
                        taken.insert((x, y)),
                        "{file}: {} covers another",
                        panel["title"]
                    );
                }
            }
        }
    }
}

#[test]
fn the_dashboards_find_each_other_and_keep_their_addresses() {
    let uids: Vec<String> = dashboards()
        .iter()
        .map(|(_, dashboard)| {
            let link = &dashboard["links"][0];
            assert_eq!(link["tags"], dashboard["tags"]);
            assert_eq!(
                (&link["includeVars"], &link["keepTime"]),
                (&Value::Bool(true), &Value::Bool(true))
            );
            let variables = dashboard["templating"]["list"]
                .as_array()
                .expect("variables");
            let names: Vec<_> = variables
                .iter()
                .map(|v| v["name"].as_str().unwrap())
                .collect();
            assert_eq!(names, ["datasource", "cluster", "instance"]);
            dashboard["uid"].as_str().expect("a uid").to_owned()
        })
        .collect();
    assert_eq!(
        uids,
        ["interrex-overview", "interrex-internals", "interrex-chaos"]
    );
}
