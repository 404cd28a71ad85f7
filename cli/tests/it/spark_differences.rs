//! `docs/spark-differences.md` names tests for what it claims: they exist.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use crate::tidy::rust_files;

/// Weaknesses of Spark that the page has a line for, W1 to this one.
const WEAKNESSES: u32 = 49;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a workspace")
}

fn page() -> String {
    std::fs::read_to_string(root().join("docs/spark-differences.md")).expect("the page")
}

/// The text from this heading to the next.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(heading).expect("the heading");
    rest.split("\n## ").next().unwrap_or(rest)
}

/// `crate`, `file` and `test` of what is written `crate::file::test` in these words.
fn named(text: &str) -> Vec<[&str; 3]> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|word| <[&str; 3]>::try_from(word.split("::").collect::<Vec<_>>()).ok())
        .collect()
}

/// Functions that a test runner runs; those of the conformance suite are run for each backend, by a macro.
fn tests_of(path: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(path).expect("UTF-8");
    let for_each_backend = path
        .components()
        .any(|part| part.as_os_str() == "conformance");
    let mut found = BTreeSet::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        }
        // What nobody runs proves nothing.
        is_test &= !line.starts_with("#[ignore");
        let Some((_, function)) = line.split_once("fn ") else {
            continue;
        };
        if is_test || (for_each_backend && line.starts_with("pub async fn ")) {
            found.extend(function.split(['(', '<']).next().map(str::to_owned));
        }
        is_test = false;
    }
    found
}

/// Every test, by crate and file.
fn tests() -> BTreeMap<(&'static str, String), BTreeSet<String>> {
    let folders = [
        ("core", "control-plane/core"),
        ("control-plane", "control-plane"),
        ("persistence", "persistence"),
        ("agent", "agent"),
        ("client", "client"),
        ("chaos", "chaos"),
        ("cli", "cli"),
    ];
    let crate_of = |path: &PathBuf| {
        let within = |(_, folder): &&(&str, &str)| path.starts_with(root().join(folder));
        folders.iter().find(within).map(|(name, _)| *name)
    };
    let mut all = BTreeMap::<_, BTreeSet<String>>::new();
    for path in rust_files() {
        let (Some(package), Some(file)) = (crate_of(&path), path.file_stem()) else {
            continue;
        };
        let key = (package, file.to_string_lossy().into_owned());
        all.entry(key).or_default().extend(tests_of(&path));
    }
    all
}

#[test]
fn every_test_that_the_page_names_exists() {
    let page = page();
    let tests = tests();
    let missing: Vec<_> = named(&page)
        .into_iter()
        // How a test is written.
        .filter(|words| *words != ["crate", "file", "test"])
        .filter(|[package, file, test]| {
            !tests
                .iter()
                .any(|((p, f), found)| p == package && f == file && found.contains(*test))
        })
        .map(|words| words.join("::"))
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn every_weakness_and_every_suite_line_has_a_test_or_says_why_not() {
    let page = page();
    let lines = |heading| -> Vec<&str> {
        let rows = section(&page, heading)
            .lines()
            .filter(|line| line.starts_with('|'));
        // Without the header and the rule.
        rows.skip(2).collect()
    };
    let weaknesses = lines("## Weaknesses of Spark's");
    let numbers: Vec<_> = weaknesses
        .iter()
        .filter_map(|line| line.split('|').nth(1))
        .map(|number| number.trim().to_owned())
        .collect();
    let want: Vec<_> = (1..=WEAKNESSES).map(|n| format!("W{n}")).collect();
    assert_eq!(numbers, want);
    let suites = lines("## What Spark's own tests pin down");
    assert!(suites.len() > 20, "{} lines", suites.len());
    let bare: Vec<_> = weaknesses
        .into_iter()
        .chain(suites)
        .filter(|line| named(line).is_empty() && !line.contains("does not apply"))
        .collect();
    assert_eq!(bare, Vec::<&str>::new());
}
