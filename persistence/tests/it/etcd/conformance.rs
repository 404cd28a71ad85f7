//! The suite that every backend passes, with one master and with three; and a real SIGKILL.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use interrex_persistence::{
    backend::Backend,
    conformance::{Fixture, Stop, sigkill},
    election::MasterInfo,
    error::OpenError,
    etcd::{self, EtcdOptions, EtcdSettings},
};

use super::{
    masters::{Masters, me},
    server::Server,
};

/// Bytes of etcd's database after any number of overwrites of 1 MiB, once its history is compacted: the log, which is
/// cut at 8 MiB, what is added to it while a snapshot is written, and the snapshot.
const DATABASE_BYTES_MAX: u64 = 24 << 20;

/// A cluster of `N` masters.
struct Cluster<const N: usize> {
    masters: Masters,
    database_bytes: AtomicU64,
}

#[async_trait]
impl<const N: usize> Fixture for Cluster<N> {
    async fn fresh() -> Self {
        Self {
            masters: Masters::start(N).await,
            database_bytes: AtomicU64::new(0),
        }
    }

    fn masters(&self) -> usize {
        N
    }

    fn me(&self, n: usize) -> MasterInfo {
        me(n)
    }

    fn backend(&self, n: usize) -> Option<Backend> {
        self.masters.up.get(&n).cloned()
    }

    async fn stop(&mut self, n: usize, how: Stop) {
        match how {
            Stop::Clean => self.masters.close(n).await,
            // There is no file of ours to be torn.
            Stop::Crash | Stop::TornTail => self.masters.crash(n).await,
        }
    }

    async fn start(&mut self, n: usize) {
        self.masters.open(n).await;
    }

    async fn depose(&mut self, _n: usize) -> bool {
        let mut client = self.masters.server.client().await;
        let deleted = client.delete("/interrex/test/control/leader", None).await;
        deleted.unwrap().deleted() == 1
    }

    async fn open_twice(&self, n: usize) -> Option<OpenError> {
        etcd::open(self.masters.options(n)).await.err()
    }

    /// What etcd does with its history is not up to us; here it is made to forget it at once.
    async fn compact(&self) {
        let mut client = self.masters.server.client().await;
        let now = client
            .get("any", None)
            .await
            .unwrap()
            .header()
            .unwrap()
            .revision();
        let at_once = etcd_client::CompactionOptions::new().with_physical();
        client.compact(now, Some(at_once)).await.unwrap();
        client.defragment().await.unwrap();
        let bytes = client.status().await.unwrap().db_size();
        self.database_bytes
            .store(u64::try_from(bytes).unwrap(), Ordering::Relaxed);
    }

    fn disk(&self) -> Option<(u64, u64)> {
        Some((
            self.database_bytes.load(Ordering::Relaxed),
            DATABASE_BYTES_MAX,
        ))
    }
}

mod one {
    use interrex_persistence::conformance_suite;

    conformance_suite!(super::Cluster<1>);
}

mod three {
    use interrex_persistence::{conformance_suite, contention_suite};

    conformance_suite!(super::Cluster<3>);
    contention_suite!(super::Cluster<3>);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_batches_survive_sigkill() {
    const ENDPOINT: &str = "endpoint";
    let options = |dir: &Path, endpoint: String| EtcdOptions {
        data_dir: dir.join("m0"),
        me: me(0),
        settings: EtcdSettings {
            endpoints: vec![endpoint],
            ..EtcdSettings::default()
        },
    };
    if let Some(dir) = sigkill::child_dir() {
        let endpoint = fs::read_to_string(dir.join(ENDPOINT)).unwrap();
        let backend = etcd::open(options(&dir, endpoint)).await.unwrap();
        sigkill::commit_until_killed(&backend, &me(0)).await;
        return;
    }
    for count in [1, 200] {
        let server = Server::start().await;
        let dir = server.scratch();
        fs::write(dir.join(ENDPOINT), server.address()).unwrap();
        let name = "etcd::conformance::acknowledged_batches_survive_sigkill";
        let killed = sigkill::kill_while_committing(name, dir, count, async |_| {}).await;
        assert!(killed.last >= count);
        let began = Instant::now();
        let backend = etcd::open(options(dir, server.address())).await.unwrap();
        let epoch = backend.election.campaign(&me(0)).await.unwrap().epoch;
        killed.check(&backend.engine.open_epoch(epoch).await.unwrap());
        // Its own earlier life is not waited for.
        assert!(
            began.elapsed() < Duration::from_secs(1),
            "{:?}",
            began.elapsed()
        );
    }
}
