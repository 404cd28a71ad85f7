//! What earlier builds have written is read by this one.
//!
//! `control-plane/corpus/NAME/` has a data directory of each engine and a snapshot file, all of the same cluster, and what is
//! in them as JSON. A corpus is never changed or replaced: a change of a format, or enough new fields, get a new one, by
//! `CORPUS=NAME cargo nextest run -p interrex-control-plane --run-ignored only -E 'test(write_a_corpus)'`.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use interrex_client::control::{ClientOptions, SnapshotClient};
use interrex_control_plane::{
    app::{Master, RunningMaster},
    records,
};
use interrex_persistence::{
    backend::Backend,
    election::MasterInfo,
    raft::{self, RaftOptions},
    record::{RecordKey, Recovered},
    sled::{self, SledOptions},
    snapshot_file::SnapshotFile,
};
use interrex_proto::v1::{
    ApplicationSpec, CommandLine, KillRequest, ProcessState, RegisterApplication, SubmitRequest,
    WorkReport, master_frame, peer_frame::Body,
};
use serde_json::Value;
use tokio::time::timeout;

use crate::support::{
    PATIENCE, Peer, bind, client, driver, leads, report, sees, status, submission, submit,
};

const EXPECTED: &str = "expected.json";
const SNAPSHOT: &str = "cluster.snapshot";

/// Records by `kind/id`, as JSON.
type Shown = BTreeMap<String, Value>;

fn home() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn corpora() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(home())
        .expect("the corpora")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_dir())
        .collect();
    all.sort();
    assert!(!all.is_empty(), "there is a corpus");
    all
}

fn expected(corpus: &Path) -> Shown {
    let text = fs::read(corpus.join(EXPECTED)).expect("what is expected");
    serde_json::from_slice(&text).expect("JSON")
}

fn show(recovered: &Recovered) -> Shown {
    let shown = recovered.records.iter().map(|(key, value)| {
        let record = records::to_json(key, value).expect("a readable record");
        (name(key), record)
    });
    shown.collect()
}

fn name(key: &RecordKey) -> String {
    format!("{}/{}", records::kind_name(key.kind), key.id)
}

/// Everything that was expected is there, with the same values; a later build may know more fields.
fn check(corpus: &Path, recovered: Recovered) {
    let (found, expected) = (show(&recovered), expected(corpus));
    let names = |shown: &Shown| shown.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(&expected), "{}", corpus.display());
    for (name, record) in &expected {
        assert!(
            contains(&found[name], record),
            "{}: {name} is {}, not {record}",
            corpus.display(),
            found[name]
        );
    }
    let decoded = records::decode_all(recovered).expect("a format that this build knows");
    assert_eq!(decoded.quarantined, vec![]);
}

fn contains(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => expected
            .iter()
            .all(|(key, value)| found.get(key).is_some_and(|found| contains(found, value))),
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len() && found.iter().zip(expected).all(|(f, e)| contains(f, e))
        }
        (found, expected) => found == expected,
    }
}

fn me() -> MasterInfo {
    MasterInfo {
        id: "m1".into(),
        rpc: "127.0.0.1:1".into(),
        ..MasterInfo::default()
    }
}

async fn recover(backend: Backend) -> Recovered {
    let led = timeout(PATIENCE, backend.election.campaign(&me())).await;
    let leadership = led.expect("in time").expect("a leadership");
    let recovered = backend.engine.open_epoch(leadership.epoch).await;
    backend.admin.shutdown().await;
    recovered.expect("an epoch")
}

