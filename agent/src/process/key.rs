//! The name of one attempt of work, and the directories that belong to it.
//!
//! Ids come from the network and become path components, so nothing is joined to a path before
//! [`WorkKey::directory`] or [`safe_component`] has looked at it.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use interrex_proto::digest;
use serde::{Deserialize, Serialize};

/// Longest id that becomes a path component, in bytes: file systems end at 255, and attempts are appended.
pub const ID_BYTES_MAX: usize = 200;

/// What one process is an attempt of.
///
/// The order groups the attempts of one driver, the smallest first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkKey {
    /// One attempt of a driver.
    Driver {
        /// Which driver.
        driver_id: String,
        /// Which attempt; rises.
        attempt: u32,
    },
    /// An executor; its id is never used twice in one application.
    Executor {
        /// Of which application.
        app_id: String,
        /// Which of its executors.
        executor_id: u32,
    },
}

/// Whose output a log file holds: a driver over all its attempts, or an executor.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogOwner {
    /// A driver.
    Driver(String),
    /// An executor of an application.
    Executor(String, u32),
}

/// An id that may not become a path component.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{field} {id:?} is not usable as a directory name: use 1 to {ID_BYTES_MAX} letters, digits, '.', '_' and '-', \
     the first of them a letter or a digit"
)]
pub struct UnsafeId {
    /// Which field held it.
    pub field: &'static str,
    /// The id, cut to 64 characters.
    pub id: String,
}

/// Checks that an id can be one path component: no separator, no dot first, nothing a shell or a page would trip
/// over.
///
/// # Errors
/// [`UnsafeId`] names the field and the rule; no retry helps.
pub fn safe_component<'id>(field: &'static str, id: &'id str) -> Result<&'id str, UnsafeId> {
    let first = id
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphanumeric());
    let rest = id
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
    if first && rest && id.len() <= ID_BYTES_MAX {
        Ok(id)
    } else {
        Err(UnsafeId {
            field,
            id: id.chars().take(64).collect(),
        })
    }
}

// === impl WorkKey ===

impl WorkKey {
    /// The key of an attempt of a driver.
    #[must_use]
    pub fn driver(driver_id: &str, attempt: u32) -> Self {
        Self::Driver {
            driver_id: driver_id.to_owned(),
            attempt,
        }
    }

    /// The key of an executor.
    #[must_use]
    pub fn executor(app_id: &str, executor_id: u32) -> Self {
        Self::Executor {
            app_id: app_id.to_owned(),
            executor_id,
        }
    }

    /// Whose logs it writes.
    #[must_use]
    pub fn owner(&self) -> LogOwner {
        match self {
            Self::Driver { driver_id, .. } => LogOwner::Driver(driver_id.clone()),
            Self::Executor {
                app_id,
                executor_id,
            } => LogOwner::Executor(app_id.clone(), *executor_id),
        }
    }

    /// What it adds (by XOR) to the digest of what this agent runs.
    #[must_use]
    pub fn digest(&self) -> u64 {
        match self {
            Self::Driver { driver_id, attempt } => digest::driver(driver_id, *attempt),
            Self::Executor {
                app_id,
                executor_id,
            } => digest::executor(app_id, *executor_id),
        }
    }

    /// Its directory under the work directory: `<driver-id>` or `<app-id>/<executor-id>`.
    ///
    /// # Errors
    /// [`UnsafeId`] where the id cannot be a path component.
    pub fn directory(&self, work_dir: &Path) -> Result<PathBuf, UnsafeId> {
        self.owner().directory(work_dir)
    }

    /// The name of its files in the agent's own state directory.
    ///
    /// # Errors
    /// [`UnsafeId`] where the id cannot be a path component.
    pub fn file_stem(&self) -> Result<String, UnsafeId> {
        match self {
            Self::Driver { driver_id, attempt } => Ok(format!(
                "driver.{}.{attempt}",
                safe_component("driver id", driver_id)?
            )),
            Self::Executor {
                app_id,
                executor_id,
            } => Ok(format!(
                "executor.{}.{executor_id}",
                safe_component("application id", app_id)?
            )),
        }
    }
}

impl fmt::Display for WorkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver { driver_id, attempt } => {
                write!(f, "driver {driver_id} attempt {attempt}")
            }
            Self::Executor {
                app_id,
                executor_id,
            } => write!(f, "executor {app_id}/{executor_id}"),
        }
    }
}

// === impl LogOwner ===

impl LogOwner {
    /// The directory of its log files.
    ///
    /// # Errors
    /// [`UnsafeId`] where the id cannot be a path component.
    pub fn directory(&self, work_dir: &Path) -> Result<PathBuf, UnsafeId> {
        match self {
            Self::Driver(driver_id) => Ok(work_dir.join(safe_component("driver id", driver_id)?)),
            Self::Executor(app_id, executor_id) => Ok(work_dir
                .join(safe_component("application id", app_id)?)
                .join(executor_id.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_could_leave_the_work_directory_is_refused() {
        for id in [
            "", ".", "..", "a/b", "../x", "/etc", ".hidden", "-rf", "a\0b", "a b", "ü",
        ] {
            assert!(
                WorkKey::driver(id, 1).directory(Path::new("/w")).is_err(),
                "{id:?}"
            );
            assert!(WorkKey::executor(id, 1).file_stem().is_err(), "{id:?}");
        }
        assert!(safe_component("id", &"x".repeat(ID_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn directories_are_those_that_users_know_from_spark() {
        let work = Path::new("/w");
        assert_eq!(
            WorkKey::driver("driver-1", 3).directory(work),
            Ok(PathBuf::from("/w/driver-1"))
        );
        assert_eq!(
            WorkKey::executor("app-1", 7).directory(work),
            Ok(PathBuf::from("/w/app-1/7"))
        );
    }

    #[test]
    fn attempts_of_one_driver_are_neighbours_in_rising_order() {
        assert!(WorkKey::driver("a", 9) < WorkKey::driver("a", 10));
        assert!(WorkKey::driver("a", 10) < WorkKey::driver("b", 1));
    }
}
