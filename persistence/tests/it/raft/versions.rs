//! Masters of several versions in one cluster: an entry of a newer kind waits until all understand it, and a master that
//! is given one all the same stops by name while the others go on.

use std::collections::BTreeMap;

use interrex_persistence::{
    epoch::Epoch,
    error::CommitError,
    raft::{FormatProbe, RaftOptions},
};

use super::cluster::{Cluster, eventually, untuned};

const IDS: [&str; 3] = ["m1", "m2", "m3"];
/// What the newer version knows besides.
const NEWER: u32 = 2;

/// A cluster, and a way to have each master write entries of any format.
struct Mixed {
    cluster: Cluster,
    probes: BTreeMap<String, FormatProbe>,
}

impl Mixed {
    async fn planned() -> Self {
        Self {
            cluster: Cluster::planned(&IDS, untuned).await,
            probes: BTreeMap::new(),
        }
    }

    /// Starts a master of one version or the other.
    async fn up(&mut self, id: &str, entry_format: u32) {
        let options = RaftOptions {
            entry_format,
            ..self.cluster.options(id)
        };
        let probe = self.cluster.up_probed(id, options).await.unwrap();
        self.probes.insert(id.to_owned(), probe);
    }

    /// Writes one entry of the newer version, as soon as the leader dares to.
    async fn write_newer(&self, leader: &str, epoch: Epoch) {
        let mut last = String::new();
        let began = std::time::Instant::now();
        while began.elapsed() < super::cluster::PATIENCE {
            match self.probes[leader].write(epoch, NEWER).await {
                Ok(()) => return,
                Err(error) => last = error.to_string(),
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("never written: {last}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_kind_of_entry_waits_until_the_oldest_master_is_upgraded() {
    let mut mixed = Mixed::planned().await;
    for (id, format) in [("m1", NEWER), ("m2", NEWER), ("m3", 1)] {
        mixed.up(id, format).await;
    }
    let (mut leader, mut leadership) = mixed.cluster.lead().await;
    if leader == "m3" {
        let admin = mixed.cluster.backend(&leader).admin.clone();
        let heir = admin.transfer_leader(Some("m1".to_owned())).await.unwrap();
        (leader, leadership) = mixed.cluster.lead_among(&[heir]).await;
    }
    let epoch = leadership.epoch;
    // What all understand goes on all the time.
    mixed.cluster.put(&leader, epoch, 0).await.unwrap();
    let refused = mixed.probes[&leader].write(epoch, NEWER).await.unwrap_err();
    assert!(matches!(refused, CommitError::Rejected(_)), "{refused}");
    let text = refused.to_string();
    assert!(
        text.contains("an entry of format 2 is not written"),
        "{text}"
    );
    mixed.cluster.put(&leader, epoch, 1).await.unwrap();
    mixed.cluster.down("m3").await;
    mixed.up("m3", NEWER).await;
    mixed.write_newer(&leader, epoch).await;
    mixed.cluster.put(&leader, epoch, 2).await.unwrap();
    mixed.cluster.ready("m3").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgraded_master_stops_by_name_at_what_it_does_not_know_and_the_others_go_on() {
    let mut mixed = Mixed::planned().await;
    for id in IDS {
        mixed.up(id, NEWER).await;
    }
    let (leader, leadership) = mixed.cluster.lead().await;
    let epoch = leadership.epoch;
    let old = IDS.into_iter().find(|id| *id != leader).unwrap();
    mixed.cluster.put(&leader, epoch, 0).await.unwrap();
    eventually("the leader knows what all apply", || {
        let may = mixed.probes[&leader].may_write(NEWER);
        may.then_some(()).ok_or_else(|| "not yet".to_owned())
    })
    .await;
    // The leader writes the entry while it still takes that one for a newer one.
    mixed.cluster.down(old).await;
    mixed.write_newer(&leader, epoch).await;
    for key in 1..20 {
        mixed.cluster.put(&leader, epoch, key).await.unwrap();
    }
    mixed.up(old, 1).await;
    let detail = mixed
        .cluster
        .health(old, |ready, text| !ready && text.contains("format 2"))
        .await;
    assert!(detail.contains("use the newer program"), "{detail}");
    // It does not harm the others, nor loses what it has: upgraded, it goes on where it stopped.
    for key in 20..40 {
        mixed.cluster.put(&leader, epoch, key).await.unwrap();
    }
    assert!(!leadership.lost.is_cancelled());
    mixed.cluster.down(old).await;
    // Its log has the entry now, so the old program is not even opened with it.
    let options = mixed.cluster.options(old);
    let refused = mixed.cluster.up_with(old, options).await.unwrap_err();
    assert!(refused.to_string().contains("format 2"), "{refused}");
    mixed.up(old, NEWER).await;
    let admin = mixed.cluster.backend(&leader).admin.clone();
    eventually("it has caught up", || {
        let members = admin.members();
        match members.iter().find(|m| m.id == old).unwrap().lag {
            Some(0) => Ok(()),
            _ => Err(format!("{members:?}")),
        }
    })
    .await;
}
