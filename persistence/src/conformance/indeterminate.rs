//! Outcomes that nobody knows: the batch is there whole, or not at all, and the next leader knows which.

use std::time::Duration;

use futures::FutureExt;

use super::{Bench, Fixture, Led, Stop, put};
use crate::{
    error::CommitError,
    faulty::{Fault, FaultRates, Faults, Op},
    record::{CommitBatch, Mutation, Recovered},
};

fn pair(id: &str) -> Vec<Mutation> {
    vec![put(&format!("{id}-a"), "1"), put(&format!("{id}-b"), "1")]
}

fn has(recovered: &Recovered, id: &str) -> bool {
    let has = |half: &str| {
        recovered
            .records
            .iter()
            .any(|(key, _)| *key.id == format!("{id}-{half}"))
    };
    assert_eq!(has("a"), has("b"), "atomic: half of batch {id} is stored");
    has("a")
}

/// Commits through a faulty engine; the leadership may have ended for other reasons, then tries again.
async fn commit_with<F: Fixture>(bench: &Bench<F>, fault: Fault) -> (Led, CommitError) {
    let faults = Faults::calm();
    loop {
        let led = bench.lead().await;
        faults.next(Op::Commit, fault);
        let engine = faults.wrap_engine(led.backend.engine.clone());
        let batch = CommitBatch {
            epoch: led.epoch(),
            mutations: pair("unknown"),
        };
        let error = engine
            .commit(batch)
            .await
            .expect_err("the fault was injected");
        if led.backend.engine.confirm(led.epoch()).await.is_ok() {
            return (led, error);
        }
    }
}

/// Promise: `Indeterminate` may be stored, and then the next leader sees it.
pub async fn a_batch_whose_answer_was_lost_is_stored_whole<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let (led, error) = commit_with(&bench, Fault::LoseAnswer).await;
    assert!(error.maybe_written(), "{error}");
    led.backend.election.resign().await;
    bench.remember(&pair("unknown"));
    bench.expect_kept(&bench.lead().await.recovered, "what the store took is seen");
    bench.restart(Stop::Crash).await;
    bench.expect_kept(&bench.lead().await.recovered, "what was seen once stays");
}

/// Promise: `Indeterminate` may not be stored, and then it never appears.
pub async fn a_batch_whose_request_was_lost_is_not_stored<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let (led, error) = commit_with(&bench, Fault::LoseRequest).await;
    assert!(error.maybe_written(), "{error}");
    led.backend.election.resign().await;
    bench.expect_kept(
        &bench.lead().await.recovered,
        "what never arrived is not stored",
    );
    bench.restart(Stop::Crash).await;
    bench.expect_kept(
        &bench.lead().await.recovered,
        "what was not seen does not appear",
    );
}

/// Promise: dropping the future of `commit` is like `Indeterminate`; what the next leader sees is final.
pub async fn a_dropped_commit_is_stored_whole_or_not_at_all<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let led = bench.lead().await;
    for i in 0..20 {
        let id = format!("{i}");
        let commit = led.commit(pair(&id));
        if i % 2 == 0 {
            // Begun, and dropped at once.
            drop(commit.now_or_never());
        } else {
            drop(tokio::time::timeout(Duration::from_micros(200 * i), commit).await);
        }
    }
    led.backend.election.resign().await;
    let next = bench.lead().await;
    let seen: Vec<bool> = (0..20)
        .map(|i| has(&next.recovered, &format!("{i}")))
        .collect();
    bench.restart(Stop::Crash).await;
    let again = bench.lead().await;
    let still: Vec<bool> = (0..20)
        .map(|i| has(&again.recovered, &format!("{i}")))
        .collect();
    assert_eq!(still, seen, "what the next leader saw is final");
}

/// Promise: *honest*, under any mix of faults: acknowledged is stored, fenced and rejected are not.
pub async fn under_seeded_faults_every_outcome_is_honest<F: Fixture>() {
    let bench = Bench::<F>::new().await;
    let rates = FaultRates {
        delay: 0.1,
        delay_max: Duration::from_millis(2),
        fence: 0.05,
        reject: 0.1,
        lose_request: 0.1,
        lose_answer: 0.1,
    };
    let faults = Faults::seeded(7, rates);
    let (mut acknowledged, mut refused) = (Vec::new(), Vec::new());
    for round in 0..6 {
        let led = bench.lead().await;
        let engine = faults.wrap_engine(led.backend.engine.clone());
        for i in 0..20 {
            let id = format!("{round}-{i}");
            let batch = CommitBatch {
                epoch: led.epoch(),
                mutations: pair(&id),
            };
            match engine.commit(batch).await {
                Ok(_seq) => acknowledged.push(id),
                Err(error) if !error.maybe_written() => refused.push(id),
                // As the contract has it: leadership ends, and the next one reads what happened.
                Err(_unknown) => break,
            }
        }
        led.backend.election.resign().await;
    }
    assert!(faults.injected() > 0 && !acknowledged.is_empty() && !refused.is_empty());
    let recovered = bench.lead().await.recovered;
    for id in &acknowledged {
        assert!(
            has(&recovered, id),
            "durable on return: {id} was acknowledged and is not there"
        );
    }
    for id in &refused {
        assert!(
            !has(&recovered, id),
            "honest: {id} was refused and is there"
        );
    }
}
