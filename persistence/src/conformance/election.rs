//! Who may act, and in which epoch.

use std::time::Duration;

use tokio::time::timeout;

use super::{Bench, Fixture, Stop, put};
use crate::{epoch::Epoch, error::ElectionError};

/// Within this time a thing that must happen has happened.
const SOON: Duration = Duration::from_secs(10);

/// Promise: at most one leadership in one epoch.
pub async fn epochs_rise_with_every_leadership<F: Fixture>() {
    let bench = Bench::<F>::new().await;
    let mut last = Epoch::ZERO;
    for _ in 0..4 {
        let led = bench.lead().await;
        assert!(
            led.epoch() > last,
            "epoch {} came after {last}",
            led.epoch()
        );
        last = led.epoch();
        led.backend.election.resign().await;
    }
}

/// Promise: epochs never go down, whatever ends the masters.
pub async fn epochs_rise_across_restarts<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let mut last = Epoch::ZERO;
    for how in [Stop::Clean, Stop::Crash, Stop::Clean] {
        let led = bench.lead().await;
        assert!(
            led.epoch() > last,
            "epoch {} came after {last}",
            led.epoch()
        );
        last = led.epoch();
        drop(led);
        bench.restart(how).await;
    }
    assert!(bench.lead().await.epoch() > last);
}

/// Promise: who has resigned leads no longer, and knows it.
pub async fn resigning_ends_leadership<F: Fixture>() {
    let bench = Bench::<F>::new().await;
    let led = bench.lead().await;
    led.backend.election.resign().await;
    let told = timeout(SOON, led.leadership.lost.cancelled()).await;
    assert!(told.is_ok(), "`lost` is cancelled when leadership ends");
    let next = bench.lead().await;
    assert!(
        next.epoch() > led.epoch(),
        "the next leadership has a larger epoch"
    );
    // Twice, and without leadership, it is harmless.
    led.backend.election.resign().await;
}

/// Promise: hints name the leader and how to reach it.
pub async fn observers_see_the_leader<F: Fixture>() {
    let bench = Bench::<F>::new().await;
    let led = bench.lead().await;
    let (me, mut view) = (bench.fixture.me(led.n), led.backend.election.observe());
    let seen = view.wait_for(|view| view.leader.as_ref() == Some(&me) || view.epoch > led.epoch());
    let seen = timeout(SOON, seen)
        .await
        .expect("observers see the leader in time");
    let seen = seen.expect("the view outlives its backend").clone();
    assert!(seen.epoch >= led.epoch(), "the view has the leader's epoch");
    assert_eq!(
        seen.masters.len(),
        bench.fixture.masters(),
        "the view has all masters"
    );
    assert!(
        seen.masters.is_sorted_by(|a, b| a.id < b.id),
        "masters are ordered by id"
    );
}

/// Promise: a campaign that nobody waits for withdraws, or leaves a leadership that the next campaign finds.
pub async fn a_dropped_campaign_does_not_win_in_secret<F: Fixture>() {
    let bench = Bench::<F>::new().await;
    for n in 0..bench.fixture.masters() {
        let backend = bench.fixture.backend(n).expect("all masters run");
        let me = bench.fixture.me(n);
        for patience in [0, 1, 5] {
            let campaign = backend.election.campaign(&me);
            drop(timeout(Duration::from_millis(patience), campaign).await);
        }
    }
    let led = bench.lead().await;
    let stored = led.commit(vec![put("a", "1")]).await;
    if let Err(error) = stored {
        assert!(
            bench.lead().await.epoch() > led.epoch(),
            "a leader can write: {error}"
        );
    }
}

/// Promise: a closed backend says so, and its leadership is over.
pub async fn a_closed_backend_does_not_campaign<F: Fixture>() {
    let bench = Bench::<F>::new().await;
    let led = bench.lead().await;
    led.backend.admin.shutdown().await;
    let told = timeout(SOON, led.leadership.lost.cancelled()).await;
    assert!(told.is_ok(), "`lost` is cancelled when the backend closes");
    let me = bench.fixture.me(led.n);
    let campaign = timeout(SOON, led.backend.election.campaign(&me)).await;
    let outcome = campaign.expect("a campaign of a closed backend ends");
    assert!(matches!(outcome, Err(ElectionError::Closed)), "{outcome:?}");
    let late = led.commit(vec![put("late", "1")]).await;
    assert!(late.is_err(), "a closed backend stores nothing");
}
