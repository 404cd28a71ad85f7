//! Command lines that are refused before anything starts.

use std::process::Output;

use crate::support::{expect_code, expect_refusal, interrex, run};

fn ran(args: &[&str]) -> Output {
    run(interrex().args(args))
}

#[test]
fn an_unknown_flag_or_command_is_named_with_the_nearest() {
    expect_refusal(&ran(&["agent", "--corse", "4"]), 2, &["--corse", "--cores"]);
    expect_refusal(&ran(&["statsu"]), 2, &["statsu", "status"]);
    expect_refusal(&ran(&[]), 2, &["Usage"]);
}

#[test]
fn help_and_version_are_no_errors() {
    for args in [
        &["--help"][..],
        &["--version"],
        &["submit", "--help"],
        &["bench", "failover", "-h"],
    ] {
        expect_code(&ran(args), 0);
    }
}

#[test]
fn peers_must_be_a_list_with_this_master_in_it_once() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    let with = |peers: &str| ran(&["master", "--id", "m9", "--data-dir", dir, "--peers", peers]);
    expect_refusal(
        &with("m1=127.0.0.1:1,m2=127.0.0.1:2"),
        2,
        &["m9", "m1, m2", "--peers"],
    );
    expect_refusal(&with("m9=127.0.0.1:1,m9=127.0.0.1:2"), 2, &["m9", "twice"]);
    expect_refusal(&with("m9"), 2, &["ID=HOST:PORT"]);
    expect_refusal(&with("m9=127.0.0.1:http"), 2, &["http"]);
    let twice = with("m9=127.0.0.1:1,m8=127.0.0.1:1");
    expect_refusal(&twice, 2, &["m8", "m9", "same address"]);
}

#[test]
fn an_address_that_others_can_reach_needs_an_explicit_word() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    let master = ran(&[
        "master",
        "--id",
        "m1",
        "--data-dir",
        dir,
        "--bind",
        "0.0.0.0:0",
    ]);
    expect_refusal(&master, 2, &["0.0.0.0:0", "--insecure"]);
    let agent = [
        "agent",
        "--masters",
        "127.0.0.1:1",
        "--work-dir",
        dir,
        "--web",
        "0.0.0.0:0",
    ];
    expect_refusal(&ran(&agent), 2, &["0.0.0.0:0", "--insecure"]);
}

#[test]
fn an_agent_with_nothing_to_offer_is_refused() {
    let agent = ["agent", "--masters", "127.0.0.1:1", "--work-dir", "w"];
    expect_refusal(
        &ran(&[&agent[..], &["--cores", "0"]].concat()),
        2,
        &["--cores"],
    );
    expect_refusal(
        &ran(&[&agent[..], &["--memory", "0"]].concat()),
        2,
        &["--memory"],
    );
    expect_refusal(
        &ran(&[&agent[..], &["--resource", "gpu"]].concat()),
        2,
        &["gpu=0,1"],
    );
    expect_refusal(
        &ran(&["agent", "--masters", "nonsense", "--work-dir", "w"]),
        2,
        &["nonsense"],
    );
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "not a directory").unwrap();
    let below = file.join("data");
    let below = below.to_str().unwrap();
    for engine in ["raft", "sled"] {
        let master = [
            "master",
            "--id",
            "m1",
            "--data-dir",
            below,
            "--engine",
            engine,
        ];
        let ports = [
            "--bind",
            "127.0.0.1:0",
            "--rest",
            "off",
            "--web",
            "127.0.0.1:0",
        ];
        expect_refusal(&ran(&[&master[..], &ports].concat()), 1, &[below]);
    }
    let agent = [
        "agent",
        "--masters",
        "127.0.0.1:1",
        "--work-dir",
        below,
        "--web",
        "127.0.0.1:0",
    ];
    expect_refusal(&ran(&agent), 1, &[below]);
}

#[test]
fn an_unreachable_cluster_has_a_code_of_its_own() {
    let status = ran(&[
        "status",
        "x",
        "--masters",
        "127.0.0.1:1",
        "--deadline",
        "1s",
    ]);
    expect_refusal(&status, 3, &["127.0.0.1:1"]);
    let submit = [
        "submit",
        "--masters",
        "127.0.0.1:1",
        "--deadline",
        "1s",
        "--",
        "true",
    ];
    expect_refusal(&ran(&submit), 3, &["--submission-id"]);
    let run = [
        "run",
        "--executors",
        "1",
        "--masters",
        "127.0.0.1:1",
        "--deadline",
        "1s",
        "--",
        "true",
    ];
    expect_code(&ran(&run), 3);
    expect_refusal(&ran(&["list", "drivers", "--masters", "a b"]), 2, &["a b"]);
}
