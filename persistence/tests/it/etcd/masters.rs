//! Masters of one cluster in one process, each with a proxy of its own before etcd.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use interrex_persistence::{
    backend::Backend,
    conformance::put,
    election::{Leadership, MasterInfo},
    epoch::{CommitSeq, Epoch},
    error::CommitError,
    etcd::{self, EtcdOptions, EtcdSettings},
    record::{CommitBatch, Recovered},
};

use super::{
    proxy::{Mode, Proxy},
    server::Server,
};

/// As short as etcd's clock allows.
pub(super) const LEASE: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);

/// Masters `m0`, `m1` ...; dropping this ends them.
pub(super) struct Masters {
    pub(super) server: Server,
    proxies: Vec<Proxy>,
    pub(super) up: BTreeMap<usize, Backend>,
}

/// Waits until `condition` is fine, and says what it said last if it never is.
pub(super) async fn eventually(what: &str, mut condition: impl FnMut() -> Result<(), String>) {
    let deadline = Instant::now() + SOON;
    loop {
        match condition() {
            Ok(()) => return,
            Err(still) if Instant::now() > deadline => panic!("{what}: {still}"),
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}

pub(super) fn me(n: usize) -> MasterInfo {
    MasterInfo {
        id: format!("m{n}"),
        rpc: format!("127.0.0.1:{}", 7000 + n),
        rest: format!("127.0.0.1:{}", 6000 + n),
        web: String::new(),
    }
}

impl Masters {
    /// A new etcd, and so many masters, all registered.
    pub(super) async fn start(count: usize) -> Self {
        Self::start_on(Server::start().await, count).await
    }

    pub(super) async fn start_on(server: Server, count: usize) -> Self {
        let mut masters = Self::idle_on(server, count).await;
        for n in 0..count {
            masters.open(n).await;
        }
        masters.settled().await;
        masters
    }

    /// Like `start_on`, but no master is open.
    pub(super) async fn idle_on(server: Server, count: usize) -> Self {
        let mut proxies = Vec::new();
        for _ in 0..count {
            proxies.push(Proxy::before(server.address()).await);
        }
        Self {
            server,
            proxies,
            up: BTreeMap::new(),
        }
    }

    pub(super) fn options(&self, n: usize) -> EtcdOptions {
        EtcdOptions {
            data_dir: self.server.scratch().join(format!("m{n}")),
            me: me(n),
            settings: EtcdSettings {
                endpoints: vec![self.proxies[n].address()],
                prefix: "/interrex/test".to_owned(),
                lease: LEASE,
                ..EtcdSettings::default()
            },
        }
    }

    pub(super) async fn open(&mut self, n: usize) {
        let options = self.options(n);
        self.open_with(n, options).await;
    }

    pub(super) async fn open_with(&mut self, n: usize, options: EtcdOptions) {
        self.proxies[n].set(Mode::Open);
        let backend = etcd::open(options).await.unwrap();
        self.up.insert(n, backend);
    }

    /// In order, as by SIGTERM.
    pub(super) async fn close(&mut self, n: usize) {
        let backend = self.up.remove(&n).expect("it runs");
        backend.admin.shutdown().await;
    }

    /// As by SIGKILL: etcd hears nothing of it.
    pub(super) async fn crash(&mut self, n: usize) {
        self.proxies[n].set(Mode::Cut);
        self.close(n).await;
    }

    pub(super) fn link(&self, n: usize, mode: Mode) {
        self.proxies[n].set(mode);
    }

    pub(super) fn backend(&self, n: usize) -> &Backend {
        &self.up[&n]
    }

    pub(super) fn health(&self, n: usize) -> (bool, String) {
        let health = self.backend(n).admin.health();
        (health.ready, health.detail)
    }

    /// All masters that are open see each other.
    pub(super) async fn settled(&self) {
        eventually("all masters register", || {
            for backend in self.up.values() {
                let members = backend.admin.members();
                let healthy = members.iter().filter(|m| m.healthy == Some(true)).count();
                if healthy != self.up.len() {
                    return Err(format!("{members:?}, {:?}", backend.admin.health()));
                }
            }
            Ok(())
        })
        .await;
    }

    /// Waits until `/readyz` of master `n` would say `words`.
    pub(super) async fn says(&self, n: usize, ready: bool, words: &str) {
        eventually(words, || match self.health(n) {
            (found, said) if found == ready && said.contains(words) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    }

    /// Lets `n` campaign until it leads.
    pub(super) async fn lead(&self, n: usize) -> Leadership {
        let me = me(n);
        let campaign = self.backend(n).election.campaign(&me);
        tokio::time::timeout(SOON, campaign)
            .await
            .expect("it wins in time")
            .unwrap()
    }

    /// Lets `n` campaign until it leads and has read all records.
    pub(super) async fn lead_open(&self, n: usize) -> (Leadership, Recovered) {
        let leadership = self.lead(n).await;
        let opened = self.backend(n).engine.open_epoch(leadership.epoch).await;
        (leadership, opened.unwrap())
    }

    pub(super) async fn put(
        &self,
        n: usize,
        epoch: Epoch,
        id: &str,
    ) -> Result<CommitSeq, CommitError> {
        let batch = CommitBatch {
            epoch,
            mutations: vec![put(id, id.to_owned())],
        };
        self.backend(n).engine.commit(batch).await
    }
}

/// The ids of records.
pub(super) fn ids(recovered: &Recovered) -> Vec<&str> {
    recovered.records.iter().map(|(key, _)| &*key.id).collect()
}
