//! What a live run is given, and what it says when that is wrong.

use std::{fmt, path::PathBuf, str::FromStr};

use super::scenario::Scenario;

/// Masters of a run.
pub const MASTERS: std::ops::RangeInclusive<u16> = 1..=7;
/// Agents of a run.
pub const AGENTS: std::ops::RangeInclusive<u16> = 1..=12;
/// Submissions a second.
pub const RATE: std::ops::RangeInclusive<f64> = 0.1..=200.0;

/// Where masters keep their records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Engine {
    /// They replicate them.
    #[default]
    Raft,
    /// In an etcd that the run starts, if one is installed.
    Etcd,
}

/// A live run.
#[derive(Debug, Clone)]
pub struct LiveOptions {
    /// What is tried.
    pub scenario: Scenario,
    /// How long faults go on.
    pub seconds: u64,
    /// Leaders to kill, where the scenario kills leaders: then faults go on until that is done.
    pub kills: Option<u32>,
    /// Which faults, when, and what is submitted.
    pub seed: u64,
    /// Where everything goes. Must be empty.
    pub dir: PathBuf,
    /// Where records are kept.
    pub engine: Engine,
    /// Masters.
    pub masters: u16,
    /// Agents.
    pub agents: u16,
    /// Submissions a second, by all clients together.
    pub rate: f64,
    /// The program: this one.
    pub program: PathBuf,
    /// The first of 50 ports that nobody else uses.
    pub base_port: u16,
    /// Whether the program has kill points.
    pub kill_points: bool,
    /// Spark, as pip installs it; for the scenario that runs a job of it.
    pub spark_home: Option<PathBuf>,
    /// Masters wait five times as long for each other: for a machine that is busy with other things.
    pub patient: bool,
}

/// Why a run did not come to a verdict.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// An option is wrong.
    #[error("{option} {value}: {fix}")]
    Option {
        /// Which.
        option: &'static str,
        /// What was given.
        value: String,
        /// What to give instead.
        fix: String,
    },
    /// The scenario needs what is not there.
    #[error(
        "spark-job: no Spark is there, so nothing is known; give --spark-home DIR, or fetch one with scripts/fetch-spark.sh"
    )]
    NoSpark,
    /// The machine refused something.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the machine said.
        source: std::io::Error,
    },
    /// The cluster did not get ready before anything was broken.
    #[error("{what} within {seconds} s; its log is {log}")]
    NotReady {
        /// What did not happen.
        what: String,
        /// The time that it had.
        seconds: u64,
        /// Where to look.
        log: String,
    },
}

// === impl LiveError ===

impl LiveError {
    pub(super) fn io(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }

    fn option(option: &'static str, value: impl fmt::Display, fix: impl Into<String>) -> Self {
        Self::Option {
            option,
            value: value.to_string(),
            fix: fix.into(),
        }
    }
}

// === impl LiveOptions ===

impl LiveOptions {
    /// Options for tests.
    #[cfg(test)]
    pub(super) fn of(scenario: Scenario) -> Self {
        Self {
            scenario,
            seconds: 20,
            kills: None,
            seed: 7,
            dir: PathBuf::new(),
            engine: Engine::Raft,
            masters: 3,
            agents: 4,
            rate: 5.0,
            program: PathBuf::new(),
            base_port: 20_000,
            kill_points: false,
            spark_home: None,
            patient: false,
        }
    }

