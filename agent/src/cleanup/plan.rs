//! What to remove of the work directory, and whether there is room for new work. Pure.
//!
//! What must never happen: that a directory goes whose process runs, or whose result no master has acknowledged.

use std::{collections::BTreeSet, time::Duration};

use crate::process::LogOwner;

/// What may be kept, and how much room there must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long the directory of something that is over is kept after its last change. Default 7 days.
    pub retention: Duration,
    /// What all directories of drivers and executors may hold together, in bytes; `None`: no limit. Default `None`.
    pub bytes_max: Option<u64>,
    /// What is kept free on the file system of the work directory, in bytes; 0: nothing. Default 256 MiB.
    pub free_bytes_min: u64,
}

/// One directory of a driver or executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// Whose it is.
    pub owner: LogOwner,
    /// What it holds.
    pub bytes: u64,
    /// Its last change, in milliseconds since the Unix epoch.
    pub changed_ms: u64,
    /// It is in use, or its result is not acknowledged.
    pub kept: bool,
}

/// Why a directory goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It is older than the retention.
    Age,
    /// All of them together hold too much.
    Budget,
    /// The file system has too little left.
    Free,
}

/// What goes, in this order. `free_bytes` is what the file system has left.
#[must_use]
pub fn plan(
    limits: &Limits,
    directories: &[Usage],
    free_bytes: u64,
    now_ms: u64,
) -> Vec<(LogOwner, Reason)> {
    let retention_ms = u64::try_from(limits.retention.as_millis()).unwrap_or(u64::MAX);
    let mut total = held(directories);
    let mut free = free_bytes;
    let mut over: Vec<&Usage> = directories.iter().filter(|it| !it.kept).collect();
    over.sort_by(|a, b| (a.changed_ms, &a.owner).cmp(&(b.changed_ms, &b.owner)));
    let mut going = Vec::new();
    for directory in over {
        // A change in the future is a clock that was set back: it counts as now.
        let reason = if now_ms.saturating_sub(directory.changed_ms) >= retention_ms {
            Reason::Age
        } else if limits.bytes_max.is_some_and(|max| total > max) {
            Reason::Budget
        } else if free < limits.free_bytes_min {
            Reason::Free
        } else {
            // The others are newer, and room is left.
            break;
        };
        total = total.saturating_sub(directory.bytes);
        free = free.saturating_add(directory.bytes);
        going.push((directory.owner.clone(), reason));
    }
    going
}

/// Why no new work should be started, after everything that may go has gone; `None`: it may.
#[must_use]
pub fn trouble(limits: &Limits, directories: &[Usage], free_bytes: u64) -> Option<String> {
    let mib = |bytes: u64| bytes >> 20;
    if free_bytes < limits.free_bytes_min {
        return Some(format!(
            "disk: {} MiB are left where the work directory is, {} MiB are to stay free (--work-min-free)",
            mib(free_bytes),
            mib(limits.free_bytes_min)
        ));
    }
    let total = held(directories);
    limits.bytes_max.filter(|max| total > *max).map(|max| {
        format!(
            "disk: what runs holds {} MiB of the work directory, {} MiB are allowed (--work-max)",
            mib(total),
            mib(max)
        )
    })
}

/// Without those that go.
#[must_use]
pub fn remaining(directories: Vec<Usage>, gone: &BTreeSet<LogOwner>) -> Vec<Usage> {
    directories
        .into_iter()
        .filter(|it| !gone.contains(&it.owner))
        .collect()
}

/// What all of them hold.
#[must_use]
pub fn held(directories: &[Usage]) -> u64 {
    directories
        .iter()
        .fold(0, |sum, it| sum.saturating_add(it.bytes))
}

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self {
            retention: Duration::from_secs(7 * 24 * 3_600),
            bytes_max: None,
            free_bytes_min: 256 << 20,
        }
    }
}

// === impl Reason ===

impl Reason {
    /// For metrics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Budget => "budget",
            Self::Free => "free",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const DAY_MS: u64 = 24 * 3_600_000;

    fn driver(n: u64, bytes: u64, changed_ms: u64, kept: bool) -> Usage {
        Usage {
            owner: owner(n),
            bytes,
            changed_ms,
            kept,
        }
    }

