//! What an agent remembers of itself, and the lock that keeps a second agent out of its work directory.
//!
//! Everything of the agent's own is in `<work-dir>/.interrex/`, a name that no driver or application can have:
//! `lock`, `agent.json` (identity, cluster, largest epoch), `masters.json` (as the leader named them), `outbox/`,
//! `running/` and `trash/`.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::{Mutex, TryLockError},
};

use serde::{Deserialize, Serialize};

use crate::files;

const DIRECTORY: &str = ".interrex";
/// How far the numbers of two starts are apart. No life of an agent makes that many reports.
const SEQUENCES_PER_START: u32 = 32;

/// What outlives the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentState {
    /// Version of this file.
    pub format: u32,
    /// This worker's name for the masters.
    pub worker_id: String,
    /// The cluster it belongs to; empty until the first one has taken it.
    pub cluster_id: String,
    /// The largest epoch it has acted in.
    pub epoch: u64,
    /// Made once for this directory; the masters tell two agents under one id apart by it.
    #[serde(default)]
    pub work_dir_id: String,
    /// How often it has been started; report numbers rise with it.
    pub starts: u64,
}

/// Why a work directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// It cannot be read or written.
    #[error("work directory {path:?}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another agent uses it.
    #[error(
        "work directory {path:?} is in use by the agent with pid {pid}: stop that one, or give this one another --work-dir"
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The other agent, as it wrote itself down.
        pid: String,
    },
    /// It belongs to another worker.
    #[error(
        "work directory {path:?} belongs to worker {found:?}, not {wanted:?}: start it as {found:?}, or give this one another --work-dir"
    )]
    OtherWorker {
        /// The directory.
        path: PathBuf,
        /// Whose it is.
        found: String,
        /// Who was to be started.
        wanted: String,
    },
    /// A newer agent has written it.
    #[error("{path:?} has format {found}, this agent knows up to {FORMAT}: start the newer agent")]
    Format {
        /// The state file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
}

/// The format that this agent writes.
pub const FORMAT: u32 = 1;

/// An agent's state directory, locked. Blocking.
#[derive(Debug)]
pub struct StateDir {
    root: PathBuf,
    /// Held for the life of this value; the kernel gives it back when the process dies.
    _lock: File,
    /// The epoch on disk. Locked while the state is written.
    saved: Mutex<u64>,
}

// === impl StateDir ===

impl StateDir {
    /// Makes what is missing of `work_dir` and locks it.
    ///
    /// # Errors
    /// [`StateError::InUse`] while another agent runs in it; [`StateError::Io`] where it cannot be written.
    pub fn open(work_dir: &Path) -> Result<Self, StateError> {
        let root = work_dir.join(DIRECTORY);
        for directory in [root.join("outbox"), root.join("running")] {
            fs::create_dir_all(&directory).map_err(io_error(&directory))?;
        }
        let path = root.join("lock");
        let mut lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(io_error(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let mut pid = String::new();
                lock.read_to_string(&mut pid).map_err(io_error(&path))?;
                let pid = pid.trim().to_owned();
                return Err(StateError::InUse {
                    path: work_dir.to_owned(),
                    pid,
                });
            }
            Err(fs::TryLockError::Error(source)) => return Err(io_error(&path)(source)),
        }
        lock.set_len(0)
            .and_then(|()| lock.write_all(std::process::id().to_string().as_bytes()))
            .map_err(io_error(&path))?;
        Ok(Self {
            root,
            _lock: lock,
            saved: Mutex::default(),
        })
    }

    /// Reads the state, or begins one, and counts this start. `wanted_id` is the id that the operator gave;
    /// `default_id` is used where neither the operator nor the directory knows one.
    ///
    /// # Errors
    /// [`StateError::OtherWorker`], [`StateError::Format`], or [`StateError::Io`].
    pub fn begin(
        &self,
        wanted_id: Option<&str>,
        default_id: &str,
    ) -> Result<AgentState, StateError> {
        let found = self.read()?;
        if let (Some(state), Some(wanted)) = (&found, wanted_id)
            && state.worker_id != wanted
        {
            return Err(StateError::OtherWorker {
                path: self.root.clone(),
                found: state.worker_id.clone(),
                wanted: wanted.to_owned(),
            });
        }
        let mut state = found.unwrap_or_else(|| AgentState {
            format: FORMAT,
            worker_id: wanted_id.unwrap_or(default_id).to_owned(),
            cluster_id: String::new(),
            epoch: 0,
            work_dir_id: String::new(),
            starts: 0,
        });
        if state.work_dir_id.is_empty() {
            state.work_dir_id = uuid::Uuid::new_v4().to_string();
        }
        state.starts += 1;
        self.save(&state).map_err(io_error(&self.state_path()))?;
        Ok(state)
    }

