//! At most once: whole agents whose masters, or whose own process, are gone.

use std::time::{Duration, Instant};

use interrex_proto::v1::{ProcessState, work_report};
use nix::sys::signal::Signal;

use crate::{
    agent::{Running, Victim},
    master::{LEASE, Master},
    support::{alive, eventually, pid_in, sh},
};

/// Ignores SIGTERM, and has a daemon that does, too.
const STUBBORN: &str = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ >daemon; sleep 1000' & \
                        echo $$ >main; while :; do sleep 0.05; done";
/// What a busy machine may add.
const SLACK: Duration = Duration::from_secs(4);
const WORDS: &str = "stopped: no leader for the length of its lease; at most once";

#[tokio::test]
async fn the_tree_of_a_frozen_agent_ends_with_its_lease_and_the_agent_says_so_when_it_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let mut master = Master::start(5).await;
    let agent = Victim::start(directory.path(), &master.address);
    master.registration().await;
    master.launch_once(sh(STUBBORN)).await;
    master.driver(ProcessState::Running).await;
    let main = pid_in(&directory.path().join("d1/main")).await;
    let daemon = pid_in(&directory.path().join("d1/daemon")).await;

    agent.signal(Signal::SIGSTOP);
    let frozen = Instant::now();
    eventually("the end of the tree", || {
        (!alive(main) && !alive(daemon)).then_some(())
    })
    .await;
    let after = frozen.elapsed();
    assert!(after < LEASE + LEASE / 4 + SLACK, "{after:?}");

    agent.signal(Signal::SIGCONT);
    let killed = master.driver(ProcessState::Killed).await;
    assert_eq!(killed.message, WORDS);
    assert_eq!(killed.exit.unwrap().signal, Some(9));
    agent.kill();
}

#[tokio::test]
async fn without_masters_it_ends_with_its_lease_and_what_may_run_twice_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let mut master = Master::start(5).await;
    let agent = Running::start(directory.path(), &[&master.address]).await;
    master.registration().await;
    master
        .launch_once(sh("echo $$ >main; exec sleep 1000"))
        .await;
    master.driver(ProcessState::Running).await;
    master
        .launch_spec("d2", 1, sh("echo $$ >main; exec sleep 1000"), false)
        .await;
    master.driver(ProcessState::Running).await;
    let once = pid_in(&directory.path().join("d1/main")).await;
    let plain = pid_in(&directory.path().join("d2/main")).await;
    // Longer than a lease: heartbeats renew it.
    tokio::time::sleep(LEASE * 2).await;
    assert!(alive(once));

    let address = master.die();
    let alone = Instant::now();
    eventually("its end", || (!alive(once)).then_some(())).await;
    let after = alone.elapsed();
    // Heartbeats come every 100 ms, so nearly the whole lease was left.
    assert!(after > LEASE / 2 && after < LEASE + SLACK, "{after:?}");
    assert!(alive(plain));

    let mut master = Master::listen(&address, 6, false).await;
    let registration = master.registration().await;
    assert_eq!(registration.drivers.len(), 1);
    assert_eq!(registration.drivers[0].driver_id, "d2");
    let words: Vec<&str> = registration
        .unacknowledged
        .iter()
        .map(|report| match report.body.as_ref().unwrap() {
            work_report::Body::Driver(driver) => driver.message.as_str(),
            work_report::Body::Executor(_) => "an executor",
        })
        .collect();
    assert_eq!(words, [WORDS]);
    agent.stop().await;
}