    fn owner(n: u64) -> LogOwner {
        LogOwner::Driver(format!("d{n}"))
    }

    fn roomy() -> Limits {
        Limits {
            free_bytes_min: 0,
            ..Limits::default()
        }
    }

    #[test]
    fn what_is_older_than_the_retention_goes_and_what_is_kept_stays_however_old() {
        let all = [
            driver(1, MIB, 0, false),
            driver(2, MIB, 0, true),
            driver(3, MIB, 2 * DAY_MS, false),
            // A clock that was set back.
            driver(4, MIB, 99 * DAY_MS, false),
        ];
        assert_eq!(
            plan(&roomy(), &all, 0, 8 * DAY_MS),
            [(owner(1), Reason::Age)]
        );
    }

    #[test]
    fn the_oldest_go_until_the_rest_is_within_the_budget() {
        let limits = Limits {
            bytes_max: Some(5 * MIB),
            ..roomy()
        };
        let all = [
            driver(1, 2 * MIB, 30, false),
            driver(2, 3 * MIB, 10, true),
            driver(3, 2 * MIB, 20, false),
            driver(4, MIB, 40, false),
        ];
        assert_eq!(
            plan(&limits, &all, 0, 50),
            [(owner(3), Reason::Budget), (owner(1), Reason::Budget)]
        );
        let left = remaining(all.into(), &BTreeSet::from([owner(1), owner(3)]));
        assert_eq!(trouble(&limits, &left, 0), None);
    }

    #[test]
    fn the_oldest_go_until_enough_is_free() {
        let limits = Limits {
            free_bytes_min: 10 * MIB,
            ..roomy()
        };
        let all = [
            driver(1, 2 * MIB, 10, false),
            driver(2, 2 * MIB, 20, false),
            driver(3, 2 * MIB, 30, false),
        ];
        assert_eq!(
            plan(&limits, &all, 7 * MIB, 50),
            [(owner(1), Reason::Free), (owner(2), Reason::Free)]
        );
        assert_eq!(plan(&limits, &all, 10 * MIB, 50), []);
    }

    #[test]
    fn where_nothing_may_go_new_work_is_not_accepted_and_the_words_name_the_option() {
        let limits = Limits {
            bytes_max: Some(5 * MIB),
            free_bytes_min: 8 * MIB,
            ..Limits::default()
        };
        let all = [driver(1, 6 * MIB, 0, true)];
        assert_eq!(plan(&limits, &all, 3 * MIB, 50 * DAY_MS), []);
        let words = trouble(&limits, &all, 3 * MIB).unwrap();
        assert!(
            words.contains("3 MiB are left") && words.contains("--work-min-free"),
            "{words}"
        );
        let words = trouble(&limits, &all, 8 * MIB).unwrap();
        assert!(
            words.contains("holds 6 MiB") && words.contains("--work-max"),
            "{words}"
        );
        assert_eq!(trouble(&limits, &[], 8 * MIB), None);
    }

    proptest::proptest! {
        #[test]
        fn nothing_that_is_kept_ever_goes_and_nothing_goes_twice(
            all in proptest::collection::vec((0..4 * MIB, 0..20 * DAY_MS, proptest::bool::ANY), 0..30),
            free in 0..64 * MIB,
            max in proptest::option::of(0..64 * MIB),
        ) {
            let limits = Limits { bytes_max: max, free_bytes_min: 16 * MIB, ..Limits::default() };
            let all: Vec<Usage> = (0..)
                .zip(all)
                .map(|(n, (bytes, changed, kept))| driver(n, bytes, changed, kept))
                .collect();
            let going = plan(&limits, &all, free, 20 * DAY_MS);
            let names: BTreeSet<LogOwner> = going.iter().map(|(owner, _)| owner.clone()).collect();
            proptest::prop_assert_eq!(names.len(), going.len());
            for directory in &all {
                proptest::prop_assert!(!(directory.kept && names.contains(&directory.owner)));
            }
            // What stays is within the limits, or nothing else may go.
            let left = remaining(all, &names);
            let nothing_more = left.iter().all(|it| it.kept);
            proptest::prop_assert!(nothing_more || max.is_none_or(|max| held(&left) <= max));
        }
    }
}
