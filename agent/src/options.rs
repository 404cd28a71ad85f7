//! What an agent is given, with defaults and bounds.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use interrex_client::session::SessionTimings;
use interrex_proto::{credentials::Credentials, limits};
use interrex_web::log_level::LogControl;
use metrics_exporter_prometheus::PrometheusHandle;

use crate::{cleanup::plan::Limits, spark::SparkHome};

/// The subcommand under which the binary is its own process supervisor.
pub const SUPERVISOR_SUBCOMMAND: &str = "process-supervisor";
/// The running program itself, whatever has become of its file: an upgrade that replaces the file must not give an
/// old agent new supervisors.
pub(crate) const THIS_PROGRAM: &str = "/proc/self/exe";
/// The port of an agent's web server.
pub const WEB_PORT: u16 = 8081;
/// Longest grace between SIGTERM and SIGKILL.
pub const KILL_GRACE_MAX: Duration = Duration::from_secs(3600);
/// What a launch may wait beyond the grace: a supervisor's own deadline, and some.
const LAUNCH_WAIT_EXTRA: Duration = Duration::from_secs(20);

/// One agent.
#[derive(Clone)]
pub struct AgentOptions {
    /// gRPC addresses of the masters, `host:port` each; at least one.
    pub masters: Vec<String>,
    /// Cores offered; at least 1.
    pub cores: u32,
    /// Memory offered, in MiB; at least 1.
    pub memory_mib: u64,
    /// Where logs, results and the agent's own state are kept. Made where it is missing.
    pub work_dir: PathBuf,
    /// The worker's id; by default the one in the work directory, or `worker-<host>-<random>`.
    pub id: Option<String>,
    /// The name under which other machines reach this one. Default: the machine's host name.
    pub host: String,
    /// Addresses of custom resources offered, by the resource's name.
    pub resources: BTreeMap<String, Vec<String>>,
    /// What else this agent can do, such as `spark`.
    pub capabilities: Vec<String>,
    /// Installations of Spark to offer, one of each line.
    pub spark_homes: Vec<SparkHome>,
    /// Where health, metrics, processes and logs are served. Default `127.0.0.1:8081`; port 0 picks one.
    pub web: SocketAddr,
    /// From SIGTERM to SIGKILL. Default 10 s.
    pub kill_grace: Duration,
    /// What is kept in the work directory, and how much room there must be for new work.
    pub work: Limits,
    /// The supervisor's command; default: this executable with [`SUPERVISOR_SUBCOMMAND`].
    pub supervisor: Vec<OsString>,
    /// What is shown to masters that want a token. Default: nothing.
    pub credentials: Credentials,
    /// Deadlines and back-off of the session with the masters.
    pub session: SessionTimings,
    /// The recorder that `/metrics` shows; unset: that path answers 404.
    pub prometheus: Option<PrometheusHandle>,
    /// What can be changed at `/debug/log-level`; unset: nothing.
    pub log: Option<LogControl>,
}

/// Everything that is wrong with a set of options.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct InvalidOptions(pub Vec<String>);

// === impl AgentOptions ===

impl Default for AgentOptions {
    fn default() -> Self {
        Self {
            masters: Vec::new(),
            cores: 1,
            memory_mib: 1024,
            work_dir: PathBuf::from("work"),
            id: None,
            host: host_name(),
            resources: BTreeMap::new(),
            capabilities: Vec::new(),
            spark_homes: Vec::new(),
            web: SocketAddr::from((Ipv4Addr::LOCALHOST, WEB_PORT)),
            kill_grace: Duration::from_secs(10),
            work: Limits::default(),
            supervisor: vec![THIS_PROGRAM.into(), SUPERVISOR_SUBCOMMAND.into()],
            credentials: Credentials::default(),
            session: SessionTimings::default(),
            prometheus: None,
            log: None,
        }
    }
}

impl AgentOptions {
    /// Checks everything that can be checked without touching the machine.
    ///
    /// # Errors
    /// [`InvalidOptions`] lists all faults.
    pub fn validate(&self) -> Result<(), InvalidOptions> {
        let mut faults = Vec::new();
        if self.masters.is_empty() {
            faults.push("masters: none given, at least one host:port is needed".to_owned());
        }
        if !(1..=limits::CORES_MAX).contains(&self.cores) {
            faults.push(format!(
                "cores: {} is not in 1..={}",
                self.cores,
                limits::CORES_MAX
            ));
        }
        if !(1..=limits::MEMORY_MIB_MAX).contains(&self.memory_mib) {
            let max = limits::MEMORY_MIB_MAX;
            faults.push(format!(
                "memory: {} MiB is not in 1..={max}",
                self.memory_mib
            ));
        }
        for (name, value) in [("host", Some(&self.host)), ("id", self.id.as_ref())] {
            let Some(value) = value else { continue };
            if value.is_empty() || value.len() > limits::NAME_BYTES_MAX {
                let max = limits::NAME_BYTES_MAX;
                faults.push(format!("{name}: {} bytes, must be 1..={max}", value.len()));
            }
        }
        if self.supervisor.is_empty() {
            faults.push("supervisor: its command is empty".to_owned());
        }
        if self.kill_grace > KILL_GRACE_MAX {
            faults.push(format!(
                "kill grace: {:?} is above {KILL_GRACE_MAX:?}",
                self.kill_grace
            ));
        }
        if self.work.bytes_max == Some(0) {
            faults.push("work max: 0 bytes; give more, or leave it out for no limit".to_owned());
        }
        for (name, addresses) in &self.resources {
            if addresses.is_empty() {
                faults.push(format!("resource {name:?}: no addresses, write {name}=0,1"));
            }
        }
        if faults.is_empty() {
            Ok(())
        } else {
            Err(InvalidOptions(faults))
        }
    }

    /// How long a launch may wait for room.
    pub(crate) fn launch_wait(&self) -> Duration {
        self.kill_grace + LAUNCH_WAIT_EXTRA
    }
}

impl std::fmt::Debug for AgentOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentOptions")
            .field("masters", &self.masters)
            .field("cores", &self.cores)
            .field("memory_mib", &self.memory_mib)
            .field("work_dir", &self.work_dir)
            .field("id", &self.id)
            .field("host", &self.host)
            .field("web", &self.web)
            .finish_non_exhaustive()
    }
}

/// This machine's name, or `localhost` where it has none.
fn host_name() -> String {
    nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_listed_at_once() {
        let options = AgentOptions {
            cores: 0,
            memory_mib: 0,
            id: Some(String::new()),
            resources: BTreeMap::from([("gpu".to_owned(), Vec::new())]),
            supervisor: Vec::new(),
            ..AgentOptions::default()
        };
        let InvalidOptions(faults) = options.validate().unwrap_err();
        let fields: Vec<&str> = faults
            .iter()
            .filter_map(|fault| fault.split(':').next())
            .collect();
        assert_eq!(
            fields,
            [
                "masters",
                "cores",
                "memory",
                "id",
                "supervisor",
                "resource \"gpu\""
            ]
        );
    }

    #[test]
    fn the_defaults_need_only_masters() {
        let masters = vec!["127.0.0.1:7077".to_owned()];
        AgentOptions {
            masters,
            ..AgentOptions::default()
        }
        .validate()
        .unwrap();
    }
}
