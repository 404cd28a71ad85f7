//! Masters that come, go, move and are replaced while records are written.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use interrex_persistence::{
    backend::Backend,
    raft::{Neighbour, Survivor},
};
use interrex_proto::credentials::Credentials;
use tokio::task::JoinSet;

use super::cluster::{Cluster, batch, eventually, keys, untuned, within};

/// Writes all the time, wherever leadership is: one task a master, each as a real master would do it.
#[derive(Default)]
struct Writers {
    next: Arc<AtomicU64>,
    acknowledged: Arc<Mutex<BTreeSet<u64>>>,
    tasks: JoinSet<()>,
}

impl Writers {
    fn add(&mut self, cluster: &Cluster, id: &str) {
        let (me, backend) = (cluster.options(id).me, cluster.backend(id).clone());
        let (next, acknowledged) = (Arc::clone(&self.next), Arc::clone(&self.acknowledged));
        self.tasks.spawn(async move {
            let Backend {
                election, engine, ..
            } = backend;
            while let Ok(leadership) = election.campaign(&me).await {
                if engine.open_epoch(leadership.epoch).await.is_err() {
                    continue;
                }
                loop {
                    let key = next.fetch_add(1, Ordering::Relaxed);
                    match engine.commit(batch(leadership.epoch, key, 100)).await {
                        Ok(_) => drop(acknowledged.lock().unwrap().insert(key)),
                        Err(_) => break,
                    }
                }
            }
        });
    }

    /// Waits until more has been acknowledged than now.
    async fn go_on(&self, what: &str) {
        let before = self.acknowledged.lock().unwrap().len();
        eventually(what, || {
            let now = self.acknowledged.lock().unwrap().len();
            if now > before + 20 {
                Ok(())
            } else {
                Err(format!("{now} records, {before} before"))
            }
        })
        .await;
    }
}

/// The id of the master that leads, as one of those that are up sees it.
async fn leader_of(cluster: &Cluster) -> String {
    eventually("a leader", || {
        let views = cluster.up.values().map(|m| m.backend.election.observe());
        let leading = views.filter_map(|view| {
            let view = view.borrow();
            let leader = view.leader.as_ref()?;
            Some((view.epoch, leader.id.clone()))
        });
        leading.max().map(|(_, id)| id).ok_or_else(|| "none".into())
    })
    .await
}

async fn add(cluster: &Cluster, id: &str) {
    let rpc = cluster.addresses[id].to_string();
    within("adding", async {
        loop {
            let leader = leader_of(cluster).await;
            let admin = cluster.backend(&leader).admin.clone();
            if admin.add_master(id.to_owned(), rpc.clone()).await.is_ok() {
                return;
            }
        }
    })
    .await;
}

async fn remove(cluster: &Cluster, id: &str) {
    within("removing", async {
        loop {
            let leader = leader_of(cluster).await;
            let admin = cluster.backend(&leader).admin.clone();
            if admin.remove_master(id.to_owned()).await.is_ok() {
                return;
            }
        }
    })
    .await;
}

