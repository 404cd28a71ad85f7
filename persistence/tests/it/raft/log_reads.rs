//! A leader whose read of its own log goes wrong once, while a follower is far behind.

use std::{collections::BTreeSet, time::Duration};

use interrex_persistence::{
    backend::Freshness,
    election::Leadership,
    raft::{RaftOptions, ReadFault},
};

use super::cluster::{Cluster, eventually, within};

const IDS: [&str; 3] = ["m1", "m2", "m3"];
/// What the follower has before it goes away, and what it lacks when it comes back.
const KNOWN: u64 = 10;
const MISSED: u64 = 150;
/// Reads that begin further from the end than this are for the late follower alone.
const FAR: u64 = 100;

/// How long a commit takes is not what is tested, on however busy a machine.
fn patient(options: &mut RaftOptions) {
    options.timing.commit_deadline = Duration::from_secs(15);
}

/// What this master has applied.
async fn stored(cluster: &Cluster, id: &str) -> BTreeSet<u64> {
    let admin = &cluster.backend(id).admin;
    let cut = admin.snapshot(Freshness::AsKnown).await.unwrap();
    let number = |id: &str| -> u64 { id.strip_prefix('k').unwrap().parse().unwrap() };
    cut.store.iter().map(|(key, _)| number(&key.id)).collect()
}

/// Has a follower come back far behind a leader whose read for it is spoilt; both names, and the leadership.
async fn late_follower(fault: ReadFault) -> (Cluster, String, String, Leadership) {
    let mut cluster = Cluster::start(&IDS, patient).await;
    let (leader, leadership) = cluster.lead().await;
    let late = IDS.into_iter().find(|id| *id != leader).unwrap().to_owned();
    for key in 0..KNOWN {
        cluster.put(&leader, leadership.epoch, key).await.unwrap();
    }
    let all: BTreeSet<u64> = (0..KNOWN).collect();
    while stored(&cluster, &late).await != all {
        tokio::task::yield_now().await;
    }
    cluster.down(&late).await;
    for key in KNOWN..KNOWN + MISSED {
        cluster.put(&leader, leadership.epoch, key).await.unwrap();
    }
    cluster.disk(&leader).spoil_read(fault, FAR);
    cluster.up(&late).await;
    (cluster, leader, late, leadership)
}

/// Waits until the late one has everything; it must never have less than before.
async fn catches_up(cluster: &Cluster, late: &str) {
    let all: BTreeSet<u64> = (0..KNOWN + MISSED).collect();
    let mut most = (0..KNOWN).collect::<BTreeSet<u64>>();
    within("the late one catches up", async {
        loop {
            let now = stored(cluster, late).await;
            assert!(now.is_superset(&most), "{most:?} became {now:?}");
            most = now;
            if most == all {
                break;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_read_for_a_late_follower_fails_steps_down_and_nothing_is_missing() {
    for (fault, words) in [
        (ReadFault::Fails, "an injected fault of a read of the log"),
        (ReadFault::Empty, "brought 0 entries"),
        (ReadFault::Late, "instead of"),
        (ReadFault::Holed, "instead of"),
    ] {
        let (cluster, leader, late, leadership) = late_follower(fault).await;
        within("the loss", leadership.lost.cancelled()).await;
        let said = |ready: bool, text: &str| !ready && text.contains("raft has stopped");
        let detail = cluster.health(&leader, said).await;
        assert!(detail.contains(words), "{fault:?}: {detail}");
        assert!(cluster.disk(&leader).has_spoilt());
        // It takes part again, in place, and whoever leads then has everything.
        cluster.ready(&leader).await;
        let (next, after) = cluster.lead().await;
        assert!(after.epoch > leadership.epoch);
        let all: BTreeSet<u64> = (0..KNOWN + MISSED).collect();
        assert_eq!(stored(&cluster, &next).await, all, "{fault:?}");
        catches_up(&cluster, &late).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_brings_less_than_it_could_only_makes_more_of_them() {
    let (cluster, leader, late, leadership) = late_follower(ReadFault::Short).await;
    catches_up(&cluster, &late).await;
    eventually("a short read", || {
        if cluster.disk(&leader).has_spoilt() {
            Ok(())
        } else {
            Err("none".to_owned())
        }
    })
    .await;
    assert!(!leadership.lost.is_cancelled());
    cluster.put(&leader, leadership.epoch, 1000).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_was_not_read_is_never_taken_for_applied() {
    // One master alone reads its log only to apply it.
    let cluster = Cluster::start(&["m1"], patient).await;
    let mut known = BTreeSet::new();
    for (key, fault) in [ReadFault::Empty, ReadFault::Fails].into_iter().enumerate() {
        let key = key as u64;
        let (_, leadership) = cluster.lead().await;
        known.insert(key);
        cluster.put("m1", leadership.epoch, key).await.unwrap();
        cluster.disk("m1").spoil_read(fault, 1);
        let lost = cluster.put("m1", leadership.epoch, 100 + key).await;
        lost.unwrap_err();
        within("the loss", leadership.lost.cancelled()).await;
        // It was in the log all the time, and is applied when that is opened again.
        known.insert(100 + key);
        let (_, again) = cluster.lead().await;
        assert!(again.epoch > leadership.epoch);
        assert_eq!(stored(&cluster, "m1").await, known, "{fault:?}");
    }
}
