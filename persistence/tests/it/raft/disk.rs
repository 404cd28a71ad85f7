//! What the disk keeps, and what happens when it does not.

use std::{fs, io::Write, path::Path};

use interrex_persistence::{
    error::{CommitError, OpenError},
    raft::{self, RaftOptions},
};

use super::cluster::{Cluster, batch, eventually, keys, newest_file, untuned, within};

/// Snapshots after few entries, and log files so small that they are really removed.
fn small(options: &mut RaftOptions) {
    options.snapshots.entries = 50;
    options.snapshots.keep_entries = 5;
    options.snapshots.log_file_bytes = 4 << 10;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_survives_a_restart_of_all_masters() {
    let mut cluster = Cluster::start(&["m1", "m2", "m3"], untuned).await;
    let mut epoch = None;
    for round in 0..3_u64 {
        let (leader, leadership) = cluster.lead().await;
        assert!(epoch.replace(leadership.epoch) < Some(leadership.epoch));
        let recovered = cluster
            .backend(&leader)
            .engine
            .open_epoch(leadership.epoch)
            .await
            .unwrap();
        assert_eq!(keys(&recovered), (0..round * 20).collect::<Vec<_>>());
        for key in round * 20..round * 20 + 20 {
            cluster.put(&leader, leadership.epoch, key).await.unwrap();
        }
        cluster.down_all().await;
        cluster.up_all(&["m1", "m2", "m3"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_master_alone_leads_again_after_every_restart() {
    let mut cluster = Cluster::start(&["m1"], small).await;
    for round in 0..8_u64 {
        let (_, leadership) = cluster.lead().await;
        let engine = cluster.backend("m1").engine.clone();
        let recovered = engine.open_epoch(leadership.epoch).await.unwrap();
        assert_eq!(keys(&recovered), (0..round * 30).collect::<Vec<_>>());
        for key in round * 30..round * 30 + 30 {
            cluster.put("m1", leadership.epoch, key).await.unwrap();
        }
        drop(engine);
        cluster.down("m1").await;
        cluster.up("m1").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torn_tail_of_the_log_is_cut_off() {
    let mut cluster = Cluster::start(&["m1"], untuned).await;
    let (_, leadership) = cluster.lead().await;
    for key in 0..10 {
        cluster.put("m1", leadership.epoch, key).await.unwrap();
    }
    cluster.down("m1").await;
    let file = newest_file(&cluster.dir("m1").join("log"), ".wal");
    let whole = fs::read(&file).unwrap();
    // Half of a record that never was acknowledged: the first bytes of one that is in the file.
    let mut torn = whole.clone();
    torn.extend_from_slice(&whole[..9]);
    fs::write(&file, torn).unwrap();
    cluster.up("m1").await;
    let (_, leadership) = cluster.lead().await;
    let recovered = cluster
        .backend("m1")
        .engine
        .open_epoch(leadership.epoch)
        .await
        .unwrap();
    assert_eq!(keys(&recovered), (0..10).collect::<Vec<_>>());
    cluster.put("m1", leadership.epoch, 10).await.unwrap();
    cluster.down("m1").await;
    cluster.up("m1").await;
    let (_, leadership) = cluster.lead().await;
    let recovered = cluster
        .backend("m1")
        .engine
        .open_epoch(leadership.epoch)
        .await
        .unwrap();
    assert_eq!(keys(&recovered), (0..11).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_in_the_middle_of_the_log_refuses_to_open() {
    let mut cluster = Cluster::start(&["m1"], untuned).await;
    let (_, leadership) = cluster.lead().await;
    for key in 0..50 {
        cluster.put("m1", leadership.epoch, key).await.unwrap();
    }
    cluster.down("m1").await;
    let file = newest_file(&cluster.dir("m1").join("log"), ".wal");
    let mut bytes = fs::read(&file).unwrap();
    // Inside a value: the lengths around it stay right.
    let at = bytes
        .windows(20)
        .position(|window| window == [25; 20])
        .unwrap();
    bytes[at] ^= 0xff;
    fs::write(&file, bytes).unwrap();
    let error = cluster.try_up("m1").await.unwrap_err();
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("log"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_log_of_a_member_is_not_taken_for_a_new_one() {
    let mut cluster = Cluster::start(&["m1"], untuned).await;
    cluster.lead().await;
    let identity = cluster.dir("m1").join("identity.json");
    eventually("the cluster's name is kept", || {
        let text = fs::read_to_string(&identity).unwrap();
        if text.contains("\"cluster_id\": \"\"") {
            Err(text)
        } else {
            Ok(())
        }
    })
    .await;
    cluster.down("m1").await;
    fs::remove_dir_all(cluster.dir("m1").join("log")).unwrap();
    let error = cluster.try_up("m1").await.unwrap_err();
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
    assert!(
        error.to_string().contains("interrex cluster add m1="),
        "{error}"
    );
}

/// Waits until the log is far smaller than the 80 KiB of 600 entries, and of all snapshots one is left.
async fn little_is_kept(dir: &Path) {
    let log = dir.join("log");
    let size = || -> u64 {
        fs::read_dir(&log)
            .unwrap()
            .map(|e| e.unwrap().metadata().map_or(0, |m| m.len()))
            .sum()
    };
    eventually("the log is cut", || match size() {
        bytes if bytes < 30 << 10 => Ok(()),
        bytes => Err(format!("{bytes} bytes")),
    })
    .await;
    let snapshots = dir.join("snapshots");
    eventually("one snapshot is kept", || {
        match fs::read_dir(&snapshots).unwrap().count() {
            1 => Ok(()),
            files => Err(format!("{files} files")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_is_cut_behind_snapshots_and_a_late_follower_gets_one() {
    let mut cluster = Cluster::start(&["m1", "m2", "m3"], small).await;
    let (leader, leadership) = cluster.lead().await;
    let late = ["m1", "m2", "m3"]
        .into_iter()
        .find(|id| *id != leader)
        .unwrap();
    cluster.put(&leader, leadership.epoch, 0).await.unwrap();
    cluster.down(late).await;
    for key in 1..600 {
        cluster.put(&leader, leadership.epoch, key).await.unwrap();
    }
    little_is_kept(&cluster.dir(&leader)).await;
    cluster.up(late).await;
    eventually("the late one catches up", || {
        let members = cluster.backend(&leader).admin.members();
        let current = members.iter().find(|m| m.id == late).unwrap().lag == Some(0);
        if current {
            Ok(())
        } else {
            Err(format!("{members:?}"))
        }
    })
    .await;
    newest_file(&cluster.dir(late).join("snapshots"), ".snapshot");
    let heir = cluster
        .backend(&leader)
        .admin
        .transfer_leader(Some(late.to_owned()))
        .await
        .unwrap();
    let (late, next) = cluster.lead_among(&[heir]).await;
    let recovered = cluster
        .backend(&late)
        .engine
        .open_epoch(next.epoch)
        .await
        .unwrap();
    assert_eq!(keys(&recovered), (0..600).collect::<Vec<_>>());
    // And it keeps what it was given.
    cluster.down_all().await;
    cluster.up_all(&["m1", "m2", "m3"]).await;
    let (leader, next) = cluster.lead().await;
    let recovered = cluster
        .backend(&leader)
        .engine
        .open_epoch(next.epoch)
        .await
        .unwrap();
    assert_eq!(keys(&recovered), (0..600).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_snapshot_is_sent_in_pieces() {
    let mut cluster = Cluster::start(&["m1", "m2", "m3"], small).await;
    let (leader, leadership) = cluster.lead().await;
    let late = ["m1", "m2", "m3"]
        .into_iter()
        .find(|id| *id != leader)
        .unwrap();
    cluster.down(late).await;
    // 20 MiB: more pieces than one, and more than one flow-control window.
    for key in 0..80 {
        cluster
            .backend(&leader)
            .engine
            .commit(batch(leadership.epoch, key, 256 << 10))
            .await
            .unwrap();
    }
    let snapshots = cluster.dir(&leader).join("snapshots");
    eventually("a snapshot", || {
        let any = fs::read_dir(&snapshots).unwrap().flatten();
        let whole = any
            .into_iter()
            .any(|e| e.path().to_string_lossy().ends_with(".snapshot"));
        if whole { Ok(()) } else { Err("none".into()) }
    })
    .await;
    cluster.up(late).await;
    eventually("the late one catches up", || {
        let members = cluster.backend(&leader).admin.members();
        let current = members.iter().find(|m| m.id == late).unwrap().lag == Some(0);
        if current {
            Ok(())
        } else {
            Err(format!("{members:?}"))
        }
    })
    .await;
    let heir = cluster
        .backend(&leader)
        .admin
        .transfer_leader(Some(late.to_owned()))
        .await
        .unwrap();
    let (late, next) = cluster.lead_among(&[heir]).await;
    let recovered = cluster
        .backend(&late)
        .engine
        .open_epoch(next.epoch)
        .await
        .unwrap();
    assert_eq!(keys(&recovered), (0..80).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_snapshot_refuses_to_open_by_name() {
    let mut cluster = Cluster::start(&["m1"], small).await;
    let (_, leadership) = cluster.lead().await;
    for key in 0..120 {
        cluster.put("m1", leadership.epoch, key).await.unwrap();
    }
    let snapshots = cluster.dir("m1").join("snapshots");
    eventually("a snapshot", || {
        match fs::read_dir(&snapshots).unwrap().next() {
            Some(_) => Ok(()),
            None => Err("none".into()),
        }
    })
    .await;
    cluster.down("m1").await;
    let file = newest_file(&snapshots, ".snapshot");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let error = cluster.try_up("m1").await.unwrap_err();
    assert!(
        matches!(&error, OpenError::Corrupt { path, .. } if *path == file),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("the newest snapshot cannot be trusted"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_log_ends_the_leadership_and_not_the_process() {
    let mut cluster = Cluster::start(&["m1", "m2", "m3"], small).await;
    let (leader, leadership) = cluster.lead().await;
    cluster.put(&leader, leadership.epoch, 0).await.unwrap();
    // The next log file cannot be made where there is no directory.
    fs::remove_dir_all(cluster.dir(&leader).join("log")).unwrap();
    let mut acknowledged = vec![0];
    let error = loop {
        let key = acknowledged.len() as u64;
        match cluster.put(&leader, leadership.epoch, key).await {
            Ok(_) => acknowledged.push(key),
            Err(error) => break error,
        }
    };
    assert!(!matches!(error, CommitError::Fenced { .. }), "{error}");
    within("the loss", leadership.lost.cancelled()).await;
    let detail = cluster
        .health(&leader, |ready, text| !ready && text.contains("stopped"))
        .await;
    assert!(detail.contains("raft has stopped"), "{detail}");
    let detail = cluster
        .health(&leader, |_, text| text.contains("is missing"))
        .await;
    assert!(detail.contains("cannot be opened again yet"), "{detail}");
    let others: Vec<String> = cluster
        .up
        .keys()
        .filter(|id| **id != leader)
        .cloned()
        .collect();
    let (next, after) = cluster.lead_among(&others).await;
    assert!(after.epoch > leadership.epoch);
    let recovered = cluster
        .backend(&next)
        .engine
        .open_epoch(after.epoch)
        .await
        .unwrap();
    let found = keys(&recovered);
    assert!(
        acknowledged.iter().all(|key| found.contains(key)),
        "{found:?}"
    );
    // It is not let in again with its log gone.
    cluster.down(&leader).await;
    let mut file = fs::File::create(cluster.dir(&leader).join("note")).unwrap();
    file.write_all(b"x").unwrap();
    let error = raft::open(cluster.options(&leader)).await.unwrap_err();
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
}

/// A log bounded in bytes only.
fn few_bytes(options: &mut RaftOptions) {
    options.snapshots.log_bytes = 4 << 20;
    options.snapshots.log_file_bytes = 256 << 10;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_entries_do_not_make_a_large_log() {
    let cluster = Cluster::start(&["m1"], few_bytes).await;
    let (_, leadership) = cluster.lead().await;
    let engine = cluster.backend("m1").engine.clone();
    // 32 MiB of overwrites, in far fewer entries than are kept for late masters.
    for _ in 0..32 {
        engine
            .commit(batch(leadership.epoch, 1, 1 << 20))
            .await
            .unwrap();
    }
    let log = cluster.dir("m1").join("log");
    eventually("the log is cut", || {
        let files = fs::read_dir(&log).unwrap().flatten();
        let bytes: u64 = files
            .map(|file| file.metadata().map_or(0, |m| m.len()))
            .sum();
        if bytes < 4 << 20 {
            Ok(())
        } else {
            Err(format!("{bytes} bytes"))
        }
    })
    .await;
    engine
        .commit(batch(leadership.epoch, 2, 100))
        .await
        .unwrap();
}
