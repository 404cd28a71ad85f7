//! What moving a cluster from one store to another needs: a cut of the records, and epochs above a floor.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use super::{Bench, Fixture, Stop, delete, key, put};
use crate::{
    backend::{Backend, EPOCH_FLOOR_MAX, Freshness, StoreSnapshot},
    epoch::Epoch,
    error::AdminError,
};

const SOON: Duration = Duration::from_secs(20);
const RETRY: Duration = Duration::from_millis(50);
/// How far above the present epoch the floor is.
const AHEAD: u64 = 1_000_000;

/// Promise: from the next leadership on epochs are larger than the floor, whatever ends the masters.
pub async fn epochs_after_a_raised_floor_are_larger_for_ever<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let mut led = bench.lead().await;
    bench.commit(&mut led, vec![put("before", "1")]).await;
    let floor = Epoch(led.epoch().0 + AHEAD);
    raise(&mut bench, floor).await;
    let mut led = lead_anew(&bench).await;
    assert!(led.epoch() > floor, "{} is not above {floor}", led.epoch());
    bench.commit(&mut led, vec![put("after", "1")]).await;
    let mut last = led.epoch();
    for how in [Stop::Crash, Stop::Clean] {
        bench.restart(how).await;
        let mut led = bench.lead().await;
        assert!(led.epoch() > last, "{} came after {last}", led.epoch());
        bench.expect_kept(&led.recovered, "a floor changes no record");
        last = led.epoch();
        bench.commit(&mut led, vec![put("later", "1")]).await;
    }
    // Again, and lower: reached already.
    raise(&mut bench, floor).await;
    raise(&mut bench, Epoch(1)).await;
    assert!(lead_anew(&bench).await.epoch() > last, "epochs rise");
}

/// Promise: a leader goes on in its own epoch when it has raised those of its successors.
pub async fn a_leader_that_raises_the_floor_can_still_write<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let mut led = bench.lead().await;
    let first = led.epoch();
    let floor = Epoch(first.0 + AHEAD);
    let raised = led.backend.admin.raise_epoch(floor).await;
    bench.commit(&mut led, vec![put("a", "1")]).await;
    if raised.is_ok() {
        let (before, after) = (first, led.epoch());
        assert!(
            before == after || after > floor,
            "{after} is neither the epoch that it had, {before}, nor above {floor}"
        );
    }
    bench.expect_kept(&bench.lead().await.recovered, "durable on return");
}

/// Promise: epochs that would run out are refused, and nothing has changed.
pub async fn a_floor_that_is_too_large_is_refused<F: Fixture>() {
    let bench = Bench::<F>::new().await;
    let led = bench.lead().await;
    let refused = led
        .backend
        .admin
        .raise_epoch(Epoch(EPOCH_FLOOR_MAX.0 + 1))
        .await;
    assert!(
        matches!(refused, Err(AdminError::Refused(_))),
        "{refused:?}"
    );
    assert!(lead_anew(&bench).await.epoch() < EPOCH_FLOOR_MAX);
}

/// Promise: a cut has all that was acknowledged before, from any master, and nothing else.
pub async fn a_cut_from_any_master_has_all_that_was_acknowledged<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let mut led = bench.lead().await;
    for i in 0..20 {
        let mutations = vec![put(&format!("r{i}"), vec![7; i]), put("gone", "1")];
        bench.commit(&mut led, mutations).await;
    }
    let seq = bench.commit(&mut led, vec![delete("gone")]).await;
    for n in 0..bench.fixture.masters() {
        let backend = bench.fixture.backend(n).expect("all masters run");
        let cut = cut(&backend).await;
        assert!(cut.store.seq() >= seq, "the newest batch is in it");
        assert!(cut.store.opened() >= led.epoch(), "with the open epoch");
        bench.expect_kept(&cut.store.recovered(), "a cut is complete");
        // What is stored later does not change it.
        bench.commit(&mut led, vec![put("r0", "later")]).await;
        assert_eq!(cut.store.get(&key("r0")), Some(&expected(n)));
        assert_eq!(cut.cluster_id, backend.admin.cluster_id());
    }
}

fn expected(n: usize) -> Bytes {
    if n == 0 {
        Bytes::new()
    } else {
        Bytes::from("later")
    }
}

/// The floor, with a new leadership where the old one ended.
async fn raise<F: Fixture>(bench: &mut Bench<F>, floor: Epoch) {
    let deadline = Instant::now() + SOON;
    loop {
        let led = bench.lead().await;
        match led.backend.admin.raise_epoch(floor).await {
            Ok(()) => return,
            Err(error) => assert!(Instant::now() < deadline, "liveness: not raised: {error}"),
        }
        sleep(RETRY).await;
    }
}

async fn lead_anew<F: Fixture>(bench: &Bench<F>) -> super::Led {
    bench.lead().await.backend.election.resign().await;
    bench.lead().await
}

async fn cut(backend: &Backend) -> StoreSnapshot {
    let deadline = Instant::now() + SOON;
    loop {
        match backend.admin.snapshot(Freshness::Confirmed).await {
            Ok(cut) => return cut,
            Err(error) => assert!(Instant::now() < deadline, "liveness: no cut: {error}"),
        }
        sleep(RETRY).await;
    }
}
