//! The leader dies, is stopped, or hands over.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::support::{Cluster, expect_code, run, start, text, wait_for};

/// Far longer than election timeouts and leases, so that another leads before the old leader goes on.
const PAUSE: Duration = Duration::from_secs(5);

#[test]
fn submissions_during_an_election_are_acknowledged_after_it() {
    let cluster = Cluster::start(&[]);
    let (old, epoch) = cluster.leader();
    let before = cluster.submit(&["--", "sleep", "1000"]);
    cluster.wait_driver(&before, "RUNNING");
    cluster.signal(&old, Signal::SIGKILL);
    let began = Instant::now();
    let during = cluster.submit(&["--", "true"]);
    let took = began.elapsed();
    assert!(
        took < Duration::from_secs(10),
        "acknowledged only after {took:?}"
    );
    let (new, later) = cluster.leader();
    assert_ne!(new, old);
    assert!(later > epoch, "{later} is not larger than {epoch}");
    cluster.wait_driver(&during, "FINISHED");
    // What ran on runs on, in its first attempt.
    let status = cluster.json(&["status", &before]);
    assert_eq!(status["driver"]["state"], "RUNNING");
    assert_eq!(status["driver"]["attempt"], 1);
    expect_code(&cluster.run(&["kill", &before]), 0);
    expect_code(&cluster.run(&["wait", &before]), 11);
}

#[test]
fn a_killed_master_rejoins_when_it_is_started_again() {
    let cluster = Cluster::start(&["--respawn", "--agents", "1"]);
    let (old, _) = cluster.leader();
    let old_pid = cluster.pid(&old).expect("it runs");
    cluster.signal(&old, Signal::SIGKILL);
    wait_for("dev starts it again", || {
        cluster.pid(&old).filter(|pid| *pid != old_pid)
    });
    expect_code(&cluster.run(&["submit", "--wait", "--", "true"]), 0);
    wait_for("all masters are healthy and caught up", || {
        let seen = cluster.json(&["cluster", "status"]);
        let masters = seen["masters"].as_array()?.clone();
        let good =
            |m: &serde_json::Value| m["healthy"] == true && m["lag"].as_u64().unwrap_or(0) == 0;
        (masters.len() == 3 && masters.iter().all(good)).then_some(())
    });
    assert!(
        cluster.dev_said().contains("ended with SIGKILL"),
        "{}",
        cluster.dev_said()
    );
}

#[test]
fn a_stopped_leader_steps_down_and_never_serves_a_stale_status() {
    a_stopped_leader(&Cluster::start(&[]));
}

#[test]
fn a_leader_on_etcd_that_was_stopped_past_its_lease_does_not_either() {
    a_stopped_leader(&Cluster::start(&["--engine", "etcd"]));
}

fn a_stopped_leader(cluster: &Cluster) {
    let (old, epoch) = cluster.leader();
    let old_rpc = address_of(cluster, &old);
    let id = cluster.submit(&["--", "sleep", "1000"]);
    cluster.wait_driver(&id, "RUNNING");
    cluster.signal(&old, Signal::SIGSTOP);
    let stopped = Instant::now();
    expect_code(&cluster.run(&["kill", &id]), 0);
    expect_code(&cluster.run(&["wait", &id]), 11);
    // This question reaches the old leader's socket while it is stopped, and is read when it goes on.
    let asked = start(&mut cluster.command_at(&old_rpc, &["status", "-o", "json", &id]));
    let rest = PAUSE.saturating_sub(stopped.elapsed());
    wait_for("the pause is over", || {
        (stopped.elapsed() >= rest.max(PAUSE)).then_some(())
    });
    cluster.signal(&old, Signal::SIGCONT);
    let answered = asked.finish();
    expect_code(&answered, 0);
    let status: serde_json::Value = serde_json::from_slice(&answered.stdout).expect("JSON");
    assert_eq!(
        status["driver"]["state"],
        "KILLED",
        "a stale answer: {}",
        text(&answered)
    );
    let (new, later) = cluster.leader();
    assert!(new != old && later > epoch, "{new} leads in {later}");
    wait_for("the old leader is a healthy standby", || {
        let seen = cluster.json(&["cluster", "status"]);
        let masters = seen["masters"].as_array()?.clone();
        let it = masters.into_iter().find(|m| m["id"] == old.as_str())?;
        (it["role"] == "standby" && it["healthy"] == true).then_some(())
    });
    // It steps down in place: the same process.
    assert!(cluster.pid(&old).is_some());
}

#[test]
fn leadership_is_handed_over_on_request_and_at_sigterm() {
    let cluster = Cluster::start(&["--respawn", "--agents", "1"]);
    let (old, epoch) = cluster.leader();
    let to = if old == "m1" { "m2" } else { "m1" };
    let handed = cluster.run(&["cluster", "transfer-leader", to]);
    expect_code(&handed, 0);
    let (new, later) = cluster.leader();
    assert_eq!(new, to);
    assert!(later > epoch);
    cluster.signal(to, Signal::SIGTERM);
    expect_code(&cluster.run(&["submit", "--wait", "--", "true"]), 0);
    let (last, _) = cluster.leader();
    assert!(!last.is_empty());
    let log = std::fs::read_to_string(cluster.dir().join(format!("data/logs/{to}.log")));
    assert!(log.expect("a log").contains("SIGTERM"));
    let unknown = cluster.run(&["cluster", "transfer-leader", "m9"]);
    assert_ne!(unknown.status.code(), Some(0), "{}", text(&unknown));
}

#[test]
fn without_a_quorum_a_client_is_told_so_and_work_goes_on() {
    let cluster = Cluster::start(&["--agents", "1"]);
    let file = cluster.dir().join("beats");
    let script = format!(
        "while true; do echo beat >> {}; sleep 0.1; done",
        file.display()
    );
    let id = cluster.submit(&["--", "sh", "-c", &script]);
    cluster.wait_driver(&id, "RUNNING");
    let (leader, _) = cluster.leader();
    let others = ["m1", "m2", "m3"].into_iter().filter(|m| **m != leader);
    others.for_each(|m| cluster.signal(m, Signal::SIGKILL));
    let refused = run(&mut cluster.command(&["submit", "--deadline", "3s", "--", "true"]));
    let code = refused.status.code();
    assert!(matches!(code, Some(3 | 6)), "{}", text(&refused));
    let beats = || std::fs::metadata(&file).map_or(0, |m| m.len());
    let now = beats();
    wait_for("the driver runs on without masters", || {
        (beats() > now).then_some(())
    });
}

fn address_of(cluster: &Cluster, id: &str) -> String {
    let manifest = cluster.manifest();
    let masters = manifest["masters"].as_array().expect("a list");
    let it = masters.iter().find(|m| m["id"] == id).expect("known");
    it["rpc"].as_str().expect("an address").to_owned()
}
