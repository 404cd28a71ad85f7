//! What only sled has: a disk that fails, values in pieces, a directory that may be someone else's.

use std::{fs, path::Path, sync::atomic::Ordering};

use bytes::Bytes;

use super::{database::SyncFaults, *};
use crate::{
    epoch::Epoch,
    error::CommitError,
    record::{CommitBatch, Mutation, RecordKey, RecordKind, VALUE_BYTES_MAX},
};

fn options(dir: &Path) -> SledOptions {
    let me = MasterInfo {
        id: "m1".to_owned(),
        rpc: "127.0.0.1:1".to_owned(),
        ..Default::default()
    };
    SledOptions {
        data_dir: dir.to_owned(),
        me,
    }
}

fn key(id: &str) -> RecordKey {
    RecordKey {
        kind: RecordKind(1),
        id: id.into(),
    }
}

fn put(id: &str, value: impl Into<Bytes>) -> Mutation {
    Mutation::Put {
        key: key(id),
        value: value.into(),
    }
}

async fn lead(backend: &Backend, dir: &Path) -> (Epoch, Vec<(RecordKey, Bytes)>) {
    let epoch = backend
        .election
        .campaign(&options(dir).me)
        .await
        .unwrap()
        .epoch;
    (
        epoch,
        backend.engine.open_epoch(epoch).await.unwrap().records,
    )
}

async fn commit(backend: &Backend, epoch: Epoch, mutations: Vec<Mutation>) {
    backend
        .engine
        .commit(CommitBatch { epoch, mutations })
        .await
        .unwrap();
}

#[tokio::test]
async fn after_a_failed_sync_the_next_leadership_has_exactly_what_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let faults = SyncFaults::default();
    let backend = open_with(options(dir.path()), faults.clone())
        .await
        .unwrap();
    let leadership = backend
        .election
        .campaign(&options(dir.path()).me)
        .await
        .unwrap();
    let epoch = leadership.epoch;
    backend.engine.open_epoch(epoch).await.unwrap();
    commit(&backend, epoch, vec![put("kept", "1")]).await;

    faults.next.store(1, Ordering::SeqCst);
    let lost = CommitBatch {
        epoch,
        mutations: vec![put("unknown", "2")],
    };
    let error = backend.engine.commit(lost.clone()).await.unwrap_err();
    assert!(error.maybe_written(), "{error}");
    assert!(leadership.lost.is_cancelled() && !backend.admin.health().ready);
    let error = backend.engine.commit(lost).await.unwrap_err();
    assert!(matches!(error, CommitError::Rejected(_)), "{error}");
    assert!(matches!(
        backend.engine.confirm(epoch).await,
        Err(CommitError::Fenced { .. })
    ));

    faults.next.store(1, Ordering::SeqCst);
    let error = backend
        .election
        .campaign(&options(dir.path()).me)
        .await
        .unwrap_err();
    assert!(error.retryable(), "{error}");

    let (next, records) = lead(&backend, dir.path()).await;
    assert!(next > epoch && backend.admin.health().ready);
    assert_eq!(records, [(key("kept"), Bytes::from("1"))]);
    commit(&backend, next, vec![put("later", "3")]).await;
    backend.admin.shutdown().await;

    let again = open(options(dir.path())).await.unwrap();
    let (_, records) = lead(&again, dir.path()).await;
    assert_eq!(
        records,
        [(key("kept"), "1".into()), (key("later"), "3".into())]
    );
}

#[tokio::test]
async fn a_large_value_is_cut_into_pieces_and_shrinks_without_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let backend = open(options(dir.path())).await.unwrap();
    let (epoch, _) = lead(&backend, dir.path()).await;
    for i in 0..4 {
        commit(
            &backend,
            epoch,
            vec![put(&format!("large-{i}"), vec![i; VALUE_BYTES_MAX])],
        )
        .await;
    }
    let blobs = fs::read_dir(dir.path().join("sled-1/blobs"))
        .unwrap()
        .count();
    assert_eq!(
        blobs, 0,
        "sled has put values into files that it does not sync"
    );
    commit(&backend, epoch, vec![put("large-0", vec![9; 10_000])]).await;
    commit(&backend, epoch, vec![put("large-1", "")]).await;
    commit(
        &backend,
        epoch,
        vec![Mutation::Delete {
            key: key("large-2"),
        }],
    )
    .await;
    backend.admin.shutdown().await;

    let again = open(options(dir.path())).await.unwrap();
    let (_, records) = lead(&again, dir.path()).await;
    let sizes: Vec<_> = records
        .iter()
        .map(|(key, value)| (&*key.id, value.len()))
        .collect();
    assert_eq!(
        sizes,
        [
            ("large-0", 10_000),
            ("large-1", 0),
            ("large-3", VALUE_BYTES_MAX)
        ]
    );
    assert!(records[0].1.iter().all(|byte| *byte == 9));
}

