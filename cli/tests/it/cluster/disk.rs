//! A master whose disk takes no more, as the kernel says it.
//!
//! Full: a limit of the size of files, lowered and raised while
//! the process runs, which works without mounts and as any user. A write beyond it fails like one on a full disk.
//!
//! Read-only: files and directories that were made immutable, which takes root and a file system that knows it. (No mount
//! can be made read-only while files on it are open for writing; file systems do that by themselves when they fail.)

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

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

/// A directory that nobody can write to, whoever has its files open; until this is dropped.
struct ReadOnly(PathBuf);

// === impl ReadOnly ===

impl ReadOnly {
    /// `None`, and a line that says so, where that cannot be done.
    fn make(dir: &Path) -> Option<Self> {
        let probe = dir.join("probe");
        std::fs::write(&probe, "").expect("a file");
        let can = Self::change("+i", &probe) && std::fs::write(&probe, "x").is_err();
        let back = Self::change("-i", &probe);
        std::fs::remove_file(&probe).expect("a file");
        if !can {
            eprintln!(
                "skipped: `chattr +i` does nothing here (it takes root, and ext4 or the like)"
            );
            return None;
        }
        assert!(back && Self::change("+i", dir));
        Some(Self(dir.to_owned()))
    }

    fn change(how: &str, what: &Path) -> bool {
        let mut command = Command::new("chattr");
        command.args(["-R", how]).arg(what).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        assert!(Self::change("-i", &self.0), "it cannot be removed either");
    }
}

#[test]
fn a_leader_whose_directory_is_read_only_steps_down_says_why_and_comes_back_by_itself() {
    let cluster = Cluster::start(&["--agents", "1"]);
    let before = cluster.submit(&["--", "sleep", "1000"]);
    cluster.wait_driver(&before, "RUNNING");
    let (stuck, epoch) = cluster.leader();
    let pid = cluster.pid(&stuck).expect("it runs");
    let place = ["m1", "m2", "m3"].iter().position(|id| **id == stuck);
    let web = cluster.addresses("web").remove(place.expect("known"));
    let dir = cluster.dir().join("data").join(&stuck);
    let Some(read_only) = ReadOnly::make(&dir) else {
        return;
    };
    // Acknowledged by whoever leads then.
    let during = cluster.submit(&["--", "true"]);
    cluster.wait_driver(&during, "FINISHED");
    let (other, later) = cluster.leader();
    assert!(other != stuck && later > epoch, "{other} leads in {later}");
    wait_for("it says why it is not ready", || {
        let (status, body) = get(&web, "/readyz");
        (status == 503 && body.contains("Operation not permitted")).then_some(())
    });
    assert_eq!(get(&web, "/livez").0, 200);
    drop(read_only);
    wait_for("it is ready again", || {
        (get(&web, "/readyz").0 == 200).then_some(())
    });
    assert_eq!(cluster.pid(&stuck), Some(pid), "the same process");
    expect_code(&cluster.run(&["cluster", "transfer-leader", &stuck]), 0);
    assert_eq!(cluster.leader().0, stuck);
    let status = cluster.json(&["status", &before]);
    assert_eq!(status["driver"]["attempt"], 1, "{status}");
    expect_code(&cluster.run(&["submit", "--wait", "--", "true"]), 0);
}
