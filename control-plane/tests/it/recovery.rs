//! What a new leader makes of what it finds.

use bytes::Bytes;
use interrex_control_plane::{
    app::Master,
    records,
    runtime::{RequestError, Role},
};
use interrex_core::command::Command;
use interrex_persistence::{
    election::MasterInfo,
    memory::MemoryCluster,
    raft::{self, RaftOptions},
    record::{CommitBatch, Mutation, RecordKey},
};
use interrex_proto::v1::RecordEnvelope;
use prost::Message;

use crate::support::{PATIENCE, bind, client, has_role, leads, start, status, submit};

/// Puts bytes under a key, as somebody else who led in between.
pub(crate) async fn tamper(cluster: &MemoryCluster, key: RecordKey, value: Bytes) {
    let me = MasterInfo {
        id: "intruder".into(),
        ..MasterInfo::default()
    };
    let backend = cluster.join(me.clone());
    let leadership = backend
        .election
        .campaign(&me)
        .await
        .expect("nobody else campaigns");
    backend
        .engine
        .open_epoch(leadership.epoch)
        .await
        .expect("the newest epoch");
    let mutations = vec![Mutation::Put { key, value }];
    backend
        .engine
        .commit(CommitBatch {
            epoch: leadership.epoch,
            mutations,
        })
        .await
        .expect("stored");
    backend.election.resign().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_record_is_left_out_and_the_rest_recovers() {
    let cluster = MemoryCluster::new();
    let first = start(&cluster, "m1");
    let cluster_id = leads(&first).await.cluster_id().to_owned();
    let mut before = client(&first);
    let (bad, good) = (
        submit(&mut before, "bad").await,
        submit(&mut before, "good").await,
    );
    first.shutdown().await;
    let damaged = RecordKey {
        kind: records::DRIVER,
        id: bad.as_str().into(),
    };
    tamper(
        &cluster,
        damaged.clone(),
        Bytes::from_static(b"no record at all"),
    )
    .await;
    let meta = RecordKey {
        kind: records::META,
        id: records::META_ID.into(),
    };
    tamper(&cluster, meta, Bytes::from_static(b"\x00")).await;

    let second = start(&cluster, "m1");
    let view = leads(&second).await;
    assert_eq!(view.cluster_id(), cluster_id, "kept in the second copy");
    let mut after = client(&second);
    assert_eq!(
        status(&mut after, "good").await.unwrap().driver.unwrap().id,
        good
    );
    assert!(status(&mut after, &bad).await.is_err());
    let next = submit(&mut after, "next").await;
    assert!(next != bad && next != good, "no number is used twice");
    assert!(
        cluster.store().get(&damaged).is_some(),
        "left in the store untouched"
    );
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_does_not_lead_over_what_a_newer_version_wrote() {
    let cluster = MemoryCluster::new();
    let body = b"from the future".to_vec();
    let version = records::FORMAT_VERSION + 1;
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&version.to_le_bytes());
    checksum.update(&body);
    let envelope = RecordEnvelope {
        version,
        crc32: checksum.finalize(),
        body,
    };
    let key = RecordKey {
        kind: records::WORKER,
        id: "w1".into(),
    };
    tamper(&cluster, key, envelope.encode_to_vec().into()).await;

    let master = start(&cluster, "m1");
    // It is elected, opens its epoch, sees the record, and steps back.
    let opened = cluster.store().opened();
    let tried = async {
        while cluster.store().opened() == opened {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, tried)
        .await
        .expect("an election");
    has_role(&master, Role::Standby).await;
    let refused = master
        .handle
        .submit(Command::KillAllDrivers { request: None }, PATIENCE)
        .await;
    assert!(
        matches!(refused, Err(RequestError::NotLeader { .. })),
        "{refused:?}"
    );
    assert!(master.handle.view().is_empty());
    master.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_and_backend_name_the_same_cluster() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut ids = Vec::new();
    // The address is another one each time: a cluster of one knows no other by it.
    for _life in 0..2 {
        let (options, listeners) = bind("m1");
        let peers = [("m1".to_owned(), options.me.rpc.clone())].into();
        let backend = raft::open(RaftOptions::new(options.me.clone(), peers, dir.path())).await;
        let backend = backend.expect("a backend");
        let master = Master::start(options, listeners, backend).expect("a master");
        let view = leads(&master).await;
        let named = master.handle.admin().cluster_id();
        assert_eq!(named.as_deref(), Some(view.cluster_id()));
        assert_eq!(master.handle.status().cluster_id, view.cluster_id());
        ids.extend(named);
        master.shutdown().await;
    }
    assert_eq!(ids[0], ids[1]);
}
