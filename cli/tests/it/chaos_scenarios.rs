//! `chaos/README.md` names a test for each reported fault, or says that there is none.

use std::path::Path;

use serde_json::Value;

use crate::{
    support::{expect_code, interrex, run},
    test_names::{missing, named},
};

/// The faults that the page has a line for.
const SCENARIOS: [&str; 42] = [
    "1", "3", "4", "6", "7", "8", "9", "10", "12", "13", "14", "15", "16", "17", "18", "20", "21",
    "22", "23", "24", "26", "27", "29", "30", "32", "33", "34", "35", "37", "38", "40", "41", "42",
    "43", "44", "47", "49", "50", "51", "52a", "52c", "52e",
];

/// The lines of the table, each as its cells.
fn lines(page: &str) -> Vec<Vec<&str>> {
    let (_, rest) = page.split_once("## Scenarios").expect("the heading");
    let section = rest.split("\n## ").next().unwrap_or(rest);
    let rows = section.lines().filter(|line| line.starts_with('|'));
    // Without the header and the rule.
    rows.skip(2)
        .map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

fn page() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    std::fs::read_to_string(root.expect("a workspace").join("chaos/README.md")).expect("the page")
}

#[test]
fn every_test_that_the_table_names_exists() {
    assert_eq!(missing(&page()), Vec::<String>::new());
}

#[test]
fn every_reported_fault_has_a_line_with_a_test_or_the_admission_that_there_is_none() {
    let page = page();
    let lines = lines(&page);
    let numbers: Vec<_> = lines.iter().map(|cells| cells[0]).collect();
    assert_eq!(numbers, SCENARIOS);
    let bare = lines.iter().filter(|cells| {
        let [_number, _what, tests, note] = cells[..] else {
            return true;
        };
        named(tests).is_empty() && !note.contains("not covered")
    });
    assert_eq!(bare.collect::<Vec<_>>(), Vec::<&Vec<&str>>::new());
}

#[test]
fn the_nightly_workflow_runs_every_live_scenario() {
    let output = run(interrex().args(["chaos", "live", "--list", "-o", "json"]));
    expect_code(&output, 0);
    let scenarios: Vec<Value> = serde_json::from_slice(&output.stdout).expect("a list");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let workflow = root
        .expect("a workspace")
        .join(".github/workflows/nightly.yml");
    let workflow = std::fs::read_to_string(workflow).expect("the workflow");
    let (_, matrix) = workflow.split_once("scenario: [").expect("the matrix");
    let (matrix, _) = matrix.split_once(']').expect("its end");
    let runs: Vec<_> = matrix.split(',').map(str::trim).collect();
    let missing = scenarios
        .iter()
        .filter_map(|scenario| scenario["name"].as_str())
        .filter(|name| !runs.contains(name));
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&str>::new());
}
