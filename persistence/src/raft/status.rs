//! What is wrong with this node, in words for `/readyz`, logged once for each change.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Mutex, PoisonError},
};

/// How the names end of those that have only called here.
pub(super) const CALLING: &str = " (calling)";

/// What can be wrong; each has one text at a time. In order of how much they explain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Problem {
    /// The cluster was recovered without this node.
    LeftBehind,
    /// openraft has stopped: a disk failed.
    Stopped,
    /// The master of this id does not fit, or does not accept this one.
    Peer(String),
    /// The cluster is not formed, or has no leader: what is waited for.
    Waiting,
    /// Snapshots cannot be written.
    Snapshot,
    /// Little is left on the disk: this master should not lead.
    LowSpace,
    /// Appends take too long: this master should not lead.
    SlowDisk,
    /// Something to be put right, that does no harm meanwhile.
    Warning(String),
}

/// All that is wrong now.
#[derive(Debug)]
pub(super) struct Status {
    id: String,
    problems: Mutex<BTreeMap<Problem, String>>,
}

// === impl Problem ===

impl Problem {
    /// Whether a master with this problem cannot take part.
    fn blocks(&self) -> bool {
        match self {
            Self::LeftBehind | Self::Stopped | Self::Peer(_) | Self::Waiting => true,
            Self::Snapshot | Self::LowSpace | Self::SlowDisk | Self::Warning(_) => false,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeftBehind => f.write_str("left behind"),
            Self::Stopped => f.write_str("stopped"),
            Self::Peer(id) => write!(f, "peer {id}"),
            Self::Waiting => f.write_str("waiting"),
            Self::Snapshot => f.write_str("snapshot"),
            Self::LowSpace => f.write_str("low space"),
            Self::SlowDisk => f.write_str("slow disk"),
            Self::Warning(id) => write!(f, "warning {id}"),
        }
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
    pub(super) fn set(&self, problem: Problem, text: String) {
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        if problems.get(&problem) == Some(&text) {
            return;
        }
        match &problem {
            Problem::LeftBehind | Problem::Stopped => {
                tracing::error!(master = self.id, %problem, "{text}")
            }
            Problem::Waiting => tracing::info!(master = self.id, %problem, "{text}"),
            Problem::Peer(_)
            | Problem::Snapshot
            | Problem::LowSpace
            | Problem::SlowDisk
            | Problem::Warning(_) => {
                tracing::warn!(master = self.id, %problem, "{text}");
            }
        }
        problems.insert(problem, text);
    }

    /// This problem is gone, or never was.
    pub(super) fn clear(&self, problem: Problem) {
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        if problems.remove(&problem).is_some() {
            tracing::info!(master = self.id, %problem, "this problem is over");
        }
    }

    /// Forgets what was said of masters that nobody greets any more: `greeted` are their ids.
    pub(super) fn forget_ungreeted(&self, greeted: &BTreeSet<String>) {
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        problems.retain(|problem, _| match problem {
            Problem::Peer(id) => greeted.contains(id) || id.ends_with(CALLING),
            Problem::LeftBehind
            | Problem::Stopped
            | Problem::Waiting
            | Problem::Snapshot
            | Problem::LowSpace
            | Problem::SlowDisk
            | Problem::Warning(_) => true,
        });
    }

    /// Why this master should not lead, though it could.
    pub(super) fn trouble(&self) -> Option<(Problem, String)> {
        let problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        [Problem::LowSpace, Problem::SlowDisk]
            .into_iter()
            .find_map(|problem| {
                let text = problems.get(&problem)?.clone();
                Some((problem, text))
            })
    }

    /// The texts of the problems that keep this master from taking part, and those of the others.
    pub(super) fn texts(&self) -> (Vec<String>, Vec<String>) {
        let problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        let texts = |blocks| {
            let chosen = problems
                .iter()
                .filter(|(problem, _)| problem.blocks() == blocks);
            chosen.map(|(_, text)| text.clone()).collect()
        };
        (texts(true), texts(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_does_not_block() {
        let status = Status::new("m1");
        status.set(Problem::Warning("m2".into()), "moved".into());
        status.set(Problem::Peer("m3".into()), "not m3".into());
        assert_eq!(
            status.texts(),
            (vec!["not m3".to_owned()], vec!["moved".to_owned()])
        );
        status.clear(Problem::Peer("m3".into()));
        assert_eq!(status.texts().0, Vec::<String>::new());
    }
}
