//! Which cluster, which master, which successor.

use std::time::Duration;

use interrex_persistence::{error::AdminError, etcd};

use super::{
    masters::{Masters, ids, me},
    server::{Server, tls_file},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_etcd_is_refused_until_somebody_says_so() {
    let mut masters = Masters::start(2).await;
    let (first, _) = masters.lead_open(0).await;
    masters.put(0, first.epoch, "gone").await.unwrap();
    let cluster = masters.backend(0).admin.cluster_id().unwrap();
    masters.server.wipe();
    masters.server.up().await.unwrap();
    for n in 0..2 {
        masters.says(n, false, "etcd was wiped").await;
        masters.says(n, false, "--etcd-accept-wiped").await;
    }
    assert!(first.lost.is_cancelled());
    masters.put(0, first.epoch, "late").await.unwrap_err();
    let election = masters.backend(1).election.clone();
    let campaign = tokio::spawn(async move { election.campaign(&me(1)).await });
    // One master founds the cluster again; the others go on by themselves.
    masters.close(0).await;
    assert!(
        !campaign.is_finished(),
        "nobody leads over a store that is not theirs"
    );
    let mut options = masters.options(0);
    options.settings.accept_wiped = true;
    masters.open_with(0, options).await;
    let second = campaign.await.unwrap().unwrap();
    assert!(second.epoch > first.epoch, "though revisions began anew");
    let recovered = masters
        .backend(1)
        .engine
        .open_epoch(second.epoch)
        .await
        .unwrap();
    assert_eq!(ids(&recovered), [""; 0]);
    masters.put(1, second.epoch, "new").await.unwrap();
    for n in 0..2 {
        assert_eq!(masters.backend(n).admin.cluster_id().unwrap(), cluster);
    }
    masters.says(0, true, "following m1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_clusters_prefix_is_refused_by_name() {
    let mut masters = Masters::start(1).await;
    masters.lead_open(0).await;
    let own = masters.backend(0).admin.cluster_id().unwrap();
    masters.close(0).await;
    let mut options = masters.options(0);
    options.settings.prefix = "/interrex/other".to_owned();
    options.data_dir = masters.server.scratch().join("other");
    masters.open_with(0, options).await;
    masters.lead_open(0).await;
    let other = masters.backend(0).admin.cluster_id().unwrap();
    assert_ne!(own, other, "another prefix is another cluster");
    masters.close(0).await;
    let mut options = masters.options(0);
    options.settings.prefix = "/interrex/other".to_owned();
    masters.open_with(0, options).await;
    let words = format!("belongs to cluster {other}, this master to cluster {own}");
    masters.says(0, false, &words).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_masters_with_one_id_are_refused_by_name() {
    let mut masters = Masters::start(1).await;
    masters.lead_open(0).await;
    let mut options = masters.options(0);
    options.data_dir = masters.server.scratch().join("copy");
    let twin = etcd::open(options).await.unwrap();
    super::masters::eventually("the twin says so", || {
        let health = twin.admin.health();
        match health.detail.contains("another master with the id m0") && !health.ready {
            true => Ok(()),
            false => Err(format!("{health:?}")),
        }
    })
    .await;
    masters.says(0, true, "leading").await;
    // It may have the name when the other has gone.
    masters.close(0).await;
    let own = me(0);
    let campaign = twin.election.campaign(&own);
    tokio::time::timeout(Duration::from_secs(5), campaign)
        .await
        .unwrap()
        .unwrap();
    twin.admin.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_named_successor_takes_over_and_others_wait_for_it() {
    let masters = Masters::start(3).await;
    let (first, _) = masters.lead_open(0).await;
    let others = [1, 2].map(|n| {
        let election = masters.backend(n).election.clone();
        tokio::spawn(async move { election.campaign(&me(n)).await })
    });
    let to = masters
        .backend(0)
        .admin
        .transfer_leader(Some("m2".to_owned()))
        .await;
    assert_eq!(to.unwrap(), "m2");
    let [other, heir] = others;
    assert!(heir.await.unwrap().unwrap().epoch > first.epoch);
    assert!(!other.is_finished());
    other.abort();
    assert!(first.lost.is_cancelled());
    let not_leading = masters.backend(0).admin.transfer_leader(None).await;
    assert!(
        matches!(not_leading, Err(AdminError::NotLeader)),
        "{not_leading:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_without_a_standby_is_refused_and_changes_nothing() {
    let masters = Masters::start(1).await;
    let (leadership, _) = masters.lead_open(0).await;
    let admin = &masters.backend(0).admin;
    for to in [None, Some("m7".to_owned())] {
        let refused = admin.transfer_leader(to).await;
        assert!(
            matches!(refused, Err(AdminError::Refused(_))),
            "{refused:?}"
        );
    }
    for refused in [
        admin.add_master("m7".to_owned(), "a:1".to_owned()).await,
        admin.remove_master("m0".to_owned()).await,
    ] {
        let Err(AdminError::Unsupported(reason)) = refused else {
            panic!("{refused:?}")
        };
        assert!(reason.contains("no fixed list of masters"), "{reason}");
    }
    masters
        .put(0, leadership.epoch, "still leads")
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_that_never_comes_is_not_waited_for_for_ever() {
    let masters = Masters::start(2).await;
    let (first, _) = masters.lead_open(0).await;
    // Registered, but it does not campaign.
    let to = masters
        .backend(0)
        .admin
        .transfer_leader(Some("m1".to_owned()));
    assert!(matches!(to.await, Err(AdminError::Timeout(_))));
    assert!(masters.lead(0).await.epoch > first.epoch);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_users_password_opens_etcd_and_a_wrong_one_is_named() {
    let server = Server::start().await;
    let mut root = server.client().await;
    root.user_add("root", "secret", None).await.unwrap();
    root.role_add("root").await.unwrap();
    root.user_grant_role("root", "root").await.unwrap();
    root.auth_enable().await.unwrap();
    let mut masters = Masters::idle_on(server, 1).await;
    let file = masters.server.scratch().join("password");
    let mut options = masters.options(0);
    options.settings.user = Some("root".to_owned());
    options.settings.password_file = Some(file.clone());
    std::fs::write(&file, "wrong\n").unwrap();
    masters.open_with(0, options.clone()).await;
    masters.says(0, false, "authentication failed").await;
    masters.close(0).await;
    std::fs::write(&file, "secret\n").unwrap();
    masters.open_with(0, options).await;
    let (leadership, _) = masters.lead_open(0).await;
    masters.put(0, leadership.epoch, "a").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encrypted_etcd_is_checked_against_its_certificate() {
    let mut masters = Masters::idle_on(Server::start_tls().await, 1).await;
    let mut options = masters.options(0);
    options.settings.endpoints = vec![format!("https://{}", masters.server.address())];
    options.settings.ca_file = Some(tls_file("ca.pem"));
    masters.open_with(0, options).await;
    let (leadership, _) = masters.lead_open(0).await;
    masters.put(0, leadership.epoch, "a").await.unwrap();
    masters.close(0).await;
    // Somebody else may have put it there.
    let mut options = masters.options(0);
    options.settings.endpoints = vec![format!("https://{}", masters.server.address())];
    options.settings.ca_file = Some(tls_file("other-ca.pem"));
    masters.open_with(0, options).await;
    masters.says(0, false, "certificate").await;
}
