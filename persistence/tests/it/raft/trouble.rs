//! A disk that fails, is slow or nearly full, on one master of a cluster that goes on.

use std::time::Duration;

use interrex_persistence::raft::RaftOptions;

use super::cluster::{Cluster, eventually, keys, untuned, within};

const IDS: [&str; 3] = ["m1", "m2", "m3"];

fn others<'a>(cluster: &'a Cluster, than: &'a str) -> Vec<String> {
    let ids = cluster.up.keys().filter(|id| *id != than);
    ids.cloned().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_disk_fails_steps_down_and_takes_part_again_in_place() {
    let cluster = Cluster::start(&IDS, untuned).await;
    let (broken, leadership) = cluster.lead().await;
    cluster.put(&broken, leadership.epoch, 0).await.unwrap();
    cluster.disk(&broken).fail(true);
    cluster.put(&broken, leadership.epoch, 1).await.unwrap_err();
    within("the loss", leadership.lost.cancelled()).await;
    let detail = cluster
        .health(&broken, |ready, text| {
            !ready && text.contains("injected fault")
        })
        .await;
    assert!(detail.contains("raft has stopped"), "{detail}");
    let (next, after) = cluster.lead_among(&others(&cluster, &broken)).await;
    assert!(after.epoch > leadership.epoch);
    for key in 2..20 {
        cluster.put(&next, after.epoch, key).await.unwrap();
    }
    cluster
        .health(&broken, |_, text| {
            text.contains("cannot be opened again yet")
        })
        .await;
    cluster.disk(&broken).fail(false);
    cluster.ready(&broken).await;
    let admin = cluster.backend(&next).admin.clone();
    eventually("it has caught up", || {
        let members = admin.members();
        let it = members.iter().find(|m| m.id == broken).unwrap();
        if it.healthy == Some(true) && it.lag == Some(0) {
            Ok(())
        } else {
            Err(format!("{it:?}"))
        }
    })
    .await;
    admin.transfer_leader(Some(broken.clone())).await.unwrap();
    let (_, again) = cluster.lead_among(std::slice::from_ref(&broken)).await;
    let engine = &cluster.backend(&broken).engine;
    let recovered = engine.open_epoch(again.epoch).await.unwrap();
    let found = keys(&recovered);
    // Number 1 was not acknowledged: it may be there or not.
    let expected = [0].into_iter().chain(2..20);
    assert!(
        expected.into_iter().all(|key| found.contains(&key)),
        "{found:?}"
    );
    cluster.put(&broken, again.epoch, 20).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_master_alone_leads_again_when_its_disk_works_again() {
    let mut cluster = Cluster::start(&["m1"], untuned).await;
    for round in 0..3_u64 {
        let (_, leadership) = cluster.lead().await;
        cluster.put("m1", leadership.epoch, round).await.unwrap();
        cluster.disk("m1").fail(true);
        cluster.put("m1", leadership.epoch, 100).await.unwrap_err();
        within("the loss", leadership.lost.cancelled()).await;
        cluster.disk("m1").fail(false);
    }
    let (_, leadership) = cluster.lead().await;
    let engine = cluster.backend("m1").engine.clone();
    let recovered = engine.open_epoch(leadership.epoch).await.unwrap();
    assert!([0, 1, 2].iter().all(|key| keys(&recovered).contains(key)));
    drop(engine);
    // And what was opened in place can be opened by the next process.
    cluster.down("m1").await;
    cluster.up("m1").await;
    let (_, leadership) = cluster.lead().await;
    cluster.put("m1", leadership.epoch, 3).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_whose_disk_fails_disturbs_nobody_and_comes_back() {
    let cluster = Cluster::start(&IDS, untuned).await;
    let (leader, leadership) = cluster.lead().await;
    let broken = others(&cluster, &leader).remove(0);
    cluster.disk(&broken).fail(true);
    for key in 0..50 {
        cluster.put(&leader, leadership.epoch, key).await.unwrap();
    }
    cluster
        .health(&broken, |ready, text| {
            !ready && text.contains("injected fault")
        })
        .await;
    assert!(!leadership.lost.is_cancelled());
    cluster.disk(&broken).fail(false);
    cluster.ready(&broken).await;
}

/// Appends that take more than this are slow.
fn impatient(options: &mut RaftOptions) {
    options.disk.slow_append = Duration::from_millis(60);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_with_a_slow_disk_asks_to_be_relieved_and_is_no_heir() {
    let cluster = Cluster::start(&IDS, impatient).await;
    let (slow, leadership) = cluster.lead().await;
    let admin = cluster.backend(&slow).admin.clone();
    assert_eq!(admin.unfit(), None);
    cluster.disk(&slow).delay(Duration::from_millis(150));
    let mut key = 0;
    let trouble = within("trouble", async {
        loop {
            if let Some(trouble) = admin.unfit() {
                break trouble;
            }
            // Two others make the quorum: their disks are quick.
            cluster.put(&slow, leadership.epoch, key).await.unwrap();
            key += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert!(trouble.contains("--slow-append"), "{trouble}");
    let detail = cluster.ready(&slow).await;
    assert!(detail.contains("the disk is slow"), "{detail}");
    let heir = admin.transfer_leader(None).await.unwrap();
    assert_ne!(heir, slow);
    assert_eq!(admin.unfit(), None, "it does not lead");
    let (heir, next) = cluster.lead_among(&[heir]).await;
    cluster.put(&heir, next.epoch, key).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_goes_to_a_master_with_room_as_long_as_there_is_one() {
    let cluster = Cluster::start(&IDS, untuned).await;
    let (first, _) = cluster.lead().await;
    let admin = cluster.backend(&first).admin.clone();
    let mut rest = others(&cluster, &first);
    let (full, roomy) = (rest.remove(0), rest.remove(0));
    let unfit = |is: bool| {
        let admin = admin.clone();
        move || match admin.unfit() {
            Some(_) if is => Ok(()),
            None if !is => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    cluster.disk(&full).set_free_bytes(Some(1 << 20));
    cluster.disk(&first).set_free_bytes(Some(1 << 20));
    eventually("the leader wants to go", unfit(true)).await;
    // Everybody is as badly off: it stays.
    cluster.disk(&roomy).set_free_bytes(Some(1 << 20));
    eventually("nobody is better off", unfit(false)).await;
    cluster.disk(&roomy).set_free_bytes(None);
    eventually("one has room again", unfit(true)).await;
    assert_eq!(admin.transfer_leader(None).await.unwrap(), roomy);
    cluster.disk(&first).set_free_bytes(None);
    cluster
        .health(&first, |ready, text| ready && !text.contains("are left"))
        .await;
}
