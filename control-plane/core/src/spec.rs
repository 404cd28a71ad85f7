//! What users and agents describe: drivers, applications, workers. Checked at the edges
//! (`control-plane/src/edge/validate.rs`); the core trusts sizes but never arithmetic.

use std::collections::BTreeMap;

use crate::resources::{Addresses, Amounts, Cores, Demand, MemoryMib};

/// A program with arguments and environment; placeholders are replaced by the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Added to the environment.
    pub env: BTreeMap<String, String>,
}

/// A submission in Spark's words, kept as it came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SparkSubmission {
    /// `appResource`.
    pub app_resource: String,
    /// `mainClass`.
    pub main_class: String,
    /// `appArgs`.
    pub app_args: Vec<String>,
    /// `sparkProperties`.
    pub properties: BTreeMap<String, String>,
    /// `environmentVariables`.
    pub environment: BTreeMap<String, String>,
    /// `clientSparkVersion`.
    pub client_version: String,
}

/// The capability that a worker must offer to run a [`DriverPayload::Spark`] of an unknown version; with a version, or
/// to run executors of a driver that speaks Spark's protocol, `-` and its line are appended: `spark-3.5`.
pub const SPARK_CAPABILITY: &str = "spark";

/// What a driver runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriverPayload {
    /// A plain program; runs on any worker.
    Command(CommandLine),
    /// A Spark application; runs on workers with [`SPARK_CAPABILITY`].
    Spark(SparkSubmission),
}

/// What a driver is and needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverSpec {
    /// For people.
    pub name: String,
    /// Who submitted it.
    pub user: String,
    /// What it runs.
    pub payload: DriverPayload,
    /// Cores, at least 1.
    pub cores: Cores,
    /// Memory.
    pub memory: MemoryMib,
    /// Custom resources.
    pub resources: Amounts,
    /// Run again when it fails.
    pub supervise: bool,
    /// Larger ones are placed first; equal ones in the order in which they came. Default 0.
    pub priority: i32,
    /// It will register an application and ask for executors (every Spark submission does), so it counts towards the
    /// share of cores that such drivers may hold.
    pub needs_executors: bool,
    /// At most one attempt runs at any time, whatever fails: its agent ends it when it has had no leader for a lease,
    /// and masters start it elsewhere only after the longer worker timeout.
    pub at_most_once: bool,
}

// === impl SparkSubmission ===

impl SparkSubmission {
    /// The line of the client, `4.1` for `4.1.4`; `None` where it does not say a version. A build that masters were taught
    /// (`3.4.4+2.12.1a2b3c4d`) is a line of its own.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        if self.client_version.contains('+') {
            return Some(self.client_version.clone());
        }
        let mut numbers = self.client_version.split('.');
        let (major, minor) = (numbers.next()?, numbers.next()?);
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        (is_number(major) && is_number(minor)).then(|| format!("{major}.{minor}"))
    }

    /// Whether it is a class in a jar: the only thing that Spark's own workers can start as a driver.
    #[must_use]
    pub fn is_jar(&self) -> bool {
        let path = std::path::Path::new(&self.app_resource);
        let is_jar = path
            .extension()
            .is_some_and(|e| e.eq_ignore_ascii_case("jar"));
        is_jar && !self.main_class.is_empty()
    }

    /// What a worker must offer to run it.
    #[must_use]
    pub fn capability(&self) -> String {
        match self.line() {
            Some(line) => format!("{SPARK_CAPABILITY}-{line}"),
            None => SPARK_CAPABILITY.to_owned(),
        }
    }
}

// === impl SparkDriver ===

impl SparkDriver {
    /// What a worker must offer to run its executors, such as `spark-3.5`.
    #[must_use]
    pub fn capability(&self) -> String {
        format!("{SPARK_CAPABILITY}-{}", self.line)
    }
}

// === impl DriverSpec ===

impl DriverSpec {
    /// What this driver needs on its worker.
    #[must_use]
    pub fn demand(&self) -> Demand {
        let (capability, is_jar) = match &self.payload {
            DriverPayload::Command(_) => (None, false),
            DriverPayload::Spark(spark) => (Some(spark.capability()), spark.is_jar()),
        };
        Demand {
            cores: self.cores,
            memory: self.memory,
            resources: self.resources.clone(),
            capability,
            needs_agent: self.at_most_once || !is_jar,
        }
    }
}

/// What an application asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplicationSpec {
    /// For people.
    pub name: String,
    /// Who registered it.
    pub user: String,
    /// The executors' command.
    pub command: CommandLine,
    /// Cores over all executors; `None`: the cluster's default (`spark.deploy.defaultCores`).
    pub cores_max: Option<Cores>,
    /// Cores of one executor; `None`: one executor a worker, with all the cores that it gets.
    pub cores_per_executor: Option<Cores>,
    /// Memory of one executor.
    pub memory_per_executor: MemoryMib,
    /// Custom resources of one executor.
    pub resources_per_executor: Amounts,
    /// Executors wanted at the start; `None`: no limit.
    pub executor_limit: Option<u32>,
    /// An executor that exits with 0 is done and is not replaced (`interrex run`).
    pub completes: bool,
    /// The application's own pages, for links.
    pub ui_url: String,
    /// Larger ones are served first; equal ones in the order in which they came. Default 0.
    pub priority: i32,
    /// No executor is started before so many of them fit at once. Default 0.
    pub min_executors: u32,
    /// Set for a driver that speaks Spark's protocol: how any leader can reach it.
    pub spark: Option<SparkDriver>,
}

/// A driver of Spark that was met in Spark's own protocol. Its executors run where its line of Spark is installed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SparkDriver {
    /// The dictionary of its build, such as `3.5`.
    pub line: String,
    /// Where it listens.
    pub host: String,
    /// Where it listens.
    pub port: u16,
    /// The name of its endpoint, such as `AppClient`.
    pub endpoint: String,
    /// The class with the `main` of its executors: it stands in the application's command, options of the JVM before it,
    /// arguments behind. Empty: unknown, and no executor can be started by one of Spark's own workers.
    pub main_class: String,
}

/// What one executor of a profile needs (Spark: `ResourceProfile`, stage-level scheduling). Custom resources are the
/// profile's own and never inherited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceProfile {
    /// Cores of one executor; `None`: the application's.
    pub cores: Option<Cores>,
    /// Memory of one executor; `None`: the application's.
    pub memory: Option<MemoryMib>,
    /// Custom resources of one executor.
    pub resources: Amounts,
}

/// What a worker offers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerSpec {
    /// Where it runs, for people and links.
    pub host: String,
    /// `host:port` of the agent's logs, health and metrics.
    pub web: String,
    /// Cores offered.
    pub cores: Cores,
    /// Memory offered.
    pub memory: MemoryMib,
    /// Custom resources offered.
    pub resources: Addresses,
    /// What else it can do, such as [`SPARK_CAPABILITY`].
    pub capabilities: Vec<String>,
    /// New at each start of the agent's process.
    pub incarnation: String,
    /// Made once for each work directory; empty: unknown. Tells a restarted agent from a twin under the same id.
    pub work_dir_id: String,
    /// Set for one of Spark's own workers: how any leader can reach it.
    pub spark: Option<SparkWorker>,
}

/// One of Spark's own workers, met in Spark's own protocol. It keeps no results, no epoch and no lease, and runs nothing
/// but what has the capability of its line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SparkWorker {
    /// The dictionary of its build, such as `3.5`.
    pub line: String,
    /// Where it listens.
    pub host: String,
    /// Where it listens.
    pub port: u16,
    /// The name of its endpoint, such as `Worker`.
    pub endpoint: String,
}
