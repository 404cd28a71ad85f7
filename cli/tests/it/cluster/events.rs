//! The event log, followed by a real client over real failovers.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Write,
    path::Path,
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering},
};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{AtTheEnd, Cluster, Process, expect_code, run, signal, text, wait_for};

/// The events in a file of JSON lines; a line that is being written is left for later.
fn events_in(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let lines = whole.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("one JSON object a line"))
        .collect()
}

fn number(event: &Value) -> u64 {
    event["sequence"].as_u64().expect("a number")
}

/// Kills the leader, and waits until another one leads and the killed one is back.
fn kill_leader(cluster: &Cluster) {
    let (old, epoch) = cluster.leader();
    let pid = cluster.pid(&old).expect("it runs");
    cluster.signal(&old, Signal::SIGKILL);
    wait_for("another leader, and the old one started again", || {
        let (_, now) = cluster.leader();
        let back = cluster.pid(&old).is_some_and(|again| again != pid);
        // A master that has just started again may answer, and know of no leader yet.
        let status = cluster.run(&["cluster", "status", "-o", "json"]);
        let seen: Value = serde_json::from_slice(&status.stdout).ok()?;
        let masters = seen["masters"].as_array()?.clone();
        let healthy = masters.iter().all(|master| master["healthy"] == true);
        (now > epoch && back && healthy).then_some(())
    });
}

#[test]
fn a_follower_sees_every_event_once_while_three_leaders_die() {
    let cluster = Cluster::start(&["--respawn"]);
    let seen = cluster.dir().join("events.jsonl");
    let mut follower = Process::spawn(
        cluster
            .command(&["events", "-f", "--since", "all", "-o", "json"])
            .stdin(Stdio::null())
            .stdout(File::create(&seen).expect("a file"))
            .stderr(File::create(cluster.dir().join("events.stderr")).expect("a file")),
    );
    let enough = AtomicBool::new(false);
    let submitted = std::thread::scope(|scope| {
        let _enough = AtTheEnd(&enough);
        let submitter = scope.spawn(|| {
            let mut ids = Vec::new();
            // On a busy machine the leaders are sooner dead than three drivers are in.
            while !enough.load(Ordering::Relaxed) || ids.len() <= 3 {
                ids.push(cluster.submit(&["--", "true"]));
            }
            ids
        });
        for _ in 0..3 {
            kill_leader(&cluster);
        }
        enough.store(true, Ordering::Relaxed);
        submitter.join().expect("every submission is acknowledged")
    });
    assert!(submitted.len() > 3, "{submitted:?}");
    for id in &submitted {
        expect_code(&cluster.run(&["wait", id]), 0);
    }
    let last = cluster.json(&["events", "--tail", "1"]);
    let events = wait_for("the follower has come so far", || {
        let events = events_in(&seen);
        (number(events.last()?) >= number(&last)).then_some(events)
    });
    signal(follower.id(), Signal::SIGINT);
    assert_eq!(follower.wait().expect("a child").code(), Some(0));

    let numbers: Vec<u64> = events.iter().map(number).collect();
    let all: Vec<u64> = (1..=numbers.len() as u64).collect();
    assert_eq!(numbers, all, "every event once, in order");
    assert!(events.is_sorted_by_key(|event| event["epoch"].as_u64()));
    let elections = events
        .iter()
        .filter(|event| event["kind"] == "LEADER_ELECTED");
    assert!(elections.count() >= 4);
    let mut lives: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for event in &events {
        let subject = event["subject"].as_str().expect("a subject");
        let kind = event["kind"].as_str().expect("a kind");
        // A report that comes twice over a failover is told, but is nothing in a driver's life.
        if kind.starts_with("DRIVER_") {
            lives.entry(subject).or_default().push(kind);
        }
    }
    for id in &submitted {
        let life = &lives[id.as_str()];
        let states = ["SUBMITTED", "LAUNCHING", "RUNNING", "FINISHED"];
        let states = states.map(|state| format!("DRIVER_{state}"));
        // Whoever ended before its start was reported is never seen running.
        let without = [&states[..2], &states[3..]].concat();
        assert!(*life == states || *life == without, "{id}: {life:?}");
    }
}

#[test]
fn who_comes_too_late_is_told_what_is_missing() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("interrex.toml");
    let mut file = File::create(&config).expect("a file");
    writeln!(file, "[master]\nretained-events = 10").expect("written");
    let config = config.to_str().expect("UTF-8");
    let cluster = Cluster::start(&["--agents", "1", "--config", config]);
    for _ in 0..6 {
        let id = cluster.submit(&["--", "true"]);
        expect_code(&cluster.run(&["wait", &id]), 0);
    }
    for follow in [&[][..], &["-f"]] {
        let mut args = vec!["events", "--since", "2", "-o", "json"];
        args.extend(follow);
        let path = cluster.dir().join("late.jsonl");
        let complaints = cluster.dir().join("late.stderr");
        let mut late = Process::spawn(
            cluster
                .command(&args)
                .stdin(Stdio::null())
                .stdout(File::create(&path).expect("a file"))
                .stderr(File::create(&complaints).expect("a file")),
        );
        let events = wait_for("what is kept", || {
            let events = events_in(&path);
            (events.len() >= 10).then_some(events)
        });
        if !follow.is_empty() {
            signal(late.id(), Signal::SIGINT);
        }
        let status = late.wait().expect("a child");
        let said = std::fs::read_to_string(&complaints).expect("UTF-8");
        assert_eq!(status.code(), Some(0), "{said}");
        let oldest = number(&events[0]);
        assert!(oldest > 3, "{oldest}");
        let want = format!("events 3 to {} are no longer kept", oldest - 1);
        assert!(said.contains(&want), "{want}: {said}");
    }
    let ahead = run(&mut cluster.command(&["events", "--since", "999999"]));
    expect_code(&ahead, 0);
    assert!(
        text(&ahead).contains("restored from an older state"),
        "{}",
        text(&ahead)
    );
}

#[test]
fn events_are_found_by_id_and_kind_and_shown_as_a_table() {
    let cluster = Cluster::start(&["--agents", "1"]);
    let id = cluster.submit(&["--submission-id", "nightly", "--", "sh", "-c", "exit 3"]);
    expect_code(&cluster.run(&["wait", &id]), 10);
    let shown = cluster.run(&["events", "--id", "nightly"]);
    expect_code(&shown, 0);
    let table = String::from_utf8_lossy(&shown.stdout).into_owned();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("TIME"), "{table}");
    assert!(lines[1].contains("DRIVER_SUBMITTED") && lines[1].contains("(client nightly)"));
    let last = lines.last().expect("a line");
    assert!(
        last.contains("DRIVER_FAILED") && last.contains("exit code 3"),
        "{table}"
    );
    let failed = cluster.json(&["events", "--kind", "driver_f"]);
    assert_eq!(failed["subject"], id.as_str());
    assert_eq!(
        (&failed["who"], &failed["attempt"]),
        (&"agent w1".into(), &1.into())
    );
    expect_code(&cluster.run(&["events", "--kind", "a b"]), 4);
}
