//! Snapshots out of a cluster and into a new one.

use std::time::Duration;

use bytes::Bytes;
use interrex_client::control::{ClientError, ClientOptions, SnapshotClient};
use interrex_control_plane::{
    app::RunningMaster,
    records,
    snapshot::{EPOCH_MARGIN, examine},
};
use interrex_persistence::{
    faulty::{Fault, Faults, Op},
    memory::MemoryCluster,
    record::RecordKey,
    snapshot_file::SnapshotFile,
};
use interrex_proto::v1::{
    ClusterRequest, ProcessState, RegisterWorker, RestoreSnapshotResponse, RunningDriver,
    peer_frame::Body,
};
use tonic::Code;

use crate::{
    recovery::tamper,
    support::{
        PATIENCE, Peer, client, has_role, leads, register, report, sees, start, start_with, status,
        submission, submit,
    },
};

fn snapshots(master: &RunningMaster) -> SnapshotClient {
    let mut options = ClientOptions::new(vec![master.rpc_addr.to_string()]);
    options.total_deadline = Duration::from_secs(3);
    SnapshotClient::new(options).expect("good options")
}

/// The bytes of a snapshot.
async fn save(master: &RunningMaster) -> Vec<u8> {
    let mut saving = snapshots(master).save(false).await.expect("a snapshot");
    let mut bytes = Vec::new();
    while let Some(piece) = saving.next().await.expect("to its end") {
        bytes.extend(piece);
    }
    bytes
}

async fn restore_with(
    master: &RunningMaster,
    bytes: &[u8],
    keep_quarantined: bool,
) -> Result<RestoreSnapshotResponse, ClientError> {
    let pieces: Vec<Vec<u8>> = bytes.chunks(1000).map(<[u8]>::to_vec).collect();
    let pieces = || tokio_stream::iter(pieces.clone());
    snapshots(master).restore(keep_quarantined, pieces).await
}

async fn restore(
    master: &RunningMaster,
    bytes: &[u8],
) -> Result<RestoreSnapshotResponse, ClientError> {
    restore_with(master, bytes, false).await
}