fn raft_options(me: MasterInfo, dir: &Path) -> RaftOptions {
    let peers = [("m1".to_owned(), me.rpc.clone())].into();
    let mut options = RaftOptions::new(me, peers, dir);
    // So that there is a snapshot, and a log behind it.
    options.snapshots.entries = 8;
    options.snapshots.keep_entries = 2;
    options
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn raft_directories_of_earlier_builds_are_read() {
    for corpus in corpora() {
        let dir = tempfile::tempdir().expect("a directory");
        copy(&corpus.join("raft"), dir.path()).expect("copied");
        let backend = raft::open(raft_options(me(), dir.path())).await;
        check(&corpus, recover(backend.expect("a backend")).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sled_directories_of_earlier_builds_are_read() {
    for corpus in corpora() {
        let dir = tempfile::tempdir().expect("a directory");
        copy(&corpus.join("sled"), dir.path()).expect("copied");
        let options = SledOptions {
            data_dir: dir.path().to_owned(),
            me: me(),
        };
        let backend = sled::open(options).await.expect("a backend");
        check(&corpus, recover(backend).await);
    }
}

#[test]
fn snapshots_of_earlier_builds_are_read() {
    for corpus in corpora() {
        let file = File::open(corpus.join(SNAPSHOT)).expect("a snapshot");
        let file = SnapshotFile::read(file).expect("a whole snapshot");
        check(&corpus, file.store.recovered());
    }
}

// --- making one ------------------------------------------------------------------------------------------------------

/// Lets a cluster live, moves it from raft to sled and back, and keeps what they have written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "writes a new corpus; see the module's documentation"]
async fn write_a_corpus() {
    let corpus = home().join(std::env::var("CORPUS").expect("CORPUS names the new corpus"));
    assert!(!corpus.exists(), "a corpus is never replaced");
    let (raft_dir, sled_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (options, listeners) = bind("m1");
    let backend = raft::open(raft_options(options.me.clone(), raft_dir.path())).await;
    let master = Master::start(options, listeners, backend.expect("a backend")).unwrap();
    leads(&master).await;
    live_through_everything(&master).await;
    let first = save(&master).await;
    master.shutdown().await;

    let (options, listeners) = bind("m1");
    let sled_options = SledOptions {
        data_dir: sled_dir.path().to_owned(),
        me: options.me.clone(),
    };
    let backend = sled::open(sled_options).await.expect("a backend");
    let master = Master::start(options, listeners, backend).unwrap();
    leads(&master).await;
    let restored = restore(&master, &first).await;
    sees(&master.handle, "a leader over the records", |view| {
        view.epoch().0 > restored
    })
    .await;
    let second = save(&master).await;
    master.shutdown().await;

    // And back, so that the log of raft has epochs that were raised, too.
    let raft_dir = tempfile::tempdir().unwrap();
    let (options, listeners) = bind("m1");
    let backend = raft::open(raft_options(options.me.clone(), raft_dir.path())).await;
    let master = Master::start(options, listeners, backend.expect("a backend")).unwrap();
    leads(&master).await;
    let restored = restore(&master, &second).await;
    sees(&master.handle, "a leader over the records", |view| {
        view.epoch().0 > restored
    })
    .await;
    let last = save(&master).await;
    master.shutdown().await;
    // The meta record names the cluster, which differs: all three have to tell the same.
    let sled_dir = same_records_in_sled(&last).await;

    fs::create_dir_all(&corpus).unwrap();
    copy(raft_dir.path(), &corpus.join("raft")).unwrap();
    copy(sled_dir.path(), &corpus.join("sled")).unwrap();
    fs::write(corpus.join(SNAPSHOT), &last).unwrap();
    let shown = show(
        &SnapshotFile::read(last.as_slice())
            .unwrap()
            .store
            .recovered(),
    );
    let text = serde_json::to_string_pretty(&shown).unwrap();
    fs::write(corpus.join(EXPECTED), text + "\n").unwrap();
    let bytes = size(&corpus);
    assert!(bytes < 500_000, "{bytes} bytes");
}

/// Drivers, an application and its executors in as many states as can be.
async fn live_through_everything(master: &RunningMaster) {
    let (mut agent, _) = Peer::agent(master, "w1").await;
    let mut client = client(master);
    let mut sequence = 0;
    for (id, states) in [
        ("runs", vec![(ProcessState::Running, None)]),
        (
            "ends",
            vec![
                (ProcessState::Running, None),
                (ProcessState::Exited, Some(0)),
            ],
        ),
        (
            "fails",
            vec![
                (ProcessState::Running, None),
                (ProcessState::Exited, Some(3)),
            ],
        ),
        ("begins", vec![]),
    ] {
        submit(&mut client, id).await;
        let (_, launch) = agent.launch().await;
        for (state, code) in states {
            sequence += 1;
            agent.say(report(sequence, &launch, state, code)).await;
            agent.acknowledged(sequence).await;
        }
    }
    let mut waits = driver("waits");
    waits.cores = 500;
    waits.supervise = true;
    for (id, spec) in [("waits", waits.clone()), ("killed", waits)] {
        let request = SubmitRequest {
            request_id: id.into(),
            spec: Some(spec),
        };
        client.submit(request).await.expect("accepted");
    }
    let kill = KillRequest {
        request_id: "a-kill".into(),
        id: "killed".into(),
    };
    client.kill(kill).await.expect("killed");
    let app = Body::RegisterApplication(RegisterApplication {
        request_id: "app".into(),
        spec: Some(ApplicationSpec {
            name: "count".into(),
            user: "ann".into(),
            command: Some(CommandLine {
                program: "count".into(),
                args: vec!["words".into()],
                env: [("LANG".to_owned(), "C".to_owned())].into(),
            }),
            cores_per_executor: Some(1),
            memory_mib_per_executor: 64,
            executor_limit: Some(2),
            ..ApplicationSpec::default()
        }),
        ..RegisterApplication::default()
    });
    let mut app = Peer::attach(master, app).await;
    let app_id = app.registered().await.app_id;
    for (state, code) in [
        (ProcessState::Running, None),
        (ProcessState::Exited, Some(1)),
    ] {
        sequence += 1;
        let changed = interrex_proto::v1::ExecutorChanged {
            app_id: app_id.clone(),
            executor_id: 0,
            state: state.into(),
            exit: code.map(|code| interrex_proto::v1::Exit {
                code: Some(code),
                signal: None,
            }),
            ..Default::default()
        };
        let body = interrex_proto::v1::work_report::Body::Executor(changed);
        let body = Some(body);
        agent.say(Body::Report(WorkReport { sequence, body })).await;
        agent.acknowledged(sequence).await;
    }
    let launched = agent.wait("another executor", |_, body| match body {
        master_frame::Body::LaunchExecutor(launch) => (launch.executor_id > 0).then_some(()),
        _ => None,
    });
    launched.await;
    assert!(
        client
            .submit(submission("runs"))
            .await
            .unwrap()
            .into_inner()
            .replayed
    );
    assert!(status(&mut client, "killed").await.unwrap().over);
}

fn snapshots(master: &RunningMaster) -> SnapshotClient {
    SnapshotClient::new(ClientOptions::new(vec![master.rpc_addr.to_string()])).unwrap()
}

async fn save(master: &RunningMaster) -> Vec<u8> {
    let mut saving = snapshots(master).save(false).await.expect("a snapshot");
    let mut bytes = Vec::new();
    while let Some(piece) = saving.next().await.expect("to its end") {
        bytes.extend(piece);
    }
    bytes
}

/// Restores, and returns the floor of the epochs.
async fn restore(master: &RunningMaster, bytes: &[u8]) -> u64 {
    let bytes = bytes.to_vec();
    let pieces = || tokio_stream::iter([bytes.clone()]);
    let restored = snapshots(master).restore(false, pieces).await;
    restored.expect("restored").epoch_floor
}

/// A directory of sled with exactly the records of a snapshot.
async fn same_records_in_sled(snapshot: &[u8]) -> tempfile::TempDir {
    use interrex_persistence::record::{CommitBatch, Mutation};

    let dir = tempfile::tempdir().unwrap();
    let options = SledOptions {
        data_dir: dir.path().to_owned(),
        me: me(),
    };
    let backend = sled::open(options).await.expect("a backend");
    let epoch = backend.election.campaign(&me()).await.unwrap().epoch;
    backend.engine.open_epoch(epoch).await.unwrap();
    let store = SnapshotFile::read(snapshot).unwrap().store;
    let put = |(key, value): (&RecordKey, &Bytes)| Mutation::Put {
        key: key.clone(),
        value: value.clone(),
    };
    let mutations = store.iter().map(put).collect();
    backend
        .engine
        .commit(CommitBatch { epoch, mutations })
        .await
        .unwrap();
    backend.admin.shutdown().await;
    dir
}

/// Copies a data directory, without what belongs to a process.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            self::copy(&path, &copy)?;
        } else if entry.file_name() != "LOCK" {
            fs::copy(&path, copy)?;
        }
    }
    Ok(())
}

fn size(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).expect("a directory").flatten();
    entries
        .map(|entry| match entry.path().is_dir() {
            true => size(&entry.path()),
            false => entry.metadata().map_or(0, |found| found.len()),
        })
        .sum()
}
