//! Planned ends of a leadership: whoever had begun something learns what became of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use interrex_control_plane::{
    app::RunningMaster,
    edge::convert,
    runtime::{MasterHandle, RequestError, Role},
};
use interrex_core::{command::Command, ids::RequestId};
use interrex_persistence::{
    faulty::{Fault, FaultRates, Faults, Op},
    memory::MemoryCluster,
};
use interrex_proto::v1::TransferLeaderRequest;
use tokio::{task::JoinSet, time::timeout};
use tonic::Code;

use crate::support::{
    PATIENCE, client, driver, has_role, leads, start, start_with, submission, submit,
};

/// Clients that submit all the time.
const CLIENTS: u32 = 16;

fn command(request: &str) -> Command {
    let spec = Arc::new(convert::driver_spec(driver("d")).expect("a valid driver"));
    Command::SubmitDriver {
        request: RequestId::new(request),
        fingerprint: convert::driver_fingerprint(&spec),
        spec,
    }
}

/// A leader whose commits take a while, and a standby.
async fn slow_pair(cluster: &MemoryCluster) -> (RunningMaster, RunningMaster) {
    let rates = FaultRates {
        delay: 1.0,
        delay_max: Duration::from_millis(40),
        fence: 0.0,
        reject: 0.0,
        lose_request: 0.0,
        lose_answer: 0.0,
    };
    let first = start_with(cluster, "m1", &Faults::seeded(7, rates));
    leads(&first).await;
    let second = start(cluster, "m2");
    has_role(&second, Role::Standby).await;
    (first, second)
}

/// One client: submits until it is refused. What was accepted, and why it ended.
async fn keep_submitting(
    handle: MasterHandle,
    number: u32,
    answered: Arc<AtomicU32>,
) -> (Vec<String>, RequestError) {
    let mut accepted = Vec::new();
    loop {
        let request = format!("s{number}-{}", accepted.len());
        match handle.submit(command(&request), PATIENCE).await {
            Ok(_reply) => accepted.push(request),
            Err(error) => return (accepted, error),
        }
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs `leave` under load: nobody is left in doubt, and the next leader knows all that was accepted.
async fn leaves_nobody_in_doubt(
    first: &MasterHandle,
    second: &RunningMaster,
    leave: impl Future<Output = ()>,
) {
    let answered = Arc::new(AtomicU32::new(0));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(keep_submitting(
            first.clone(),
            number,
            Arc::clone(&answered),
        ));
    }
    let busy = async {
        while answered.load(Ordering::Relaxed) < 4 * CLIENTS {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, busy).await.expect("load in time");
    leave.await;
    let view = leads(second).await;
    let clients = timeout(PATIENCE, clients.join_all()).await;
    for (accepted, error) in clients.expect("every client is answered") {
        assert!(!error.outcome_unknown(), "{error:?}");
        for request in accepted {
            let known = view.created_by(&RequestId::new(&request));
            assert!(known.is_some(), "{request} was accepted and is lost");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_finishes_what_is_under_way_and_leaves_nobody_in_doubt() {
    let cluster = MemoryCluster::new();
    let (first, second) = slow_pair(&cluster).await;
    let mut operator = client(&first);
    let transfer = async {
        let to = TransferLeaderRequest { to: String::new() };
        let answer = operator.transfer_leader(to).await.expect("transferred");
        let answer = answer.into_inner();
        assert_eq!((answer.leader.as_str(), answer.epoch), ("m2", 2));
    };
    leaves_nobody_in_doubt(&first.handle, &second, transfer).await;
    has_role(&first, Role::Standby).await;
    first.shutdown().await;
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_under_load_leaves_nobody_in_doubt() {
    let cluster = MemoryCluster::new();
    let (first, second) = slow_pair(&cluster).await;
    let handle = first.handle.clone();
    leaves_nobody_in_doubt(&handle, &second, first.shutdown()).await;
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_finds_no_heir_serves_on() {
    let cluster = MemoryCluster::new();
    let master = start(&cluster, "m1");
    let epoch = leads(&master).await.epoch();
    let mut client = client(&master);
    for to in ["m9", ""] {
        let order = TransferLeaderRequest { to: to.into() };
        let refused = client.transfer_leader(order).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
        submit(&mut client, &format!("after-{to}")).await;
    }
    assert_eq!(master.handle.view().epoch(), epoch);
    master.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_hangs_does_not_keep_a_leader_from_leaving() {
    let cluster = MemoryCluster::new();
    let faults = Faults::calm();
    let first = start_with(&cluster, "m1", &faults);
    leads(&first).await;
    let second = start(&cluster, "m2");
    has_role(&second, Role::Standby).await;
    let hang = Fault::Delay(Duration::from_secs(60));
    faults.next(Op::Commit, hang);
    let mut caller = client(&first);
    let stuck = tokio::spawn(async move { caller.submit(submission("s1")).await });
    let order = TransferLeaderRequest { to: "m2".into() };
    let began = tokio::time::Instant::now();
    while faults.injected() == 0 {
        tokio::task::yield_now().await;
    }
    let answer = client(&first).transfer_leader(order).await;
    assert_eq!(answer.expect("transferred").into_inner().leader, "m2");
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    // Perhaps stored: the caller is told so, and asks again.
    assert!(stuck.await.expect("answered").is_err());
    leads(&second).await;
    submit(&mut client(&second), "s1").await;
    first.shutdown().await;
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_has_no_leadership_to_hand_over() {
    let cluster = MemoryCluster::new();
    let first = start(&cluster, "m1");
    leads(&first).await;
    let second = start(&cluster, "m2");
    has_role(&second, Role::Standby).await;
    let order = TransferLeaderRequest { to: "m2".into() };
    let refused = client(&second).transfer_leader(order).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    first.shutdown().await;
    second.shutdown().await;
}
