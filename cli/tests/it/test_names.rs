//! Tests by their names: pages that claim something name the tests that show it, as `crate::file::test`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use crate::tidy::rust_files;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a workspace")
}

/// `crate`, `file` and `test` of what is written `crate::file::test` in these words.
pub(crate) fn named(text: &str) -> Vec<[&str; 3]> {
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

/// What a page names and nobody runs.
pub(crate) fn missing(page: &str) -> Vec<String> {
    let tests = tests();
    named(page)
        .into_iter()
        // How a test is written.
        .filter(|words| *words != ["crate", "file", "test"])
        .filter(|[package, file, test]| {
            !tests
                .iter()
                .any(|((p, f), found)| p == package && f == file && found.contains(*test))
        })
        .map(|words| words.join("::"))
        .collect()
}
