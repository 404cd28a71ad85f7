//! What a reviewer should not have to say twice.

use std::path::{Path, PathBuf};

/// Longest file.
const LINES_MAX: usize = 500;
/// Longest file of tests: a table of cases is read from case to case.
const TEST_LINES_MAX: usize = 800;
/// Words that have no place in the code; in halves, so that this file does not hold them itself.
const FORBIDDEN: [(&str, &str, &str); 5] = [
    ("TO", "DO", "finish it, or write down where it is planned"),
    ("FIX", "ME", "fix it"),
    ("X", "XX", "say what is wrong"),
    ("dbg", "!(", "remove it"),
    ("work", "around for now", "say why it is right"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a workspace")
}

/// Every Rust file of the workspace.
pub(crate) fn rust_files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if name.ends_with(".rs") {
                found.push(path);
            }
        }
    }
    assert!(found.len() > 50, "only {} files found", found.len());
    found
}

#[test]
fn no_file_is_too_long() {
    let lines = |path: &PathBuf| {
        std::fs::read_to_string(path)
            .expect("UTF-8")
            .lines()
            .count()
    };
    let limit = |path: &PathBuf| {
        let name = path.to_string_lossy();
        let tests = name.ends_with("_test.rs") || name.contains("/tests/");
        if tests { TEST_LINES_MAX } else { LINES_MAX }
    };
    let long: Vec<_> = rust_files()
        .into_iter()
        .filter(|p| lines(p) > limit(p))
        .collect();
    assert_eq!(
        long,
        Vec::<PathBuf>::new(),
        "longer than {LINES_MAX} ({TEST_LINES_MAX}) lines"
    );
}

#[test]
fn no_forbidden_words() {
    let mut found = Vec::new();
    for path in rust_files() {
        let text = std::fs::read_to_string(&path).expect("UTF-8");
        for (number, line) in text.lines().enumerate() {
            for (a, b, advice) in FORBIDDEN {
                if line.contains(&format!("{a}{b}")) {
                    found.push(format!("{}:{}: {advice}", path.display(), number + 1));
                }
            }
        }
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).expect("UTF-8");
        // Tests that stand beside their code need no introduction.
        let beside = path.to_string_lossy().ends_with("_test.rs");
        !beside && !text.starts_with("//!")
    };
    let silent: Vec<_> = rust_files().into_iter().filter(silent).collect();
    assert_eq!(silent, Vec::<PathBuf>::new());
}
