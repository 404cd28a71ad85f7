//! What people do with drivers and applications.

use std::io::{BufRead, BufReader};

use nix::sys::signal::Signal;

use crate::support::{
    Cluster, Process, expect_code, expect_refusal, run, signal, start, text, wait_for,
};

#[test]
fn submit_and_wait_end_with_the_outcome() {
    let cluster = Cluster::start(&[]);
    expect_code(&cluster.run(&["submit", "--wait", "--", "true"]), 0);
    let failed = cluster.run(&["submit", "--wait", "--", "sh", "-c", "exit 3"]);
    expect_refusal(&failed, 10, &["submission ", "FAILED", "exit code 3"]);

    let waiting = start(&mut cluster.command(&[
        "submit",
        "--wait",
        "--submission-id",
        "to-be-killed",
        "--",
        "sleep",
        "1000",
    ]));
    cluster_knows(&cluster, "to-be-killed", "RUNNING");
    expect_code(&cluster.run(&["kill", "to-be-killed"]), 0);
    expect_code(&waiting.finish(), 11);
    expect_code(&cluster.run(&["wait", "to-be-killed"]), 11);
    // Killing what is over is no error.
    expect_code(&cluster.run(&["kill", "to-be-killed"]), 0);

    let too_large = [
        "submit",
        "--cores",
        "1000",
        "--wait",
        "--timeout",
        "1s",
        "--",
        "true",
    ];
    expect_code(&cluster.run(&too_large), 12);
    let too_slow = ["submit", "--wait", "--timeout", "2s", "--", "sleep", "1000"];
    expect_code(&cluster.run(&too_slow), 6);
}

#[test]
fn every_master_answers_every_question() {
    let cluster = Cluster::start(&[]);
    for (number, master) in cluster.addresses("rpc").iter().enumerate() {
        let at = |args: &[&str]| run(&mut cluster.command_at(master, args));
        let id = format!("from-master-{number}");
        let submit = ["submit", "--submission-id", &id, "--", "sleep", "1000"];
        expect_code(&at(&submit), 0);
        let status = at(&["status", "-o", "json", &id]);
        expect_code(&status, 0);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
        assert_eq!(status["driver"]["submission_id"], id.as_str());
        let list = at(&["list", "drivers"]);
        expect_code(&list, 0);
        assert!(text(&list).contains(status["driver"]["id"].as_str().expect("an id")));
        expect_code(&at(&["kill", &id]), 0);
        expect_code(&at(&["wait", &id]), 11);
        expect_code(&at(&["list", "workers"]), 0);
        expect_code(&at(&["cluster", "status"]), 0);
    }
}

#[test]
fn a_repeated_submission_runs_once_and_another_body_is_a_conflict() {
    let cluster = Cluster::start(&["--agents", "1"]);
    let dir = cluster.dir().join("runs");
    let script = format!("echo ran >> {}", dir.display());
    let submit = [
        "submit",
        "--wait",
        "--submission-id",
        "once",
        "--",
        "sh",
        "-c",
        &script,
    ];
    expect_code(&cluster.run(&submit), 0);
    expect_code(&cluster.run(&submit), 0);
    assert_eq!(std::fs::read_to_string(dir).expect("it ran"), "ran\n");
    let other = cluster.run(&["submit", "--submission-id", "once", "--", "true"]);
    expect_refusal(&other, 5, &["conflict"]);
}

#[test]
fn logs_follow_a_driver_from_before_its_start_to_its_end() {
    let cluster = Cluster::start(&["--agents", "1", "--cores", "1"]);
    let first = cluster.submit(&["--", "sleep", "1000"]);
    cluster.wait_driver(&first, "RUNNING");
    let script = "echo one; echo trouble >&2; sleep 0.3; echo two";
    let second = cluster.submit(&["--", "sh", "-c", script]);
    let following = start(&mut cluster.command(&["logs", "-f", &second]));
    expect_code(&cluster.run(&["kill", &first]), 0);
    let followed = following.finish();
    expect_code(&followed, 0);
    assert_eq!(String::from_utf8_lossy(&followed.stdout), "one\ntwo\n");
    let errors = cluster.run(&["logs", "--stderr", &second]);
    assert_eq!(String::from_utf8_lossy(&errors.stdout), "trouble\n");
    expect_refusal(
        &cluster.run(&["logs", "no-such-driver"]),
        5,
        &["no-such-driver"],
    );
}

