//! Masters to test with: each has its own directory, port, server and backend.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use interrex_persistence::{
    backend::Backend,
    election::{Leadership, MasterInfo},
    epoch::{CommitSeq, Epoch},
    error::{CommitError, OpenError},
    raft::{self, DiskFaults, FormatProbe, RaftOptions},
    record::{CommitBatch, Mutation, RecordKey, RecordKind, Recovered},
};
use tempfile::TempDir;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Server, server::TcpIncoming};

/// Nothing that should happen takes longer than this, on the slowest machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// The shortest wait before an election.
pub(super) const CALM_ELECTION: Duration = Duration::from_millis(400);
const POLL: Duration = Duration::from_millis(10);

/// Changes options before a master is opened.
pub(super) type Tune = fn(&mut RaftOptions);

/// Some masters, each of which may be down.
pub(super) struct Cluster {
    temp: TempDir,
    pub(super) addresses: BTreeMap<String, SocketAddr>,
    listeners: BTreeMap<String, TcpListener>,
    pub(super) up: BTreeMap<String, Master>,
    /// What is wrong with the disks of those that are or were up.
    faults: BTreeMap<String, Arc<DiskFaults>>,
    tune: Tune,
}

/// A running master.
pub(super) struct Master {
    pub(super) backend: Backend,
    stop: CancellationToken,
    server: JoinHandle<()>,
}

impl Cluster {
    /// Addresses for these masters; none is up yet.
    pub(super) async fn planned(ids: &[&str], tune: Tune) -> Self {
        // Silent unless RUST_LOG asks for more; the first test of a process sets it up.
        drop(
            tracing_subscriber::fmt()
                .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
                .with_test_writer()
                .try_init(),
        );
        let mut cluster = Self {
            temp: tempfile::tempdir().unwrap(),
            addresses: BTreeMap::new(),
            listeners: BTreeMap::new(),
            up: BTreeMap::new(),
            faults: BTreeMap::new(),
            tune,
        };
        for id in ids {
            cluster.plan(id).await;
        }
        cluster
    }

    /// All of these masters, up.
    pub(super) async fn start(ids: &[&str], tune: Tune) -> Self {
        let mut cluster = Self::planned(ids, tune).await;
        cluster.up_all(ids).await;
        cluster
    }

