//! A master whose disk takes no more, as the kernel says it: a limit of the size of files, lowered and raised while
//! the process runs, which works without mounts and as any user. A write beyond it fails like one on a full disk.

use std::process::Command;

use crate::support::{Cluster, expect_code, get, wait_for};

/// Sets the largest size of a file for a running process.
fn limit(pid: u32, bytes: &str) {
    let set = Command::new("prlimit")
        .args([
            "--pid",
            &pid.to_string(),
            &format!("--fsize={bytes}:unlimited"),
        ])
        .status();
    assert!(set.expect("prlimit is part of util-linux").success());
}

#[test]
fn a_leader_that_cannot_write_steps_down_says_why_and_comes_back_by_itself() {
    let cluster = Cluster::start(&["--agents", "1"]);
    let before = cluster.submit(&["--", "sleep", "1000"]);
    cluster.wait_driver(&before, "RUNNING");
    let (full, epoch) = cluster.leader();
    let pid = cluster.pid(&full).expect("it runs");
    let place = ["m1", "m2", "m3"]
        .iter()
        .position(|id| **id == full)
        .expect("known");
    let web = cluster.addresses("web").remove(place);
    assert_eq!(get(&web, "/readyz").0, 200);
    limit(pid, "1");
    // Acknowledged by whoever leads then.
    let during = cluster.submit(&["--", "true"]);
    cluster.wait_driver(&during, "FINISHED");
    let (other, later) = cluster.leader();
    assert!(other != full && later > epoch, "{other} leads in {later}");
    let why = wait_for("it says why it is not ready", || {
        let (status, body) = get(&web, "/readyz");
        (status == 503 && body.contains("raft has stopped")).then_some(body)
    });
    assert!(
        why.contains("cannot be opened again yet") || why.contains("as soon as"),
        "{why}"
    );
    assert_eq!(get(&web, "/livez").0, 200);
    limit(pid, "unlimited");
    wait_for("it is ready again", || {
        (get(&web, "/readyz").0 == 200).then_some(())
    });
    assert_eq!(cluster.pid(&full), Some(pid), "the same process");
    let (_, metrics) = get(&web, "/metrics");
    assert!(metrics.contains("interrex_raft_reopens_total"), "{metrics}");
    assert!(
        metrics.contains("interrex_raft_disk_free_bytes"),
        "{metrics}"
    );
    expect_code(&cluster.run(&["cluster", "transfer-leader", &full]), 0);
    assert_eq!(cluster.leader().0, full);
    let status = cluster.json(&["status", &before]);
    assert_eq!(status["driver"]["attempt"], 1, "{status}");
    expect_code(&cluster.run(&["submit", "--wait", "--", "true"]), 0);
}
