//! *Durable on return*, and *atomic*, whatever ends the masters.

use super::{Bench, Fixture, Stop, delete, put};
use crate::record::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

const BATCHES: u32 = 20;

/// Promise: durable on return.
pub async fn acknowledged_batches_survive_a_clean_restart<F: Fixture>() {
    survive::<F>(Stop::Clean).await;
}

/// Promise: durable on return.
pub async fn acknowledged_batches_survive_a_crash<F: Fixture>() {
    survive::<F>(Stop::Crash).await;
}

/// Promise: durable on return; a torn last write costs nothing that was acknowledged.
pub async fn acknowledged_batches_survive_a_torn_tail<F: Fixture>() {
    survive::<F>(Stop::TornTail).await;
}

async fn survive<F: Fixture>(how: Stop) {
    let mut bench = Bench::<F>::new().await;
    for round in 0..3 {
        let mut led = bench.lead().await;
        bench.expect_kept(
            &led.recovered,
            &format!("durable on return, {how:?} {round}"),
        );
        for batch in 0..BATCHES {
            let id = format!("{round}-{batch}");
            bench
                .commit(
                    &mut led,
                    vec![put(&id, id.clone()), put("newest", id.clone())],
                )
                .await;
        }
        bench.restart(how).await;
    }
    let led = bench.lead().await;
    bench.expect_kept(
        &led.recovered,
        &format!("durable on return, {how:?} at the end"),
    );
}

/// Promise: what is within the limits is stored.
pub async fn records_of_the_largest_size_survive<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let mut led = bench.lead().await;
    let id = "k".repeat(KEY_BYTES_MAX);
    let large: Vec<u8> = (0..VALUE_BYTES_MAX).map(|i| (i % 251) as u8).collect();
    bench
        .commit(&mut led, vec![put(&id, large.clone()), put("empty", "")])
        .await;
    bench
        .commit(
            &mut led,
            (0..3)
                .map(|i| put(&format!("large-{i}"), large.clone()))
                .collect(),
        )
        .await;
    bench
        .commit(
            &mut led,
            vec![put("large-1", "small now"), delete("large-2")],
        )
        .await;
    bench.restart(Stop::Crash).await;
    bench.expect_kept(
        &bench.lead().await.recovered,
        "values up to the limit are stored",
    );
}

/// Promise: the newest value counts; what was deleted stays so.
pub async fn overwrites_and_deletes_survive<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let mut led = bench.lead().await;
    bench
        .commit(&mut led, vec![put("a", "1"), put("b", "1"), put("c", "1")])
        .await;
    bench
        .commit(
            &mut led,
            vec![put("a", "2"), delete("b"), delete("never was")],
        )
        .await;
    bench
        .commit(
            &mut led,
            vec![
                put("c", "2"),
                delete("c"),
                put("b", "3"),
                delete("b"),
                put("b", "4"),
            ],
        )
        .await;
    bench.restart(Stop::Crash).await;
    bench.expect_kept(
        &bench.lead().await.recovered,
        "mutations are applied in order",
    );
}
