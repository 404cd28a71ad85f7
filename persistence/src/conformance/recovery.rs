//! What a new leader reads, and what the store refuses.

use futures::future::join_all;

use super::{Bench, Fixture, Stop, put};
use crate::{
    error::{CommitError, OpenError},
    record::{
        BATCH_MUTATIONS_MAX, KEY_BYTES_MAX, Mutation, RecordKey, RecordKind, VALUE_BYTES_MAX,
    },
};

/// Promise: a store begins empty.
pub async fn a_fresh_store_is_empty<F: Fixture>() {
    let bench = Bench::<F>::new().await;
    bench.expect_kept(&bench.lead().await.recovered, "a fresh store is empty");
}

/// Promise: all records, ordered by kind, then id, byte for byte.
pub async fn records_come_back_ordered_and_exact<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let mut led = bench.lead().await;
    let ids = [
        "",
        "a",
        "b/1",
        "b\0nul",
        "ä-ö",
        "a\u{10ffff}",
        "zz",
        "a/",
        "B",
    ];
    let kinds = [255, 0, 7, 1];
    let all = kinds.into_iter().flat_map(|kind| ids.map(|id| (kind, id)));
    let mutations: Vec<_> = all
        .map(|(kind, id)| Mutation::Put {
            key: RecordKey {
                kind: RecordKind(kind),
                id: id.into(),
            },
            value: vec![kind; usize::from(kind) * 3].into(),
        })
        .collect();
    bench.commit(&mut led, mutations).await;
    bench.restart(Stop::Clean).await;
    let recovered = bench.lead().await.recovered;
    assert!(
        recovered.records.is_sorted_by(|a, b| a.0 < b.0),
        "records are ordered by key"
    );
    bench.expect_kept(&recovered, "records come back byte for byte");
}

/// Promise: *honest*: `Rejected` means not written, and the leader goes on.
pub async fn a_batch_over_a_limit_is_rejected_and_disturbs_nothing<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let mut led = bench.lead().await;
    bench.commit(&mut led, vec![put("before", "1")]).await;
    let large = || vec![1; VALUE_BYTES_MAX];
    let too_much = [
        ("a value", vec![put("over", vec![1; VALUE_BYTES_MAX + 1])]),
        ("a key", vec![put(&"k".repeat(KEY_BYTES_MAX + 1), "1")]),
        (
            "bytes",
            (0..5).map(|i| put(&format!("over-{i}"), large())).collect(),
        ),
        (
            "mutations",
            (0..=BATCH_MUTATIONS_MAX)
                .map(|i| put(&format!("over-{i}"), ""))
                .collect(),
        ),
    ];
    for (what, mutations) in too_much {
        let outcome = led.commit(mutations).await;
        assert!(
            matches!(outcome, Err(CommitError::Rejected(_))),
            "{what} over the limit: {outcome:?}"
        );
    }
    bench.commit(&mut led, vec![put("after", "1")]).await;
    bench.restart(Stop::Clean).await;
    bench.expect_kept(
        &bench.lead().await.recovered,
        "honest: a rejected batch is not written",
    );
}

/// Promise: an empty batch is acknowledged in the open epoch only.
pub async fn an_empty_batch_proves_the_epoch<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let mut led = bench.lead().await;
    let first = bench.commit(&mut led, vec![]).await;
    let second = bench.commit(&mut led, vec![]).await;
    assert!(second > first, "every batch has its place");
    led.backend.election.resign().await;
    let next = bench.lead().await;
    assert!(
        led.commit(vec![]).await.is_err(),
        "fenced: an empty batch of an old epoch"
    );
    bench.expect_kept(&next.recovered, "an empty batch changes nothing");
}

/// Promise: *ordered*, with many commits under way.
pub async fn batches_are_numbered_in_the_order_of_their_commits<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let led = bench.lead().await;
    let commits = (0..64).map(|i| led.commit(vec![put("newest", format!("{i}"))]));
    let outcomes = join_all(commits).await;
    let stored: Vec<_> = outcomes
        .iter()
        .map_while(|outcome| outcome.as_ref().ok())
        .collect();
    assert!(stored.is_sorted_by(|a, b| a < b), "ordered: {stored:?}");
    if stored.len() == outcomes.len() {
        bench.remember(&[put("newest", "63")]);
        led.backend.election.resign().await;
        bench.expect_kept(
            &bench.lead().await.recovered,
            "ordered: the last commit counts",
        );
    } else {
        assert!(
            bench.lead().await.epoch() > led.epoch(),
            "a leader in force: {outcomes:?}"
        );
    }
}

/// Promise: two processes never share a data directory; the refusal says who has it.
pub async fn an_open_data_directory_is_in_use<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    if let Some(error) = bench.fixture.open_twice(0).await {
        assert!(matches!(error, OpenError::InUse { .. }), "{error}");
        let owner = format!("in use by pid {}", std::process::id());
        assert!(error.to_string().contains(&owner), "{error}");
    }
    let mut led = bench.lead().await;
    bench.commit(&mut led, vec![put("a", "1")]).await;
}
