//! A cluster moves: all its records go into new masters with another engine, by a snapshot; its agents and their jobs stay.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    etcd_members::EtcdMembers,
    place::{MASTERS, Place},
};
use crate::support::{expect_code, expect_refusal, processes_of, text};

/// A job that says when it begins and ends, and runs until it is told to end.
fn long_job(place: &Place) -> (String, PathBuf, PathBuf) {
    let (told, end) = (place.path("told"), place.path("end"));
    let script = format!(
        "echo begun >> {0}; while [ ! -e {1} ]; do sleep 0.05; done; echo ended >> {0}",
        told.display(),
        end.display()
    );
    (script, told, end)
}

/// So many masters with these options.
type Stage<'a> = (usize, &'a [&'a str]);

/// A cluster of one kind after the other, each with the records of the one before; an agent and its job go along.
fn moves(place: &Place, [first, second, third]: [Stage<'_>; 3]) {
    let masters = place.masters_with("first", first.0, first.1);
    let agent = place.agent();
    let (script, told, end) = long_job(place);
    assert!(!place.submit("long", &script));
    place.wait_state("long", "RUNNING");
    let (_, epoch) = place.leader();
    let file = place.save("first.snapshot");
    // Each master that leads meanwhile has one more epoch, which the agent sees and the snapshot does not.
    masters.stop();

    let masters = place.masters_with("second", second.0, second.1);
    let restored = place.restore(&file);
    let raised = restored["epoch"].as_u64().expect("an epoch");
    assert!(raised > epoch + 1000, "{restored}");
    assert_eq!(place.restore(&file)["already"], true);
    place.wait_adopted("long");
    let again = place.submit("long", &script);
    assert!(again, "the same request has one effect");
    assert!(!place.submit("short", "exit 0"));
    place.wait_state("short", "FINISHED");
    let file = place.save("second.snapshot");
    masters.stop();

    let masters = place.masters_with("third", third.0, third.1);
    place.leader();
    let restored = place.restore(&file);
    let formerly = restored["formerly"].as_array().expect("a list");
    assert_eq!(formerly.len(), 2, "{restored}");
    place.wait_adopted("long");
    place.wait_state("short", "FINISHED");
    assert!(place.submit("long", &script), "and in the third cluster");
    File::create(&end).expect("a file");
    place.wait_state("long", "FINISHED");
    let told = std::fs::read_to_string(told).expect("the job has spoken");
    assert_eq!(told, "begun\nended\n", "it ran once, to its end");
    agent.stop();
    masters.stop();
}

#[test]
fn a_cluster_moves_from_raft_to_sled_and_back_and_its_jobs_run_on() {
    let place = Place::new();
    let (raft, sled) = (["--engine", "raft"], ["--engine", "sled"]);
    moves(&place, [(MASTERS, &raft), (1, &sled), (MASTERS, &raft)]);
    assert_eq!(processes_of(place.dir()), Vec::<String>::new());
}

#[test]
fn a_cluster_moves_from_etcd_to_raft_and_back_and_its_job_runs_once() {
    let place = Place::new();
    let Some(etcd) = EtcdMembers::start(place.dir(), 1) else {
        return;
    };
    let endpoints = etcd.endpoints(&[0]);
    let on_etcd = ["--engine", "etcd", "--etcd-endpoints", endpoints.as_str()];
    let raft = ["--engine", "raft"];
    // A new cluster in the same etcd: under another prefix, since the old one's records are still there.
    let elsewhere = [&on_etcd[..], &["--etcd-prefix", "/interrex/third"]].concat();
    moves(&place, [(2, &on_etcd), (MASTERS, &raft), (2, &elsewhere)]);
}

#[test]
fn a_snapshot_file_is_whole_or_refused_with_what_is_wrong() {
    let place = Place::new();
    let masters = place.masters("only", "sled", 1);
    place.leader();
    assert!(!place.submit("queued", "exit 0"));
    let file = place.save("good.snapshot");
    let path = file.to_str().expect("UTF-8");
    // Not by accident over another one.
    expect_refusal(
        &place.run(&["snapshot", "save", path]),
        1,
        &["exists", "--force"],
    );
    expect_code(&place.run(&["snapshot", "save", path, "--force"]), 0);
    // Into a cluster that has work.
    expect_refusal(
        &place.run(&["snapshot", "restore", path]),
        5,
        &["a new cluster"],
    );
    masters.stop();
    inspects_what_was_saved(&place, path);
    refuses_what_is_damaged(&place, &file);
    leaves_nothing_half_written(&place);
}

/// Without any cluster.
fn inspects_what_was_saved(place: &Place, path: &str) {
    let report: Value = {
        let output = place.run(&["snapshot", "inspect", path, "--sample", "1", "-o", "json"]);
        expect_code(&output, 0);
        serde_json::from_slice(&output.stdout).expect("JSON on stdout")
    };
    assert_eq!(
        report["kinds"]["driver"]["states"]["SUBMITTED"], 1,
        "{report}"
    );
    assert_eq!(report["header"]["engine"], "sled");
    let output = place.run(&["snapshot", "inspect", path]);
    expect_code(&output, 0);
    assert!(text(&output).contains("SUBMITTED 1"), "{}", text(&output));
}

fn refuses_what_is_damaged(place: &Place, file: &Path) {
    let whole = std::fs::read(file).expect("the file");
    let bad = place.path("bad.snapshot");
    let bad_path = bad.to_str().expect("UTF-8");
    std::fs::write(&bad, &whole[..whole.len() / 2]).expect("written");
    for command in ["inspect", "restore"] {
        expect_refusal(
            &place.run(&["snapshot", command, bad_path]),
            1,
            &["bad.snapshot", "truncated", "bytes"],
        );
    }
    let mut flipped = whole;
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    std::fs::write(&bad, flipped).expect("written");
    expect_refusal(
        &place.run(&["snapshot", "inspect", bad_path]),
        1,
        &["bad.snapshot", "damaged", "before byte"],
    );
    expect_refusal(
        &place.run(&[
            "snapshot",
            "inspect",
            place.path("none").to_str().expect("UTF-8"),
        ]),
        1,
        &["none"],
    );
}

/// Nobody is there to save from.
fn leaves_nothing_half_written(place: &Place) {
    let unsaved = place.path("unsaved.snapshot");
    let args = [
        "snapshot",
        "save",
        unsaved.to_str().expect("UTF-8"),
        "--deadline",
        "1s",
    ];
    expect_refusal(&place.run(&args), 3, &["--stale-ok"]);
    let left: Vec<_> = std::fs::read_dir(place.dir())
        .expect("a directory")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains("partial") || name.contains("unsaved"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}
