//! Planted bugs: each breaks one promise on purpose, so that the oracle can be tested. A simulator that does not find
//! them within a few hundred seeds proves nothing.
//!
//! They live in the simulated pumps and their surroundings, not in the machines: production code carries none of them. One
//! cannot be made from outside, and is in the core behind a feature that no build has that is used.

use std::str::FromStr;

use interrex_core::leader::LeaderMachine;

/// One planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plant {
    /// The leader is told that a batch is stored before it is.
    AckBeforeCommit,
    /// The store takes batches of a deposed leader.
    NoStoreFence,
    /// The agent obeys orders of an older epoch.
    NoAgentFence,
    /// The agent forgets its results when it dies.
    LostOutbox,
    /// A repeated submission counts as a new one.
    NonIdempotentSubmission,
    /// A process that was reported twice is booked twice. In the core, and only in builds with the feature `planted-bugs`.
    #[cfg(feature = "planted-bugs")]
    DoubleCount,
    /// Nobody looks at what waits when a worker is lost.
    SchedulerNotRun,
    /// A status is read without asking whether the leader still leads.
    StaleRead,
    /// A kill leaves the process behind.
    OrphanOnKill,
    /// A leader that has stepped down still says yes.
    ReplyAfterStepDown,
}

/// Plants in a leader what cannot be planted around it.
#[cfg(feature = "planted-bugs")]
pub(super) fn in_leader(mut machine: LeaderMachine, plant: Option<Plant>) -> LeaderMachine {
    if plant == Some(Plant::DoubleCount) {
        machine.plant_double_count();
    }
    machine
}

/// Plants in a leader what cannot be planted around it: nothing, in this build.
#[cfg(not(feature = "planted-bugs"))]
pub(super) fn in_leader(machine: LeaderMachine, _plant: Option<Plant>) -> LeaderMachine {
    machine
}

// === impl Plant ===

impl Plant {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::AckBeforeCommit,
        Self::NoStoreFence,
        Self::NoAgentFence,
        Self::LostOutbox,
        Self::NonIdempotentSubmission,
        #[cfg(feature = "planted-bugs")]
        Self::DoubleCount,
        Self::SchedulerNotRun,
        Self::StaleRead,
        Self::OrphanOnKill,
        Self::ReplyAfterStepDown,
    ];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AckBeforeCommit => "ack-before-commit",
            Self::NoStoreFence => "no-store-fence",
            Self::NoAgentFence => "no-agent-fence",
            Self::LostOutbox => "lost-outbox",
            Self::NonIdempotentSubmission => "non-idempotent-submission",
            #[cfg(feature = "planted-bugs")]
            Self::DoubleCount => "double-count",
            Self::SchedulerNotRun => "scheduler-not-run",
            Self::StaleRead => "stale-read",
            Self::OrphanOnKill => "orphan-on-kill",
            Self::ReplyAfterStepDown => "reply-after-step-down",
        }
    }
}

impl FromStr for Plant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .iter()
            .find(|plant| plant.name() == text)
            .copied()
            .ok_or_else(|| {
                let names: Vec<_> = Self::ALL.iter().map(|plant| plant.name()).collect();
                format!(
                    "{text:?} is no planted bug; choose one of {}",
                    names.join(", ")
                )
            })
    }
}
