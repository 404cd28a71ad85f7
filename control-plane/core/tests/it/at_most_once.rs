//! What may run at most once: no second attempt begins while the first may still live, whatever is lost.
//!
//! An agent ends such an attempt when no leader has acknowledged a heartbeat for a lease, which is shorter than the
//! worker timeout. So the masters' part is to wait for the worker timeout wherever they do not hear of an end.

use std::time::Duration;

use interrex_core::{
    command::{Command, FullReport, ProcessChange},
    config::ClusterConfig,
    ids::{Attempt, DriverId, Epoch, WorkerId},
    leader::{LeaderConfig, LeaderMachine, Output},
    spec::{DriverSpec, WorkerSpec},
    state::{
        driver::{DriverState, Exit},
        worker::WorkerState,
    },
    time::Timestamp,
    transition::Reply,
};

use crate::{
    specs::{driver, supervised, worker},
    support::{Cluster, START, exited, killed, orders, secs},
};

fn once() -> DriverSpec {
    DriverSpec {
        at_most_once: true,
        ..supervised(1, 1)
    }
}

/// `spec` runs on w1; w2 has room.
fn running(spec: DriverSpec) -> (Cluster, DriverId) {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(4, 4096));
    let id = cluster.submit("s1", spec);
    cluster.report_driver("w1", &id, 1, ProcessChange::Running);
    cluster.register("w2", worker(4, 4096));
    (cluster, id)
}

/// Ticks through a time, and checks that no second attempt begins.
fn stays_one(cluster: &mut Cluster, id: &DriverId, seconds: u64) {
    for _ in 0..seconds * 2 {
        let transition = cluster.tick_after(Duration::from_millis(500));
        assert!(orders(&transition).is_empty(), "{:?}", orders(&transition));
        assert_eq!(cluster.driver(id).attempt, Attempt(1));
    }
}

#[test]
fn the_lease_ends_before_the_masters_stop_waiting() {
    let config = ClusterConfig::default();
    assert!(config.at_most_once_lease().mul_f64(1.25) < config.worker_timeout);
    for lease in [16, 20, 30] {
        let config = ClusterConfig {
            at_most_once_lease: Some(secs(lease)),
            ..ClusterConfig::default()
        };
        assert!(config.validate().is_err(), "a lease of {lease} s of 20 s");
    }
}

#[test]
fn a_worker_that_is_away_keeps_it_until_it_expires() {
    let (mut cluster, id) = running(once());
    let worker = WorkerId::from("w1");
    cluster.apply(Command::WorkerDisconnected {
        worker: worker.clone(),
    });
    stays_one(&mut cluster, &id, 60);
    cluster.apply(Command::ExpireWorker { worker });
    assert_eq!(cluster.driver(&id).worker, Some("w2".into()));
    assert_eq!(cluster.driver(&id).attempt, Attempt(2));
}

#[test]
fn a_new_leader_waits_a_whole_worker_timeout_for_a_silent_worker() {
    // The old leader may have heard of it until the election, and the recovery timeout is no reason to give it up.
    let (cluster, id) = running(once());
    let config = ClusterConfig {
        recovery_timeout: secs(1),
        ..ClusterConfig::default()
    };
    let now = cluster.now + 3_600_000;
    let mut leader = LeaderMachine::recover(
        Epoch(2),
        LeaderConfig::default(),
        config,
        cluster.store.entities(),
        Timestamp(now),
    );
    leader.submit(
        None,
        Command::RegisterWorker {
            worker: "w2".into(),
            spec: worker(4, 4096).into(),
            report: FullReport::default(),
        },
        Timestamp(now + 1_000),
        Timestamp(now),
    );
    let mut relaunched = None;
    for ms in (0..21_000).step_by(100) {
        let at = Timestamp(now + ms);
        leader.heartbeat(&"w2".into(), at);
        leader.tick(at);
        for output in leader.poll(at) {
            if let Output::Commit { batch, .. } = output {
                leader.committed(batch, at);
            }
        }
        let attempt = leader.state().driver(&id).expect("known").attempt;
        if attempt == Attempt(2) {
            relaunched.get_or_insert(ms);
        }
    }
    let relaunched = relaunched.expect("in the end it is started again");
    assert!(
        (20_000..21_000).contains(&relaunched),
        "after {relaunched} ms"
    );
}

#[test]
fn a_worker_whose_record_is_lost_gets_a_worker_timeout_from_the_election() {
    let (mut cluster, id) = running(once());
    cluster.store.workers.remove(&WorkerId::from("w1"));
    cluster.now += 3_600_000;
    cluster.fail_over();
    cluster.register("w2", worker(4, 4096));
    stays_one(&mut cluster, &id, 19);
    let over = cluster.tick_after(secs(1));
    assert_eq!(orders(&over), [format!("w2: launch {id}/2")]);
}

#[test]
fn a_worker_whose_record_is_lost_is_adopted_with_what_it_runs_when_it_is_back_in_time() {
    let (mut cluster, id) = running(once());
    let report = cluster.honest_report("w1");
    cluster.store.workers.remove(&WorkerId::from("w1"));
    cluster.fail_over();
    cluster.register("w2", worker(4, 4096));
    stays_one(&mut cluster, &id, 10);
    let back = cluster.register_with("w1", worker(4, 4096), report);
    assert!(orders(&back).is_empty());
    stays_one(&mut cluster, &id, 60);
    assert_eq!(cluster.driver(&id).state, DriverState::Running);
}

