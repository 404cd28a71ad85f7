//! The ledger: what really ran, written down by the work itself.
//!
//! Each attempt of a submission is a process of ours ([`job`]) that appends one line when it begins and one when its work
//! is done. Whether two attempts ran at once, and whether an agent ran more than it offers, is decided by the kernel: an
//! attempt takes a lock of its submission and one of each core that it uses, and the kernel gives them back when the
//! process is gone, however it ends. Nothing here asks a master.

pub mod job;
mod line;
mod watch;

use std::path::{Path, PathBuf};

pub use line::{Entry, Event, LineError, parse};
pub(super) use watch::{Gone, Watch};

/// The environment variable that marks every process of a run's work; its value names the run.
pub const MARK: &str = "INTERREX_CHAOS_RUN";

/// Where a run's ledger and locks are.
#[derive(Debug, Clone)]
pub struct Ledger {
    dir: PathBuf,
}

// === impl Ledger ===

impl Ledger {
    /// The ledger in `dir`.
    #[must_use]
    pub fn at(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
        }
    }

    /// Makes its directories.
    ///
    /// # Errors
    /// Where they cannot be made.
    pub fn create(&self) -> std::io::Result<()> {
        std::fs::create_dir_all(self.dir.join("running"))?;
        std::fs::create_dir_all(self.dir.join("cores"))
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file that all attempts append to.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.dir.join("ledger.txt")
    }

    /// What is held while an attempt of `submission` runs.
    fn running(&self, submission: &str) -> PathBuf {
        self.dir.join("running").join(submission)
    }

    /// What is held while a core of `worker` is used.
    fn core(&self, worker: &str, number: u32) -> PathBuf {
        self.dir.join("cores").join(format!("{worker}.{number}"))
    }
}
