//! The sled backend: the suite, a real SIGKILL, and a second process.

use std::{
    fs,
    io::{self, Write},
    path::Path,
    time::Duration,
};

use async_trait::async_trait;
use interrex_persistence::{
    backend::Backend,
    conformance::{Bench, Fixture, Stop, put, sigkill},
    conformance_suite,
    election::MasterInfo,
    error::{AdminError, OpenError},
    sled::{SledOptions, open},
};
use tempfile::TempDir;

struct Sled {
    dir: TempDir,
    open: Option<Backend>,
}

fn me() -> MasterInfo {
    MasterInfo {
        id: "m1".to_owned(),
        rpc: "127.0.0.1:1".to_owned(),
        ..Default::default()
    }
}

fn options(dir: &Path) -> SledOptions {
    SledOptions {
        data_dir: dir.to_owned(),
        me: me(),
    }
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
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let sizes = entries.map(|entry| match entry.file_type().unwrap().is_dir() {
        true => size(&entry.path()),
        false => entry.metadata().unwrap().len(),
    });
    sizes.sum()
}

#[async_trait]
impl Fixture for Sled {
    async fn fresh() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let open = Some(open(options(dir.path())).await.unwrap());
        Self { dir, open }
    }

    fn masters(&self) -> usize {
        1
    }

    fn me(&self, _n: usize) -> MasterInfo {
        me()
    }

    fn backend(&self, _n: usize) -> Option<Backend> {
        self.open.clone()
    }

    async fn stop(&mut self, _n: usize, how: Stop) {
        let backend = self.open.take().expect("it runs");
        if how != Stop::Clean {
            // What is in the files now, before anything is closed in order.
            let copy = tempfile::tempdir().unwrap();
            copy_all(self.dir.path(), copy.path()).unwrap();
            if how == Stop::TornTail {
                let file = copy.path().join("sled-1/db");
                let mut log = fs::OpenOptions::new().append(true).open(file).unwrap();
                log.write_all(&[0x5a; 3000]).unwrap();
            }
            self.dir = copy;
        }
        backend.admin.shutdown().await;
    }

    async fn start(&mut self, _n: usize) {
        self.open = Some(open(options(self.dir.path())).await.unwrap());
    }

    async fn open_twice(&self, _n: usize) -> Option<OpenError> {
        open(options(self.dir.path())).await.err()
    }

    fn disk(&self) -> Option<(u64, u64)> {
        Some((size(self.dir.path()), 80 << 20))
    }
}

conformance_suite!(Sled);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_batches_survive_sigkill() {
    if let Some(dir) = sigkill::child_dir() {
        let backend = open(options(&dir)).await.unwrap();
        sigkill::commit_until_killed(&backend, &me()).await;
        return;
    }
    for count in [1, 40, 200] {
        let dir = tempfile::tempdir().unwrap();
        let name = "sled::acknowledged_batches_survive_sigkill";
        let second_process = async |pid: u32| {
            let error = open(options(dir.path())).await.unwrap_err();
            assert!(matches!(error, OpenError::InUse { .. }), "{error}");
            assert!(
                error.to_string().contains(&format!("in use by pid {pid};")),
                "{error}"
            );
        };
        let killed = sigkill::kill_while_committing(name, dir.path(), count, second_process).await;
        assert!(killed.last >= count);
        let began = std::time::Instant::now();
        let backend = open(options(dir.path())).await.unwrap();
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "opening took {:?}",
            began.elapsed()
        );
        let epoch = backend.election.campaign(&me()).await.unwrap().epoch;
        killed.check(&backend.engine.open_epoch(epoch).await.unwrap());
    }
}

#[tokio::test]
async fn what_needs_several_masters_is_refused_with_the_engine_that_has_them() {
    let bench = Bench::<Sled>::new().await;
    let led = bench.lead().await;
    let refused = [
        led.backend.admin.transfer_leader(None).await,
        led.backend
            .admin
            .add_master("m2".to_owned(), "127.0.0.1:2".to_owned())
            .await,
        led.backend.admin.remove_master("m1".to_owned()).await,
    ];
    for refused in refused {
        let Err(AdminError::Unsupported(reason)) = refused else {
            panic!("{refused:?}")
        };
        assert!(reason.contains("--engine raft"), "{reason}");
    }
    led.commit(vec![put("still leads", "1")]).await.unwrap();
}

#[tokio::test]
async fn commits_that_wait_together_are_synced_together() {
    let bench = Bench::<Sled>::new().await;
    let led = bench.lead().await;
    let commits = (0..500).map(|i| led.commit(vec![put(&format!("{i}"), "1")]));
    let outcomes = futures::future::join_all(commits).await;
    assert!(outcomes.iter().all(Result::is_ok));
    let too_many = (0..5000).map(|i| led.commit(vec![put(&format!("{i}"), "2")]));
    let outcomes = futures::future::join_all(too_many).await;
    let refused = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    assert!(
        refused.clone().all(|error| !error.maybe_written()),
        "a full queue refuses"
    );
    assert!(refused.count() > 0, "the queue has a bound");
    led.commit(vec![put("after", "1")]).await.unwrap();
}
