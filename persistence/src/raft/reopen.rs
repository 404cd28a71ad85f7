//! Opens the node again, in place, when openraft has ended because the disk has failed.
//!
//! openraft ends for good with the first error of its log. This waits until the disk works again, by trying, and
//! starts another run of openraft from what is on the disk; ports, handles and whoever waits stay. What must never
//! happen: that an entry counts as stored because it could be read back, although its fsync has failed. The kernel
//! forgets about such pages, so they are written once more before the log is opened.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use super::{
    disk, metrics,
    node::Node,
    options::RaftOptions,
    running::{Ground, Running, log_dir},
    state_machine::blocking,
    status::Problem,
};
use crate::data_dir::sync_dir;

/// Pauses between tries: doubled from the first to the last.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A run that lasted this long was a good one: the next pauses begin anew.
const GOOD_RUN: Duration = Duration::from_secs(30);
/// What is written to see whether the disk works.
const PROBE_BYTES: usize = 64 << 10;
const PROBE_FILE: &str = "probe.tmp";
/// Log files that may hold entries whose fsync has failed: the one that is written and those before it that were
/// full, but not yet synced.
const UNSURE_FILES: usize = 3;
const COPY_BYTES: usize = 256 << 10;

/// Looks after the runs of openraft until the node is closed.
pub(super) async fn supervise(node: Arc<Node>) {
    let mut pause = PAUSE_MIN;
    loop {
        let began = Instant::now();
        let running = node.running();
        running.ended.cancelled().await;
        if node.closing().is_cancelled() {
            return;
        }
        running.end(node.options().timing.shutdown_deadline).await;
        if node.is_left_behind() {
            return;
        }
        if began.elapsed() >= GOOD_RUN {
            pause = PAUSE_MIN;
        }
        loop {
            let paused = tokio::time::sleep(pause);
            if node.closing().run_until_cancelled(paused).await.is_none() {
                return;
            }
            pause = (pause * 2).min(PAUSE_MAX);
            match open_again(&node).await {
                Ok(()) => break,
                Err(reason) => node.status.set(
                    Problem::Stopped,
                    format!(
                        "raft has stopped, and cannot be opened again yet: {reason}; this master takes no part until \
                         it can, which is tried every {} s",
                        PAUSE_MAX.as_secs()
                    ),
                ),
            }
        }
    }
}

async fn open_again(node: &Node) -> Result<(), String> {
    let options = node.options().clone();
    let meter = Arc::clone(&node.ground.meter);
    blocking(move || {
        meter.faults.check()?;
        probe(&options)?;
        disk::check_room(&options, &meter.faults)?;
        write_again(&log_dir(&options))
    })
    .await
    .map_err(|error| error.to_string())?;
    let identity = node
        .identity
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let ground: &Ground = &node.ground;
    ground.meter.reset();
    let running = Running::open(ground, &identity)
        .await
        .map_err(|error| error.to_string())?;
    node.replace(running);
    node.status.clear(Problem::Snapshot);
    node.status.clear(Problem::Stopped);
    metrics::reopened();
    tracing::info!(
        master = node.options().id,
        "raft was opened again: this master takes part"
    );
    Ok(())
}

/// Whether files can be written, synced, and grow to the size of a log file. Blocks.
fn probe(options: &RaftOptions) -> io::Result<()> {
    let path = options.data_dir.join(PROBE_FILE);
    let written = write_probe(&path, options.snapshots.log_file_bytes);
    let removed = fs::remove_file(&path);
    written.and(removed)
}

fn write_probe(path: &Path, size: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.seek(SeekFrom::Start(size.saturating_sub(PROBE_BYTES as u64)))?;
    file.write_all(&[0xa5; PROBE_BYTES])?;
    file.sync_all()
}

/// Writes the newest log files once more over themselves, and syncs them. Blocks.
fn write_again(dir: &Path) -> io::Result<()> {
    if !dir.is_dir() {
        return Ok(());
    }
    let mut files: Vec<PathBuf> = fs::read_dir(dir)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    files.retain(|path| path.is_file());
    // Their names are offsets of equal length.
    files.sort();
    for path in files.iter().rev().take(UNSURE_FILES) {
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut piece = vec![0; COPY_BYTES];
        let mut at = 0;
        loop {
            file.seek(SeekFrom::Start(at))?;
            let read = file.read(&mut piece)?;
            let Some(bytes) = piece.get(..read).filter(|bytes| !bytes.is_empty()) else {
                break;
            };
            file.seek(SeekFrom::Start(at))?;
            file.write_all(bytes)?;
            at += bytes.len() as u64;
        }
        file.sync_all()?;
    }
    sync_dir(dir)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::election::MasterInfo;

    #[test]
    fn writing_again_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let content: Vec<u8> = (0..COPY_BYTES + 1234).map(|n| (n % 251) as u8).collect();
        for name in ["a", "b", "c", "d"] {
            fs::write(dir.path().join(name), &content).unwrap();
        }
        fs::write(dir.path().join("e"), b"").unwrap();
        write_again(dir.path()).unwrap();
        for name in ["a", "b", "c", "d"] {
            assert_eq!(fs::read(dir.path().join(name)).unwrap(), content);
        }
        write_again(&dir.path().join("missing")).unwrap();
    }

    #[test]
    fn a_probe_leaves_nothing_behind_and_fails_where_nothing_can_be_written() {
        let dir = tempfile::tempdir().unwrap();
        let me = MasterInfo::default();
        let options = RaftOptions::new(me, BTreeMap::new(), dir.path());
        probe(&options).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let mut gone = options;
        gone.data_dir = dir.path().join("missing");
        assert!(probe(&gone).is_err());
    }
}
