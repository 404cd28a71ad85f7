//! The outbox's files: one a result, durable before the result is sent, removed when it is acknowledged.
//!
//! A file is `<sequence>.json`: a checksum and the report. What cannot be read is set aside, with a warning, and
//! never keeps the agent from starting.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use interrex_proto::v1::WorkReport;
use serde::{Deserialize, Serialize};

use crate::files;

/// The results of one agent on disk. Blocking.
#[derive(Debug, Clone)]
pub struct OutboxStore {
    directory: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredReport {
    /// CRC-32 of the report's JSON text.
    checksum: u32,
    /// The report's JSON text, so that what is checked is what was written.
    report: String,
}

#[derive(Debug, thiserror::Error)]
enum Unreadable {
    #[error("not a stored report: {0}")]
    Format(#[from] serde_json::Error),
    #[error("the checksum does not match")]
    Checksum,
    #[error("its number {found} is not the one of its name")]
    Sequence { found: u64 },
}

// === impl OutboxStore ===

impl OutboxStore {
    /// The store in `directory`, which must exist.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Writes a result, durable on return.
    ///
    /// # Errors
    /// As the file system says; worth a retry.
    pub fn put(&self, report: &WorkReport) -> io::Result<()> {
        let text = serde_json::to_string(report)?;
        let stored = StoredReport {
            checksum: crc32fast::hash(text.as_bytes()),
            report: text,
        };
        files::write_durably(&self.path(report.sequence), &serde_json::to_vec(&stored)?)
    }

    /// Removes a result; one that is not there is fine.
    ///
    /// # Errors
    /// As the file system says; worth a retry.
    pub fn remove(&self, sequence: u64) -> io::Result<()> {
        files::remove_durably(&self.path(sequence))
    }

    /// Every result, the oldest first.
    ///
    /// # Errors
    /// As the file system says about the directory, or about setting a file aside.
    pub fn load(&self) -> io::Result<Vec<WorkReport>> {
        files::remove_unfinished(&self.directory)?;
        let mut found = Vec::new();
        for path in files::list(&self.directory, "json")? {
            match decode(&path, &fs::read(&path)?) {
                Ok(report) => found.push(report),
                Err(error) => {
                    let aside = files::set_aside(&path)?;
                    tracing::warn!(path = %aside.display(), %error, "set aside an unreadable result");
                }
            }
        }
        Ok(found)
    }

    fn path(&self, sequence: u64) -> PathBuf {
        self.directory.join(format!("{sequence:020}.json"))
    }
}

fn decode(path: &Path, content: &[u8]) -> Result<WorkReport, Unreadable> {
    let stored: StoredReport = serde_json::from_slice(content)?;
    if crc32fast::hash(stored.report.as_bytes()) != stored.checksum {
        return Err(Unreadable::Checksum);
    }
    let report: WorkReport = serde_json::from_str(&stored.report)?;
    let named = path
        .file_stem()
        .and_then(|stem| stem.to_str()?.parse::<u64>().ok());
    if named != Some(report.sequence) {
        return Err(Unreadable::Sequence {
            found: report.sequence,
        });
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use interrex_proto::v1::{DriverChanged, Exit, ProcessState, work_report};

    use super::*;

    fn report(sequence: u64) -> WorkReport {
        let body = DriverChanged {
            driver_id: "d1".to_owned(),
            attempt: 1,
            state: ProcessState::Exited.into(),
            exit: Some(Exit {
                code: Some(3),
                signal: None,
            }),
            message: String::new(),
            at_ms: 7,
        };
        WorkReport {
            sequence,
            body: Some(work_report::Body::Driver(body)),
        }
    }

    #[test]
    fn a_result_comes_back_after_a_restart_until_it_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let store = OutboxStore::new(directory.path().to_owned());
        store.put(&report(2)).unwrap();
        store.put(&report(10)).unwrap();
        let again = OutboxStore::new(directory.path().to_owned());
        assert_eq!(again.load().unwrap(), [report(2), report(10)]);
        again.remove(2).unwrap();
        again.remove(2).unwrap();
        assert_eq!(again.load().unwrap(), [report(10)]);
    }

    #[test]
    fn damaged_results_are_set_aside_and_the_others_kept() {
        let directory = tempfile::tempdir().unwrap();
        let store = OutboxStore::new(directory.path().to_owned());
        for sequence in 1..=4 {
            store.put(&report(sequence)).unwrap();
        }
        let path = |n: u64| directory.path().join(format!("{n:020}.json"));
        fs::write(path(1), b"").unwrap();
        let flipped = fs::read_to_string(path(2)).unwrap().replace("d1", "d2");
        fs::write(path(2), flipped).unwrap();
        fs::copy(path(4), path(3)).unwrap();
        fs::write(directory.path().join("x.json.tmp"), b"torn").unwrap();

        assert_eq!(store.load().unwrap(), [report(4)]);
        let names: Vec<String> = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(
            names
                .iter()
                .filter(|name| name.contains(".corrupt-"))
                .count(),
            3,
            "{names:?}"
        );
        assert!(
            !names.iter().any(|name| name.ends_with(".tmp")),
            "{names:?}"
        );
    }
}