fn voters(cluster: &Cluster, at: &str) -> Vec<String> {
    let members = cluster.backend(at).admin.members().into_iter();
    members.filter(|m| m.voter).map(|m| m.id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_master_becomes_three_five_and_three_others_and_nothing_is_lost() {
    let mut cluster = Cluster::start(&["m1"], untuned).await;
    let mut writers = Writers::default();
    writers.add(&cluster, "m1");
    for id in ["m2", "m3", "m4", "m5"] {
        cluster.plan(id).await;
        cluster.up_joining(id).await;
        writers.add(&cluster, id);
        let detail = cluster
            .health(id, |ready, text| !ready && text.contains("cluster add"))
            .await;
        assert!(detail.contains(&format!("cluster add {id}=")), "{detail}");
        add(&cluster, id).await;
        writers.go_on("records go on").await;
    }
    assert_eq!(voters(&cluster, "m1").len(), 5);
    // The leader among them: it hands over before it goes.
    for id in ["m1", "m2"] {
        remove(&cluster, id).await;
        writers.go_on("records go on").await;
        cluster
            .health(id, |ready, text| !ready && text.contains("not a member"))
            .await;
        cluster.down(id).await;
    }
    let leader = leader_of(&cluster).await;
    assert_eq!(voters(&cluster, &leader), ["m3", "m4", "m5"]);
    // All that are left have been started with --join: they find each other again without it meaning anything.
    cluster.down_all().await;
    within("the writers end", async {
        while writers.tasks.join_next().await.is_some() {}
    })
    .await;
    for id in ["m3", "m4", "m5"] {
        cluster.up_joining(id).await;
    }
    let (leader, leadership) = cluster.lead().await;
    let engine = &cluster.backend(&leader).engine;
    let found: BTreeSet<u64> = keys(&engine.open_epoch(leadership.epoch).await.unwrap())
        .into_iter()
        .collect();
    let acknowledged = writers.acknowledged.lock().unwrap();
    let lost: Vec<&u64> = acknowledged.difference(&found).collect();
    assert!(lost.is_empty() && acknowledged.len() > 100, "lost {lost:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_comes_back_elsewhere_is_found_and_noted() {
    let mut cluster = Cluster::start(&["m1", "m2", "m3"], untuned).await;
    let (leader, leadership) = cluster.lead().await;
    let moving = ["m1", "m2", "m3"]
        .into_iter()
        .find(|id| *id != leader)
        .unwrap();
    cluster.put(&leader, leadership.epoch, 1).await.unwrap();
    let old = cluster.addresses[moving];
    cluster.down(moving).await;
    cluster.plan(moving).await;
    let new = cluster.addresses[moving];
    assert_ne!(old, new);
    // Only its own list has the new address.
    cluster.up(moving).await;
    cluster.ready(moving).await;
    let admin = cluster.backend(&leader).admin.clone();
    eventually("the new address is noted", || {
        let members = admin.members();
        let it = members.iter().find(|m| m.id == moving).unwrap();
        if it.rpc == new.to_string() && it.lag == Some(0) && it.healthy == Some(true) {
            Ok(())
        } else {
            Err(format!("{it:?}"))
        }
    })
    .await;
    let text = admin
        .add_master(moving.to_owned(), new.to_string())
        .await
        .unwrap();
    assert!(
        text.contains("already") || text.contains("has moved"),
        "{text}"
    );
    // It is in the log: a master with the old list finds it too.
    cluster.put(&leader, leadership.epoch, 2).await.unwrap();
    admin
        .transfer_leader(Some(moving.to_owned()))
        .await
        .unwrap();
    let (_, next) = cluster.lead_among(&[moving.to_owned()]).await;
    cluster.put(moving, next.epoch, 3).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_left_half_way_is_shown_undone_and_added_again() {
    let mut cluster = Cluster::start(&["m1"], untuned).await;
    let (_, leadership) = cluster.lead().await;
    cluster.put("m1", leadership.epoch, 1).await.unwrap();
    cluster.plan("m2").await;
    cluster.up_joining("m2").await;
    cluster.disk("m2").fail(true);
    let admin = cluster.backend("m1").admin.clone();
    assert_eq!(admin.half_way(), None);
    let (asked, rpc) = (admin.clone(), cluster.addresses["m2"].to_string());
    let at = rpc.clone();
    let adding = tokio::spawn(async move { asked.add_master("m2".into(), at).await });
    let text = eventually("the learner is shown", || {
        admin.half_way().ok_or("nothing".into())
    })
    .await;
    assert!(text.contains("m2 learns and does not vote yet"), "{text}");
    assert!(
        text.contains("`interrex cluster remove m2` undoes it"),
        "{text}"
    );
    let members = admin.members();
    assert!(!members.iter().find(|m| m.id == "m2").unwrap().voter);
    adding.abort();
    within("undoing", admin.remove_master("m2".into()))
        .await
        .unwrap();
    assert_eq!(admin.half_way(), None);
    assert_eq!(admin.members().len(), 1);
    cluster.disk("m2").fail(false);
    within("adding", async {
        while let Err(error) = admin.add_master("m2".into(), rpc.clone()).await {
            assert!(!error.to_string().contains("belongs to"), "{error}");
        }
    })
    .await;
    cluster.ready("m2").await;
    cluster.put("m1", leadership.epoch, 2).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_would_break_the_quorum_is_refused_by_name() {
    let mut cluster = Cluster::start(&["m1", "m2", "m3"], untuned).await;
    let (leader, leadership) = cluster.lead().await;
    let mut others: Vec<String> = cluster
        .up
        .keys()
        .filter(|id| **id != leader)
        .cloned()
        .collect();
    let (dead, alive) = (others.remove(0), others.remove(0));
    cluster.down(&dead).await;
    let admin = cluster.backend(&leader).admin.clone();
    let refused = eventually("it is missed", || {
        let members = admin.members();
        let it = members.iter().find(|m| m.id == dead).unwrap().clone();
        if it.healthy == Some(false) {
            Ok(())
        } else {
            Err(format!("{it:?}"))
        }
    });
    refused.await;
    let error = admin
        .remove_master(alive.clone())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&format!(
            "without {alive} only 1 of 2 voting masters answer"
        )) && error.contains(&format!("{dead} does not")),
        "{error}"
    );
    // The dead one may go, and then be replaced by a fresh one of its name.
    within("removing", admin.remove_master(dead.clone()))
        .await
        .unwrap();
    std::fs::remove_dir_all(cluster.dir(&dead)).unwrap();
    cluster.up_joining(&dead).await;
    add(&cluster, &dead).await;
    cluster.ready(&dead).await;
    cluster.put(&leader, leadership.epoch, 1).await.unwrap();
    assert_eq!(voters(&cluster, &leader).len(), 3);
}

/// The addresses of all but `id`.
fn elsewhere(cluster: &Cluster, id: &str) -> BTreeMap<String, String> {
    let mut peers = cluster.peers();
    peers.remove(id);
    peers
}

async fn ask(survivor: &Survivor, moved: &BTreeMap<String, String>) -> Vec<Neighbour> {
    survivor.neighbours(moved, Credentials::default()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_survivor_of_a_lost_quorum_goes_on_with_everything_and_the_lost_ones_never_return() {
    let mut cluster = Cluster::start(&["m1", "m2", "m3"], untuned).await;
    let (leader, leadership) = cluster.lead().await;
    for key in 0..50 {
        cluster.put(&leader, leadership.epoch, key).await.unwrap();
    }
    let open = |path: std::path::PathBuf| Survivor::open(&path);
    let busy = open(cluster.dir(&leader)).unwrap_err().to_string();
    assert!(busy.contains("in use by"), "{busy}");
    let lost: Vec<String> = cluster
        .up
        .keys()
        .filter(|id| **id != leader)
        .cloned()
        .collect();
    // One is enough to go on with: not recovered.
    cluster.down(&lost[0]).await;
    cluster.down(&leader).await;
    let survivor = open(cluster.dir(&leader)).unwrap();
    let neighbours = ask(&survivor, &elsewhere(&cluster, &leader)).await;
    let alive = survivor.recover(&neighbours).await.unwrap_err().to_string();
    assert!(alive.contains(&format!("{} answers", lost[1])), "{alive}");
    cluster.down(&lost[1]).await;
    let survivor = open(cluster.dir(&leader)).unwrap();
    assert_eq!(survivor.newest_term(), leadership.epoch.0);
    let neighbours = ask(&survivor, &elsewhere(&cluster, &leader)).await;
    assert!(
        neighbours.iter().all(|n| !n.answers && n.voter),
        "{neighbours:?}"
    );
    let term = survivor.recover(&neighbours).await.unwrap();
    assert!(term > leadership.epoch.0);
    let again = open(cluster.dir(&leader)).unwrap();
    let alone = ask(&again, &BTreeMap::new()).await;
    assert!(
        again
            .check(&alone)
            .unwrap_err()
            .to_string()
            .contains("only master")
    );
    drop(again);

    cluster.up(&leader).await;
    let (_, after) = cluster.lead_among(std::slice::from_ref(&leader)).await;
    assert!(after.epoch.0 > term);
    let engine = cluster.backend(&leader).engine.clone();
    let recovered = engine.open_epoch(after.epoch).await.unwrap();
    assert_eq!(keys(&recovered), (0..50).collect::<Vec<_>>());

    // The old ones come back, and together they were a quorum.
    cluster.up_all(&[&lost[0], &lost[1]]).await;
    for id in &lost {
        let detail = cluster
            .health(id, |ready, text| !ready && text.contains("left behind"))
            .await;
        assert!(detail.contains("never takes part again"), "{detail}");
        assert_eq!(cluster.backend(id).admin.unfit(), None);
    }
    let rpc = cluster.addresses[&lost[0]].to_string();
    let admin = cluster.backend(&leader).admin.clone();
    let refused = admin.add_master(lost[0].clone(), rpc).await.unwrap_err();
    assert!(refused.to_string().contains("left behind"), "{refused}");
    for id in &lost {
        cluster.down(id).await;
        let error = cluster.try_up(id).await.unwrap_err().to_string();
        assert!(error.contains("left behind"), "{error}");
        std::fs::remove_dir_all(cluster.dir(id)).unwrap();
        cluster.up_joining(id).await;
        add(&cluster, id).await;
        cluster.ready(id).await;
    }
    cluster.put(&leader, after.epoch, 50).await.unwrap();
    assert_eq!(voters(&cluster, &leader).len(), 3);
}
