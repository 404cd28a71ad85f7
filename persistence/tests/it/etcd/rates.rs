//! Rates, printed and never judged: `cargo nextest run -p interrex-persistence etcd::rates --run-ignored all
//! --no-capture`.

#![expect(clippy::print_stdout, reason = "figures for people")]

use std::time::{Duration, Instant};

use interrex_persistence::{conformance::put, record::CommitBatch};

use super::{
    masters::{Masters, me},
    server::Server,
};

const LASTS: Duration = Duration::from_secs(2);
const RECORDS: usize = 100_000;
/// About the size of a stored driver.
const VALUE_BYTES: usize = 400;

async fn rate(masters: &Masters, epoch: interrex_persistence::epoch::Epoch, writers: usize) {
    let began = Instant::now();
    let each = (0..writers).map(|writer| {
        let engine = masters.backend(0).engine.clone();
        tokio::spawn(async move {
            let mut latencies = Vec::new();
            while began.elapsed() < LASTS {
                let sent = Instant::now();
                let id = format!("{writer}-{}", latencies.len());
                let mutations = vec![put(&id, vec![7; VALUE_BYTES])];
                engine
                    .commit(CommitBatch { epoch, mutations })
                    .await
                    .unwrap();
                latencies.push(sent.elapsed());
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
        "{writers} writers: {:.0} commits/s, p50 {:?}, p99 {:?}",
        latencies.len() as f64 / LASTS.as_secs_f64(),
        at(50),
        at(99),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures for people"]
async fn commits() {
    let masters = Masters::start(1).await;
    let (leadership, _) = masters.lead_open(0).await;
    for writers in [1, 16, 64, 256] {
        rate(&masters, leadership.epoch, writers).await;
    }
    let mut client = masters.server.client().await;
    let began = Instant::now();
    let mut puts = 0;
    while began.elapsed() < LASTS {
        client
            .put(format!("raw-{puts}"), vec![7; VALUE_BYTES], None)
            .await
            .unwrap();
        puts += 1;
    }
    println!(
        "raw puts, one after the other: {:.0}/s",
        f64::from(puts) / LASTS.as_secs_f64()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures for people"]
async fn loading() {
    let masters = Masters::start(1).await;
    let (leadership, _) = masters.lead_open(0).await;
    for chunk in 0..RECORDS / 1000 {
        let mutations = (0..1000)
            .map(|i| put(&format!("{chunk}-{i}"), vec![7; VALUE_BYTES]))
            .collect();
        let batch = CommitBatch {
            epoch: leadership.epoch,
            mutations,
        };
        masters.backend(0).engine.commit(batch).await.unwrap();
    }
    for _ in 0..3 {
        let began = Instant::now();
        let engine = &masters.backend(0).engine;
        let recovered = engine.open_epoch(leadership.epoch).await.unwrap();
        println!(
            "{} records read in {:?}",
            recovered.records.len(),
            began.elapsed()
        );
        assert_eq!(recovered.records.len(), RECORDS);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures for people"]
async fn failovers() {
    // With etcd's own timing and the default lease.
    let server = Server::start_with(&["--heartbeat-interval", "100", "--election-timeout", "1000"]);
    let mut masters = Masters::idle_on(server.await, 2).await;
    let mut times = Vec::new();
    for round in 0..8 {
        for n in 0..2 {
            if !masters.up.contains_key(&n) {
                let mut options = masters.options(n);
                options.settings.lease = Duration::from_secs(2);
                masters.open_with(n, options).await;
            }
        }
        masters.settled().await;
        let (old, new) = (round % 2, (round + 1) % 2);
        let (leadership, _) = masters.lead_open(old).await;
        masters.put(old, leadership.epoch, "a").await.unwrap();
        let next = masters.backend(new).election.clone();
        let campaign = tokio::spawn(async move { next.campaign(&me(new)).await });
        let began = Instant::now();
        masters.crash(old).await;
        let leadership = campaign.await.unwrap().unwrap();
        masters
            .backend(new)
            .engine
            .open_epoch(leadership.epoch)
            .await
            .unwrap();
        masters.put(new, leadership.epoch, "b").await.unwrap();
        times.push(began.elapsed());
        masters.backend(new).election.resign().await;
    }
    times.sort_unstable();
    println!("death of the leader to the next commit: {times:?}");
    assert_eq!(times.len(), 8);
}
