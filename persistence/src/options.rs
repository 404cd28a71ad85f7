//! Which engine an operator chose.

use std::{fmt, str::FromStr};

use crate::error::OpenError;

/// The engines that are built in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EngineKind {
    /// One to seven masters that replicate records among themselves. The default.
    #[default]
    Raft,
    /// Any number of masters that keep records in an etcd that runs already.
    Etcd,
    /// One durable master with an embedded database.
    Sled,
    /// One master that forgets everything when it ends.
    Memory,
}

// === impl EngineKind ===

impl EngineKind {
    /// All kinds, in the order of the help text.
    pub const ALL: [Self; 4] = [Self::Raft, Self::Etcd, Self::Sled, Self::Memory];

    /// Whether a cluster on this engine may have more than one master.
    #[must_use]
    pub fn has_standbys(self) -> bool {
        match self {
            Self::Raft | Self::Etcd => true,
            Self::Sled | Self::Memory => false,
        }
    }

    /// The name on the command line and in labels of metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Raft => "raft",
            Self::Etcd => "etcd",
            Self::Sled => "sled",
            Self::Memory => "memory",
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for EngineKind {
    type Err = OpenError;

    fn from_str(text: &str) -> Result<Self, OpenError> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| {
                let reason =
                    format!("{text:?} is not an engine; choose raft, etcd, sled or memory");
                OpenError::Option {
                    option: "--engine",
                    reason,
                }
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_is_read_back_from_its_name() {
        for kind in EngineKind::ALL {
            assert_eq!(kind.to_string().parse::<EngineKind>().unwrap(), kind);
        }
    }

    #[test]
    fn an_unknown_engine_is_refused_with_the_known_ones() {
        let error = "zookeeper".parse::<EngineKind>().unwrap_err().to_string();
        assert_eq!(
            error,
            "option --engine: \"zookeeper\" is not an engine; choose raft, etcd, sled or memory"
        );
    }
}
