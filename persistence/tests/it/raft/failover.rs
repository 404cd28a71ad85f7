//! Electing, committing, and another leader taking over.

use std::time::Instant;

use interrex_persistence::{
    epoch::Epoch,
    error::{AdminError, CommitError, ElectionError},
};

use super::cluster::{CALM_ELECTION, Cluster, batch, eventually, keys, untuned, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_masters_elect_one_and_all_of_them_keep_every_batch() {
    let mut cluster = Cluster::start(&["m1", "m2", "m3"], untuned).await;
    let (leader, leadership) = cluster.lead().await;
    for key in 0..50 {
        cluster.put(&leader, leadership.epoch, key).await.unwrap();
    }
    for id in ["m1", "m2", "m3"] {
        cluster.ready(id).await;
        let mut view = cluster.backend(id).election.observe();
        let view = within(
            "a view",
            view.wait_for(|view| {
                view.leader
                    .as_ref()
                    .is_some_and(|l| l.id == leader && !l.rest.is_empty())
            }),
        )
        .await
        .unwrap()
        .clone();
        assert_eq!(view.epoch, leadership.epoch);
        assert_eq!(view.leader.unwrap().rest, format!("rest.{leader}:6066"));
        let masters: Vec<String> = view.masters.into_iter().map(|master| master.id).collect();
        assert_eq!(masters, ["m1", "m2", "m3"]);
    }
    // Each replica alone knows all of it: stop the others one after the other.
    cluster.down(&leader).await;
    let (second, leadership) = cluster.lead().await;
    let recovered = cluster
        .backend(&second)
        .engine
        .open_epoch(leadership.epoch)
        .await
        .unwrap();
    assert_eq!(keys(&recovered), (0..50).collect::<Vec<_>>());
    cluster.up(&leader).await;
    cluster.ready(&leader).await;
    eventually("followers catch up", || {
        let members = cluster.backend(&second).admin.members();
        let behind = members
            .iter()
            .any(|m| m.lag != Some(0) || m.healthy != Some(true));
        if behind {
            Err(format!("{members:?}"))
        } else {
            Ok(())
        }
    })
    .await;
    cluster.down(&second).await;
    let (third, leadership) = cluster.lead().await;
    let recovered = cluster
        .backend(&third)
        .engine
        .open_epoch(leadership.epoch)
        .await
        .unwrap();
    assert_eq!(keys(&recovered), (0..50).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_leader_has_a_larger_epoch_and_every_acknowledged_batch() {
    let mut cluster = Cluster::start(&["m1", "m2", "m3"], untuned).await;
    let (mut leader, mut leadership) = cluster.lead().await;
    let mut acknowledged = Vec::new();
    for round in 0..3_u64 {
        for key in round * 10..round * 10 + 10 {
            cluster.put(&leader, leadership.epoch, key).await.unwrap();
            acknowledged.push(key);
        }
        let old = leadership.clone();
        cluster.down(&leader).await;
        assert!(old.lost.is_cancelled());
        let ended = leader;
        (leader, leadership) = cluster.lead().await;
        assert!(leadership.epoch > old.epoch);
        let recovered = cluster
            .backend(&leader)
            .engine
            .open_epoch(leadership.epoch)
            .await
            .unwrap();
        assert_eq!(keys(&recovered), acknowledged);
        cluster.up(&ended).await;
        cluster.ready(&ended).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_replaced_is_fenced() {
    let cluster = Cluster::start(&["m1", "m2", "m3"], untuned).await;
    let (old, leadership) = cluster.lead().await;
    cluster.put(&old, leadership.epoch, 1).await.unwrap();
    let heir = cluster
        .backend(&old)
        .admin
        .transfer_leader(None)
        .await
        .unwrap();
    assert_ne!(heir, old);
    let (new, next) = cluster.lead_among(std::slice::from_ref(&heir)).await;
    assert!(next.epoch > leadership.epoch);
    within("the loss", leadership.lost.cancelled()).await;
    let late = cluster.put(&old, leadership.epoch, 2).await.unwrap_err();
    assert!(
        matches!(late, CommitError::Fenced { current } if current >= next.epoch),
        "{late}"
    );
    let error = cluster
        .backend(&old)
        .engine
        .confirm(leadership.epoch)
        .await
        .unwrap_err();
    assert!(matches!(error, CommitError::Fenced { .. }), "{error}");
    let error = cluster
        .backend(&old)
        .engine
        .open_epoch(leadership.epoch)
        .await
        .unwrap_err();
    assert!(matches!(error, CommitError::Fenced { .. }), "{error}");
    // The new leader's engine does not take the old epoch either, though it does lead.
    let error = cluster.put(&new, leadership.epoch, 3).await.unwrap_err();
    assert!(matches!(error, CommitError::Fenced { .. }), "{error}");
    let recovered = cluster
        .backend(&new)
        .engine
        .open_epoch(next.epoch)
        .await
        .unwrap();
    assert_eq!(keys(&recovered), [1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resigning_hands_over_to_another_master_at_once() {
    let cluster = Cluster::start(&["m1", "m2", "m3"], untuned).await;
    let (leader, leadership) = cluster.lead().await;
    cluster.put(&leader, leadership.epoch, 1).await.unwrap();
    let began = Instant::now();
    within("resigning", cluster.backend(&leader).election.resign()).await;
    assert!(leadership.lost.is_cancelled());
    let (_, next) = cluster.lead().await;
    assert!(next.epoch > leadership.epoch);
    // An election after a death takes at least the longest election timeout and the shortest wait.
    let took = began.elapsed();
    assert!(took < 3 * CALM_ELECTION, "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_without_a_quorum_steps_down_in_place_and_leads_again() {
    let mut cluster = Cluster::start(&["m1", "m2", "m3"], untuned).await;
    let (leader, leadership) = cluster.lead().await;
    cluster.put(&leader, leadership.epoch, 1).await.unwrap();
    let others: Vec<String> = cluster
        .up
        .keys()
        .filter(|id| **id != leader)
        .cloned()
        .collect();
    for id in &others {
        cluster.down(id).await;
    }
    within("the loss", leadership.lost.cancelled()).await;
    let error = cluster.put(&leader, leadership.epoch, 2).await.unwrap_err();
    assert!(!matches!(error, CommitError::Fenced { .. }), "{error}");
    cluster
        .backend(&leader)
        .engine
        .confirm(leadership.epoch)
        .await
        .unwrap_err();
    let detail = cluster
        .health(&leader, |ready, detail| !ready && detail.contains("1 of 3"))
        .await;
    assert!(
        detail.contains("no leader: 1 of 3 masters answer, 2 are needed"),
        "{detail}"
    );
    for id in &others {
        cluster.up(id).await;
    }
    let (again, next) = cluster.lead().await;
    assert!(next.epoch >= leadership.epoch);
    cluster.put(&again, next.epoch, 3).await.unwrap();
    cluster.ready(&leader).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn confirm_holds_for_the_leader_and_many_readers_share_it() {
    let cluster = Cluster::start(&["m1", "m2", "m3"], untuned).await;
    let (leader, leadership) = cluster.lead().await;
    let engine = &cluster.backend(&leader).engine;
    let reads = (0..200).map(|_| engine.confirm(leadership.epoch));
    for read in futures::future::join_all(reads).await {
        read.unwrap();
    }
    let error = engine
        .confirm(Epoch(leadership.epoch.0 - 1))
        .await
        .unwrap_err();
    assert!(matches!(error, CommitError::Fenced { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_goes_only_to_a_voting_master_that_answers() {
    let mut cluster = Cluster::start(&["m1", "m2", "m3"], untuned).await;
    let (leader, leadership) = cluster.lead().await;
    let admin = cluster.backend(&leader).admin.clone();
    let refused = |error| matches!(error, Err(AdminError::Refused(_)));
    assert!(refused(admin.transfer_leader(Some("m9".into())).await));
    let others: Vec<String> = cluster
        .up
        .keys()
        .filter(|id| **id != leader)
        .cloned()
        .collect();
    assert!(matches!(
        cluster
            .backend(&others[0])
            .admin
            .transfer_leader(None)
            .await,
        Err(AdminError::NotLeader)
    ));
    cluster.down(&others[0]).await;
    eventually("the death is noticed", || {
        let members = admin.members();
        let gone = members
            .iter()
            .any(|m| m.id == others[0] && m.healthy == Some(false));
        if gone {
            Ok(())
        } else {
            Err(format!("{members:?}"))
        }
    })
    .await;
    assert!(refused(
        admin.transfer_leader(Some(others[0].clone())).await
    ));
    // Being asked in vain has cost nothing.
    cluster.put(&leader, leadership.epoch, 1).await.unwrap();
    assert_eq!(
        admin
            .transfer_leader(Some(others[1].clone()))
            .await
            .unwrap(),
        others[1]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_oversized_batch_is_rejected_and_nothing_else_is_disturbed() {
    let cluster = Cluster::start(&["m1", "m2", "m3"], untuned).await;
    let (leader, leadership) = cluster.lead().await;
    let engine = &cluster.backend(&leader).engine;
    let error = engine
        .commit(batch(leadership.epoch, 1, 3 << 20))
        .await
        .unwrap_err();
    assert!(matches!(error, CommitError::Rejected(_)), "{error}");
    // The largest value that is allowed goes through, over the wire too.
    engine
        .commit(batch(leadership.epoch, 2, 2 << 20))
        .await
        .unwrap();
    assert!(!leadership.lost.is_cancelled());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_ends_campaigns_and_leaderships() {
    let cluster = Cluster::start(&["m1"], untuned).await;
    let (_, leadership) = cluster.lead().await;
    let backend = cluster.backend("m1").clone();
    within("closing", backend.admin.shutdown()).await;
    assert!(leadership.lost.is_cancelled());
    let me = cluster.options("m1").me;
    let campaign = backend.election.campaign(&me);
    let error = within("the campaign", campaign).await.unwrap_err();
    assert!(matches!(error, ElectionError::Closed), "{error}");
    let error = cluster.put("m1", leadership.epoch, 1).await.unwrap_err();
    assert!(matches!(error, CommitError::Rejected(_)), "{error}");
    assert!(!backend.admin.health().ready);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masters_that_stop_do_not_wait_for_the_leaders_streams_to_end() {
    let mut cluster = Cluster::start(&["m1", "m2", "m3"], untuned).await;
    let (leader, leadership) = cluster.lead().await;
    cluster.put(&leader, leadership.epoch, 1).await.unwrap();
    // The second one leaves a leader without a quorum, which keeps trying.
    for id in ["m1", "m2", "m3"].into_iter().filter(|id| *id != leader) {
        cluster.ready(id).await;
        let began = Instant::now();
        within("the last connection", cluster.down_gracefully(id)).await;
        let took = began.elapsed();
        assert!(took.as_secs() < 2, "{id} took {took:?}");
    }
}
