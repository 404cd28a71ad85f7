//! What one seed's world is like: how many nodes, what they are asked to do, how much is broken.
//!
//! Each seed draws a different mix, so that some worlds have one rare fault only, and others everything at once.

use std::time::Duration;

use interrex_core::{config::ClusterConfig, resources::Cores};
use interrex_proto::v1;

use super::chance::Chance;

/// How long a world may need to come to rest that has nothing left to run: elections, leases, timeouts, and what clients
/// repeat until they give up.
const SETTLES_WITHIN: Duration = Duration::from_secs(60);
/// The longest wait before one more run of something (back-off, lease, kill).
const PAUSE_BETWEEN: Duration = Duration::from_secs(10);

/// A program of the simulated world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    /// How long it runs.
    pub(crate) runs: Duration,
    /// Its exit code.
    pub(crate) exit_code: i32,
    /// It does not react to SIGTERM.
    pub(crate) stubborn: bool,
    /// What it needs.
    pub(crate) cores: u32,
    /// What it needs, in MiB.
    pub(crate) memory_mib: u64,
    /// Run again when it fails.
    pub(crate) supervise: bool,
    /// Never two attempts at once.
    pub(crate) at_most_once: bool,
    /// For the queue.
    pub(crate) priority: i32,
}

/// An application of the simulated world.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct App {
    /// When it appears.
    pub(crate) begins: Duration,
    /// How long it works.
    pub(crate) works: Duration,
    /// What it asks for.
    pub(crate) spec: v1::ApplicationSpec,
    /// What one of its executors does.
    pub(crate) executor: Job,
    /// How often it changes what it wants.
    pub(crate) wishes: u32,
}

/// Kinds of faults; each world has some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Fault {
    /// A master dies and comes back.
    MasterCrash,
    /// A master stops for a while and goes on.
    MasterPause,
    /// A master cannot reach the store's quorum.
    MasterCutOff,
    /// Another master is elected, and the old one learns of it late.
    TwoLeaders,
    /// An agent dies, with all that it runs, and comes back.
    AgentCrash,
    /// An agent stops for a while and goes on.
    AgentPause,
    /// A link between a peer and a master is cut, in one or both directions.
    LinkCut,
    /// A peer is cut off from all masters.
    PeerCutOff,
    /// A connection breaks.
    Reset,
    /// Everything dies at once and comes back.
    PowerCut,
    /// A worker is drained, and undrained later.
    Drain,
}

/// A world.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// How many masters.
    pub(crate) masters: usize,
    /// What each agent offers: cores and MiB.
    pub(crate) agents: Vec<(u32, u64)>,
    /// Applications.
    pub(crate) apps: Vec<App>,
    /// Who submits.
    pub(crate) clients: usize,
    /// What is submitted, and when.
    pub(crate) jobs: Vec<(Duration, Job)>,
    /// Kills, by the number of the job.
    pub(crate) kills: Vec<(Duration, usize)>,
    /// How long faults are injected.
    pub(crate) faults_for: Duration,
    /// The time between two faults.
    pub(crate) fault_every: (Duration, Duration),
    /// Which faults there are.
    pub(crate) faults: Vec<Fault>,
    /// Messages that are late, in percent.
    pub(crate) slow_percent: f64,
    /// How late.
    pub(crate) slow_max: Duration,
    /// Calls or answers that are lost, in percent.
    pub(crate) lost_percent: f64,
    /// Store requests, or their answers, that are lost, in percent.
    pub(crate) store_lost_percent: f64,
    /// Store requests that are refused, in percent.
    pub(crate) store_refused_percent: f64,
    /// Store requests that are late, in percent.
    pub(crate) store_slow_percent: f64,
    /// Results that an agent's disk does not take, in percent.
    pub(crate) disk_error_percent: f64,
    /// How far a node's wall clock may be off.
    pub(crate) clock_off: Duration,
    /// How the cluster decides.
    pub(crate) cluster: ClusterConfig,
}

