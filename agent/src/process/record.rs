//! What the agent's next life must know of an attempt: a small file, on disk before the attempt starts.
//!
//! `running/<stem>.json` is written by the agent and locked by the supervisor while it lives;
//! `running/<stem>.json.end` is written by the supervisor when the tree is gone; the next life of the agent renames
//! the record to `.json.over` when it has seen that nothing is left. All are removed once the result is in the outbox.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    files,
    process::{key::WorkKey, protocol::Ending},
};

/// The ending of the records of attempts that are surely gone.
const OVER: &str = "over";

/// One attempt, as written before its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// What it is an attempt of.
    pub key: WorkKey,
    /// The value of the environment variable that marks its processes.
    pub token: String,
    /// Cores that it holds.
    pub cores: u32,
    /// Memory that it holds, in MiB.
    pub memory_mib: u64,
    /// When it was started, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// Addresses of custom resources that it holds.
    #[serde(default)]
    pub resources: BTreeMap<String, Vec<String>>,
}

/// Where an attempt's record is.
///
/// # Errors
/// An id that cannot be a file name, as [`io::ErrorKind::InvalidInput`].
pub fn path_of(running: &Path, key: &WorkKey) -> io::Result<PathBuf> {
    let stem = key
        .file_stem()
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    Ok(running.join(format!("{stem}.json")))
}

/// Writes a record, durable on return. The `.end` of an earlier use of the name is removed first.
///
/// # Errors
/// As the file system says.
pub fn write(path: &Path, record: &AttemptRecord) -> io::Result<()> {
    files::remove_durably(&over_path(path))?;
    files::remove_durably(&ending_path(path))?;
    files::write_durably(path, &serde_json::to_vec(record)?)
}

/// Writes how the attempt ended, durable on return. Called by the supervisor.
///
/// # Errors
/// As the file system says.
pub fn write_ending(path: &Path, ending: &Ending) -> io::Result<()> {
    files::write_durably(&ending_path(path), &serde_json::to_vec(ending)?)
}

/// How the attempt ended, where its supervisor lived to say so.
#[must_use]
pub fn read_ending(path: &Path) -> Option<Ending> {
    serde_json::from_slice(&fs::read(ending_path(path)).ok()?).ok()
}

/// Removes all that is known of an attempt.
///
/// # Errors
/// As the file system says; files that are gone already are fine.
pub fn remove(path: &Path) -> io::Result<()> {
    let ending = ending_path(path);
    let unfinished = [path, &ending].map(|written| files::with_suffix(written, files::TEMPORARY));
    files::remove_durably(path)?;
    files::remove_durably(&over_path(path))?;
    files::remove_durably(&ending)?;
    unfinished
        .iter()
        .try_for_each(|path| files::remove_durably(path))
}

/// Marks an attempt of a former life as gone: a supervisor that comes late does not find its record any more, while
/// a further life of the agent still does.
///
/// # Errors
/// As the file system says.
pub fn mark_over(path: &Path) -> io::Result<()> {
    fs::rename(path, over_path(path))
}

/// Every attempt that an earlier life of the agent left. A record that cannot be read is set aside with a warning.
///
/// # Errors
/// As the file system says about the directory itself.
pub fn list(running: &Path) -> io::Result<Vec<(PathBuf, AttemptRecord)>> {
    let mut found = Vec::new();
    let over = files::list(running, OVER)?;
    for path in files::list(running, "json")?.into_iter().chain(over) {
        let content = fs::read(&path)?;
        match serde_json::from_slice::<AttemptRecord>(&content) {
            Ok(record) => found.push((path_of(running, &record.key)?, record)),
            Err(error) => {
                let aside = files::set_aside(&path)?;
                tracing::warn!(path = %aside.display(), %error, "set aside the unreadable record of an attempt");
            }
        }
    }
    Ok(found)
}

fn over_path(path: &Path) -> PathBuf {
    files::with_suffix(path, OVER)
}

fn ending_path(path: &Path) -> PathBuf {
    files::with_suffix(path, "end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_that_a_supervisor_is_writing_is_left_alone_until_its_attempt_is_forgotten() {
        let running = tempfile::tempdir().unwrap();
        let record = AttemptRecord {
            key: WorkKey::Driver {
                driver_id: "d1".to_owned(),
                attempt: 1,
            },
            token: "t".to_owned(),
            cores: 1,
            memory_mib: 1,
            started_at_ms: 1,
            resources: BTreeMap::new(),
        };
        let path = path_of(running.path(), &record.key).unwrap();
        write(&path, &record).unwrap();
        let writing = files::with_suffix(&ending_path(&path), files::TEMPORARY);
        fs::write(&writing, "half").unwrap();
        assert_eq!(list(running.path()).unwrap(), [(path.clone(), record)]);
        assert!(writing.exists(), "its supervisor is about to rename it");
        remove(&path).unwrap();
        assert_eq!(fs::read_dir(running.path()).unwrap().count(), 0);
    }
}