/// Waits until this master leads above `floor`.
async fn leads_above(master: &RunningMaster, floor: u64) {
    sees(&master.handle, "a leader above the floor", |view| {
        view.epoch().0 > floor && !view.cluster_id().is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_keeps_its_answer_when_its_cluster_is_restored() {
    let old = start(&MemoryCluster::new(), "m1");
    let old_id = leads(&old).await.cluster_id().to_owned();
    let driver = submit(&mut client(&old), "s1").await;
    let bytes = save(&old).await;
    let file = SnapshotFile::read(bytes.as_slice()).expect("a whole file");
    assert_eq!(file.header.cluster_id, old_id);
    old.shutdown().await;

    let new = start(&MemoryCluster::new(), "m1");
    let new_id = leads(&new).await.cluster_id().to_owned();
    let restored = restore(&new, &bytes).await.expect("restored");
    assert_eq!(
        (restored.cluster_id.as_str(), restored.already),
        (new_id.as_str(), false)
    );
    assert_eq!(restored.formerly, [old_id]);
    assert_eq!(restored.epoch_floor, file.header.epoch + EPOCH_MARGIN);
    leads_above(&new, restored.epoch_floor).await;
    let mut client = client(&new);
    let again = client
        .submit(submission("s1"))
        .await
        .expect("accepted")
        .into_inner();
    assert!(again.replayed, "the same request has one effect");
    assert_eq!(again.driver.expect("a driver").id, driver);
    // And what is new gets a number of its own.
    let next = submit(&mut client, "s2").await;
    assert_ne!(next, driver);

    // The command's answer may have been lost: it is repeated, though there is work now.
    let repeated = restore(&new, &bytes).await.expect("the same again");
    assert!(repeated.already);
    assert!(
        status(&mut client, &next).await.is_ok(),
        "nothing was changed"
    );
    new.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_of_the_old_cluster_go_on_with_their_jobs_in_the_new_one() {
    let old = start(&MemoryCluster::new(), "m1");
    leads(&old).await;
    let (mut agent, registered) = Peer::agent(&old, "w1").await;
    let driver = submit(&mut client(&old), "s1").await;
    let (_, launch) = agent.launch().await;
    agent
        .say(report(1, &launch, ProcessState::Running, None))
        .await;
    agent.acknowledged(1).await;
    let bytes = save(&old).await;
    old.shutdown().await;

    let new = start(&MemoryCluster::new(), "m1");
    leads(&new).await;
    let restored = restore(&new, &bytes).await.expect("restored");
    leads_above(&new, restored.epoch_floor).await;
    let running = RunningDriver {
        driver_id: driver.clone(),
        attempt: 1,
        ..RunningDriver::default()
    };
    let Body::RegisterWorker(register) = register("w1", vec![running]) else {
        panic!("a registration");
    };
    let of_old = Body::RegisterWorker(RegisterWorker {
        cluster_id: registered.cluster_id.clone(),
        ..register.clone()
    });
    let mut agent = Peer::attach(&new, of_old).await;
    let answer = agent.registered().await;
    assert_eq!(answer.cluster_id, restored.cluster_id);
    assert_eq!(answer.formerly, [registered.cluster_id]);
    let mut client = client(&new);
    let seen = status(&mut client, "s1")
        .await
        .expect("known")
        .driver
        .expect("a driver");
    assert_eq!((seen.state.as_str(), seen.attempt), ("RUNNING", 1));
    // An agent of a third cluster is still a stranger.
    let stranger = Body::RegisterWorker(RegisterWorker {
        cluster_id: "third".into(),
        ..register
    });
    assert!(Peer::attach(&new, stranger).await.refused().await.permanent);
    new.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_has_had_work_takes_no_snapshot_over() {
    let old = start(&MemoryCluster::new(), "m1");
    leads(&old).await;
    let bytes = save(&old).await;
    old.shutdown().await;
    let used = start(&MemoryCluster::new(), "m1");
    leads(&used).await;
    let driver = submit(&mut client(&used), "s1").await;
    let refused = restore(&used, &bytes).await.expect_err("refused");
    let text = refused.to_string();
    assert!(
        matches!(refused, ClientError::Conflict { .. }) && text.contains("1 drivers"),
        "{text}"
    );
    // It serves on, in the same leadership.
    assert!(status(&mut client(&used), &driver).await.is_ok());
    used.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_that_was_cut_off_serves_nobody_until_it_is_repeated() {
    let old = start(&MemoryCluster::new(), "m1");
    leads(&old).await;
    let driver = submit(&mut client(&old), "s1").await;
    let bytes = save(&old).await;
    submit(&mut client(&old), "s2").await;
    let other = save(&old).await;
    old.shutdown().await;

    let (cluster, faults) = (MemoryCluster::new(), Faults::calm());
    let new = start_with(&cluster, "m1", &faults);
    leads(&new).await;
    // The mark is stored, the records are not.
    faults.script(Op::Commit, [None, Some(Fault::LoseRequest)]);
    let cut_off = restore(&new, &bytes)
        .await
        .expect_err("cut off")
        .to_string();
    assert!(cut_off.contains("run the command again"), "{cut_off}");
    new.shutdown().await;

    // Another master finds it, and so does each later leadership.
    let next = start(&cluster, "m2");
    let snapshot = SnapshotFile::read(bytes.as_slice())
        .expect("whole")
        .digest
        .to_string();
    let mut client = client(&next);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let refused = loop {
        let refused = client
            .submit(submission("s3"))
            .await
            .expect_err("nothing is served");
        if refused.code() == Code::FailedPrecondition {
            break refused;
        }
        assert!(tokio::time::Instant::now() < deadline, "{refused}");
        tokio::task::yield_now().await;
    };
    let words = format!("restore of snapshot {snapshot} incomplete");
    assert!(refused.message().contains(&words), "{refused}");
    let shown = client
        .get_cluster(ClusterRequest {})
        .await
        .expect("shown")
        .into_inner();
    assert_eq!(
        (shown.leader.as_str(), shown.state.as_str()),
        ("m2", "RESTORING")
    );
    let another = restore(&next, &other)
        .await
        .expect_err("another snapshot")
        .to_string();
    assert!(another.contains(&snapshot), "{another}");

    let restored = restore(&next, &bytes).await.expect("repeated");
    leads_above(&next, restored.epoch_floor).await;
    let seen = status(&mut client, "s1").await.expect("known");
    assert_eq!(seen.driver.expect("a driver").id, driver);
    next.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_snapshot_changes_nothing() {
    let old = start(&MemoryCluster::new(), "m1");
    leads(&old).await;
    submit(&mut client(&old), "s1").await;
    let bytes = save(&old).await;
    old.shutdown().await;
    let new = start(&MemoryCluster::new(), "m1");
    let epoch = leads(&new).await.epoch();
    for bad in [
        &bytes[..bytes.len() - 1],
        &bytes[..40],
        &[],
        &[bytes.as_slice(), b"x"].concat(),
    ] {
        let refused = restore(&new, bad).await.expect_err("refused");
        assert!(matches!(refused, ClientError::Invalid { .. }), "{refused}");
    }
    assert_eq!(new.handle.view().epoch(), epoch, "it leads on");
    new.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_gives_a_snapshot_and_sends_a_restore_to_the_leader() {
    let cluster = MemoryCluster::new();
    let leader = start(&cluster, "m1");
    leads(&leader).await;
    let standby = start(&cluster, "m2");
    has_role(&standby, interrex_control_plane::runtime::Role::Standby).await;
    let bytes = save(&standby).await;
    let restored = restore(&standby, &bytes)
        .await
        .expect("restored by the leader");
    assert!(!restored.already);
    leader.shutdown().await;
    leads_above(&standby, restored.epoch_floor).await;
    standby.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quarantined_record_is_counted_listed_and_outlives_what_takes_its_place() {
    let cluster = MemoryCluster::new();
    let first = start(&cluster, "m1");
    leads(&first).await;
    submit(&mut client(&first), "s1").await;
    first.shutdown().await;
    let worker = RecordKey {
        kind: records::WORKER,
        id: "w1".into(),
    };
    let request = RecordKey {
        kind: records::REQUEST,
        id: "s1".into(),
    };
    tamper(&cluster, worker.clone(), Bytes::from_static(b"bad worker")).await;
    tamper(
        &cluster,
        request.clone(),
        Bytes::from_static(b"bad request"),
    )
    .await;

    let master = start(&cluster, "m1");
    leads(&master).await;
    let mut client = client(&master);
    let shown = client
        .get_cluster(ClusterRequest {})
        .await
        .expect("shown")
        .into_inner();
    assert_eq!(shown.quarantined_records, 2);
    // What the request did is not known, so it is not done a second time.
    let refused = client.submit(submission("s1")).await.expect_err("refused");
    assert_eq!(refused.code(), Code::AlreadyExists);
    assert!(cluster.store().get(&request).is_some());
    // A worker of that name takes the record's place; the bytes are kept.
    let (_agent, _) = Peer::agent(&master, "w1").await;
    let aside = records::aside_key(&worker, b"bad worker");
    assert_eq!(
        cluster.store().get(&aside).map(Bytes::as_ref),
        Some(&b"bad worker"[..])
    );
    let bytes = save(&master).await;
    let file = SnapshotFile::read(bytes.as_slice()).expect("whole");
    let report = examine(&file, 1).expect("today's format");
    let listed: Vec<&str> = report.quarantined.iter().map(|r| r.kind).collect();
    assert_eq!(listed, ["request", "set-aside"]);
    assert_eq!(report.kinds["worker"].states["ALIVE"], 1);
    assert!(report.sample.iter().any(|sampled| sampled.kind == "driver"));

    // Such a snapshot is restored only when that is asked for.
    let new = start(&MemoryCluster::new(), "m1");
    leads(&new).await;
    let refused = restore(&new, &bytes)
        .await
        .expect_err("refused")
        .to_string();
    assert!(refused.contains("--keep-quarantined"), "{refused}");
    let restored = restore_with(&new, &bytes, true).await.expect("restored");
    leads_above(&new, restored.epoch_floor).await;
    assert_eq!(new.handle.view().quarantined(), 2);
    new.shutdown().await;
    master.shutdown().await;
}