// === impl Job ===

impl Job {
    /// As a command of the simulated world.
    #[must_use]
    pub(crate) fn command(&self) -> v1::CommandLine {
        v1::CommandLine {
            program: "job".to_owned(),
            args: vec![
                self.runs.as_millis().to_string(),
                self.exit_code.to_string(),
                self.stubborn.to_string(),
            ],
            ..Default::default()
        }
    }

    /// Reads what [`Self::command`] has written: how long, exit code, stubborn.
    #[must_use]
    pub(crate) fn read(command: &v1::CommandLine) -> (Duration, i32, bool) {
        let arg = |n: usize| command.args.get(n).map(String::as_str).unwrap_or_default();
        (
            Duration::from_millis(arg(0).parse().unwrap_or(0)),
            arg(1).parse().unwrap_or(0),
            arg(2) == "true",
        )
    }

    fn drawn(chance: &mut Chance) -> Self {
        let exit_code = if chance.percent(20.0) { 1 } else { 0 };
        let long = chance.percent(30.0);
        let longest = if long { 30 } else { 5 };
        let supervise = chance.percent(35.0);
        Self {
            runs: chance.time(Duration::from_millis(20), Duration::from_secs(longest)),
            // One that fails for ever would keep the world from resting.
            exit_code: if supervise { 0 } else { exit_code },
            stubborn: chance.percent(15.0),
            cores: u32::try_from(chance.between(1, 3)).unwrap_or(1),
            memory_mib: chance.between(64, 512),
            supervise,
            at_most_once: chance.percent(25.0),
            priority: i32::try_from(chance.between(0, 2)).unwrap_or(0),
        }
    }
}

// === impl Plan ===

impl Plan {
    /// The world of a seed.
    #[must_use]
    pub(crate) fn drawn(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let chance = &mut chance;
        let faults_for = chance.time(Duration::from_secs(15), Duration::from_secs(45));
        let agents: Vec<_> = (0..chance.between(1, 4))
            .map(|_| {
                let cores = u32::try_from(chance.between(2, 8)).unwrap_or(2);
                (cores, chance.between(1_024, 4_096))
            })
            .collect();
        let jobs: Vec<_> = (0..chance.between(3, 20))
            .map(|_| {
                let at = chance.time(Duration::from_millis(500), faults_for);
                let mut job = Job::drawn(chance);
                // Something that never fits anywhere never rests.
                job.cores = job.cores.min(agents[0].0);
                (at, job)
            })
            .collect();
        let kills = (0..chance.between(0, 3))
            .map(|_| {
                (
                    chance.time(Duration::from_secs(1), faults_for),
                    chance.index(jobs.len()),
                )
            })
            .collect();
        let often = chance.time(Duration::from_millis(500), Duration::from_secs(6));
        let noisy = chance.percent(60.0);
        let rate = |chance: &mut Chance, top: f64| {
            if noisy && chance.percent(50.0) {
                chance.between(0, 1_000) as f64 / 1_000.0 * top
            } else {
                0.0
            }
        };
        let apps = (0..chance.between(0, 2))
            .map(|_| App::drawn(chance, faults_for))
            .collect();
        Self {
            masters: usize::try_from(chance.between(1, 3)).unwrap_or(3),
            agents,
            apps,
            clients: usize::try_from(chance.between(1, 3)).unwrap_or(1),
            jobs,
            kills,
            faults_for,
            fault_every: (often / 2, often * 2),
            faults: Fault::drawn(chance),
            slow_percent: rate(chance, 10.0),
            slow_max: chance.time(Duration::from_millis(200), Duration::from_secs(8)),
            lost_percent: rate(chance, 15.0),
            store_lost_percent: rate(chance, 2.0),
            store_refused_percent: rate(chance, 1.0),
            store_slow_percent: rate(chance, 3.0),
            disk_error_percent: rate(chance, 20.0),
            clock_off: chance.time(Duration::ZERO, Duration::from_secs(3)),
            cluster: cluster(),
        }
    }
}

