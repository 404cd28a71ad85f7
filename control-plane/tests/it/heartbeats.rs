//! What a heartbeat's acknowledgement promises: this master led after it had heard it.

use interrex_persistence::{
    faulty::{Fault, Faults, Op},
    memory::MemoryCluster,
};
use interrex_proto::v1::{Heartbeat, master_frame, peer_frame::Body};

use crate::support::{Peer, client, leads, sees, start, start_with, status, submit};

fn heartbeat(sequence: u64) -> Body {
    Body::Heartbeat(Heartbeat {
        sequence,
        ..Heartbeat::default()
    })
}

async fn acknowledged(agent: &mut Peer) -> u64 {
    agent
        .wait("an acknowledgement", |_, body| match body {
            master_frame::Body::HeartbeatAck(ack) => Some(ack.sequence),
            _ => None,
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_is_acknowledged_by_its_number_and_the_lease_is_told_at_registration() {
    let master = start(&MemoryCluster::new(), "m1");
    leads(&master).await;
    let (mut agent, registered) = Peer::agent(&master, "w1").await;
    // Half of the worker timeout of 20 s.
    assert_eq!(registered.at_most_once_lease_ms, 10_000);
    agent.say(heartbeat(7)).await;
    assert_eq!(acknowledged(&mut agent).await, 7);
    agent.say(heartbeat(8)).await;
    assert_eq!(acknowledged(&mut agent).await, 8);
    master.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_cannot_prove_that_it_leads_acknowledges_nothing() {
    let faults = Faults::calm();
    let master = start_with(&MemoryCluster::new(), "m1", &faults);
    leads(&master).await;
    let (mut agent, _) = Peer::agent(&master, "w1").await;
    faults.next(Op::Confirm, Fault::LoseAnswer);
    agent.say(heartbeat(1)).await;
    // The next one is told apart by its number: the first never comes.
    let proven = async {
        while faults.injected() == 0 {
            tokio::task::yield_now().await;
        }
    };
    proven.await;
    agent.say(heartbeat(2)).await;
    assert_eq!(acknowledged(&mut agent).await, 2);
    master.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_digest_stays_different_is_asked_for_its_full_report() {
    let master = start(&MemoryCluster::new(), "m1");
    leads(&master).await;
    let (mut agent, _) = Peer::agent(&master, "w1").await;
    let mut asked = None;
    for sequence in 1..100 {
        let orphan = Heartbeat {
            digest: 5,
            sequence,
            ..Heartbeat::default()
        };
        agent.say(Body::Heartbeat(orphan)).await;
        // Each is seen by itself: the acknowledgement comes after it, at the latest with the next tick.
        asked = agent
            .wait("an answer", |_, body| match body {
                master_frame::Body::HeartbeatAck(_) => Some(None),
                master_frame::Body::Reregister(asked) => Some(Some(asked.reason)),
                _ => None,
            })
            .await;
        if asked.is_some() {
            break;
        }
    }
    let reason = asked.expect("it is asked");
    assert!(reason.contains("not what is recorded"), "{reason}");
    master.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_wants_no_work_says_why_and_gets_it_when_it_is_welcome_again() {
    let master = start(&MemoryCluster::new(), "m1");
    leads(&master).await;
    let (mut agent, _) = Peer::agent(&master, "w1").await;
    let say = |why: &str| {
        Body::Heartbeat(Heartbeat {
            not_accepting: why.to_owned(),
            ..Heartbeat::default()
        })
    };
    agent.say(say("disk full")).await;
    sees(&master.handle, "it wants no work", |view| {
        view.worker(&"w1".into())
            .is_some_and(|w1| w1.not_accepting == "disk full")
    })
    .await;
    let mut client = client(&master);
    submit(&mut client, "s1").await;
    let waits = status(&mut client, "s1").await.unwrap().driver.unwrap();
    assert_eq!(waits.state, "SUBMITTED");
    assert!(waits.message.contains("no new work"), "{}", waits.message);
    agent.say(say("")).await;
    agent.launch().await;
    master.shutdown().await;
}
