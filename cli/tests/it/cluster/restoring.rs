//! Masters that die in the middle of taking over a snapshot, and what is in a data directory.

use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::Value;

use super::place::{MASTERS, Masters, Place};
use crate::support::{expect_code, expect_refusal, run, signal, start, text, wait_for};

/// A snapshot of a cluster with these drivers, which wait for an agent.
fn saved(place: &Place, ids: &[&str]) -> PathBuf {
    let masters = place.masters("old", "sled", 1);
    place.leader();
    for id in ids {
        assert!(!place.submit(id, &place.ledger_job(id)));
    }
    let file = place.save("old.snapshot");
    masters.stop();
    file
}

fn restore(file: &Path) -> [&str; 3] {
    ["snapshot", "restore", file.to_str().expect("UTF-8")]
}

/// Restores `file` until master `n` dies of it; whoever restores goes with it.
fn interrupted(place: &Place, masters: &mut Masters<'_>, n: usize, file: &Path) {
    let restoring = start(&mut place.command(&restore(file)));
    let died = wait_for("the leader dies", || masters.died(n));
    assert_eq!(died, Signal::SIGKILL as i32);
    signal(restoring.id(), Signal::SIGKILL);
    drop(restoring.finish());
}

/// Nobody is shown a part of the records, and nobody adds to them.
fn expect_nothing_served(place: &Place, id: &str) {
    let requests: [&[&str]; 3] = [
        &["status", id, "--deadline", "3s"],
        &["list", "drivers", "--deadline", "3s"],
        &["submit", "--deadline", "3s", "--", "true"],
    ];
    wait_for("a leader that says what is the matter", || {
        let output = place.run(requests[0]);
        text(&output).contains("incomplete").then_some(())
    });
    for request in requests {
        let output = place.run(request);
        assert_ne!(output.status.code(), Some(0), "{}", text(&output));
        assert!(text(&output).contains("incomplete"), "{}", text(&output));
    }
}

#[test]
fn a_restore_that_dies_with_its_leader_serves_nothing_and_is_done_again() {
    if !cfg!(feature = "kill-points") {
        eprintln!("skipped: built without --features kill-points (`make test` has it)");
        return;
    }
    let place = Place::new();
    let ids = ["q1", "q2", "q3"];
    let file = saved(&place, &ids);
    // Before any record, and behind the last one: the mark is there in both, and all records in the second.
    for (name, orders, count) in [
        ("first", "restore-between-batches=1*return", 1),
        ("second", "restore-between-batches=1*off->1*return", MASTERS),
    ] {
        let mut masters = place.masters(name, "raft", count);
        let victim = masters.arm_next_leader(orders);
        place.leader();
        interrupted(&place, &mut masters, victim, &file);
        masters.start(victim);
        expect_nothing_served(&place, "q1");
        let restored: Value = {
            let output = run(place.command(&restore(&file)).args(["-o", "json"]));
            expect_code(&output, 0);
            serde_json::from_slice(&output.stdout).expect("JSON on stdout")
        };
        assert_eq!(restored["already"], false, "{restored}");
        let agent = place.agent();
        place.expect_each_once(&ids.map(str::to_owned));
        std::fs::remove_file(place.path("ledger")).expect("it was written");
        agent.stop();
        masters.stop();
        // The next cluster's agent is a new one: this one knows the restored drivers' ends.
        std::fs::remove_dir_all(place.path("work")).expect("it is there");
    }
}

/// What `snapshot inspect` says of a directory.
fn inspected(place: &Place, dir: &Path) -> Value {
    let args = ["snapshot", "inspect", "-o", "json", "--data-dir"];
    let output = run(place.command(&args).arg(dir));
    expect_code(&output, 0);
    serde_json::from_slice(&output.stdout).expect("JSON on stdout")
}

#[test]
fn the_directory_of_a_master_that_does_not_run_can_be_looked_into() {
    let place = Place::new();
    for (engine, name) in [("raft", "r"), ("sled", "s")] {
        let mut masters = place.masters(name, engine, 1);
        let (_, epoch) = place.leader();
        assert!(!place.submit("q1", "true"));
        assert!(!place.submit("q2", "true"));
        let dir = masters.data_dir(0);
        let own = ["snapshot", "inspect", "--data-dir"];
        let in_use = run(place.command(&own).arg(&dir));
        expect_refusal(&in_use, 1, &["in use by pid"]);
        // As a crash leaves it.
        masters.kill(0);
        let report = inspected(&place, &dir);
        assert_eq!(report["master"], "m0", "{report}");
        assert_eq!(report["header"]["engine"], engine, "{report}");
        assert_eq!(report["header"]["epoch"], epoch, "{report}");
        let drivers = &report["kinds"]["driver"];
        assert_eq!(drivers["states"]["SUBMITTED"], 2, "{report}");
        assert_eq!(report["quarantined"], Value::Array(Vec::new()));
        let shown = run(place.command(&own).arg(&dir));
        expect_code(&shown, 0);
        assert!(text(&shown).contains("master     m0"), "{}", text(&shown));
        assert!(text(&shown).contains("SUBMITTED 2"), "{}", text(&shown));
        // Looking changes nothing: it is started again as it was.
        masters.start(0);
        assert!(place.leader().1 > epoch);
        assert!(place.submit("q1", "true"), "it is known");
        masters.stop();
        assert_eq!(inspected(&place, &dir)["kinds"], report["kinds"]);
    }
    let nothing = place.path("nothing");
    let args = ["snapshot", "inspect", "--data-dir"];
    let refused = run(place.command(&args).arg(&nothing));
    expect_refusal(&refused, 1, &["nothing", "not the data directory"]);
    assert!(!nothing.exists());
    let neither = place.run(&["snapshot", "inspect"]);
    expect_code(&neither, 2);
}
