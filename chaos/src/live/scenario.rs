//! The scenarios: their names, what each tries, and which faults must have done something for a run to prove anything.

use std::{fmt, str::FromStr};

use super::{
    options::{Engine, LiveError, LiveOptions},
    scenarios::{
        clients, coordinator, disks, leaders, links, members, points, power, restarts, soak, spark,
    },
    stage::Stage,
};

/// What a run tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// The leader is killed, again and again.
    LeaderKill,
    /// The leader is stopped and goes on, shorter and longer than anybody waits for it.
    LeaderPause,
    /// Clients are killed at every point of a submission, and the submission is repeated elsewhere.
    ClientRetry,
    /// Every master and every agent is restarted in order, one after the other.
    RollingRestart,
    /// Masters and agents are cut off from each other.
    SplitBrain,
    /// Everything dies at once.
    PowerCut,
    /// Agents die and freeze.
    WorkerStorm,
    /// Links come and go.
    FlappingNetwork,
    /// Disks are full or slow.
    SlowDisk,
    /// Masters are added, removed and lose their disks.
    MembershipChurn,
    /// Leaders die at the program's own points inside a submission.
    KillPoints,
    /// etcd freezes, dies and falls silent.
    CoordinatorFreeze,
    /// A job of Spark goes on while leaders die.
    SparkJob,
    /// A mix of all.
    Soak,
}

// === impl Scenario ===

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::LeaderKill,
        Self::LeaderPause,
        Self::ClientRetry,
        Self::RollingRestart,
        Self::SplitBrain,
        Self::PowerCut,
        Self::WorkerStorm,
        Self::FlappingNetwork,
        Self::SlowDisk,
        Self::MembershipChurn,
        Self::KillPoints,
        Self::CoordinatorFreeze,
        Self::SparkJob,
        Self::Soak,
    ];

    /// Its name, and what it tries.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::LeaderKill => (
                "leader-kill",
                "SIGKILL of the leader, again and again, under load",
            ),
            Self::LeaderPause => (
                "leader-pause",
                "SIGSTOP of the leader, shorter and longer than its lease; it must not serve what is old",
            ),
            Self::ClientRetry => (
                "client-retry",
                "clients killed before sending, after sending, after the commit and after the answer, and repeated",
            ),
            Self::RollingRestart => (
                "rolling-restart",
                "SIGTERM and restart of every master and every agent, in turn",
            ),
            Self::SplitBrain => (
                "split-brain",
                "the leader, a minority, one direction, one pair, or an agent cut off for longer than anybody waits",
            ),
            Self::PowerCut => (
                "power-cut",
                "SIGKILL of all masters, or of everything, at once, and a start in any order",
            ),
            Self::WorkerStorm => (
                "worker-storm",
                "agents killed one by one and nearly all at once, frozen, and all reconnecting together",
            ),
            Self::FlappingNetwork => (
                "flapping-network",
                "links cut, late, narrow, half-open and reset, one after the other without rest",
            ),
            Self::SlowDisk => (
                "slow-disk",
                "the leader's disk takes no more, or is too slow to lead with",
            ),
            Self::MembershipChurn => (
                "membership-churn",
                "a master joins, leaves, and another one comes back with an empty disk, under load",
            ),
            Self::KillPoints => (
                "kill-points",
                "leaders that die at each named point inside a submission; needs a build with kill points",
            ),
            Self::CoordinatorFreeze => (
                "coordinator-freeze",
                "etcd frozen shorter and longer than the lease, killed, and silent; with --engine etcd",
            ),
            Self::SparkJob => (
                "spark-job",
                "leaders killed under a job of unmodified Spark; needs an installation (--spark-home)",
            ),
            Self::Soak => (
                "soak",
                "everything that needs no special build or engine, shuffled by the seed, for as long as you like",
            ),
        }
    }

    /// As options have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// What it tries, in one line.
    #[must_use]
    pub fn says(self) -> &'static str {
        self.words().1
    }

    /// Faults that must have done something: a run without one of them is unknown.
    #[must_use]
    pub fn required(self) -> &'static [&'static str] {
        match self {
            Self::LeaderKill => &["leader-kill"],
            Self::LeaderPause => &["leader-pause-short", "leader-pause-long"],
            Self::ClientRetry => &clients::POINTS,
            Self::RollingRestart => &["master-restart", "leader-restart", "agent-restart"],
            Self::SplitBrain => &links::SPLITS,
            Self::PowerCut => &power::CUTS,
            Self::WorkerStorm => &links::STORMS,
            Self::FlappingNetwork => &links::FLAPS,
            Self::SlowDisk => &disks::TROUBLES,
            Self::MembershipChurn => &members::CHANGES,
            Self::KillPoints => &points::POINTS,
            Self::CoordinatorFreeze => &coordinator::TROUBLES,
            Self::SparkJob => &spark::PROOFS,
            Self::Soak => &soak::MIX,
        }
    }

    /// Fewest masters that it makes sense with.
    #[must_use]
    pub fn masters_min(self) -> u16 {
        3
    }

    /// The only engine that it is for, if it is for one only.
    #[must_use]
    pub fn engine(self) -> Option<Engine> {
        match self {
            Self::CoordinatorFreeze => Some(Engine::Etcd),
            Self::MembershipChurn | Self::SlowDisk | Self::KillPoints => Some(Engine::Raft),
            Self::LeaderKill
            | Self::LeaderPause
            | Self::ClientRetry
            | Self::RollingRestart
            | Self::SplitBrain
            | Self::PowerCut
            | Self::WorkerStorm
            | Self::FlappingNetwork
            | Self::SparkJob
            | Self::Soak => None,
        }
    }

    /// Whether `--kills` means something to it.
    #[must_use]
    pub fn counts_kills(self) -> bool {
        self == Self::LeaderKill
    }

    /// Plays it until its time is over, or its kills are done.
    pub(super) async fn play(
        self,
        stage: &mut Stage<'_>,
        options: &LiveOptions,
    ) -> Result<(), LiveError> {
        match self {
            Self::LeaderKill => leaders::kill(stage, options.kills).await,
            Self::LeaderPause => leaders::pause(stage).await,
            Self::ClientRetry => clients::retry(stage).await,
            Self::RollingRestart => restarts::rolling(stage).await,
            Self::SplitBrain => links::split(stage).await,
            Self::PowerCut => power::cut(stage).await,
            Self::WorkerStorm => links::storm(stage).await,
            Self::FlappingNetwork => links::flap(stage).await,
            Self::SlowDisk => disks::trouble(stage).await,
            Self::MembershipChurn => members::churn(stage).await,
            Self::KillPoints => points::die(stage).await,
            Self::CoordinatorFreeze => coordinator::trouble(stage).await,
            Self::SparkJob => spark::job(stage, options).await,
            Self::Soak => soak::soak(stage).await,
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|scenario| scenario.name() == name)
            .ok_or_else(|| {
                let known: Vec<_> = Self::ALL.iter().map(|scenario| scenario.name()).collect();
                let known = known.join(", ");
                format!("there is no scenario `{name}`; there are {known}")
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_found_by_its_name_and_requires_a_fault() {
        for scenario in Scenario::ALL {
            assert_eq!(scenario.name().parse(), Ok(scenario));
            assert!(!scenario.required().is_empty(), "{scenario} proves nothing");
            assert!(!scenario.says().is_empty());
        }
        let error = "gremlins".parse::<Scenario>().unwrap_err();
        assert!(
            error.contains("gremlins") && error.contains("leader-kill"),
            "{error}"
        );
    }
}
