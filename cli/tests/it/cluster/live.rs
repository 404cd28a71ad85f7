//! `interrex chaos live`: each smoke scenario on real processes, and runs that must not be called valid.
//!
//! A run takes some twenty seconds. `cargo nextest run -E 'test(live_smoke)'` runs the smoke lane alone.

use std::{fs, path::Path, process::Command, time::Duration};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{alone, expect_code, interrex, run, start, text, wait_for};

/// How long a run may take on a busy machine.
const RUN_DEADLINE: Duration = Duration::from_secs(230);

fn live(dir: &Path, args: &[&str]) -> Command {
    let mut command = interrex();
    let options = [
        "chaos",
        "live",
        "--patient",
        "--seed",
        "7",
        "-o",
        "json",
        "--report",
    ];
    command.args(options);
    command.arg(dir.join("run")).args(args);
    command
}

/// A run that must be valid, with what it said; everything that was acknowledged is there, and nothing twice.
fn valid(args: &[&str]) -> Value {
    let _alone = alone();
    let dir = TempDir::new().expect("a directory");
    let output = start(&mut live(dir.path(), args)).finish_within(RUN_DEADLINE);
    if output.status.code() != Some(0) {
        eprintln!("{}", logs(dir.path()));
    }
    expect_code(&output, 0);
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON on stdout");
    assert_eq!(said["verdict"], "valid");
    for none in ["lost", "doubled", "overlapping", "orphans", "unknown"] {
        assert_eq!(said[none], 0, "{none}: {said}");
    }
    for some in [
        "acknowledged",
        "attempts",
        "finished",
        "reads",
        "leaderships",
    ] {
        assert!(number(&said, some) > 0, "{some}: {said}");
    }
    for file in [
        "history.jsonl",
        "report.html",
        "summary.json",
        "junit.xml",
        "command.txt",
    ] {
        let written = fs::metadata(dir.path().join("run").join(file));
        assert!(written.is_ok_and(|m| m.len() > 0), "{file}");
    }
    said
}

fn number(said: &Value, field: &str) -> u64 {
    said[field].as_u64().unwrap_or(0)
}

/// The end of what each process has said.
fn logs(dir: &Path) -> String {
    let mut all = String::new();
    let files = fs::read_dir(dir.join("run/logs")).into_iter().flatten();
    for file in files.flatten() {
        let log = fs::read_to_string(file.path()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines
            .get(lines.len().saturating_sub(15)..)
            .unwrap_or_default();
        all.push_str(&format!(
            "--- {}\n{}\n",
            file.path().display(),
            tail.join("\n")
        ));
    }
    all
}

#[test]
fn live_smoke_leader_kill() {
    let said = valid(&["--scenario", "leader-kill", "--kills", "2"]);
    assert_eq!(
        (number(&said, "kills"), number(&said, "kills_survived")),
        (2, 2)
    );
    let times = &said["failover"];
    assert_eq!(times["count"], 2);
    assert!(times["median"].as_f64().is_some_and(|s| s > 0.0), "{said}");
    assert!(times["p99"].as_f64() >= times["median"].as_f64(), "{said}");
}

#[test]
fn live_smoke_leader_pause() {
    let said = valid(&["--scenario", "leader-pause", "--seconds", "15"]);
    for fault in ["leader-pause-short", "leader-pause-long"] {
        assert!(number(&said["faults"], fault) > 0, "{said}");
    }
}

#[test]
fn live_smoke_client_retry() {
    let said = valid(&["--scenario", "client-retry", "--seconds", "5"]);
    for point in ["before-send", "after-send", "after-commit", "after-reply"] {
        assert!(
            number(&said["faults"], &format!("client-{point}")) > 0,
            "{said}"
        );
    }
}

#[test]
fn live_smoke_rolling_restart() {
    let said = valid(&["--scenario", "rolling-restart", "--seconds", "5"]);
    for fault in ["master-restart", "leader-restart", "agent-restart"] {
        assert!(number(&said["faults"], fault) > 0, "{said}");
    }
}

#[test]
fn a_run_whose_required_fault_never_happened_is_unknown() {
    let _alone = alone();
    let dir = TempDir::new().expect("a directory");
    // In one second there is time for the long pause, and for no short one.
    let args = ["--scenario", "leader-pause", "--seconds", "1"];
    let output = start(&mut live(dir.path(), &args)).finish_within(RUN_DEADLINE);
    expect_code(&output, 2);
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON on stdout");
    assert_eq!(said["verdict"], "unknown");
    assert_eq!(said["missing"], serde_json::json!(["leader-pause-short"]));
}

#[test]
fn an_attempt_that_nobody_may_have_started_makes_a_run_invalid() {
    let _alone = alone();
    let dir = TempDir::new().expect("a directory");
    let args = ["--scenario", "client-retry", "--seconds", "3"];
    let going = start(&mut live(dir.path(), &args));
    let ledger = dir.path().join("run/ledger/ledger.txt");
    // The first of the repeated submissions may run once.
    let (driver, end) = wait_for("the first client's job is done", || {
        let text = fs::read_to_string(&ledger).ok()?;
        let mut lines = text.lines();
        let end = lines.find(|line| line.starts_with("retry-1 1 ") && line.contains(" END "))?;
        let driver = end.split(' ').find(|word| word.starts_with("driver="))?;
        Some((driver.to_owned(), end.to_owned()))
    });
    let at = end.split(' ').nth(5).expect("a time");
    let forged = format!(
        "retry-1 2 1 1 START {at} alone=1 cores=1 {driver} memory=64 short=0 slots= worker=w2\n\
         retry-1 2 1 1 END {at} code=0 {driver} worker=w2\n"
    );
    let mut file = fs::File::options()
        .append(true)
        .open(&ledger)
        .expect("a ledger");
    std::io::Write::write_all(&mut file, forged.as_bytes()).expect("written");
    let output = going.finish_within(RUN_DEADLINE);
    expect_code(&output, 1);
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON on stdout");
    assert_eq!(
        (&said["verdict"], &said["doubled"]),
        (&"invalid".into(), &1.into())
    );
    let found = said["violations"].as_array().expect("a list");
    let twice = found
        .iter()
        .any(|v| v["check"] == "single-success" && v["id"] == "retry-1");
    assert!(twice, "{said}");
}

#[test]
fn what_is_wrong_with_a_run_is_said_before_anything_starts() {
    let dir = TempDir::new().expect("a directory");
    fs::create_dir(dir.path().join("run")).expect("a directory");
    fs::write(dir.path().join("run/mine"), "x").expect("a file");
    for (args, said) in [
        (
            vec!["--scenario", "gremlins"],
            "there is no scenario `gremlins`",
        ),
        (
            vec!["--scenario", "leader-kill", "--masters", "2"],
            "--masters 2: give 3 to 7",
        ),
        (
            vec!["--scenario", "leader-pause", "--kills", "3"],
            "--kills 3",
        ),
        (
            vec!["--scenario", "coordinator-freeze"],
            "needs --engine etcd",
        ),
        (vec!["--scenario", "leader-kill"], "it is not empty"),
    ] {
        let output = run(&mut live(dir.path(), &args));
        expect_code(&output, 2);
        assert!(text(&output).contains(said), "{args:?}: {}", text(&output));
    }
    let listed = run(interrex().args(["chaos", "live", "--list"]));
    expect_code(&listed, 0);
    for scenario in ["leader-kill", "split-brain", "soak"] {
        assert!(text(&listed).contains(scenario), "{}", text(&listed));
    }
}
