//! Workers are emptied, across the death of the leader, and get work again.

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{Cluster, expect_code, expect_refusal, start, wait_for};

/// Runs until it is told to end, and then says that all is well.
const POLITE: &str = "trap 'exit 0' TERM; while :; do sleep 0.1; done";

fn worker(cluster: &Cluster, id: &str) -> Option<Value> {
    let listed = cluster.json(&["list", "workers"]);
    let mut workers = listed["workers"].as_array()?.clone().into_iter();
    workers.find(|w| w["id"] == id)
}

/// How many executors of the only application are in `state` on `worker`.
fn executors(cluster: &Cluster, worker: &str, state: &str) -> usize {
    let listed = cluster.json(&["list", "apps"]);
    let executors = listed["applications"][0]["executors"].as_array().cloned();
    let there = |e: &&Value| e["worker_id"] == worker && e["state"] == state;
    executors.unwrap_or_default().iter().filter(there).count()
}

#[test]
fn a_drain_goes_on_under_the_next_leader_and_its_deadline_ends_what_is_left() {
    let cluster = Cluster::start(&["--cores", "8"]);
    expect_code(&cluster.run(&["worker", "drain", "w2"]), 0);
    let plain = cluster.submit(&["--", "sh", "-c", POLITE]);
    let kept = cluster.submit(&["--supervise", "--", "sh", "-c", POLITE]);
    let app = start(&mut cluster.command(&["run", "--executors", "2", "--", "sh", "-c", POLITE]));
    cluster.wait_driver(&plain, "RUNNING");
    cluster.wait_driver(&kept, "RUNNING");
    wait_for("two executors run on w1", || {
        (executors(&cluster, "w1", "RUNNING") == 2).then_some(())
    });
    expect_code(&cluster.run(&["worker", "undrain", "w2"]), 0);

    let drain = [
        "worker",
        "drain",
        "w1",
        "--deadline",
        "8s",
        "--reason",
        "new disk",
    ];
    expect_code(&cluster.run(&drain), 0);
    let before = worker(&cluster, "w1").expect("known");
    assert_eq!(before["state"], "DECOMMISSIONED");
    let (leader, _) = cluster.leader();
    cluster.signal(&leader, Signal::SIGKILL);
    wait_for("w1 is drained under the next leader", || {
        let w1 = worker(&cluster, "w1")?;
        assert_eq!(w1["drain"], before["drain"]);
        (w1["state"] == "DECOMMISSIONED").then_some(())
    });
    wait_for("the executors are replaced, and run on", || {
        let there = executors(&cluster, "w2", "RUNNING") == 2;
        there.then(|| assert_eq!(executors(&cluster, "w1", "DECOMMISSIONED"), 2))
    });

    // Again only to wait: the deadline is said once more, as late as it was.
    let waited = cluster.run(&["worker", "drain", "w1", "--deadline", "4s", "--wait"]);
    expect_refusal(
        &waited,
        0,
        &["2 drivers and 2 executors are left", "w1: empty"],
    );
    let status = cluster.wait_driver(&plain, "KILLED");
    let message = status["driver"]["message"].as_str().expect("a reason");
    assert!(message.contains("drain of worker w1"), "{message}");
    let moved = cluster.wait_driver(&kept, "RUNNING");
    assert_eq!(moved["driver"]["worker_id"], "w2");
    assert_eq!(moved["driver"]["attempt"], 2);
    let listed = cluster.json(&["list", "apps"]);
    assert_eq!(listed["applications"][0]["executors_completed"], 0);
    assert_eq!(executors(&cluster, "w1", "KILLED"), 2);
    let id = listed["applications"][0]["id"].as_str().expect("an id");
    expect_code(&cluster.run(&["kill", id]), 0);
    expect_code(&app.finish(), 11);
}

#[test]
fn work_that_waits_starts_when_a_drain_is_taken_back_and_nothing_else_happens() {
    let cluster = Cluster::start(&["--agents", "1"]);
    expect_code(&cluster.run(&["worker", "drain", "w1"]), 0);
    let id = cluster.submit(&["--", "true"]);
    let status = cluster.json(&["status", &id]);
    assert_eq!(status["driver"]["state"], "SUBMITTED");
    let message = status["driver"]["message"].as_str().expect("a reason");
    assert!(message.contains("being drained"), "{message}");
    expect_code(&cluster.run(&["worker", "undrain", "w1"]), 0);
    cluster.wait_driver(&id, "FINISHED");

    expect_refusal(&cluster.run(&["worker", "drain", "w9"]), 5, &["`w9`"]);
    expect_refusal(&cluster.run(&["worker", "undrain", "w9"]), 5, &["`w9`"]);
    let nowhere = ["worker", "drain", "--host", "nowhere"];
    expect_refusal(&cluster.run(&nowhere), 5, &["nowhere"]);
    let host = worker(&cluster, "w1").expect("known")["host"].clone();
    let host = host.as_str().expect("a host").to_uppercase();
    expect_code(
        &cluster.run(&["worker", "drain", "--host", &host, "--wait"]),
        0,
    );
    assert_eq!(
        worker(&cluster, "w1").expect("known")["state"],
        "DECOMMISSIONED"
    );
}
