//! Several masters on one store. Needs a fixture with at least two, of which one may be down.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use tokio::{sync::Mutex, time::timeout};

use super::{Bench, Fixture, Stop, put};
use crate::epoch::Epoch;

const SOON: Duration = Duration::from_secs(10);

/// Promise: durable on return, whatever dies, as long as a quorum survives.
pub async fn another_master_has_all_that_the_dead_leader_acknowledged<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    for round in 0..3 {
        let mut led = bench.lead().await;
        bench.expect_kept(&led.recovered, "durable on return");
        for i in 0..20 {
            bench
                .commit(&mut led, vec![put(&format!("{round}-{i}"), "1")])
                .await;
        }
        bench.fixture.stop(led.n, Stop::Crash).await;
        let next = bench.lead().await;
        assert_ne!(next.n, led.n, "a dead master does not lead");
        bench.expect_kept(&next.recovered, "durable on return: the leader died");
        bench.fixture.start(led.n).await;
    }
}

/// Promise: fenced, also for a leader that does not know that it was deposed.
pub async fn a_deposed_leader_stores_nothing_more<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let mut old = bench.lead().await;
    bench.commit(&mut old, vec![put("before", "1")]).await;
    if !bench.fixture.depose(old.n).await {
        old.backend.election.resign().await;
    }
    let others: Vec<usize> = (0..bench.fixture.masters())
        .filter(|n| *n != old.n)
        .collect();
    let new = bench.lead_among(&others).await;
    assert!(new.epoch() > old.epoch(), "epochs rise");
    assert!(
        old.commit(vec![put("late", "1")]).await.is_err(),
        "fenced: a deposed leader wrote"
    );
    let confirmed = old.backend.engine.confirm(old.epoch()).await;
    assert!(
        confirmed.is_err(),
        "linearizable reads: a deposed leader was confirmed"
    );
    bench.expect_kept(
        &bench.lead().await.recovered,
        "fenced: a deposed leader stores nothing",
    );
}

/// Promise: at most one master leads in one epoch, whoever campaigns.
pub async fn two_masters_never_lead_in_one_epoch<F: Fixture>() {
    let bench = Bench::<F>::new().await;
    let won: Arc<Mutex<Vec<(Epoch, usize)>>> = Arc::default();
    let campaigns = (0..bench.fixture.masters()).map(|n| {
        let (bench, won) = (&bench, Arc::clone(&won));
        async move {
            let backend = bench.fixture.backend(n).expect("all masters run");
            let me = bench.fixture.me(n);
            for _ in 0..5 {
                let campaign = backend.election.campaign(&me);
                if let Ok(Ok(leadership)) = timeout(SOON, campaign).await {
                    won.lock().await.push((leadership.epoch, n));
                    backend.election.resign().await;
                }
            }
        }
    });
    join_all(campaigns).await;
    let mut won = won.lock().await.clone();
    assert!(!won.is_empty(), "somebody wins");
    won.sort_unstable();
    won.dedup();
    assert!(
        won.windows(2).all(|pair| pair[0].0 < pair[1].0),
        "one leader an epoch: {won:?}"
    );
}

/// Promise: resigning hands leadership to a standby that waits, without an outage.
pub async fn a_standby_takes_over_when_the_leader_resigns<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let mut old = bench.lead().await;
    bench.commit(&mut old, vec![put("before", "1")]).await;
    let others: Vec<usize> = (0..bench.fixture.masters())
        .filter(|n| *n != old.n)
        .collect();
    let (next, ()) = tokio::join!(bench.lead_among(&others), old.backend.election.resign());
    assert!(next.epoch() > old.epoch());
    assert!(
        timeout(SOON, old.leadership.lost.cancelled()).await.is_ok(),
        "the old leader is told"
    );
    bench.expect_kept(&next.recovered, "durable on return: the leader resigned");
}

/// Promise: a master that comes back takes part again, and disturbs nobody.
pub async fn a_crashed_leader_comes_back_as_a_standby<F: Fixture>() {
    let mut bench = Bench::<F>::new().await;
    let mut first = bench.lead().await;
    bench.commit(&mut first, vec![put("a", "1")]).await;
    bench.fixture.stop(first.n, Stop::Crash).await;
    let mut second = bench.lead().await;
    bench.commit(&mut second, vec![put("b", "1")]).await;
    bench.fixture.start(first.n).await;
    bench.commit(&mut second, vec![put("c", "1")]).await;
    // And can lead: when the other goes.
    second.backend.election.resign().await;
    bench.fixture.stop(second.n, Stop::Clean).await;
    let third = bench.lead().await;
    assert!(third.n != second.n && third.epoch() > second.epoch());
    bench.expect_kept(&third.recovered, "durable on return: masters came and went");
}

/// Promise: hints agree once things are quiet.
pub async fn all_masters_see_the_same_leader<F: Fixture>() {
    let bench = Bench::<F>::new().await;
    let led = bench.lead().await;
    for n in 0..bench.fixture.masters() {
        let mut view = bench
            .fixture
            .backend(n)
            .expect("all masters run")
            .election
            .observe();
        let seen = view.wait_for(|view| view.epoch >= led.epoch() && view.leader.is_some());
        let seen = timeout(SOON, seen)
            .await
            .expect("every master learns of the leader");
        let seen = seen.expect("the view outlives its backend").clone();
        if seen.epoch == led.epoch() {
            assert_eq!(
                seen.leader,
                Some(bench.fixture.me(led.n)),
                "master {n} names another"
            );
        }
    }
}
