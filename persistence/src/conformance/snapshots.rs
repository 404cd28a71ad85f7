//! Space follows the records, not their history.

use super::{Bench, Fixture, Stop, put};

/// Overwrites of the check, each of [`BATCH_RECORDS`] records.
const BATCHES: usize = 96;
const BATCH_RECORDS: usize = 64;
const VALUE_BYTES: usize = 16 << 10;
/// Bytes of values that the check writes, for each copy of the store: 96 MiB, of which 1 MiB is left.
pub const SNAPSHOT_BYTES_WRITTEN: u64 = (BATCHES * BATCH_RECORDS * VALUE_BYTES) as u64;

/// Promise: a store that is overwritten for ever does not grow for ever, and opens with the last values.
pub async fn many_overwrites_need_bounded_space_and_keep_the_last_values<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let mut led = bench.lead().await;
    for batch in 0..BATCHES {
        let value = |i: usize| -> Vec<u8> { vec![(batch + i) as u8; VALUE_BYTES] };
        let mutations = (0..BATCH_RECORDS)
            .map(|i| put(&format!("record-{i}"), value(i)))
            .collect();
        bench.commit(&mut led, mutations).await;
    }
    bench.fixture.compact().await;
    if let Some((found, bound)) = bench.fixture.disk() {
        assert!(
            found <= bound,
            "space: {found} bytes on disk, at most {bound} are allowed"
        );
    }
    bench.restart(Stop::Crash).await;
    let mut led = bench.lead().await;
    bench.expect_kept(&led.recovered, "the last values are kept, after a crash");
    bench.commit(&mut led, vec![put("after", "1")]).await;
    bench.restart(Stop::Clean).await;
    bench.expect_kept(&bench.lead().await.recovered, "the last values are kept");
}
