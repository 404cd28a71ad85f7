//! Imports point one way. Read from the manifests, so that no code can pass by them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use toml::Table;

/// Each package, and the packages of this workspace that it may import.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("interrex-proto", &[]),
    ("interrex-web", &[]),
    ("interrex-core", &[]),
    ("interrex-spark-wire", &[]),
    ("interrex-persistence", &["interrex-proto"]),
    (
        "interrex-control-plane",
        &[
            "interrex-core",
            "interrex-persistence",
            "interrex-proto",
            "interrex-spark-wire",
            "interrex-web",
        ],
    ),
    ("interrex-client", &["interrex-proto"]),
    (
        "interrex-agent",
        &[
            "interrex-client",
            "interrex-proto",
            "interrex-spark-wire",
            "interrex-web",
        ],
    ),
    (
        "interrex",
        &[
            "interrex-agent",
            "interrex-client",
            "interrex-control-plane",
            "interrex-core",
            "interrex-persistence",
            "interrex-proto",
            "interrex-chaos",
            "interrex-web",
        ],
    ),
    ("interrex-dashboards", &[]),
    ("wordcount", &["interrex-client", "interrex-proto"]),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a workspace")
}

fn read(path: &Path) -> Table {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.parse()
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Every package of the workspace with its manifest.
fn packages() -> BTreeMap<String, Table> {
    let workspace = read(&root().join("Cargo.toml"));
    let members = workspace["workspace"]["members"]
        .as_array()
        .expect("members");
    members
        .iter()
        .map(|m| read(&root().join(m.as_str().expect("a path")).join("Cargo.toml")))
        .map(|t| (t["package"]["name"].as_str().expect("a name").to_owned(), t))
        .collect()
}

fn dependencies(manifest: &Table, kind: &str) -> BTreeSet<String> {
    let table = manifest.get(kind).and_then(toml::Value::as_table);
    table
        .map(|t| t.keys().cloned().collect())
        .unwrap_or_default()
}

#[test]
fn packages_import_only_what_they_may() {
    let packages = packages();
    let names: BTreeSet<&String> = packages.keys().collect();
    for (name, manifest) in &packages {
        if name == "interrex-chaos" {
            continue;
        }
        let rule = MAY_IMPORT.iter().find(|(n, _)| n == name);
        let (_, allowed) = rule.unwrap_or_else(|| panic!("{name} has no rule here: add one"));
        for kind in ["dependencies", "build-dependencies"] {
            for import in dependencies(manifest, kind)
                .iter()
                .filter(|i| names.contains(i))
            {
                assert!(
                    allowed.contains(&import.as_str()),
                    "{name} must not import {import}"
                );
            }
        }
    }
}

#[test]
fn the_core_depends_on_nothing_but_errors() {
    let core = packages().remove("interrex-core").expect("the core");
    let allowed = BTreeSet::from(["thiserror".to_owned()]);
    assert_eq!(dependencies(&core, "dependencies"), allowed);
}

#[test]
fn openraft_stays_inside_its_folder() {
    let mut outside = Vec::new();
    for file in crate::tidy::rust_files() {
        let inside = file.starts_with(root().join("persistence/src/raft"));
        let text = std::fs::read_to_string(&file).expect("a source file");
        let uses = |l: &str| !l.trim_start().starts_with("//") && l.contains("openraft::");
        // This file names it to look for it.
        let here = file.ends_with("cli/tests/it/architecture.rs");
        if !inside && !here && text.lines().any(uses) {
            outside.push(file);
        }
    }
    assert_eq!(outside, Vec::<std::path::PathBuf>::new());
}

/// The features that any table of dependencies of `manifest` asks for, and its own defaults.
fn asked_features(manifest: &Table) -> Vec<String> {
    let mut asked = Vec::new();
    for kind in ["dependencies", "build-dependencies", "dev-dependencies"] {
        let table = manifest.get(kind).and_then(toml::Value::as_table);
        for dependency in table.into_iter().flat_map(Table::values) {
            asked.extend(dependency.get("features").cloned());
        }
    }
    let features = manifest.get("features");
    asked.extend(features.and_then(|f| f.get("default")).cloned());
    let names = asked.iter().filter_map(toml::Value::as_array).flatten();
    names
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect()
}

#[test]
fn only_those_who_ask_for_kill_points_have_them() {
    let mut packages = packages();
    for (name, manifest) in &packages {
        let asked = asked_features(manifest);
        let points = asked.iter().find(|f| f.ends_with("kill-points"));
        assert_eq!(points, None, "{name} turns them on by itself");
        let fails = dependencies(manifest, "dependencies").contains("fail");
        assert_eq!(fails, name == "interrex-persistence", "{name}");
    }
    let persistence = packages.remove("interrex-persistence").expect("it exists");
    let fail = &persistence["dependencies"]["fail"];
    assert_eq!(fail["optional"], toml::Value::Boolean(true), "{fail}");
    let asking = &persistence["features"]["kill-points"];
    assert_eq!(asking.to_string(), "[\"dep:fail\"]");
}
