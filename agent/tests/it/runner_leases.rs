//! Leases of real processes: the supervisor ends its tree by its own clock.

use std::time::Duration;

use interrex_agent::process::{
    EndCause, Launch, Lease, ProcessEvent, ProcessRunner, WorkKey, proc,
};
use interrex_proto::v1::Exit;
use nix::{
    sys::signal::{Signal, kill},
    time::{ClockId, clock_gettime},
    unistd::Pid,
};

use crate::{
    runner::under_a_holder_for,
    support::{Bench, alive, eventually, launch, pid_in, sh},
};

const GRACE: Duration = Duration::from_millis(200);

fn lease_for(left: Duration) -> Lease {
    let now = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap());
    Lease::new(now + left, GRACE)
}

fn leased(script: &str, lease: Lease) -> Launch {
    Launch {
        lease: Some(lease),
        ..launch(WorkKey::driver("d1", 1), sh(script))
    }
}

fn over(exit: Option<Exit>) -> ProcessEvent {
    ProcessEvent::Ended {
        key: WorkKey::driver("d1", 1),
        exit,
        cause: EndCause::LeaseOver,
    }
}

fn signal(signal: Signal) -> Option<Exit> {
    Some(Exit {
        code: None,
        signal: Some(signal as i32),
    })
}

#[tokio::test]
async fn a_tree_whose_lease_is_not_renewed_ends_though_its_agent_does_nothing() {
    let script = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ >daemon; sleep 1000' & \
                  echo $$ >main; while :; do sleep 0.05; done";
    // The holder of its pipe lives on and says nothing. The grace of an agent that is gone does not matter here.
    let lease = lease_for(Duration::from_millis(1_500));
    let mut orphans = under_a_holder_for(script, 600_000, Some(lease));
    let main = pid_in(&orphans.bench.path("d1/main")).await;
    let daemon = pid_in(&orphans.bench.path("d1/daemon")).await;
    eventually("the end of the tree", || {
        (!alive(main) && !alive(daemon)).then_some(())
    })
    .await;
    // The next life tells it truly.
    orphans.kill_holder();
    assert_eq!(orphans.next_life().await, over(signal(Signal::SIGKILL)));
}

#[tokio::test]
async fn a_lease_bounds_the_grace_of_an_agent_that_is_gone() {
    let script = "trap '' TERM; echo $$ >main; while :; do sleep 0.05; done";
    let lease = lease_for(Duration::from_millis(1_500));
    let mut orphans = under_a_holder_for(script, 600_000, Some(lease));
    let main = pid_in(&orphans.bench.path("d1/main")).await;
    orphans.kill_holder();
    eventually("the end", || (!alive(main)).then_some(())).await;
}

#[tokio::test]
async fn a_renewed_lease_goes_on_and_one_without_renewal_ends() {
    let mut bench = Bench::new();
    bench.runner.start(leased(
        "trap 'exit 3' TERM; while :; do sleep 0.05; done",
        lease_for(Duration::from_millis(1_500)),
    ));
    bench.started().await;
    for _ in 0..10 {
        bench.runner.renew(lease_for(Duration::from_millis(1_500)));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(bench.events.try_recv().is_err(), "it ended while renewed");
    let exit = Exit {
        code: Some(3),
        signal: None,
    };
    assert_eq!(bench.next().await, over(Some(exit)));
}

#[tokio::test]
async fn a_program_whose_lease_is_over_is_not_started() {
    let mut bench = Bench::new();
    bench
        .runner
        .start(leased("touch started", lease_for(Duration::ZERO)));
    let event = bench.next().await;
    assert!(
        matches!(&event, ProcessEvent::NotStarted { message, .. } if message.contains("lease")),
        "{event:?}"
    );
    assert!(!bench.path("d1/started").exists());
}

#[tokio::test]
async fn the_agent_ends_the_tree_of_a_supervisor_that_does_not_see_to_the_lease() {
    let mut bench = Bench::new();
    bench
        .runner
        .start(leased("exec sleep 1000", lease_for(Duration::from_secs(1))));
    let main = bench.started().await;
    let supervisor = proc::stat(main).unwrap().parent;
    kill(Pid::from_raw(supervisor), Signal::SIGSTOP).unwrap();
    assert_eq!(bench.next().await, over(signal(Signal::SIGKILL)));
    assert!(!alive(main) && !alive(supervisor));
}