    /// Checks everything that can be checked before a process exists.
    ///
    /// # Errors
    /// [`LiveError::Option`] for the first that is wrong.
    pub fn validate(&self) -> Result<(), LiveError> {
        let least = self.scenario.masters_min();
        if !MASTERS.contains(&self.masters) || self.masters < least {
            let most = MASTERS.end();
            let fix = format!("give {least} to {most} for {}", self.scenario);
            return Err(LiveError::option("--masters", self.masters, fix));
        }
        if !AGENTS.contains(&self.agents) {
            let fix = format!("give {} to {}", AGENTS.start(), AGENTS.end());
            return Err(LiveError::option("--agents", self.agents, fix));
        }
        if !RATE.contains(&self.rate) {
            let fix = format!(
                "give {} to {} submissions a second",
                RATE.start(),
                RATE.end()
            );
            return Err(LiveError::option("--rate", self.rate, fix));
        }
        if self.seconds == 0 {
            return Err(LiveError::option("--seconds", 0, "give at least 1"));
        }
        if let Some(kills) = self.kills
            && (kills == 0 || !self.scenario.counts_kills())
        {
            let fix = "give at least 1, with --scenario leader-kill";
            return Err(LiveError::option("--kills", kills, fix));
        }
        if self.scenario == Scenario::KillPoints && !self.kill_points {
            let fix = "this program has no kill points; build it with --features kill-points";
            return Err(LiveError::option("--scenario", self.scenario, fix));
        }
        if self.scenario == Scenario::SparkJob && self.spark_home.is_none() {
            return Err(LiveError::NoSpark);
        }
        match self.scenario.engine() {
            Some(engine) if engine != self.engine => {
                let fix = format!("{} needs --engine {engine}", self.scenario);
                Err(LiveError::option("--engine", self.engine, fix))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The command that repeats the run.
    #[must_use]
    pub fn command(&self) -> String {
        let mut command = format!(
            "interrex chaos live --scenario {} --seconds {} --seed {} --engine {} --masters {} --agents {} --rate {}",
            self.scenario,
            self.seconds,
            self.seed,
            self.engine,
            self.masters,
            self.agents,
            self.rate
        );
        if let Some(kills) = self.kills {
            command.push_str(&format!(" --kills {kills}"));
        }
        if let Some(home) = &self.spark_home {
            command.push_str(&format!(" --spark-home {}", home.display()));
        }
        if self.patient {
            command.push_str(" --patient");
        }
        command
    }
}

// === impl Engine ===

impl Engine {
    /// As options have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Raft => "raft",
            Self::Etcd => "etcd",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "raft" => Ok(Self::Raft),
            "etcd" => Ok(Self::Etcd),
            other => Err(format!(
                "`{other}` is no engine for live runs: give raft or etcd"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> LiveOptions {
        LiveOptions::of(Scenario::LeaderKill)
    }

    #[test]
    fn what_is_wrong_is_named_with_its_value_and_a_remedy() {
        assert!(options().validate().is_ok());
        for (wrong, said) in [
            (
                LiveOptions {
                    masters: 2,
                    ..options()
                },
                "--masters 2: give 3 to 7",
            ),
            (
                LiveOptions {
                    agents: 0,
                    ..options()
                },
                "--agents 0: give 1 to 12",
            ),
            (
                LiveOptions {
                    rate: 0.0,
                    ..options()
                },
                "--rate 0: give 0.1",
            ),
            (
                LiveOptions {
                    seconds: 0,
                    ..options()
                },
                "--seconds 0: give at least 1",
            ),
            (
                LiveOptions {
                    kills: Some(0),
                    ..options()
                },
                "--kills 0: give at least 1",
            ),
            (
                LiveOptions {
                    kills: Some(3),
                    scenario: Scenario::LeaderPause,
                    ..options()
                },
                "--kills 3",
            ),
            (
                LiveOptions {
                    scenario: Scenario::CoordinatorFreeze,
                    ..options()
                },
                "--engine raft: coordinator-freeze needs --engine etcd",
            ),
            (
                LiveOptions {
                    scenario: Scenario::KillPoints,
                    ..options()
                },
                "build it with --features kill-points",
            ),
        ] {
            let error = wrong.validate().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn the_command_repeats_the_run() {
        let command = LiveOptions {
            kills: Some(5),
            ..options()
        }
        .command();
        for part in [
            "--scenario leader-kill",
            "--seed 7",
            "--masters 3",
            "--kills 5",
        ] {
            assert!(command.contains(part), "{command}");
        }
    }
}
