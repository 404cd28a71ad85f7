//! Masters that are started wrongly beside good ones: refused, and nothing else disturbed.

use std::process::Command;

use crate::support::{Cluster, Process, expect_code, interrex, start, text, wait_for};

/// The command line of the master `id` of `cluster`, with some options replaced.
fn master(cluster: &Cluster, id: &str, data_dir: &str, replaced: &[(&str, &str)]) -> Command {
    let manifest = cluster.manifest();
    let masters = manifest["masters"].as_array().expect("a list").clone();
    let peers: Vec<String> = masters
        .iter()
        .map(|m| {
            format!(
                "{}={}",
                m["id"].as_str().unwrap(),
                m["rpc"].as_str().unwrap()
            )
        })
        .collect();
    let peers = peers.join(",");
    let it = masters.iter().find(|m| m["id"] == id).expect("known");
    let mut command = interrex();
    command.arg("master");
    for (option, value) in [
        ("--id", id),
        ("--data-dir", data_dir),
        ("--peers", &peers),
        ("--rest", it["rest"].as_str().unwrap()),
        ("--web", it["web"].as_str().unwrap()),
    ] {
        let value = replaced
            .iter()
            .find(|(o, _)| *o == option)
            .map_or(value, |(_, v)| v);
        command.args([option, value]);
    }
    command
}

#[test]
fn a_second_process_on_a_data_directory_or_port_is_refused_by_name() {
    let cluster = Cluster::start(&["--agents", "0"]);
    let used = cluster.dir().join("data/m1");
    let mut second = master(&cluster, "m1", used.to_str().unwrap(), &[]);
    let refused = start(&mut second).finish();
    expect_code(&refused, 1);
    assert!(text(&refused).contains("in use"), "{}", text(&refused));

    let fresh = cluster.dir().join("other");
    let mut same_port = master(&cluster, "m1", fresh.to_str().unwrap(), &[]);
    let refused = start(&mut same_port).finish();
    expect_code(&refused, 1);
    let rpc = cluster.addresses("rpc").remove(0);
    assert!(text(&refused).contains(&rpc), "{}", text(&refused));
    expect_code(&cluster.run(&["submit", "--", "true"]), 0);
}

#[test]
fn a_foreign_data_directory_is_refused() {
    let cluster = Cluster::start(&["--agents", "0"]);
    crate::support::signal(cluster.dev_pid(), nix::sys::signal::Signal::SIGINT);
    wait_for("dev ends", || {
        crate::support::processes_of(cluster.dir())
            .is_empty()
            .then_some(())
    });
    let of_m1 = cluster.dir().join("data/m1");
    let mut wrong = master(&cluster, "m2", of_m1.to_str().unwrap(), &[]);
    let refused = start(&mut wrong).finish();
    expect_code(&refused, 1);
    let said = text(&refused);
    assert!(said.contains("m1") && said.contains("m2"), "{said}");
}

#[test]
fn a_master_with_a_wiped_directory_may_not_vote_and_is_told_how_to_rejoin() {
    let cluster = Cluster::start(&["--agents", "0"]);
    let (leader, _) = cluster.leader();
    let wiped = ["m1", "m2", "m3"]
        .into_iter()
        .find(|m| **m != leader)
        .expect("a standby");
    cluster.signal(wiped, nix::sys::signal::Signal::SIGKILL);
    wait_for("it is gone", || cluster.pid(wiped).is_none().then_some(()));
    let empty = cluster.dir().join("empty");
    let log = cluster.dir().join("wiped.log");
    let mut command = master(&cluster, wiped, empty.to_str().unwrap(), &[]);
    let out = std::fs::File::create(&log).expect("a log file");
    command.stderr(out);
    let _wiped = Process::spawn(&mut command);
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    wait_for("it says how to rejoin", || {
        said().contains("cluster add").then_some(())
    });
    expect_code(&cluster.run(&["submit", "--", "true"]), 0);
}
