//! `interrex chaos`: what users run against their own build.

use serde_json::Value;

use crate::support::{expect_code, interrex, run, text};

#[test]
fn simulated_worlds_are_judged_and_summed_up() {
    let output = run(interrex().args(["chaos", "sim", "--seeds", "12", "-o", "json"]));
    expect_code(&output, 0);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["verdict"], "valid");
    assert_eq!(summary["seeds"], 12);
    assert!(summary["commits"].as_u64().unwrap() > 100, "{summary}");
}

#[test]
fn a_planted_bug_ends_with_a_seed_that_repeats_it() {
    let plant = ["--plant", "non-idempotent-submission"];
    let sim = ["chaos", "sim"];
    let output = run(interrex().args(sim).args(["--seeds", "20"]).args(plant));
    expect_code(&output, 1);
    let said = text(&output);
    let (_, seed) = said
        .split_once("repeat it: interrex chaos sim --seed ")
        .expect(&said);
    let seed = seed.split_whitespace().next().unwrap();
    let again = run(interrex().args(sim).args(["--seed", seed]).args(plant));
    expect_code(&again, 1);
    let healthy = run(interrex().args(sim).args(["--seed", seed]));
    expect_code(&healthy, 0);
}

#[test]
fn an_unknown_plant_is_refused_with_the_known_ones() {
    let output = run(interrex().args(["chaos", "sim", "--plant", "gremlin"]));
    expect_code(&output, 2);
    let said = text(&output);
    assert!(
        said.contains("gremlin") && said.contains("no-store-fence"),
        "{said}"
    );
}

#[test]
fn a_world_is_reported_and_its_history_is_judged_again() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let sim = ["chaos", "sim", "--seed", "11", "--report"];
    expect_code(&run(interrex().args(sim).arg(&out)), 0);
    for file in [
        "report.html",
        "summary.json",
        "junit.xml",
        "failover-times.csv",
    ] {
        assert!(out.join(file).is_file(), "{file} is missing");
    }
    let history = out.join("history.jsonl");
    let check = |more: &[&str]| {
        let check = ["chaos", "check", "-o", "json"];
        run(interrex().args(check).arg(&history).args(more))
    };
    let output = check(&[]);
    expect_code(&output, 0);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["verdict"], "valid");
    // A fault that was to be tried and never happened.
    let output = check(&["--require", "earthquake"]);
    expect_code(&output, 2);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["missing"][0], "earthquake");
}

#[test]
fn a_file_that_is_no_history_is_refused_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.jsonl");
    std::fs::write(&path, "{\"time\":1}\n").unwrap();
    let output = run(interrex().args(["chaos", "check"]).arg(&path));
    expect_code(&output, 1);
    let said = text(&output);
    assert!(said.contains("line 1 of the history"), "{said}");
}
