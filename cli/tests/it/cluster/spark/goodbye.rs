//! A driver that ends while nobody leads: its goodbye goes to a master that is dead, and it does not repeat it.

use std::process::Command;

use nix::sys::signal::Signal;

use super::{Lane, cluster, executor_processes, go_on, newest, wait_long};
use crate::support::{Cluster, Process};

/// What dev says before the line that starts a process again.
const BY_HAND: &str = "in another terminal: ";

fn kill_masters(cluster: &Cluster) {
    for master in ["m1", "m2", "m3"] {
        cluster.signal(master, Signal::SIGKILL);
    }
    wait_long("all masters are gone", || {
        let said = cluster.dev_said();
        (said.matches(BY_HAND).count() == 3).then_some(())
    });
}

/// Starts them by hand, as dev says; they end with the test.
fn start_masters(cluster: &Cluster) -> Vec<Process> {
    let said = cluster.dev_said();
    let lines = said
        .lines()
        .filter_map(|line| Some(line.split_once(BY_HAND)?.1));
    let started = lines.enumerate().map(|(number, line)| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec {line}")]);
        Process::start(shell, &cluster.dir().join(format!("again.{number}.log")))
    });
    started.collect()
}

#[test]
fn an_application_whose_goodbye_nobody_heard_is_ended_by_the_next_leader() {
    let Some(spark) = newest(Lane::Full) else {
        return;
    };
    let cluster = cluster(std::slice::from_ref(&spark), &[]);
    let settings = ["spark.cores.max=2"];
    let mut job = spark.start(&cluster, "unheard", &settings, ("job.py", &["2"]));
    let app = job.told("id");
    job.expect_sum(0);
    kill_masters(&cluster);
    go_on(&cluster, 1);
    job.expect_sum(1);
    job.expect_success();
    wait_long("the executors have ended", || {
        executor_processes(&app).is_empty().then_some(())
    });
    let _masters = start_masters(&cluster);
    let ended = wait_long("the application is over", || {
        let status = cluster.json(&["status", &app])["application"].clone();
        (status["state"] == "FAILED").then_some(status)
    });
    let message = ended["message"].as_str().unwrap_or_default();
    assert!(message.contains("gone without unregistering"), "{ended}");
    // Those that were started in its place meanwhile have gone, too.
    wait_long("nothing of it runs", || {
        executor_processes(&app).is_empty().then_some(())
    });
}
