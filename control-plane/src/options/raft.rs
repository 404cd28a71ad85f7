//! Timing of the Raft engine, in the form of a file.

use std::time::Duration;

use bytesize::ByteSize;
use interrex_persistence::raft::{DiskBounds, RaftTiming};
use serde::{Deserialize, Serialize};

/// Timing of the Raft engine; the meaning of each is told at [`RaftTiming`]. The same on every master.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RaftSection {
    /// How often a leader proves that it is alive. Default 50 ms.
    #[serde(with = "humantime_serde")]
    pub heartbeat: Duration,
    /// Shortest wait before an election. Default 150 ms.
    #[serde(with = "humantime_serde")]
    pub election_timeout_min: Duration,
    /// Longest wait before an election. Default 300 ms.
    #[serde(with = "humantime_serde")]
    pub election_timeout_max: Duration,
    /// How long one commit may take before its outcome is called unknown; with every engine. Default 2 s.
    #[serde(with = "humantime_serde")]
    pub commit_deadline: Duration,
    /// A leader whose disk has less left hands over to a master with more. Default 64 MiB.
    pub disk_low: ByteSize,
    /// A leader whose appends take longer for three seconds in a row hands over. Default 500 ms.
    #[serde(with = "humantime_serde")]
    pub slow_append: Duration,
}

// === impl RaftSection ===

impl Default for RaftSection {
    fn default() -> Self {
        let (timing, disk) = (RaftTiming::default(), DiskBounds::default());
        Self {
            heartbeat: timing.heartbeat,
            election_timeout_min: timing.election_timeout_min,
            election_timeout_max: timing.election_timeout_max,
            commit_deadline: timing.commit_deadline,
            disk_low: ByteSize::b(disk.low_bytes),
            slow_append: disk.slow_append,
        }
    }
}

impl RaftSection {
    /// The same for the engine.
    #[must_use]
    pub fn timing(&self) -> RaftTiming {
        RaftTiming {
            heartbeat: self.heartbeat,
            election_timeout_min: self.election_timeout_min,
            election_timeout_max: self.election_timeout_max,
            commit_deadline: self.commit_deadline,
            ..RaftTiming::default()
        }
    }

    /// When the engine's disk is in trouble.
    #[must_use]
    pub fn disk(&self) -> DiskBounds {
        DiskBounds {
            low_bytes: self.disk_low.as_u64(),
            slow_append: self.slow_append,
        }
    }

    /// Adds every fault to `faults`. `elects`: whether the engine is Raft; else only the commit deadline counts.
    pub(super) fn validate(&self, elects: bool, faults: &mut Vec<String>) {
        let least = Duration::from_millis(1);
        for (field, value) in [
            ("raft.heartbeat", self.heartbeat),
            ("raft.commit_deadline", self.commit_deadline),
        ] {
            if value < least && (elects || field == "raft.commit_deadline") {
                faults.push(format!("{field}: {value:?}; give at least 1 ms"));
            }
        }
        if !elects {
            return;
        }
        if self.election_timeout_min <= self.heartbeat.saturating_mul(2) {
            faults.push(format!(
                "raft.election_timeout_min: {:?}; give more than two heartbeats of {:?}",
                self.election_timeout_min, self.heartbeat
            ));
        }
        if self.slow_append < least {
            faults.push(format!(
                "raft.slow_append: {:?}; give at least 1 ms",
                self.slow_append
            ));
        }
        if self.election_timeout_max <= self.election_timeout_min {
            faults.push(format!(
                "raft.election_timeout_max: {:?}; give more than election_timeout_min ({:?})",
                self.election_timeout_max, self.election_timeout_min
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn election_timeouts_must_leave_room_for_heartbeats() {
        let mut faults = Vec::new();
        RaftSection::default().validate(true, &mut faults);
        assert_eq!(faults, Vec::<String>::new());
        let slow = Duration::from_millis(150);
        RaftSection {
            heartbeat: slow,
            election_timeout_max: slow,
            ..Default::default()
        }
        .validate(true, &mut faults);
        assert_eq!(faults.len(), 2, "{faults:?}");
    }

    #[test]
    fn only_the_commit_deadline_counts_without_raft() {
        let mut faults = Vec::new();
        RaftSection {
            heartbeat: Duration::ZERO,
            commit_deadline: Duration::ZERO,
            ..Default::default()
        }
        .validate(false, &mut faults);
        assert_eq!(faults, ["raft.commit_deadline: 0ns; give at least 1 ms"]);
    }
}
