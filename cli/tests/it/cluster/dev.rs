//! `interrex dev` itself: what it prints, keeps true, and never leaves behind.

use nix::sys::signal::Signal;

use crate::support::{
    Cluster, Process, expect_code, expect_refusal, interrex, processes_of, run, signal, wait_for,
};

fn nothing_is_left(cluster: &Cluster) {
    wait_for("every process of the cluster is gone", || {
        processes_of(cluster.dir()).is_empty().then_some(())
    });
}

#[test]
fn dev_says_what_runs_and_what_to_try() {
    let cluster = Cluster::start(&[]);
    let masters = cluster.addresses("rpc").join(",");
    let export = format!("export INTERREX_MASTERS={masters}");
    for words in [
        "m1",
        "m2",
        "m3",
        "w1",
        "w2",
        "leads in epoch",
        &export,
        "interrex submit --wait",
    ] {
        assert!(
            cluster.greeting.contains(words),
            "`{words}` is not in:\n{}",
            cluster.greeting
        );
    }
    for id in ["m1", "m2", "m3", "w1", "w2"] {
        let pid = cluster.pid(id).expect("it runs");
        assert!(std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}

#[test]
fn ctrl_c_ends_everything_and_the_records_stay() {
    let mut cluster = Cluster::start(&[]);
    expect_code(
        &cluster.run(&["submit", "--submission-id", "kept", "--wait", "--", "true"]),
        0,
    );
    let running = cluster.submit(&["--", "sh", "-c", "sleep 1000 & sleep 1001"]);
    cluster.wait_driver(&running, "RUNNING");
    signal(cluster.dev_pid(), Signal::SIGINT);
    assert!(cluster.wait_dev().success(), "{}", cluster.dev_said());
    nothing_is_left(&cluster);
    let manifest = cluster.manifest();
    assert!(manifest["masters"][0]["pid"].is_null(), "{manifest}");

    cluster.start_again(&[]);
    let status = cluster.json(&["status", "kept"]);
    assert_eq!(status["driver"]["state"], "FINISHED");
}

#[test]
fn a_killed_dev_leaves_no_process_not_even_a_stopped_one() {
    let mut cluster = Cluster::start(&[]);
    let id = cluster.submit(&["--", "sh", "-c", "sleep 1000 & sleep 1001"]);
    cluster.wait_driver(&id, "RUNNING");
    cluster.signal("m2", Signal::SIGSTOP);
    signal(cluster.dev_pid(), Signal::SIGKILL);
    cluster.wait_dev();
    nothing_is_left(&cluster);
}

#[test]
fn a_killed_agent_takes_its_processes_along() {
    let cluster = Cluster::start(&["--agents", "1", "--respawn"]);
    let id = cluster.submit(&["--", "sh", "-c", "sleep 1234 & sleep 1235"]);
    cluster.wait_driver(&id, "RUNNING");
    cluster.signal("w1", Signal::SIGKILL);
    wait_for("its processes are gone", || {
        let left = processes_of(cluster.dir());
        left.iter().all(|p| !p.contains("sleep 123")).then_some(())
    });
    expect_code(&cluster.run(&["wait", "--timeout", "50s", &id]), 10);
}

#[test]
fn a_child_that_died_is_reported_and_cluster_json_stays_true() {
    let cluster = Cluster::start(&["--agents", "1"]);
    cluster.signal("w1", Signal::SIGKILL);
    wait_for("dev says so", || {
        cluster
            .dev_said()
            .contains("w1 (pid")
            .then_some(())
            .filter(|()| cluster.pid("w1").is_none())
    });
    assert!(
        cluster.dev_said().contains("ended with SIGKILL"),
        "{}",
        cluster.dev_said()
    );
}

#[test]
fn a_killed_master_rejoins_by_the_line_that_dev_says() {
    let cluster = Cluster::start(&["--agents", "0"]);
    let (killed, _) = cluster.leader();
    cluster.signal(&killed, Signal::SIGKILL);
    let hint = "in another terminal: ";
    let line = wait_for("the line that starts it again", || {
        let said = cluster.dev_said();
        let (_, rest) = said.split_once(hint)?;
        rest.split_once('\n').map(|(line, _)| line.to_owned())
    });
    let _by_hand = Process::spawn(
        std::process::Command::new("sh")
            .args(["-c", &format!("exec {line}")])
            .stderr(std::process::Stdio::null()),
    );
    wait_for("all masters are healthy", || {
        // No leader yet has a code of its own.
        let seen = cluster.run(&["-o", "json", "cluster", "status"]);
        let seen: serde_json::Value = serde_json::from_slice(&seen.stdout).ok()?;
        let masters = seen["masters"].as_array()?;
        masters.iter().all(|m| m["healthy"] == true).then_some(())
    });
}

#[test]
fn a_busy_port_is_named_before_anything_starts() {
    let cluster = Cluster::start(&["--masters", "1", "--agents", "0"]);
    let rpc = cluster.addresses("rpc").remove(0);
    let port = rpc.rsplit_once(':').expect("host:port").1;
    let dir = tempfile::tempdir().expect("a directory");
    let mut second = interrex();
    second
        .args(["dev", "--masters", "1", "--base-port", port, "--data-dir"])
        .arg(dir.path());
    let refused = run(&mut second);
    expect_refusal(&refused, 1, &[&rpc, "in use", "--base-port"]);
    assert!(!dir.path().join("m1").exists());
    // The next try, with other ports, must not find a directory that was made for these.
    assert!(!dir.path().join("layout.json").exists());
}

#[test]
fn every_engine_runs_and_those_for_one_master_say_so() {
    for engine in ["memory", "sled"] {
        let cluster = Cluster::start(&["--engine", engine, "--masters", "1", "--agents", "1"]);
        expect_code(&cluster.run(&["submit", "--wait", "--", "true"]), 0);
    }
    let three = run(interrex().args(["dev", "--engine", "sled"]));
    expect_refusal(&three, 2, &["sled", "--masters 1"]);
}
