//! Submissions: acknowledged once, whatever is repeated.

use interrex_persistence::{
    faulty::{Fault, Faults, Op},
    memory::MemoryCluster,
};
use interrex_proto::v1;
use tonic::Code;

use crate::support::{client, driver, leads, start, start_with, status, submission, submit};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_submission_gets_the_same_driver_and_another_body_a_conflict() {
    let master = start(&MemoryCluster::new(), "m1");
    leads(&master).await;
    let mut client = client(&master);
    let first = client.submit(submission("s1")).await.unwrap().into_inner();
    assert!(!first.replayed);
    let again = client.submit(submission("s1")).await.unwrap().into_inner();
    assert!(again.replayed);
    assert_eq!(again.driver.unwrap().id, first.driver.clone().unwrap().id);

    let other = v1::SubmitRequest {
        request_id: "s1".into(),
        spec: Some(driver("another driver")),
    };
    let conflict = client.submit(other).await.unwrap_err();
    assert_eq!(conflict.code(), Code::AlreadyExists, "{conflict:?}");
    let found = status(&mut client, "s1").await.unwrap().driver.unwrap();
    assert_eq!(
        found.id,
        first.driver.unwrap().id,
        "a submission id finds its driver"
    );
    assert_eq!(
        status(&mut client, "nothing").await.unwrap_err().code(),
        Code::NotFound
    );
    master.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_without_an_answer_is_unknown_and_its_retry_finds_the_driver() {
    let faults = Faults::calm();
    let master = start_with(&MemoryCluster::new(), "m1", &faults);
    let before = leads(&master).await.epoch();
    let mut client = client(&master);
    faults.next(Op::Commit, Fault::LoseAnswer);
    let unknown = client.submit(submission("s1")).await.unwrap_err();
    assert_eq!(unknown.code(), Code::Unknown, "{unknown:?}");
    assert_eq!(faults.injected(), 1);

    // The master has stepped down in place and leads again, in a larger epoch.
    let view = crate::support::sees(&master.handle, "a larger epoch", |view| {
        view.epoch() > before
    });
    let stored = view.await.created_by(&"s1".into()).cloned();
    let retry = client.submit(submission("s1")).await.unwrap().into_inner();
    assert!(retry.replayed, "it had been stored");
    let found = format!("{stored:?}");
    assert!(found.contains(&retry.driver.unwrap().id), "{found}");
    master.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_was_lost_or_refused_can_be_repeated_as_new() {
    for (fault, code) in [
        (Fault::LoseRequest, Code::Unknown),
        (Fault::Reject, Code::Unavailable),
    ] {
        let faults = Faults::calm();
        let master = start_with(&MemoryCluster::new(), "m1", &faults);
        let before = leads(&master).await.epoch();
        let mut client = client(&master);
        faults.next(Op::Commit, fault);
        let refused = client.submit(submission("s1")).await.unwrap_err();
        assert_eq!(refused.code(), code, "{refused:?}");
        crate::support::sees(&master.handle, "a larger epoch", |view| {
            view.epoch() > before
        })
        .await;
        let retry = client.submit(submission("s1")).await.unwrap().into_inner();
        assert!(!retry.replayed, "it had not been stored");
        master.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_share_commits_and_nothing_is_lost() {
    const CLIENTS: usize = 32;
    const EACH: usize = 20;
    let master = start(&MemoryCluster::new(), "m1");
    leads(&master).await;
    let clients = (0..CLIENTS).map(|n| {
        let mut client = client(&master);
        tokio::spawn(async move {
            for k in 0..EACH {
                submit(&mut client, &format!("s-{n}-{k}")).await;
            }
        })
    });
    futures::future::try_join_all(clients).await.unwrap();
    assert_eq!(master.handle.view().drivers().count(), CLIENTS * EACH);
    master.shutdown().await;
}
