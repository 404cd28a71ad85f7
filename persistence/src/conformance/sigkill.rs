//! *Durable on return* across a real SIGKILL: the test binary starts itself again, and kills that child.
//!
//! A test that uses this is two programs. In the child, [`child_dir`] is `Some`: it opens its backend there and calls
//! [`commit_until_killed`]. In the parent it is `None`: it calls [`kill_while_committing`] with its own name, opens
//! the directory, and hands what it reads to [`Acknowledged::check`].

use std::{
    collections::BTreeSet,
    io::Write,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    time::{Instant, timeout},
};

use super::{key, put};
use crate::{
    backend::Backend,
    election::MasterInfo,
    record::{CommitBatch, Recovered},
};

const CHILD_DIR_VAR: &str = "INTERREX_CONFORMANCE_CHILD_DIR";
const ACKNOWLEDGED: &str = "acknowledged ";
/// A child whose parent was killed ends by itself.
const CHILD_LIFE_MAX: Duration = Duration::from_secs(120);
/// Within this time the child has acknowledged what the parent waits for.
const PARENT_PATIENCE: Duration = Duration::from_secs(60);

/// What the child had acknowledged when it was killed: the numbers of batches, from 1 on.
#[derive(Debug)]
pub struct Acknowledged {
    /// The last one.
    pub last: u64,
}

/// The directory to work in, where this process is the child.
#[must_use]
pub fn child_dir() -> Option<PathBuf> {
    std::env::var_os(CHILD_DIR_VAR).map(PathBuf::from)
}

/// Leads, and commits numbered batches, one after the other, saying each acknowledged one on stdout.
///
/// # Panics
/// When the backend refuses a batch: the child's only leader has no reason to.
pub async fn commit_until_killed(backend: &Backend, me: &MasterInfo) {
    let began = Instant::now();
    let leadership = backend
        .election
        .campaign(me)
        .await
        .expect("the only master leads");
    let epoch = leadership.epoch;
    backend
        .engine
        .open_epoch(epoch)
        .await
        .expect("the leader opens its epoch");
    for number in 1u64.. {
        let text = number.to_string();
        let mutations = vec![
            put(&format!("a-{number}"), text.clone()),
            put("newest", text.clone()),
            put(
                &format!("b-{number}"),
                vec![1; (number as usize * 97) % 5000],
            ),
        ];
        backend
            .engine
            .commit(CommitBatch { epoch, mutations })
            .await
            .expect("stored");
        let mut stdout = std::io::stdout().lock();
        let told = writeln!(stdout, "{ACKNOWLEDGED}{number}").and_then(|()| stdout.flush());
        if told.is_err() || began.elapsed() > CHILD_LIFE_MAX {
            return;
        }
    }
}

/// Runs `test` of this binary as a child in `dir`, lets it acknowledge `count` batches, calls `meanwhile` with the
/// child's process id, and kills the child with SIGKILL while it commits.
///
/// # Panics
/// When the child does not acknowledge that many in a minute.
pub async fn kill_while_committing(
    test: &str,
    dir: &Path,
    count: u64,
    meanwhile: impl AsyncFnOnce(u32),
) -> Acknowledged {
    let binary = std::env::current_exe().expect("a test knows its binary");
    let mut child = Command::new(binary)
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD_DIR_VAR, dir)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the test binary starts");
    let pid = child.id().expect("the child has just been started");
    let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
    let mut last = 0;
    let mut read = async |until: u64| {
        while last < until {
            let Ok(Some(line)) = lines.next_line().await else {
                break;
            };
            // The test harness writes to stdout too.
            if let Some(number) = line.split(ACKNOWLEDGED).nth(1) {
                last = number.trim().parse().expect("a number follows");
            }
        }
        last
    };
    let reached = timeout(PARENT_PATIENCE, read(count)).await;
    assert_eq!(reached, Ok(count), "the child acknowledges {count} batches");
    meanwhile(pid).await;
    child.start_kill().expect("the child is ours");
    let last = read(u64::MAX).await;
    child.wait().await.expect("the child is ours");
    Acknowledged { last }
}

// === impl Acknowledged ===

impl Acknowledged {
    /// All that was acknowledged is in `recovered`; what else is there is the one batch that was under way, whole.
    ///
    /// # Panics
    /// When it is not so.
    pub fn check(&self, recovered: &Recovered) {
        let numbers = |half: &str| -> BTreeSet<u64> {
            let ids = recovered.records.iter().map(|(key, _)| &*key.id);
            ids.filter_map(|id| id.strip_prefix(half)?.parse().ok())
                .collect()
        };
        let (a, b) = (numbers("a-"), numbers("b-"));
        assert_eq!(a, b, "atomic: half of a batch is stored");
        let stored = a.last().copied().unwrap_or_default();
        assert_eq!(
            a.len() as u64,
            stored,
            "ordered: a batch is missing before batch {stored}"
        );
        assert!(
            stored == self.last || stored == self.last + 1,
            "durable on return: batch {} was acknowledged, batch {stored} is the last one stored",
            self.last
        );
        let newest = recovered
            .records
            .iter()
            .find(|(found, _)| *found == key("newest"));
        let newest = newest.map(|(_, value)| value.clone());
        assert_eq!(
            newest,
            Some(stored.to_string().into()),
            "atomic: the newest batch is whole"
        );
    }
}
