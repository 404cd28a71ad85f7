//! What a worker shows of itself over HTTP.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::process::WorkKey;

/// A worker as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerView {
    /// Its name for the masters.
    pub worker_id: String,
    /// The name of its machine.
    pub host: String,
    /// Cores that it offers.
    pub cores: u32,
    /// Memory that it offers, in MiB.
    pub memory_mib: u64,
    /// Addresses of custom resources that it offers, by the resource's name.
    pub resources: BTreeMap<String, Vec<String>>,
    /// The masters that it knows.
    pub masters: Vec<String>,
    /// Its cluster; empty until the first one has taken it.
    pub cluster_id: String,
    /// The largest epoch it has seen.
    pub epoch: u64,
    /// The leader that it obeys; unset while there is none.
    pub leader: Option<String>,
    /// Where that shows its pages; empty where it has not said so.
    pub leader_web: String,
    /// Masters that refused it, with their words.
    pub refusals: BTreeMap<String, String>,
    /// Whether it is ending.
    pub stopping: bool,
    /// Why it takes no new work; unset: it does.
    pub not_accepting: Option<String>,
    /// Reports that no master has acknowledged.
    pub unacknowledged: usize,
    /// Work without a result.
    pub processes: Vec<ProcessView>,
    /// Executors that are over: the last ones, in the order in which they ended.
    pub executors_over: Vec<ProcessView>,
}

/// One process, or a launch that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessView {
    /// What it is an attempt of.
    pub work: WorkKey,
    /// The driver's or the application's name; empty where an earlier life of the agent has started it.
    pub name: String,
    /// Its program, without arguments; empty as the name is.
    pub program: String,
    /// Addresses of custom resources that it was given, by the resource's name.
    pub resources: BTreeMap<String, Vec<String>>,
    /// `waiting`, `starting`, `running` or `ending`; the last one it had, where it is over.
    pub state: &'static str,
    /// Its process id, where it runs.
    pub pid: Option<i32>,
    /// Cores that it was given.
    pub cores: u32,
    /// Memory that it was given, in MiB.
    pub memory_mib: u64,
    /// When it was started, in milliseconds since the Unix epoch; 0 while it was not.
    pub started_at_ms: u64,
    /// Whether it is ended when there is no leader for the length of a lease.
    pub at_most_once: bool,
}
