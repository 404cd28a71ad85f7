//! What a simulated host runs: a master that campaigns, opens its epoch and commits, and writes down what it was told.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use interrex_persistence::{
    backend::Backend,
    election::MasterInfo,
    epoch::Epoch,
    raft::{self, DiskFaults, RaftOptions},
    record::{CommitBatch, Mutation, RecordKey, RecordKind},
};
use tokio::time::{sleep, timeout};
use tonic::transport::Server;

use super::{
    history::History,
    net::{PORT, dialler, listen},
};

/// Between two commits of one leader.
const COMMIT_PAUSE: Duration = Duration::from_millis(10);

/// One master's place; its life comes and goes.
pub(super) struct Host {
    pub(super) name: String,
    pub(super) dir: PathBuf,
    /// What a life leaves for the world to see; made anew with each.
    pub(super) life: Rc<RefCell<Life>>,
    pub(super) crashed: bool,
}

/// What the running master of a host consists of.
#[derive(Default)]
pub(super) struct Life {
    number: u32,
    pub(super) disk: Arc<DiskFaults>,
    pub(super) backend: Option<Backend>,
}

/// What all lives write down.
#[derive(Clone, Default)]
pub(super) struct Shared {
    pub(super) history: Rc<RefCell<History>>,
    next_key: Rc<RefCell<u64>>,
    /// Set when everything is to be still.
    pub(super) quiet: Rc<RefCell<bool>>,
    /// Set when masters are to end in order.
    pub(super) end: Rc<RefCell<bool>>,
    pub(super) under_way: Rc<UnderWay>,
    /// Which host has said last that it leads.
    pub(super) leader: Rc<RefCell<Option<usize>>>,
}

/// Counts commits: each has a clone of what is inside for as long as it is under way.
#[derive(Default)]
pub(super) struct UnderWay(pub(super) Rc<()>);

pub(super) fn name(n: usize) -> String {
    format!("m{n}")
}

fn address(n: usize) -> String {
    format!("{}:{PORT}", name(n))
}

fn info(n: usize) -> MasterInfo {
    MasterInfo {
        id: name(n),
        rpc: address(n),
        ..MasterInfo::default()
    }
}

/// Of master `n`, one of `count`.
fn options(n: usize, count: usize, dir: &Path, disk: &Arc<DiskFaults>) -> RaftOptions {
    let peers: BTreeMap<String, String> = (0..count).map(|n| (name(n), address(n))).collect();
    let mut options = RaftOptions::new(info(n), peers, dir);
    // So few that masters that were away need a snapshot.
    options.snapshots.entries = 60;
    options.snapshots.keep_entries = 10;
    options.faults = Arc::clone(disk);
    options.dialler = dialler();
    options
}

/// Leads whenever it can, and commits as long as it leads.
async fn lead(n: usize, who: &str, backend: &Backend, shared: &Shared) {
    let me = info(n);
    loop {
        let Ok(leadership) = backend.election.campaign(&me).await else {
            return;
        };
        let epoch = leadership.epoch;
        shared.history.borrow_mut().elected(who, epoch);
        *shared.leader.borrow_mut() = Some(n);
        let serving = serve(who, epoch, backend, shared);
        if leadership.lost.run_until_cancelled(serving).await.is_some() {
            let resigned = timeout(Duration::from_secs(2), backend.election.resign());
            drop(resigned.await);
        }
        sleep(COMMIT_PAUSE).await;
    }
}

async fn told_to_end(shared: &Shared) {
    while !*shared.end.borrow() {
        sleep(COMMIT_PAUSE).await;
    }
}

/// Opens the epoch and commits until something fails.
async fn serve(who: &str, epoch: Epoch, backend: &Backend, shared: &Shared) {
    let before = shared.history.borrow().opened();
    let Ok(recovered) = backend.engine.open_epoch(epoch).await else {
        return;
    };
    let found = recovered.records.iter().map(|(key, _)| key.id.parse());
    let found: BTreeSet<u64> = found.map(Result::unwrap).collect();
    shared.history.borrow_mut().open(who, epoch, before, &found);
    let mut round = 0_u32;
    loop {
        sleep(COMMIT_PAUSE).await;
        if *shared.quiet.borrow() {
            continue;
        }
        round += 1;
        let key = {
            let mut next = shared.next_key.borrow_mut();
            *next += 1;
            *next
        };
        let under_way = Rc::clone(&shared.under_way.0);
        let before = shared.history.borrow().opened();
        shared.history.borrow_mut().propose(key);
        let batch = CommitBatch {
            epoch,
            mutations: vec![Mutation::Put {
                key: RecordKey {
                    kind: RecordKind(1),
                    id: key.to_string().into(),
                },
                value: vec![7; 200].into(),
            }],
        };
        if backend.engine.commit(batch).await.is_err() {
            return;
        }
        shared
            .history
            .borrow_mut()
            .acknowledge(who, epoch, before, key);
        drop(under_way);
        if round.is_multiple_of(8) {
            let before = shared.history.borrow().opened();
            match backend.engine.confirm(epoch).await {
                Ok(()) => shared.history.borrow_mut().confirm(who, epoch, before),
                Err(_) => return,
            }
        }
    }
}

/// One life of master `n`, one of `count`, on its host.
pub(super) async fn live(
    n: usize,
    count: usize,
    dir: PathBuf,
    life: Rc<RefCell<Life>>,
    shared: Shared,
) -> turmoil::Result {
    let (who, disk) = {
        let mut life = life.borrow_mut();
        life.number += 1;
        life.disk = Arc::default();
        let who = format!("{} in life {}", name(n), life.number);
        (who, Arc::clone(&life.disk))
    };
    let backend = raft::open(options(n, count, &dir, &disk)).await?;
    life.borrow_mut().backend = Some(backend.clone());
    let routes = backend.peer_routes.clone().unwrap();
    let incoming = listen().await?;
    let served = Server::builder()
        .add_routes(routes)
        .serve_with_incoming(incoming);
    tokio::select! {
        served = served => served?,
        () = lead(n, &who, &backend, &shared) => {}
        () = told_to_end(&shared) => {}
    }
    backend.admin.shutdown().await;
    life.borrow_mut().backend = None;
    Ok(())
}

// === impl Host ===

impl Host {
    /// The place of master `n` below `root`; nobody lives there yet.
    pub(super) fn new(n: usize, root: &Path) -> Self {
        Self {
            name: name(n),
            dir: root.join(name(n)),
            life: Rc::default(),
            crashed: false,
        }
    }
}
