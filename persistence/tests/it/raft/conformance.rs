//! The suite that every backend passes, on a cluster of one and on a cluster of three; and a real SIGKILL.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

use async_trait::async_trait;
use interrex_persistence::{
    backend::Backend,
    conformance::{Fixture, Stop, sigkill},
    election::MasterInfo,
    error::OpenError,
    raft::{self, RaftOptions},
};

use super::cluster::{Cluster, eventually, newest_file};

/// Bytes on disk of one master, after any number of overwrites of 1 MiB: two snapshots while one replaces the other,
/// and the log.
const DISK_BYTES_MAX: u64 = 24 << 20;

/// A cluster of `N` masters.
struct Masters<const N: usize> {
    cluster: Cluster,
}

/// Bounds that the suite reaches.
fn bounded(options: &mut RaftOptions) {
    options.snapshots.entries = 200;
    options.snapshots.keep_entries = 3;
    options.snapshots.log_bytes = 8 << 20;
    options.snapshots.log_file_bytes = 1 << 20;
}

fn id(n: usize) -> String {
    format!("m{n}")
}

#[async_trait]
impl<const N: usize> Fixture for Masters<N> {
    async fn fresh() -> Self {
        let ids: Vec<String> = (0..N).map(id).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        Self {
            cluster: Cluster::start(&ids, bounded).await,
        }
    }

    fn masters(&self) -> usize {
        N
    }

    fn me(&self, n: usize) -> MasterInfo {
        self.cluster.options(&id(n)).me
    }

    fn backend(&self, n: usize) -> Option<Backend> {
        self.cluster
            .up
            .get(&id(n))
            .map(|master| master.backend.clone())
    }

    async fn stop(&mut self, n: usize, how: Stop) {
        let (id, dir) = (id(n), self.cluster.dir(&id(n)));
        if how == Stop::Clean {
            self.cluster.down(&id).await;
            return;
        }
        // What is in the files now, before anything is closed in order.
        let copy = dir.with_extension("crashed");
        copy_live(&dir, &copy);
        self.cluster.down(&id).await;
        fs::remove_dir_all(&dir).unwrap();
        fs::rename(&copy, &dir).unwrap();
        if how == Stop::TornTail {
            let newest = newest_file(&dir.join("log"), ".wal");
            let mut bytes = fs::read(&newest).unwrap();
            // The beginning of a record whose rest was not written.
            bytes.extend_from_within(..9);
            fs::write(&newest, bytes).unwrap();
        }
    }

    async fn start(&mut self, n: usize) {
        self.cluster.up(&id(n)).await;
    }

    async fn depose(&mut self, n: usize) -> bool {
        let backend = self.backend(n).unwrap();
        backend.admin.transfer_leader(None).await.is_ok()
    }

    async fn open_twice(&self, n: usize) -> Option<OpenError> {
        raft::open(self.cluster.options(&id(n))).await.err()
    }

    /// Cutting the log goes on by itself; this only waits for it.
    async fn compact(&self) {
        eventually("space is given back", || match self.disk() {
            Some((found, bound)) if found > bound => Err(format!("{found} of {bound} bytes")),
            Some(_) | None => Ok(()),
        })
        .await;
    }

    fn disk(&self) -> Option<(u64, u64)> {
        let all = (0..N).map(|n| size(&self.cluster.dir(&id(n)))).sum();
        Some((all, N as u64 * DISK_BYTES_MAX))
    }
}

/// Copies a directory whose files come and go; done when none did.
fn copy_live(from: &Path, to: &Path) {
    loop {
        let before = names(from);
        let copied = copy_all(from, to);
        if copied.is_ok() && names(from) == before {
            return;
        }
        fs::remove_dir_all(to).unwrap();
    }
}

fn names(dir: &Path) -> BTreeSet<std::path::PathBuf> {
    let mut all = BTreeSet::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            all.extend(names(&entry.path()));
        }
        all.insert(entry.path());
    }
    all
}

fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn size(dir: &Path) -> u64 {
    let files = names(dir)
        .into_iter()
        .filter_map(|path| fs::metadata(path).ok());
    files
        .filter(fs::Metadata::is_file)
        .map(|metadata| metadata.len())
        .sum()
}

mod one {
    use interrex_persistence::conformance_suite;

    conformance_suite!(super::Masters<1>);
}

mod three {
    use interrex_persistence::{conformance_suite, contention_suite};

    conformance_suite!(super::Masters<3>);
    contention_suite!(super::Masters<3>);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_batches_survive_sigkill() {
    let me = MasterInfo {
        id: "m1".into(),
        ..MasterInfo::default()
    };
    let options = |dir: &Path| {
        let peers = BTreeMap::from([("m1".to_owned(), "127.0.0.1:7077".to_owned())]);
        let mut options = RaftOptions::new(me.clone(), peers, dir);
        bounded(&mut options);
        options
    };
    if let Some(dir) = sigkill::child_dir() {
        let backend = raft::open(options(&dir)).await.unwrap();
        sigkill::commit_until_killed(&backend, &me).await;
        return;
    }
    for count in [1, 40, 500] {
        let dir = tempfile::tempdir().unwrap();
        let name = "raft::conformance::acknowledged_batches_survive_sigkill";
        let second_process = async |pid: u32| {
            let error = raft::open(options(dir.path())).await.unwrap_err();
            let owner = format!("in use by pid {pid};");
            assert!(error.to_string().contains(&owner), "{error}");
        };
        let killed = sigkill::kill_while_committing(name, dir.path(), count, second_process).await;
        assert!(killed.last >= count);
        let backend = raft::open(options(dir.path())).await.unwrap();
        let epoch = backend.election.campaign(&me).await.unwrap().epoch;
        killed.check(&backend.engine.open_epoch(epoch).await.unwrap());
    }
}
