//! What is in the work directory, and how much it holds. Blocking, bounded, and never follows a link.
//!
//! Each directory of something that is over is measured once: it does not change any more.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant, UNIX_EPOCH},
};

use super::plan::Usage;
use crate::process::{LogOwner, WorkDirs, safe_component};

/// Most files and directories that one scan measures; what it does not come to is left for the next one.
pub(super) const ENTRIES_MAX: usize = 200_000;
/// How long the size of a directory in use is taken as it is.
const LIVE_MEASURE: Duration = Duration::from_secs(5);
/// Files by which a driver's or executor's directory is known.
const MARKS: [&str; 3] = ["stdout", "stderr", "resources.json"];

/// What is known of the directories from earlier scans.
#[derive(Debug, Default)]
pub(super) struct Sizes(BTreeMap<LogOwner, Measured>);

#[derive(Debug, Clone, Copy)]
struct Measured {
    bytes: u64,
    changed_ms: u64,
    at: Instant,
    over: bool,
}

/// What is left where `path` is, in bytes, for users who are not root.
///
/// # Errors
/// As the file system says.
pub(super) fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = nix::sys::statvfs::statvfs(path)?;
    Ok(stat.blocks_available().saturating_mul(stat.fragment_size()))
}

/// Every directory of a driver or executor. `kept` says of which the results are not acknowledged.
///
/// # Errors
/// Only where the work directory itself cannot be listed.
pub(super) fn scan(
    dirs: &WorkDirs,
    sizes: &mut Sizes,
    kept: &dyn Fn(&LogOwner) -> bool,
) -> io::Result<Vec<Usage>> {
    let mut budget = ENTRIES_MAX;
    let mut known = BTreeMap::new();
    let mut found = Vec::new();
    for (owner, path) in owners(dirs.root())? {
        let in_use = dirs.is_in_use(&owner);
        // What has changed hands since is measured anew.
        let earlier = sizes.0.remove(&owner).filter(|earlier| {
            earlier.over != in_use && (earlier.over || earlier.at.elapsed() < LIVE_MEASURE)
        });
        let Some(measured) = earlier.or_else(|| measure(&path, !in_use, &mut budget)) else {
            continue;
        };
        known.insert(owner.clone(), measured);
        found.push(Usage {
            kept: in_use || kept(&owner),
            owner,
            bytes: measured.bytes,
            changed_ms: measured.changed_ms,
        });
    }
    sizes.0 = known;
    Ok(found)
}

/// `<driver-id>` and `<app-id>/<executor-id>`; whatever else is there is nobody's business.
pub(crate) fn owners(root: &Path) -> io::Result<Vec<(LogOwner, PathBuf)>> {
    let mut found = Vec::new();
    for (name, path) in directories(root)? {
        if safe_component("id", &name).is_err() {
            continue;
        }
        if is_marked(&path) {
            found.push((LogOwner::Driver(name), path));
            continue;
        }
        for (number, path) in directories(&path).unwrap_or_default() {
            if let Ok(id) = number.parse::<u32>()
                && id.to_string() == number
                && is_marked(&path)
            {
                found.push((LogOwner::Executor(name.clone(), id), path));
            }
        }
    }
    Ok(found)
}

fn is_marked(path: &Path) -> bool {
    MARKS
        .iter()
        .any(|mark| fs::symlink_metadata(path.join(mark)).is_ok())
}

fn directories(path: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let entries = fs::read_dir(path)?.filter_map(Result::ok);
    Ok(entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .collect())
}

/// `None` where `budget` is used up. What vanishes on the way is not counted.
fn measure(root: &Path, over: bool, budget: &mut usize) -> Option<Measured> {
    let mut measured = Measured {
        bytes: 0,
        changed_ms: 0,
        at: Instant::now(),
        over,
    };
    let device = fs::symlink_metadata(root).ok()?.dev();
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        *budget = budget.checked_sub(1)?;
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            continue;
        };
        if metadata.dev() != device {
            continue;
        }
        measured.bytes = measured
            .bytes
            .saturating_add(metadata.blocks().saturating_mul(512));
        let changed = metadata
            .modified()
            .ok()
            .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
            .map_or(0, |since| {
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
            });
        measured.changed_ms = measured.changed_ms.max(changed);
        if metadata.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten();
            for entry in entries.filter_map(Result::ok) {
                // What waits to be looked at is bounded as well.
                if waiting.len() >= *budget {
                    return None;
                }
                waiting.push(entry.path());
            }
        }
    }
    Some(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dirs(root: &Path) -> WorkDirs {
        WorkDirs::new(root.to_owned(), root.join(".interrex/trash"))
    }

    fn file(path: PathBuf, bytes: usize) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![7; bytes]).unwrap();
    }

    #[test]
    fn only_directories_of_work_are_found_and_links_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        file(root.join("d1/stdout"), 10);
        file(root.join("d1/5/stdout"), 8_192);
        file(root.join("a1/3/stderr"), 10);
        file(root.join("a1/03/stderr"), 10);
        file(root.join("a1/x/stdout"), 10);
        file(root.join(".interrex/outbox/stdout"), 10);
        file(root.join("lost+found/stdout"), 10);
        file(root.join("somebodys/file"), 10);
        file(root.join("stdout"), 10);
        std::os::unix::fs::symlink("/", root.join("d1/everything")).unwrap();
        std::os::unix::fs::symlink("/", root.join("linked")).unwrap();

        let dirs = dirs(root);
        let _in_use = dirs.claim(LogOwner::Executor("a1".to_owned(), 3));
        let mut found = scan(&dirs, &mut Sizes::default(), &|_| false).unwrap();
        found.sort_by(|a, b| a.owner.cmp(&b.owner));
        let owners: Vec<(LogOwner, bool)> =
            found.iter().map(|it| (it.owner.clone(), it.kept)).collect();
        assert_eq!(
            owners,
            [
                (LogOwner::Driver("d1".to_owned()), false),
                (LogOwner::Executor("a1".to_owned(), 3), true)
            ]
        );
        assert!((8_192..100_000).contains(&found[0].bytes), "{found:?}");
        assert!(found[0].changed_ms > 1_600_000_000_000, "{found:?}");
    }

    #[test]
    fn what_is_over_is_measured_once_and_again_after_it_was_in_use() {
        let directory = tempfile::tempdir().unwrap();
        let dirs = dirs(directory.path());
        let owner = LogOwner::Driver("d1".to_owned());
        let mut sizes = Sizes::default();
        file(directory.path().join("d1/stdout"), 4_096);
        let mut bytes = || scan(&dirs, &mut sizes, &|_| false).unwrap()[0].bytes;
        let small = bytes();
        file(directory.path().join("d1/more"), 65_536);
        assert_eq!(bytes(), small);
        let in_use = dirs.claim(owner);
        assert!(bytes() > small);
        drop(in_use);
        assert!(bytes() > small);
    }

    #[test]
    fn a_directory_beyond_the_budget_is_left_for_the_next_scan() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["1", "2", "3"] {
            file(directory.path().join(name), 1);
        }
        assert!(measure(directory.path(), true, &mut 3).is_none());
        let mut budget = 10;
        assert!(measure(directory.path(), true, &mut budget).is_some());
        assert_eq!(budget, 6);
    }
}
