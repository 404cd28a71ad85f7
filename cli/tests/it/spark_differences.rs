//! `docs/spark-differences.md` names tests for what it claims: they exist.

use std::path::Path;

use crate::test_names::{missing, named};

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

#[test]
fn every_test_that_the_page_names_exists() {
    assert_eq!(missing(&page()), Vec::<String>::new());
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
