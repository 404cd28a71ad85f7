//! *Fenced*: once an epoch is open, nothing of a smaller one is ever stored.

use futures::future::join_all;

use super::{Bench, Fixture, Led, Stop, put};
use crate::{epoch::Epoch, error::CommitError, record::CommitBatch};

/// A leadership that is over, and the one after it.
async fn old_and_new<F: Fixture>(bench: &mut Bench<F>) -> (Led, Led) {
    let mut old = bench.lead().await;
    bench.commit(&mut old, vec![put("before", "1")]).await;
    old.backend.election.resign().await;
    let new = bench.lead().await;
    assert!(
        new.epoch() > old.epoch(),
        "epochs rise with every leadership"
    );
    (old, new)
}

async fn refused_everywhere<F: Fixture>(bench: &Bench<F>, epoch: Epoch, what: &str) {
    for n in 0..bench.fixture.masters() {
        let Some(backend) = bench.fixture.backend(n) else {
            continue;
        };
        let batch = CommitBatch {
            epoch,
            mutations: vec![put(what, "x")],
        };
        let outcome = backend.engine.commit(batch).await;
        assert!(
            outcome.is_err(),
            "fenced: master {n} stored a batch of {what} epoch {epoch}"
        );
    }
}

/// Promise: fenced.
pub async fn a_batch_of_a_fenced_epoch_is_never_stored<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let (old, new) = old_and_new(&mut bench).await;
    let batch = CommitBatch {
        epoch: old.epoch(),
        mutations: vec![put("fenced", "x")],
    };
    match new.backend.engine.commit(batch).await {
        Err(CommitError::Fenced { current }) => {
            assert!(
                current >= new.epoch(),
                "fenced names the open epoch, at least"
            );
        }
        Err(CommitError::Indeterminate(_)) => {}
        other => panic!("fenced: a batch of a fenced epoch got {other:?}"),
    }
    refused_everywhere(&bench, old.epoch(), "fenced").await;
    bench.expect_kept(
        &bench.lead().await.recovered,
        "fenced: nothing of a fenced epoch is stored",
    );
}

/// Promise: who has not read the records does not change them.
pub async fn a_batch_of_an_epoch_that_was_not_opened_is_refused<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let mut led = bench.lead().await;
    bench.commit(&mut led, vec![put("before", "1")]).await;
    refused_everywhere(&bench, Epoch(led.epoch().0 + 1000), "unopened").await;
    refused_everywhere(&bench, Epoch::ZERO, "unopened").await;
    bench.expect_kept(
        &bench.lead().await.recovered,
        "nothing of an unopened epoch is stored",
    );
}

/// Promise: fenced.
pub async fn a_smaller_epoch_cannot_be_opened<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let (old, mut new) = old_and_new(&mut bench).await;
    for backend in [&old.backend, &new.backend] {
        let outcome = backend.engine.open_epoch(old.epoch()).await;
        assert!(
            outcome.is_err(),
            "fenced: epoch {} was opened again",
            old.epoch()
        );
    }
    bench.commit(&mut new, vec![put("after", "1")]).await;
    bench.expect_kept(&bench.lead().await.recovered, "the attempt changed nothing");
}

/// Promise: the same leader may open its epoch again, and reads what it has committed.
pub async fn the_open_epoch_can_be_opened_again<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let mut led = bench.lead().await;
    bench.commit(&mut led, vec![put("a", "1")]).await;
    match led.backend.engine.open_epoch(led.epoch()).await {
        Ok(recovered) => bench.expect_kept(&recovered, "an epoch that is opened again"),
        // Leadership may end at any time; then the contract owes nothing but honesty.
        Err(error) => assert!(bench.lead().await.epoch() > led.epoch(), "{error}"),
    }
}

/// Promise: a confirmed epoch is the newest, and a leader that has just committed is confirmed.
pub async fn a_fenced_epoch_is_not_confirmed<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let (old, new) = old_and_new(&mut bench).await;
    for backend in [&old.backend, &new.backend] {
        let outcome = backend.engine.confirm(old.epoch()).await;
        assert!(
            outcome.is_err(),
            "linearizable reads: fenced epoch {} was confirmed",
            old.epoch()
        );
    }
    let confirmed = new.backend.engine.confirm(new.epoch()).await;
    if let Err(error) = confirmed {
        assert!(
            bench.lead().await.epoch() > new.epoch(),
            "a leader in force: {error}"
        );
    }
}

/// Promise: the fence is as durable as records are.
pub async fn the_fence_survives_a_crash<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let (old, new) = old_and_new(&mut bench).await;
    bench.restart(Stop::Crash).await;
    refused_everywhere(&bench, old.epoch(), "fenced").await;
    let led = bench.lead().await;
    assert!(led.epoch() > new.epoch(), "epochs rise across a crash");
    refused_everywhere(&bench, new.epoch(), "fenced").await;
    bench.expect_kept(&bench.lead().await.recovered, "the fence survives a crash");
}

/// Promise: what `open_epoch` returns has all of the old epoch that is ever stored.
pub async fn an_old_leader_that_races_with_a_new_one_stores_nothing_unseen<F: Fixture>() {
    let bench = Bench::<F>::new().await;
    for round in 0..5 {
        let old = bench.lead().await;
        let race = async {
            old.backend.election.resign().await;
            bench.lead().await
        };
        let commits = (0..100).map(|i| {
            let id = format!("{round}-{i:03}");
            let old = &old;
            async move {
                tokio::task::yield_now().await;
                old.commit(vec![put(&id, "1")]).await.is_ok().then_some(id)
            }
        });
        let (new, acknowledged) = tokio::join!(race, join_all(commits));
        let seen: Vec<&str> = new
            .recovered
            .records
            .iter()
            .map(|(key, _)| &*key.id)
            .collect();
        for id in acknowledged.iter().flatten() {
            assert!(
                seen.contains(&id.as_str()),
                "fenced: {id} was acknowledged but not seen"
            );
        }
        let late = old.commit(vec![put("late", "1")]).await;
        assert!(
            late.is_err(),
            "fenced: the old leader was acknowledged after the new one opened"
        );
        let again = bench.lead().await.recovered;
        assert_eq!(
            again, new.recovered,
            "fenced: records of the old epoch appeared later"
        );
    }
}
