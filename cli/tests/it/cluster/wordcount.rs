//! A driver that is itself an application, through a failover.

use nix::sys::signal::Signal;

use crate::support::{Cluster, Running, expect_code, start, text, wait_for, wordcount};

fn submit(cluster: &Cluster, id: &str, options: &[&str]) -> Running {
    let program = wordcount();
    let mut args = vec!["submit", "--wait", "--submission-id", id, "--"];
    args.push(program.to_str().expect("UTF-8"));
    args.extend(options);
    start(&mut cluster.command(&args))
}

fn output_of(cluster: &Cluster, id: &str) -> String {
    let logs = cluster.run(&["logs", id]);
    expect_code(&logs, 0);
    String::from_utf8_lossy(&logs.stdout).into_owned()
}

#[test]
fn words_are_counted_by_executors() {
    let cluster = Cluster::start(&[]);
    let counting = submit(&cluster, "count", &["--executors", "3", "--verify"]);
    let counted = counting.finish();
    expect_code(&counted, 0);
    let said = output_of(&cluster, "count");
    assert!(said.contains("verified"), "{said}");
    assert!(said.contains("executor restarts 0"), "{said}");
    let apps = cluster.json(&["list", "apps"]);
    assert_eq!(apps["applications"][0]["state"], "FINISHED");
}

#[test]
fn a_leader_that_is_killed_on_the_way_changes_no_count_and_restarts_no_executor() {
    let cluster = Cluster::start(&[]);
    let slow = [
        "--executors",
        "4",
        "--shards",
        "80",
        "--shard-delay-ms",
        "200",
        "--verify",
    ];
    let counting = submit(&cluster, "count", &slow);
    wait_for("pieces are being counted", || {
        let logs = cluster.run(&["logs", "--stderr", "count"]);
        text(&logs).contains(" of 80 pieces").then_some(())
    });
    let (old, epoch) = cluster.leader();
    cluster.signal(&old, Signal::SIGKILL);
    let during = cluster.submit(&["--", "true"]);
    let counted = counting.finish();
    expect_code(&counted, 0);
    let said = output_of(&cluster, "count");
    for words in ["verified", "executor restarts 0", "handed out again 0"] {
        assert!(said.contains(words), "`{words}` is not in:\n{said}");
    }
    // The driver lived through it; on a busy machine there may be more than one election.
    assert!(!said.contains("leaders lost 0"), "{said}");
    cluster.wait_driver(&during, "FINISHED");
    let (new, later) = cluster.leader();
    assert!(new != old && later > epoch);
}
