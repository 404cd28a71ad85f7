//! Masters that do not fit together: each is told so, and nothing else is disturbed.

use std::collections::BTreeMap;

use interrex_persistence::{
    election::MasterInfo,
    error::{AdminError, OpenError},
    raft::{self, RaftOptions},
};

use super::cluster::{Cluster, eventually, keys, untuned, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masters_wait_for_each_other_and_say_for_whom() {
    let mut cluster = Cluster::planned(&["m1", "m2", "m3"], untuned).await;
    cluster.up_all(&["m1", "m2"]).await;
    let detail = cluster
        .health("m1", |ready, text| !ready && text.contains("m3"))
        .await;
    assert!(
        detail.contains("waiting for all masters to answer once: m3 ("),
        "{detail}"
    );
    cluster.up("m3").await;
    let (leader, leadership) = cluster.lead().await;
    cluster.put(&leader, leadership.epoch, 1).await.unwrap();
    for id in ["m1", "m2", "m3"] {
        cluster.ready(id).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn differing_peer_lists_are_refused_showing_both() {
    let mut cluster = Cluster::planned(&["m1", "m2"], untuned).await;
    cluster.up("m1").await;
    let mut wrong = cluster.options("m2");
    wrong
        .peers
        .insert("m3".to_owned(), "127.0.0.1:1".to_owned());
    cluster.up_with("m2", wrong.clone()).await.unwrap();
    let list = |peers: &BTreeMap<String, String>| {
        let all: Vec<String> = peers.iter().map(|(id, at)| format!("{id}={at}")).collect();
        all.join(",")
    };
    for id in ["m1", "m2"] {
        let detail = cluster
            .health(id, |_, text| text.contains("peer lists differ"))
            .await;
        assert!(
            detail.contains(&format!("m1 has --peers {},", list(&cluster.peers()))),
            "{detail}"
        );
        assert!(
            detail.contains(&format!("m2 has --peers {};", list(&wrong.peers))),
            "{detail}"
        );
    }
    // Put right, they form the cluster; what was refused has left no trace.
    cluster.down("m2").await;
    cluster.up("m2").await;
    let (leader, leadership) = cluster.lead().await;
    cluster.put(&leader, leadership.epoch, 1).await.unwrap();
    cluster.ready("m1").await;
    cluster.ready("m2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_master_with_the_same_id_is_told_so() {
    let mut cluster = Cluster::planned(&["m1", "m2"], untuned).await;
    cluster.up("m1").await;
    // Started at m2's address with m1's id, from a directory of its own.
    let mut twin = cluster.options("m1");
    twin.data_dir = cluster.dir("twin");
    cluster.up_with("m2", twin).await.unwrap();
    let detail = cluster
        .health("m1", |ready, text| !ready && text.contains("answers as m1"))
        .await;
    let address = cluster.addresses["m2"];
    assert!(
        detail.contains(&format!("address {address} of m2 answers as m1")),
        "{detail}"
    );
    let other = cluster
        .health("m2", |ready, text| !ready && text.contains("two masters"))
        .await;
    assert!(other.contains("two masters have the id m1"), "{other}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_master_does_not_vote_and_is_let_back_in_by_one_command() {
    let mut cluster = Cluster::start(&["m1", "m2", "m3"], untuned).await;
    let (_, leadership) = cluster.lead().await;
    let wiped = ["m1", "m2", "m3"]
        .into_iter()
        .find(|id| {
            let view = cluster.backend(id).election.observe().borrow().clone();
            view.leader.is_none_or(|leader| leader.id != *id)
        })
        .unwrap();
    let (leader, _) = cluster.lead().await;
    assert_ne!(leader, wiped);
    cluster.put(&leader, leadership.epoch, 1).await.unwrap();
    cluster.down(wiped).await;
    std::fs::remove_dir_all(cluster.dir(wiped)).unwrap();
    cluster.up(wiped).await;
    let detail = cluster
        .health(wiped, |ready, text| !ready && text.contains("cluster add"))
        .await;
    let command = format!(
        "`interrex cluster add {wiped}={} --masters ",
        cluster.addresses[wiped]
    );
    assert!(detail.contains(&command), "{detail}");
    assert!(
        detail.contains("its data directory was replaced"),
        "{detail}"
    );
    // Without its vote two are a quorum only while both are up.
    let (leader, leadership) = cluster.lead_among(&[leader]).await;
    cluster.put(&leader, leadership.epoch, 2).await.unwrap();
    let admin = &cluster.backend(&leader).admin;
    let rpc = cluster.addresses[wiped].to_string();
    let done = within("adding", admin.add_master(wiped.to_owned(), rpc.clone()))
        .await
        .unwrap();
    assert!(done.contains("in place of its predecessor"), "{done}");
    assert_eq!(admin.members().len(), 3);
    cluster.ready(wiped).await;
    let again = admin.add_master(wiped.to_owned(), rpc).await.unwrap();
    assert!(again.contains("already"), "{again}");
    // Its vote counts again: with another master down, it is the quorum's second half.
    cluster.put(&leader, leadership.epoch, 3).await.unwrap();
    let heir = cluster
        .backend(&leader)
        .admin
        .transfer_leader(Some(wiped.to_owned()))
        .await
        .unwrap();
    let (leader, leadership) = cluster.lead_among(&[heir]).await;
    let recovered = cluster
        .backend(&leader)
        .engine
        .open_epoch(leadership.epoch)
        .await
        .unwrap();
    assert_eq!(keys(&recovered), [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replacement_that_was_left_half_way_is_finished_by_the_same_command() {
    let mut cluster = Cluster::start(&["m1", "m2", "m3"], untuned).await;
    let (leader, _) = cluster.lead().await;
    let wiped = ["m1", "m2", "m3"]
        .into_iter()
        .find(|id| *id != leader)
        .unwrap();
    let admin = cluster.backend(&leader).admin.clone();
    let rpc = cluster.addresses[wiped].to_string();
    let voters = || {
        let members = admin.members().into_iter();
        members.filter(|m| m.id == wiped && m.voter).count()
    };
    // Both the old one and the new one vote while the change is half way. Whether the caller goes away just then
    // is a matter of luck, so there are several tries.
    for _ in 0..20 {
        cluster.down(wiped).await;
        std::fs::remove_dir_all(cluster.dir(wiped)).unwrap();
        cluster.up(wiped).await;
        cluster
            .health(wiped, |ready, text| !ready && text.contains("cluster add"))
            .await;
        let (asked, id, at) = (admin.clone(), wiped.to_owned(), rpc.clone());
        let caller = tokio::spawn(async move { asked.add_master(id, at).await });
        within("the change begins", async {
            while voters() < 2 && !caller.is_finished() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        caller.abort();
        drop(caller.await);
        if voters() == 2 {
            break;
        }
    }
    // Refused only until its first half is committed.
    within("finishing", async {
        while let Err(error) = admin.add_master(wiped.to_owned(), rpc.clone()).await {
            assert!(error.to_string().contains("undergoing"), "{error}");
        }
    })
    .await;
    assert_eq!(voters(), 1);
    cluster.ready(wiped).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_can_be_added_and_removed() {
    let mut cluster = Cluster::start(&["m1"], untuned).await;
    let (_, leadership) = cluster.lead().await;
    cluster.put("m1", leadership.epoch, 1).await.unwrap();
    cluster.plan("m2").await;
    let admin = cluster.backend("m1").admin.clone();
    let rpc = cluster.addresses["m2"].to_string();
    let refused = admin
        .add_master("m2".into(), rpc.clone())
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("start it first"), "{refused}");
    cluster.up("m2").await;
    cluster
        .health("m2", |ready, text| {
            !ready && text.contains("cluster add m2")
        })
        .await;
    let wrong = admin
        .add_master("m3".into(), rpc.clone())
        .await
        .unwrap_err();
    assert!(wrong.to_string().contains("answers as m2"), "{wrong}");
    within("adding", admin.add_master("m2".into(), rpc))
        .await
        .unwrap();
    cluster.ready("m2").await;
    cluster.put("m1", leadership.epoch, 2).await.unwrap();
    let members: Vec<_> = admin
        .members()
        .into_iter()
        .map(|m| (m.id, m.voter))
        .collect();
    assert_eq!(members, [("m1".to_owned(), true), ("m2".to_owned(), true)]);
    assert!(matches!(
        admin.remove_master("m9".into()).await,
        Err(AdminError::Refused(_))
    ));
    within("removing", admin.remove_master("m2".into()))
        .await
        .unwrap();
    let detail = cluster
        .health("m2", |ready, text| !ready && text.contains("not a member"))
        .await;
    assert!(detail.contains("interrex cluster add m2="), "{detail}");
    cluster.put("m1", leadership.epoch, 3).await.unwrap();
    let last = admin.remove_master("m1".into()).await.unwrap_err();
    assert!(last.to_string().contains("last voting master"), "{last}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masters_of_two_clusters_refuse_each_other_by_name() {
    let mut one = Cluster::start(&["m1"], untuned).await;
    one.lead().await;
    let mut two = Cluster::start(&["m2"], untuned).await;
    two.lead().await;
    two.down("m2").await;
    one.down("m1").await;
    // m2 now points at m1, which belongs to another cluster.
    one.up("m1").await;
    let mut options = two.options("m2");
    options
        .peers
        .insert("m1".to_owned(), one.addresses["m1"].to_string());
    two.up_with("m2", options).await.unwrap();
    let detail = two
        .health("m2", |_, text| text.contains("belongs to cluster"))
        .await;
    assert_eq!(
        detail.matches("cluster").count(),
        detail.matches("cluster").count().max(2),
        "{detail}"
    );
    // Both go on in their own clusters.
    one.lead().await;
    two.lead().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masters_that_moved_find_each_other_by_their_configuration() {
    let mut cluster = Cluster::start(&["m1", "m2", "m3"], untuned).await;
    let (leader, leadership) = cluster.lead().await;
    cluster.put(&leader, leadership.epoch, 1).await.unwrap();
    cluster.down_all().await;
    for id in ["m1", "m2", "m3"] {
        cluster.plan(id).await;
    }
    cluster.up_all(&["m1", "m2", "m3"]).await;
    let (leader, leadership) = cluster.lead().await;
    let recovered = cluster
        .backend(&leader)
        .engine
        .open_epoch(leadership.epoch)
        .await
        .unwrap();
    assert_eq!(keys(&recovered), [1]);
    // The leader notes where everybody is now.
    let detail = cluster
        .health(&leader, |ready, text| ready && !text.contains("joined as"))
        .await;
    assert!(!detail.contains("--peers"), "{detail}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_in_use_or_of_another_master_is_refused() {
    let cluster = Cluster::start(&["m1"], untuned).await;
    let error = raft::open(cluster.options("m1")).await.unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    let owner = format!("in use by pid {}", std::process::id());
    assert!(error.to_string().contains(&owner), "{error}");
    cluster.backend("m1").admin.shutdown().await;
    let me = MasterInfo {
        id: "m2".into(),
        ..MasterInfo::default()
    };
    let peers = BTreeMap::from([("m2".to_owned(), "127.0.0.1:7077".to_owned())]);
    let error = raft::open(RaftOptions::new(me, peers, cluster.dir("m1")))
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("belongs to master m1, not to m2"),
        "{error}"
    );
    eventually("the first one can be opened again", || {
        if cluster.dir("m1").join("identity.json").exists() {
            Ok(())
        } else {
            Err("gone".into())
        }
    })
    .await;
}
