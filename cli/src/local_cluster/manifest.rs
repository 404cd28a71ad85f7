//! `<data-dir>/cluster.json`: which processes run, for scripts. Kept true, and replaced in one step, so that
//! a reader never sees half of it.

use std::{io::Write, path::Path};

use serde::Serialize;

/// The file's name.
pub(crate) const FILE: &str = "cluster.json";

/// What `cluster.json` says.
#[derive(Debug, Serialize)]
pub(crate) struct Manifest {
    /// The masters, in order.
    pub(crate) masters: Vec<MasterEntry>,
    /// The agents, in order.
    pub(crate) agents: Vec<AgentEntry>,
    /// The etcd that the masters keep their records in; only where they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) etcd: Option<EtcdEntry>,
    /// The process that runs them all.
    pub(crate) dev_pid: u32,
}

/// A master's line.
#[derive(Debug, Serialize)]
pub(crate) struct MasterEntry {
    pub(crate) id: String,
    /// `null` while it does not run.
    pub(crate) pid: Option<u32>,
    pub(crate) rpc: String,
    pub(crate) rest: String,
    pub(crate) web: String,
}

/// An agent's line.
#[derive(Debug, Serialize)]
pub(crate) struct AgentEntry {
    pub(crate) id: String,
    /// `null` while it does not run.
    pub(crate) pid: Option<u32>,
    pub(crate) web: String,
}

/// The line of the cluster's own etcd.
#[derive(Debug, Serialize)]
pub(crate) struct EtcdEntry {
    /// `null` while it does not run.
    pub(crate) pid: Option<u32>,
    /// Where masters find it, `host:port`.
    pub(crate) client: String,
}

/// Writes `value` as JSON beside `path`, then renames it there.
///
/// # Errors
/// What the file system says.
pub(crate) fn write_atomically(path: &Path, value: &impl Serialize) -> std::io::Result<()> {
    let beside = path.with_extension("json.new");
    let mut file = std::fs::File::create(&beside)?;
    file.write_all(&serde_json::to_vec_pretty(value)?)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    std::fs::rename(&beside, path)
}