#[test]
fn a_driver_finds_its_place_in_its_environment_and_placeholders() {
    let cluster = Cluster::start(&["--agents", "1"]);
    let script = "echo $INTERREX_DRIVER_ID {{DRIVER_ID}} $LEVEL $INTERREX_MASTERS";
    let id = cluster.submit(&["--env", "LEVEL=a=b", "--", "sh", "-c", script]);
    expect_code(&cluster.run(&["wait", &id]), 0);
    let logs = cluster.run(&["logs", &id]);
    let masters = cluster.addresses("rpc").join(",");
    let expected = format!("{id} {id} a=b {masters}\n");
    assert_eq!(String::from_utf8_lossy(&logs.stdout), expected);
}

#[test]
fn a_supervised_driver_is_started_until_it_succeeds() {
    let cluster = Cluster::start(&["--agents", "1"]);
    let tries = cluster.dir().join("tries");
    let file = tries.display();
    let script = format!("echo try >> {file}; [ $(wc -l < {file}) -ge 2 ]");
    let submit = ["submit", "--supervise", "--wait", "--", "sh", "-c", &script];
    expect_code(&cluster.run(&submit), 0);
    assert_eq!(
        std::fs::read_to_string(&tries)
            .expect("it ran")
            .lines()
            .count(),
        2
    );
}

#[test]
fn run_shows_its_executors_and_ends_with_them() {
    let cluster = Cluster::start(&[]);
    let script = "echo executor $INTERREX_EXECUTOR_ID of $INTERREX_APP_ID";
    let done = cluster.run(&["run", "--executors", "4", "--", "sh", "-c", script]);
    expect_refusal(
        &done,
        0,
        &[
            "application app-",
            "executor 0 on w",
            "executor 3 on w",
            "RUNNING",
        ],
    );
    let apps = cluster.json(&["list", "apps"]);
    let app = &apps["applications"][0];
    assert_eq!(
        (app["state"].as_str(), app["executors_completed"].as_u64()),
        (Some("FINISHED"), Some(4))
    );
}

#[test]
fn ctrl_c_ends_the_executors_of_run_together() {
    let cluster = Cluster::start(&[]);
    let running = start(&mut cluster.command(&["run", "--executors", "4", "--", "sleep", "1000"]));
    let running_now = || {
        let apps = cluster.json(&["list", "apps"]);
        let executors = apps["applications"][0]["executors"].as_array()?.clone();
        Some(executors.iter().filter(|e| e["state"] == "RUNNING").count())
    };
    wait_for("four executors run", || running_now().filter(|n| *n == 4));
    let id = cluster.json(&["list", "apps"])["applications"][0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let logs = cluster.run(&["logs", &format!("{id}/0")]);
    expect_code(&logs, 0);
    signal(running.id(), Signal::SIGINT);
    expect_code(&running.finish(), 11);
    wait_for("no executor is left", || {
        let left = crate::support::processes_of(cluster.dir());
        left.iter().all(|p| !p.contains("sleep 1000")).then_some(())
    });
    wait_for("every core is free again", || {
        let listed = cluster.json(&["list", "workers"]);
        let workers = listed["workers"].as_array()?.clone();
        workers.iter().all(|w| w["cores_used"] == 0).then_some(())
    });
}

fn cluster_knows(cluster: &Cluster, id: &str, state: &str) {
    wait_for(&format!("{id} is {state}"), || {
        let output = cluster.run(&["status", "-o", "json", id]);
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        (status["driver"]["state"] == state).then_some(())
    });
}

#[test]
fn following_ends_when_nobody_reads_any_more() {
    let cluster = Cluster::start(&[]);
    let id = cluster.submit(&["--", "sh", "-c", "while :; do echo tick; sleep 0.1; done"]);
    let mut following = Process::spawn(
        cluster
            .command(&["logs", "-f", &id])
            .stdout(std::process::Stdio::piped()),
    );
    let mut line = String::new();
    let mut output = BufReader::new(following.stdout.take().expect("a pipe"));
    output.read_line(&mut line).expect("a line");
    assert_eq!(line, "tick\n");
    drop(output);
    let status = wait_for("the end of `logs -f`", || {
        following.try_wait().expect("a child of ours")
    });
    assert!(status.success(), "{status}");
    cluster.wait_driver(&id, "RUNNING");
}

#[test]
fn run_says_how_its_application_ended_as_json() {
    let cluster = Cluster::start(&[]);
    let ended = cluster.run(&["run", "-o", "json", "--executors", "2", "--", "true"]);
    expect_code(&ended, 0);
    let ended: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON only");
    assert_eq!(ended["application"]["state"], "FINISHED", "{ended}");
    assert_eq!(ended["application"]["executors_completed"], 2, "{ended}");
}