#[test]
fn a_death_that_was_stored_without_its_consequences_is_waited_out_too() {
    // A leader that died in the middle of a command that was larger than a batch.
    let (mut cluster, id) = running(once());
    let record = cluster.store.workers.get_mut(&WorkerId::from("w1"));
    record.expect("stored").state = WorkerState::Dead;
    cluster.fail_over();
    assert_eq!(cluster.state.inconsistencies().len(), 1);
    cluster.register("w2", worker(4, 4096));
    stays_one(&mut cluster, &id, 19);
    let over = cluster.tick_after(secs(1));
    assert_eq!(orders(&over), [format!("w2: launch {id}/2")]);
}

#[test]
fn without_the_option_a_lost_record_moves_it_at_once_and_the_old_attempt_is_ended_later() {
    let (mut cluster, id) = running(supervised(1, 1));
    let report = cluster.honest_report("w1");
    cluster.store.workers.remove(&WorkerId::from("w1"));
    cluster.fail_over();
    cluster.register("w2", worker(4, 4096));
    let moved = cluster.tick_after(secs(1));
    assert_eq!(orders(&moved), [format!("w2: launch {id}/2")]);
    let back = cluster.register_with("w1", worker(4, 4096), report);
    assert_eq!(orders(&back), [format!("w1: kill {id}/1")]);
}

#[test]
fn a_twin_with_another_work_directory_does_not_give_it_up() {
    let (mut cluster, id) = running(once());
    let twin = WorkerSpec {
        work_dir_id: "2".to_owned(),
        incarnation: "2".to_owned(),
        ..worker(4, 4096)
    };
    let refused = cluster.register("w1", twin);
    assert!(matches!(refused.reply, Reply::Rejected(_)));
    stays_one(&mut cluster, &id, 5);
}

#[test]
fn a_stranger_in_the_place_of_a_lost_record_does_not_give_it_up() {
    let (mut cluster, id) = running(once());
    let own = cluster.honest_report("w1");
    cluster.store.workers.remove(&WorkerId::from("w1"));
    cluster.fail_over();
    cluster.register("w2", worker(4, 4096));
    let stranger = WorkerSpec {
        work_dir_id: "2".to_owned(),
        incarnation: "2".to_owned(),
        ..worker(4, 4096)
    };
    let mut late = cluster.clone();
    let refused = cluster.register("w1", stranger.clone());
    assert!(matches!(refused.reply, Reply::Rejected(_)));
    stays_one(&mut cluster, &id, 10);
    // The right one says what it runs, and is adopted.
    let accepted = cluster.register_with("w1", worker(4, 4096), own);
    assert_eq!(accepted.reply, Reply::WorkerRegistered);
    stays_one(&mut cluster, &id, 60);
    // It does not come: when its lease must be over, the other one may have its place.
    late.tick_after(secs(20));
    assert_eq!(late.driver(&id).worker, Some("w2".into()));
    let accepted = late.register("w1", stranger);
    assert_eq!(accepted.reply, Reply::WorkerRegistered);
}

#[test]
fn an_agent_that_cannot_be_told_from_a_twin_does_not_give_it_up() {
    let unknown = |incarnation: &str| WorkerSpec {
        work_dir_id: String::new(),
        incarnation: incarnation.to_owned(),
        ..worker(4, 4096)
    };
    let (mut cluster, id) = running(once());
    let refused = cluster.register("w1", unknown("2"));
    assert!(matches!(refused.reply, Reply::Rejected(_)));
    stays_one(&mut cluster, &id, 5);
    cluster.apply(Command::ExpireWorker {
        worker: "w1".into(),
    });
    let accepted = cluster.register("w1", unknown("2"));
    assert_eq!(accepted.reply, Reply::WorkerRegistered);
    // What may run twice is not worth a refusal.
    let (mut cluster, _) = running(driver(1, 1));
    let accepted = cluster.register("w1", unknown("2"));
    assert_eq!(accepted.reply, Reply::WorkerRegistered);
}

#[test]
fn what_its_own_agent_says_counts_at_once() {
    // The same work directory, so the agent knows of every process that it ever started.
    for said in [
        killed(),
        exited(1),
        ProcessChange::Failed("lease".to_owned()),
    ] {
        let (mut cluster, id) = running(once());
        cluster.report_driver("w1", &id, 1, said.clone());
        cluster.tick_after(secs(1));
        assert_eq!(cluster.driver(&id).attempt, Attempt(2), "{said:?}");
    }
    let (mut cluster, id) = running(once());
    cluster.register("w1", worker(4, 4096));
    assert_eq!(cluster.driver(&id).attempt, Attempt(2));
}

#[test]
fn a_drain_that_is_over_waits_for_its_end() {
    let (mut cluster, id) = running(once());
    cluster.drain("w1", Some(0));
    for _ in 0..60 {
        cluster.tick_after(secs(1));
        assert_eq!(cluster.driver(&id).attempt, Attempt(1));
    }
    // Silent as well: until it expires.
    cluster.apply(Command::WorkerDisconnected {
        worker: "w1".into(),
    });
    stays_one(&mut cluster, &id, 30);
    let gone = ProcessChange::Killed(Exit::default());
    cluster.register_with("w1", worker(4, 4096), cluster.honest_report("w1"));
    cluster.report_driver("w1", &id, 1, gone);
    assert_eq!(cluster.driver(&id).worker, Some("w2".into()));
}

#[test]
fn unsupervised_it_is_called_lost_no_earlier() {
    let (mut cluster, id) = running(DriverSpec {
        supervise: false,
        ..once()
    });
    cluster.store.workers.remove(&WorkerId::from("w1"));
    cluster.fail_over();
    stays_one(&mut cluster, &id, 19);
    assert_eq!(cluster.driver(&id).state, DriverState::Running);
    cluster.tick_after(secs(1));
    assert_eq!(cluster.driver(&id).state, DriverState::Error);
    assert!(cluster.now >= START + 20_000);
}