    /// An address for one more master.
    pub(super) async fn plan(&mut self, id: &str) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        self.addresses
            .insert(id.to_owned(), listener.local_addr().unwrap());
        self.listeners.insert(id.to_owned(), listener);
    }

    pub(super) fn dir(&self, id: &str) -> PathBuf {
        self.temp.path().join(id)
    }

    pub(super) fn peers(&self) -> BTreeMap<String, String> {
        self.addresses
            .iter()
            .map(|(id, at)| (id.clone(), at.to_string()))
            .collect()
    }

    pub(super) fn options(&self, id: &str) -> RaftOptions {
        let me = MasterInfo {
            id: id.to_owned(),
            rpc: self.addresses[id].to_string(),
            rest: format!("rest.{id}:6066"),
            web: format!("web.{id}:8080"),
        };
        let mut options = RaftOptions::new(me, self.peers(), self.dir(id));
        // Calmer than the defaults: several clusters at once on a busy machine must not lose their leaders.
        options.timing.election_timeout_min = CALM_ELECTION;
        options.timing.election_timeout_max = 2 * CALM_ELECTION;
        (self.tune)(&mut options);
        options
    }

    pub(super) async fn up_all(&mut self, ids: &[&str]) {
        for id in ids {
            self.up(id).await;
        }
    }

    pub(super) async fn up(&mut self, id: &str) {
        self.try_up(id).await.unwrap();
    }

    pub(super) async fn try_up(&mut self, id: &str) -> Result<(), OpenError> {
        let options = self.options(id);
        self.up_with(id, options).await
    }

    /// Opens a fresh master that is to join those that are up.
    pub(super) async fn up_joining(&mut self, id: &str) {
        let mut options = self.options(id);
        options.peers.retain(|peer, _| peer == id);
        let others = self.addresses.iter().filter(|(other, _)| *other != id);
        options.join = others.map(|(_, at)| at.to_string()).collect();
        self.up_with(id, options).await.unwrap();
    }

    /// Opens a master with these options and serves it at the address planned for `id`.
    pub(super) async fn up_with(
        &mut self,
        id: &str,
        options: RaftOptions,
    ) -> Result<(), OpenError> {
        self.up_probed(id, options).await.map(drop)
    }

    /// The same; with what it returns, the master writes entries of any format.
    pub(super) async fn up_probed(
        &mut self,
        id: &str,
        options: RaftOptions,
    ) -> Result<FormatProbe, OpenError> {
        self.faults
            .insert(id.to_owned(), Arc::clone(&options.faults));
        let (backend, probe) = raft::open_with_probe(options).await?;
        let listener = match self.listeners.remove(id) {
            Some(listener) => listener,
            None => TcpListener::bind(self.addresses[id]).await.unwrap(),
        };
        let stop = CancellationToken::new();
        let routes = backend.peer_routes.clone().unwrap();
        let stopped = stop.clone().cancelled_owned();
        let server = tokio::spawn(async move {
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            Server::builder()
                .add_routes(routes)
                .serve_with_incoming_shutdown(incoming, stopped)
                .await
                .unwrap();
        });
        self.up.insert(
            id.to_owned(),
            Master {
                backend,
                stop,
                server,
            },
        );
        Ok(probe)
    }

    /// Ends a master in order, without handing over leadership.
    pub(super) async fn down(&mut self, id: &str) {
        let master = self.up.remove(id).unwrap();
        master.backend.admin.shutdown().await;
        master.stop.cancel();
        // Open connections of the others must not keep the port.
        master.server.abort();
        drop(master.server.await);
    }

    /// Ends a master in order, and waits until its server has served the last connection.
    pub(super) async fn down_gracefully(&mut self, id: &str) {
        let master = self.up.remove(id).unwrap();
        master.stop.cancel();
        master.backend.admin.shutdown().await;
        master.server.await.unwrap();
    }

    pub(super) async fn down_all(&mut self) {
        let ids: Vec<String> = self.up.keys().cloned().collect();
        for id in ids {
            self.down(&id).await;
        }
    }

    /// The disk of a master that is up.
    pub(super) fn disk(&self, id: &str) -> &DiskFaults {
        &self.faults[id]
    }

    pub(super) fn backend(&self, id: &str) -> &Backend {
        &self.up[id].backend
    }

    /// Waits until one master that is up leads, and opens its epoch.
    pub(super) async fn lead(&self) -> (String, Leadership) {
        self.lead_among(&self.up.keys().cloned().collect::<Vec<_>>())
            .await
    }

    pub(super) async fn lead_among(&self, ids: &[String]) -> (String, Leadership) {
        let campaigns = ids.iter().map(|id| {
            let info = self.options(id).me;
            let election = self.backend(id).election.clone();
            Box::pin(async move { (id.clone(), election.campaign(&info).await.unwrap()) })
        });
        let won = futures::future::select_all(campaigns);
        let ((id, leadership), _, _) = within("a leader", won).await;
        self.backend(&id)
            .engine
            .open_epoch(leadership.epoch)
            .await
            .unwrap();
        (id, leadership)
    }

    /// Waits until this master's health satisfies `enough`; the detail.
    pub(super) async fn health(&self, id: &str, enough: impl Fn(bool, &str) -> bool) -> String {
        let admin = &self.backend(id).admin;
        eventually(&format!("health of {id}"), || {
            let health = admin.health();
            if enough(health.ready, &health.detail) {
                Ok(health.detail)
            } else {
                Err(format!("ready={} {}", health.ready, health.detail))
            }
        })
        .await
    }

    pub(super) async fn ready(&self, id: &str) -> String {
        self.health(id, |ready, _| ready).await
    }

    /// Commits one record on `id`.
    pub(super) async fn put(
        &self,
        id: &str,
        epoch: Epoch,
        key: u64,
    ) -> Result<CommitSeq, CommitError> {
        self.backend(id).engine.commit(batch(epoch, key, 100)).await
    }
}

/// One record whose value is made of its key.
pub(super) fn batch(epoch: Epoch, key: u64, bytes: usize) -> CommitBatch {
    let id = format!("k{key:08}").into();
    let value = vec![(key % 251) as u8; bytes].into();
    let mutations = vec![Mutation::Put {
        key: RecordKey {
            kind: RecordKind(1),
            id,
        },
        value,
    }];
    CommitBatch { epoch, mutations }
}

/// The numbers of the records, checked against their values.
pub(super) fn keys(recovered: &Recovered) -> Vec<u64> {
    let number = |(key, value): &(RecordKey, bytes::Bytes)| {
        let number: u64 = key.id.strip_prefix('k').unwrap().parse().unwrap();
        assert!(value.iter().all(|byte| u64::from(*byte) == number % 251));
        number
    };
    recovered.records.iter().map(number).collect()
}

pub(super) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: not within {PATIENCE:?}"),
    }
}

/// Waits until `check` is `Ok`; its last `Err` explains a failure.
pub(super) async fn eventually<T>(what: &str, mut check: impl FnMut() -> Result<T, String>) -> T {
    let began = Instant::now();
    loop {
        match check() {
            Ok(value) => return value,
            Err(last) if began.elapsed() > PATIENCE => panic!("{what}: {last}"),
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}

/// The newest file in `dir` with this ending.
pub(super) fn newest_file(dir: &Path, ending: &str) -> PathBuf {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    files.sort();
    files.pop().unwrap()
}

pub(super) fn untuned(_: &mut RaftOptions) {}