// === impl Plan: how long it may take ===

impl Plan {
    /// How long everything may take to come to rest when the faults are over: as if one worker had to run all of it, one
    /// after the other, and all of it twice.
    #[must_use]
    pub(crate) fn rests_within(&self) -> Duration {
        let jobs = self
            .jobs
            .iter()
            .map(|(_, job)| job.runs * 2 + PAUSE_BETWEEN);
        let apps = self.apps.iter().map(|app| {
            let executors = app.spec.executor_limit.unwrap_or(1);
            let runs = if app.spec.completes {
                app.executor.runs * 2 + PAUSE_BETWEEN
            } else {
                Duration::ZERO
            };
            app.works + runs * executors
        });
        SETTLES_WITHIN + jobs.sum::<Duration>() + apps.sum::<Duration>()
    }
}

/// Short times, so that a minute of the world holds many of them; everything else as users have it.
fn cluster() -> ClusterConfig {
    ClusterConfig {
        worker_timeout: Duration::from_secs(5),
        app_timeout: Duration::from_secs(4),
        recovery_timeout: Duration::from_secs(5),
        executor_stable_after: Duration::from_secs(10),
        driver_stable_after: Duration::from_secs(10),
        driver_backoff_max: Duration::from_secs(4),
        executor_backoff_max: Duration::from_secs(4),
        ..ClusterConfig::default()
    }
}

// === impl Fault ===

impl Fault {
    /// All kinds.
    pub(crate) const ALL: [Self; 11] = [
        Self::MasterCrash,
        Self::MasterPause,
        Self::MasterCutOff,
        Self::TwoLeaders,
        Self::AgentCrash,
        Self::AgentPause,
        Self::LinkCut,
        Self::PeerCutOff,
        Self::Reset,
        Self::PowerCut,
        Self::Drain,
    ];

    fn drawn(chance: &mut Chance) -> Vec<Self> {
        let percent = if chance.percent(30.0) { 90.0 } else { 35.0 };
        Self::ALL
            .into_iter()
            .filter(|_| chance.percent(percent))
            .collect()
    }

    /// Its name, for reports.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::MasterCrash => "master-crash",
            Self::MasterPause => "master-pause",
            Self::MasterCutOff => "master-cut-off",
            Self::TwoLeaders => "two-leaders",
            Self::AgentCrash => "agent-crash",
            Self::AgentPause => "agent-pause",
            Self::LinkCut => "link-cut",
            Self::PeerCutOff => "peer-cut-off",
            Self::Reset => "reset",
            Self::PowerCut => "power-cut",
            Self::Drain => "drain",
        }
    }
}

// === impl App ===

impl App {
    fn drawn(chance: &mut Chance, faults_for: Duration) -> Self {
        let completes = chance.percent(30.0);
        let executors = u32::try_from(chance.between(1, 4)).unwrap_or(1);
        let executor = Job {
            runs: if completes || chance.percent(30.0) {
                chance.time(Duration::from_millis(100), Duration::from_secs(8))
            } else {
                Duration::from_secs(3_600)
            },
            exit_code: 0,
            stubborn: chance.percent(10.0),
            cores: 1,
            memory_mib: 128,
            supervise: false,
            at_most_once: false,
            priority: 0,
        };
        let spec = v1::ApplicationSpec {
            name: "app".to_owned(),
            user: "sim".to_owned(),
            command: Some(executor.command()),
            cores_max: Some(executors),
            cores_per_executor: Some(Cores(1).0),
            memory_mib_per_executor: executor.memory_mib,
            executor_limit: Some(executors),
            completes,
            ..Default::default()
        };
        Self {
            begins: chance.time(Duration::from_millis(500), faults_for / 2),
            works: chance.time(Duration::from_secs(5), faults_for),
            spec,
            executor,
            wishes: u32::try_from(chance.between(0, 4)).unwrap_or(0),
        }
    }
}