#[tokio::test]
async fn a_directory_that_holds_something_else_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("precious.txt"), "mine").unwrap();
    let error = open(options(dir.path())).await.unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    assert!(error.to_string().contains("precious.txt"), "{error}");
    assert_eq!(
        fs::read_to_string(dir.path().join("precious.txt")).unwrap(),
        "mine"
    );
}

#[tokio::test]
async fn the_directory_of_another_master_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    open(options(dir.path()))
        .await
        .unwrap()
        .admin
        .shutdown()
        .await;
    let mut other = options(dir.path());
    other.me.id = "m2".to_owned();
    let error = open(other).await.unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    assert!(
        error.to_string().contains("belongs to master m1, not m2"),
        "{error}"
    );
}

#[tokio::test]
async fn a_damaged_database_is_refused_with_what_to_do_or_reads_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let backend = open(options(dir.path())).await.unwrap();
    let (epoch, _) = lead(&backend, dir.path()).await;
    for i in 0..200 {
        commit(
            &backend,
            epoch,
            vec![put(&format!("record-{i:03}"), vec![i; 500])],
        )
        .await;
    }
    backend.admin.shutdown().await;
    let file = dir.path().join("sled-1/db");
    let whole = fs::read(&file).unwrap();
    let mut refused = 0;
    for at in (0..whole.len()).step_by(whole.len() / 16) {
        let mut damaged = whole.clone();
        let end = (at + 4096).min(damaged.len());
        damaged[at..end].fill(0x5a);
        fs::write(&file, &damaged).unwrap();
        match open(options(dir.path())).await {
            Err(OpenError::Corrupt { reason, .. }) => {
                assert!(
                    reason.contains("Restore the data directory from a backup"),
                    "{reason}"
                );
                refused += 1;
            }
            Err(other) => panic!("damage at {at}: {other}"),
            Ok(backend) => {
                let (_, records) = lead(&backend, dir.path()).await;
                assert_eq!(records.len(), 200, "damage at {at} went unnoticed");
                assert!(records.iter().all(|(_, value)| value.len() == 500));
                backend.admin.shutdown().await;
            }
        }
        fs::write(&file, &whole).unwrap();
    }
    assert!(refused > 0);
}

#[tokio::test]
async fn a_torn_snapshot_file_of_the_database_does_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let backend = open(options(dir.path())).await.unwrap();
    let (epoch, _) = lead(&backend, dir.path()).await;
    commit(&backend, epoch, vec![put("kept", "1")]).await;
    backend.admin.shutdown().await;
    fs::write(
        dir.path().join("sled-1/snap.00000000000007FF.generating"),
        [7; 100],
    )
    .unwrap();
    let again = open(options(dir.path())).await.unwrap();
    assert_eq!(
        lead(&again, dir.path()).await.1,
        [(key("kept"), Bytes::from("1"))]
    );
}

#[tokio::test]
async fn a_database_opens_and_closes_again_and_again_in_one_process() {
    let dir = tempfile::tempdir().unwrap();
    let mut last = Epoch::ZERO;
    for _ in 0..10 {
        let backend = open(options(dir.path())).await.unwrap();
        let (epoch, _) = lead(&backend, dir.path()).await;
        assert!(epoch > last);
        last = epoch;
        // Every other time without a shutdown: dropping the handles is enough.
        if epoch.0.is_multiple_of(2) {
            backend.admin.shutdown().await;
        }
    }
}

#[tokio::test]
async fn a_swollen_database_is_made_anew_when_it_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let backend = open(options(dir.path())).await.unwrap();
    let (epoch, _) = lead(&backend, dir.path()).await;
    for i in 0..200 {
        let mutations = (0..10)
            .map(|k| put(&format!("{k}"), vec![i; 2048]))
            .collect();
        commit(&backend, epoch, mutations).await;
    }
    backend.admin.shutdown().await;
    let before = fs::metadata(dir.path().join("sled-1/db")).unwrap().len();
    let again = open(options(dir.path())).await.unwrap();
    let (next, records) = lead(&again, dir.path()).await;
    assert!(next > epoch);
    assert_eq!(records.len(), 10);
    assert!(records.iter().all(|(_, value)| *value == vec![199; 2048]));
    commit(&again, next, vec![put("after", "1")]).await;
    again.admin.shutdown().await;
    assert!(!dir.path().join("sled-1").exists());
    let after = fs::metadata(dir.path().join("sled-2/db")).unwrap().len();
    assert!(after < before, "{before} bytes became {after}");
    let third = open(options(dir.path())).await.unwrap();
    assert_eq!(lead(&third, dir.path()).await.1.len(), 11);
}
