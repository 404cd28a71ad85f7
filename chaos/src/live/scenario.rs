//! The scenarios: their names, what each tries, and which faults must have done something for a run to prove anything.

use std::{fmt, str::FromStr};

use super::{
    options::{Engine, LiveError, LiveOptions},
    scenarios::{clients, leaders, restarts},
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
}

// === impl Scenario ===

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::LeaderKill,
        Self::LeaderPause,
        Self::ClientRetry,
        Self::RollingRestart,
    ];

    /// As options have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LeaderKill => "leader-kill",
            Self::LeaderPause => "leader-pause",
            Self::ClientRetry => "client-retry",
            Self::RollingRestart => "rolling-restart",
        }
    }

    /// What it tries, in one line.
    #[must_use]
    pub fn says(self) -> &'static str {
        match self {
            Self::LeaderKill => "SIGKILL of the leader, again and again, under load",
            Self::LeaderPause => {
                "SIGSTOP of the leader, shorter and longer than its lease; it must not serve what is old"
            }
            Self::ClientRetry => {
                "clients killed before sending, after sending, after the commit and after the answer, and repeated"
            }
            Self::RollingRestart => "SIGTERM and restart of every master and every agent, in turn",
        }
    }

    /// Faults that must have done something: a run without one of them is unknown.
    #[must_use]
    pub fn required(self) -> &'static [&'static str] {
        match self {
            Self::LeaderKill => &["leader-kill"],
            Self::LeaderPause => &["leader-pause-short", "leader-pause-long"],
            Self::ClientRetry => &clients::POINTS,
            Self::RollingRestart => &["master-restart", "leader-restart", "agent-restart"],
        }
    }

    /// Fewest masters that it makes sense with.
    #[must_use]
    pub fn masters_min(self) -> u16 {
        match self {
            Self::LeaderKill | Self::LeaderPause | Self::ClientRetry | Self::RollingRestart => 3,
        }
    }

    /// The only engine that it is for, if it is for one only.
    #[must_use]
    pub fn engine(self) -> Option<Engine> {
        match self {
            Self::LeaderKill | Self::LeaderPause | Self::ClientRetry | Self::RollingRestart => None,
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
                format!(
                    "there is no scenario `{name}`; there are {}",
                    known.join(", ")
                )
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
