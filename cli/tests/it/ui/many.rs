//! Thousands of queued drivers in a moment. They are decided by the leader's own machine, here, and restored into a new
//! cluster as a snapshot: to submit them one by one takes a debug build minutes.

use std::{io::Write, sync::Arc};

use interrex_control_plane::records::encode_batch;
use interrex_core::{
    command::Command,
    config::ClusterConfig,
    ids::{self, Fingerprint, RequestId},
    leader::{LeaderConfig, LeaderMachine, Output},
    resources::{Cores, MemoryMib},
    spec::{CommandLine, DriverPayload, DriverSpec},
    state::cluster::RecoveredEntities,
    time::Timestamp,
};
use interrex_persistence::{
    backend::StoreSnapshot, epoch::Epoch, options::EngineKind, record::CommitBatch,
    record_store::RecordStore, snapshot_file::SnapshotHeader,
};

use crate::support::{Cluster, expect_code};

/// Drivers that are decided in one batch.
const BATCH: usize = 200;
/// The leadership that they were submitted in.
const EPOCH: u64 = 1;

/// Gives a new cluster so many drivers, which no worker can hold.
pub(super) fn restore_many(cluster: &Cluster, count: usize) {
    let now = Timestamp(interrex_proto::clock::now_ms());
    let mut machine = LeaderMachine::recover(
        ids::Epoch(EPOCH),
        LeaderConfig::default(),
        ClusterConfig::default(),
        RecoveredEntities::default(),
        now,
    );
    let mut store = RecordStore::new();
    store.open_epoch(Epoch(EPOCH)).expect("the first epoch");
    let deadline = Timestamp(now.0 + 60_000);
    let cluster_id = "made-by-a-test".to_owned();
    let initialize = Command::Initialize {
        cluster_id: cluster_id.clone(),
    };
    machine.submit(None, initialize, deadline, now);
    for n in 0..count {
        machine.submit(None, submission(n), deadline, now);
        if n % BATCH == 0 {
            commit(&mut machine, &mut store, now);
        }
    }
    commit(&mut machine, &mut store, now);
    assert_eq!(machine.state().drivers().count(), count);

    let snapshot = StoreSnapshot {
        engine: EngineKind::Raft,
        cluster_id: Some(cluster_id),
        store,
    };
    let path = cluster.dir().join("many.snapshot");
    let mut file = std::fs::File::create(&path).expect("a file");
    for piece in SnapshotHeader::new(&snapshot, now.0).encode(&snapshot.store) {
        file.write_all(&piece).expect("written");
    }
    drop(file);
    let path = path.to_str().expect("UTF-8");
    expect_code(&cluster.run(&["snapshot", "restore", path]), 0);
}

/// Stores what has been decided, batch by batch.
fn commit(machine: &mut LeaderMachine, store: &mut RecordStore, now: Timestamp) {
    while !machine.is_idle() {
        for output in machine.poll(now) {
            if let Output::Commit { batch, mutations } = output {
                let stored = store.apply(CommitBatch {
                    epoch: Epoch(EPOCH),
                    mutations: encode_batch(&mutations),
                });
                stored.expect("the epoch is open");
                machine.committed(batch, now);
            }
        }
    }
}

fn submission(n: usize) -> Command {
    let names = [
        "nightly report",
        "import of orders",
        "training",
        "index of products",
    ];
    let users = ["ann", "bob", "carla", "dmitri", "etl"];
    let command = CommandLine {
        program: "true".to_owned(),
        ..CommandLine::default()
    };
    let spec = DriverSpec {
        name: format!("{} {n}", names[n % names.len()]),
        user: users[n % users.len()].to_owned(),
        payload: DriverPayload::Command(command),
        cores: Cores(16 + u32::try_from(n % 5).expect("small")),
        memory: MemoryMib(1024),
        resources: Default::default(),
        supervise: false,
        priority: 0,
        needs_executors: false,
        at_most_once: false,
    };
    Command::SubmitDriver {
        request: RequestId::new(format!("many-{n}")),
        fingerprint: Fingerprint([0; 32]),
        spec: Arc::new(spec),
    }
}
