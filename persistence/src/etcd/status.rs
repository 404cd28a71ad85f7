//! What is wrong with this master, in words for `/readyz`, logged once for each change.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, PoisonError},
};

/// What can be wrong; each has one text at a time. In order of how much they explain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Problem {
    /// The store is not this master's.
    Unfit,
    /// This master cannot register: etcd does not answer or refuses, or another one has its id.
    Session,
    /// etcd takes no writes.
    NoSpace,
    /// The identity cannot be written.
    Disk,
    /// A snapshot or compaction does not work; records are stored all the same.
    Upkeep,
}

/// All that is wrong now.
#[derive(Debug)]
pub(super) struct Status {
    id: String,
    problems: Mutex<BTreeMap<Problem, String>>,
}

// === impl Problem ===

impl Problem {
    fn blocks(self) -> bool {
        match self {
            Self::Unfit | Self::Session | Self::NoSpace => true,
            Self::Disk | Self::Upkeep => false,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unfit => "unfit",
            Self::Session => "session",
            Self::NoSpace => "no space",
            Self::Disk => "disk",
            Self::Upkeep => "upkeep",
        })
    }
}

// === impl Status ===

impl Status {
    pub(super) fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            problems: Mutex::default(),
        }
    }

    /// There is this problem, described by `text`.
    pub(super) fn set(&self, problem: Problem, text: impl Into<String>) {
        let text = text.into();
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        match (problems.insert(problem, text.clone()), problem) {
            (Some(same), _) if same == text => {}
            // A text that changes while the problem lasts.
            (Some(_), _) => tracing::debug!(master = self.id, %problem, "{text}"),
            (None, Problem::Unfit | Problem::NoSpace) => {
                tracing::error!(master = self.id, %problem, "{text}");
            }
            (None, Problem::Session | Problem::Disk | Problem::Upkeep) => {
                tracing::warn!(master = self.id, %problem, "{text}");
            }
        }
    }

    /// This problem is gone, or never was.
    pub(super) fn clear(&self, problem: Problem) {
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        if problems.remove(&problem).is_some() {
            tracing::info!(master = self.id, %problem, "this problem is over");
        }
    }

    /// The texts of the problems that keep this master from taking part, and those of the others.
    pub(super) fn texts(&self) -> (Vec<String>, Vec<String>) {
        let problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        let texts = |blocks| {
            let chosen = problems.iter().filter(|(p, _)| p.blocks() == blocks);
            chosen.map(|(_, text)| text.clone()).collect()
        };
        (texts(true), texts(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_snapshot_does_not_block() {
        let status = Status::new("m1");
        status.set(Problem::Upkeep, "late");
        status.set(Problem::NoSpace, "full");
        assert_eq!(
            status.texts(),
            (vec!["full".to_owned()], vec!["late".to_owned()])
        );
        status.clear(Problem::NoSpace);
        assert_eq!(status.texts().0, Vec::<String>::new());
    }
}