    /// Writes the state, durable on return. A state of an older epoch than the one on disk changes nothing: a write
    /// that a slow disk has held up comes too late.
    ///
    /// # Errors
    /// As the file system says, or [`io::ErrorKind::WouldBlock`] while another write is under way; the old state is
    /// still there then.
    pub fn save(&self, state: &AgentState) -> io::Result<()> {
        let mut saved = match self.saved.try_lock() {
            Ok(saved) => saved,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let why = "an earlier write to the disk has not come back";
                return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
            }
        };
        if state.epoch >= *saved {
            files::write_durably(&self.state_path(), &serde_json::to_vec_pretty(state)?)?;
            *saved = state.epoch;
        }
        Ok(())
    }

    /// Writes down who the masters are, as a leader named them; durable on return.
    ///
    /// # Errors
    /// As the file system says; the old list is still there then.
    pub fn save_masters(&self, masters: &[String]) -> io::Result<()> {
        files::write_durably(&self.masters_path(), &serde_json::to_vec_pretty(masters)?)
    }

    /// The masters that a leader named last; none where nothing was written or it cannot be read: the operator's
    /// own list is there as well.
    #[must_use]
    pub fn masters(&self) -> Vec<String> {
        let Ok(content) = fs::read(self.masters_path()) else {
            return Vec::new();
        };
        serde_json::from_slice(&content).unwrap_or_else(|error| {
            tracing::warn!(%error, "the list of masters cannot be read: going by the options alone");
            Vec::new()
        })
    }

    /// Where the results are kept.
    #[must_use]
    pub fn outbox_dir(&self) -> PathBuf {
        self.root.join("outbox")
    }

    /// Where the records of attempts are kept.
    #[must_use]
    pub fn running_dir(&self) -> PathBuf {
        self.root.join("running")
    }

    fn masters_path(&self) -> PathBuf {
        self.root.join("masters.json")
    }

    /// Where work directories go that are being removed.
    #[must_use]
    pub fn trash_dir(&self) -> PathBuf {
        self.root.join("trash")
    }

    fn state_path(&self) -> PathBuf {
        self.root.join("agent.json")
    }

    /// A state that cannot be read is set aside: the agent begins anew rather than not at all.
    fn read(&self) -> Result<Option<AgentState>, StateError> {
        let path = self.state_path();
        let content = match fs::read(&path) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(io_error(&path)(source)),
        };
        if let Ok(Versioned { format }) = serde_json::from_slice(&content)
            && format > FORMAT
        {
            return Err(StateError::Format {
                path,
                found: format,
            });
        }
        match serde_json::from_slice(&content) {
            Ok(state) => Ok(Some(state)),
            Err(error) => {
                let aside = files::set_aside(&path).map_err(io_error(&path))?;
                tracing::error!(
                    path = %aside.display(), %error,
                    "set aside the unreadable state of this agent; it begins anew, without its former id and epoch"
                );
                Ok(None)
            }
        }
    }
}

/// The one field that every format has.
#[derive(Debug, Deserialize)]
struct Versioned {
    format: u32,
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> StateError + '_ {
    |source| StateError::Io {
        path: path.to_owned(),
        source,
    }
}

// === impl AgentState ===

impl AgentState {
    /// The first number of this life's reports: larger than any of an earlier life.
    #[must_use]
    pub fn first_sequence(&self) -> u64 {
        self.starts << SEQUENCES_PER_START
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_agent_is_told_who_has_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let first = StateDir::open(directory.path()).unwrap();
        let refused = StateDir::open(directory.path()).unwrap_err();
        let pid = std::process::id().to_string();
        assert!(matches!(&refused, StateError::InUse { pid: found, .. } if *found == pid));
        assert!(refused.to_string().contains(&pid), "{refused}");
        drop(first);
        StateDir::open(directory.path()).unwrap();
    }

    #[test]
    fn identity_and_epoch_outlive_the_process_and_report_numbers_rise() {
        let directory = tempfile::tempdir().unwrap();
        let open = || StateDir::open(directory.path()).unwrap();
        let first = {
            let dir = open();
            let mut state = dir.begin(None, "worker-h-1").unwrap();
            state.epoch = 9;
            state.cluster_id = "c1".to_owned();
            dir.save(&state).unwrap();
            state
        };
        let second = open().begin(None, "worker-h-2").unwrap();
        assert_eq!(
            second,
            AgentState {
                starts: 2,
                ..first.clone()
            }
        );
        assert!(second.first_sequence() > first.first_sequence());
        assert!(!first.work_dir_id.is_empty());
    }

    #[test]
    fn a_late_write_of_an_older_epoch_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let dir = StateDir::open(directory.path()).unwrap();
        let older = dir.begin(Some("w1"), "x").unwrap();
        let newer = AgentState {
            epoch: 6,
            ..older.clone()
        };
        dir.save(&newer).unwrap();
        dir.save(&older).unwrap();
        assert_eq!(dir.begin(None, "x").unwrap().epoch, 6);
    }

    #[test]
    fn the_masters_that_a_leader_named_outlive_the_process() {
        let directory = tempfile::tempdir().unwrap();
        let open = || StateDir::open(directory.path()).unwrap();
        assert_eq!(open().masters(), Vec::<String>::new());
        open()
            .save_masters(&["a:1".to_owned(), "d:4".to_owned()])
            .unwrap();
        assert_eq!(open().masters(), ["a:1", "d:4"]);
        fs::write(directory.path().join(".interrex/masters.json"), b"[\"a").unwrap();
        assert_eq!(open().masters(), Vec::<String>::new());
    }

    #[test]
    fn a_directory_of_another_worker_is_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let dir = StateDir::open(directory.path()).unwrap();
        dir.begin(Some("w1"), "x").unwrap();
        let refused = dir.begin(Some("w2"), "x").unwrap_err();
        assert!(
            matches!(refused, StateError::OtherWorker { found, wanted, .. } if found == "w1" && wanted == "w2")
        );
    }

    #[test]
    fn an_unreadable_state_is_set_aside_and_a_newer_one_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let dir = StateDir::open(directory.path()).unwrap();
        let path = directory.path().join(".interrex/agent.json");
        fs::write(&path, b"{\"format\":1,\"work").unwrap();
        assert_eq!(dir.begin(None, "fresh").unwrap().worker_id, "fresh");
        fs::write(&path, b"{\"format\":2,\"more\":true}").unwrap();
        let refused = dir.begin(None, "fresh").unwrap_err();
        assert!(
            matches!(refused, StateError::Format { found: 2, .. }),
            "{refused}"
        );
    }
}
