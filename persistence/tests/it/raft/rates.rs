//! Rates of commits, printed and never judged: `cargo nextest run -p interrex-persistence rates --run-ignored all
//! --no-capture`.

#![expect(clippy::print_stdout, reason = "figures for people")]

use std::time::{Duration, Instant};

use interrex_persistence::raft::{RaftOptions, RaftTiming};

use super::cluster::{Cluster, batch};

const LASTS: Duration = Duration::from_secs(2);

/// As a product is run.
fn defaults(options: &mut RaftOptions) {
    options.timing = RaftTiming::default();
}

async fn rate(cluster: &Cluster, writers: u64) {
    let (leader, leadership) = cluster.lead().await;
    let began = Instant::now();
    let each = (0..writers).map(|writer| {
        let engine = cluster.backend(&leader).engine.clone();
        tokio::spawn(async move {
            let mut latencies = Vec::new();
            let mut key = writer * 1_000_000;
            while began.elapsed() < LASTS {
                let sent = Instant::now();
                engine
                    .commit(batch(leadership.epoch, key, 256))
                    .await
                    .unwrap();
                latencies.push(sent.elapsed());
                key += 1;
            }
            latencies
        })
    });
    let mut latencies = Vec::new();
    for writer in futures::future::join_all(each).await {
        latencies.extend(writer.unwrap());
    }
    latencies.sort_unstable();
    let at = |percent: usize| latencies[(latencies.len() - 1) * percent / 100];
    println!(
        "{} masters, {writers} writers: {:.0} commits/s, p50 {:?}, p99 {:?}",
        cluster.up.len(),
        latencies.len() as f64 / LASTS.as_secs_f64(),
        at(50),
        at(99),
    );
    assert!(!latencies.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures for people"]
async fn rates() {
    for ids in [&["m1"][..], &["m1", "m2", "m3"]] {
        let cluster = Cluster::start(ids, defaults).await;
        for writers in [1, 16, 64] {
            rate(&cluster, writers).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures for people"]
async fn failovers() {
    let mut cluster = Cluster::start(&["m1", "m2", "m3"], defaults).await;
    let mut deaths = Vec::new();
    let mut transfers = Vec::new();
    for _ in 0..8 {
        let (leader, leadership) = cluster.lead().await;
        cluster.put(&leader, leadership.epoch, 1).await.unwrap();
        let began = Instant::now();
        cluster.down(&leader).await;
        let (next, leadership) = cluster.lead().await;
        cluster.put(&next, leadership.epoch, 2).await.unwrap();
        deaths.push(began.elapsed());
        cluster.up(&leader).await;
        cluster.ready(&leader).await;
        let began = Instant::now();
        cluster.backend(&next).election.resign().await;
        let (next, leadership) = cluster.lead().await;
        cluster.put(&next, leadership.epoch, 3).await.unwrap();
        transfers.push(began.elapsed());
    }
    deaths.sort_unstable();
    transfers.sort_unstable();
    println!("death to the next commit: {deaths:?}");
    println!("resigning to the next commit: {transfers:?}");
    assert_eq!(deaths.len(), transfers.len());
}
