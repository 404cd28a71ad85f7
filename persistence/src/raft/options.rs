//! What an operator can set about the Raft backend, with all defaults in one place.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use interrex_proto::{channel::Dialler, credentials::Credentials};
use openraft::{Config, SnapshotPolicy};

use super::{formats::ENTRY_FORMAT, meter::DiskFaults};
use crate::{election::MasterInfo, error::OpenError};

/// Most masters of a cluster: more make every write slower and none of them safer.
pub const MASTERS_MAX: usize = 7;
/// Most addresses of a cluster to join.
const JOIN_MAX: usize = 16;
/// Retries of replication to a peer that fails: quick at first, so that a healed link is used at once.
const BACKOFF: &str = "10ms 20ms 40ms ...200ms";
/// A snapshot that takes longer than this to send and install is given up and begun again.
const SNAPSHOT_SEND_MAX: Duration = Duration::from_secs(120);

/// How the Raft backend of one master is opened.
#[derive(Debug, Clone)]
pub struct RaftOptions {
    /// This master's id, such as `m1`.
    pub id: String,
    /// Every master of the cluster, this one included: id to gRPC address (`host:port`). The same on all masters
    /// when a cluster is formed; later a difference is a warning, and the addresses here are the ones dialled.
    pub peers: BTreeMap<String, String>,
    /// Addresses of some masters of a cluster that this one is to join: it never forms one, and waits to be added.
    /// Empty: `peers` form one, if there is none yet. Without meaning once this master is a member.
    pub join: Vec<String>,
    /// Where the log, snapshots and identity are. Nobody else may use it.
    pub data_dir: PathBuf,
    /// What is advertised to other masters: where this one's servers are.
    pub me: MasterInfo,
    /// How long things may take.
    pub timing: RaftTiming,
    /// When the log is cut.
    pub snapshots: SnapshotBounds,
    /// When the disk is in trouble.
    pub disk: DiskBounds,
    /// Faults that a test gives the disk; none by default.
    pub faults: Arc<DiskFaults>,
    /// How other masters are dialled; over TCP by default.
    pub dialler: Dialler,
    /// What this master shows to others. Default: nothing.
    pub credentials: Credentials,
    /// The newest format of log entries that this master applies, and says that it applies. Default: the newest that this
    /// build knows; others are for tests of clusters of several versions.
    pub entry_format: u32,
}

/// How long things may take. A leader's death is noticed after `election_timeout_max` and replaced after a
/// further random wait between the two election timeouts: about half a second at the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RaftTiming {
    /// How often a leader proves that it is alive. Default 50 ms.
    pub heartbeat: Duration,
    /// Shortest random wait before an election. Default 150 ms.
    pub election_timeout_min: Duration,
    /// Longest random wait before an election, and how long a leader's lease lasts. Default 300 ms.
    pub election_timeout_max: Duration,
    /// How long one commit may take before its outcome is called unknown. Default 2 s.
    pub commit_deadline: Duration,
    /// How long handing over leadership may take. Default 1 s.
    pub transfer_deadline: Duration,
    /// How long closing may take. Default 5 s.
    pub shutdown_deadline: Duration,
}

/// When a disk is in trouble: then a leader hands over to a master that is better off, if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskBounds {
    /// Bytes left on the disk below which it is low. Default 64 MiB.
    pub low_bytes: u64,
    /// An append to the log that takes longer is slow; slow ones in three seconds in a row make the disk slow, until
    /// there has been none for thirty. Default 500 ms.
    pub slow_append: Duration,
}

/// When a snapshot is taken, and how much log is kept behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotBounds {
    /// Entries since the last snapshot. Default 20,000.
    pub entries: u64,
    /// Bytes of log on the disk. Default 256 MiB.
    pub log_bytes: u64,
    /// Entries kept behind the snapshot, so that a master that was away for a moment needs no snapshot. Default
    /// 2,000.
    pub keep_entries: u64,
    /// Size of one file of the log, in bytes; whole files are removed. Default 32 MiB.
    pub log_file_bytes: u64,
}

// === impl RaftOptions ===

impl RaftOptions {
    /// Options with default timing and bounds.
    #[must_use]
    pub fn new(
        me: MasterInfo,
        peers: BTreeMap<String, String>,
        data_dir: impl Into<PathBuf>,
    ) -> Self {
        Self {
            id: me.id.clone(),
            peers,
            join: Vec::new(),
            data_dir: data_dir.into(),
            me,
            timing: RaftTiming::default(),
            snapshots: SnapshotBounds::default(),
            disk: DiskBounds::default(),
            faults: Arc::default(),
            dialler: Dialler::default(),
            credentials: Credentials::default(),
            entry_format: ENTRY_FORMAT,
        }
    }

    /// Checks every option.
    ///
    /// # Errors
    /// [`OpenError::Option`] for the first option that cannot be used, saying what would be right.
    pub fn validate(&self) -> Result<(), OpenError> {
        self.validate_peers()?;
        self.timing.validate()?;
        self.disk.validate()?;
        self.snapshots.validate()
    }

    fn validate_peers(&self) -> Result<(), OpenError> {
        let wrong = |reason: String| {
            Err(OpenError::Option {
                option: "--peers",
                reason,
            })
        };
        if self.id.is_empty() || self.me.id != self.id {
            let reason = format!("`{}` is not this master's id (`{}`)", self.id, self.me.id);
            return Err(OpenError::Option {
                option: "--id",
                reason,
            });
        }
        if !self.peers.contains_key(&self.id) {
            let known = list(&self.peers);
            return wrong(format!(
                "`{known}` does not name this master; add {}=HOST:PORT",
                self.id
            ));
        }
        if self.peers.len() > MASTERS_MAX {
            return wrong(format!(
                "{} masters given, at most {MASTERS_MAX}",
                self.peers.len()
            ));
        }
        if self.join.len() > JOIN_MAX {
            return Err(OpenError::Option {
                option: "--join",
                reason: format!("{} addresses given, at most {JOIN_MAX}", self.join.len()),
            });
        }
        let mut by_address: BTreeMap<&str, &str> = BTreeMap::new();
        for (id, address) in &self.peers {
            let port = address
                .rsplit_once(':')
                .and_then(|(_, port)| port.parse::<u16>().ok());
            if id.is_empty() || port.is_none_or(|port| port == 0) {
                return wrong(format!("`{id}={address}` is not ID=HOST:PORT"));
            }
            if let Some(other) = by_address.insert(address, id) {
                return wrong(format!("{other} and {id} have the same address {address}"));
            }
        }
        Ok(())
    }

    /// The same, in openraft's words.
    pub(super) fn config(&self) -> Result<Arc<Config>, OpenError> {
        let config = Config {
            cluster_name: "interrex".to_owned(),
            heartbeat_interval: millis(self.timing.heartbeat),
            election_timeout_min: millis(self.timing.election_timeout_min),
            election_timeout_max: millis(self.timing.election_timeout_max),
            install_snapshot_timeout: millis(SNAPSHOT_SEND_MAX),
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.snapshots.entries),
            // Beyond what can still be in the log a follower gets the snapshot.
            replication_lag_threshold: self.snapshots.entries.saturating_mul(2),
            max_in_snapshot_log_to_keep: self.snapshots.keep_entries,
            purge_batch_size: 1 + self.snapshots.keep_entries / 8,
            enable_pre_vote: Some(true),
            // A restarted leader must win again: it may have missed that another leads.
            enable_leader_restore: Some(false),
            backoff: BACKOFF.to_owned(),
            ..Config::default()
        };
        let valid = config.validate().map_err(|error| OpenError::Option {
            option: "--election-timeout",
            reason: error.to_string(),
        })?;
        Ok(Arc::new(valid))
    }
}

// === impl RaftTiming ===

impl Default for RaftTiming {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(50),
            election_timeout_min: Duration::from_millis(150),
            election_timeout_max: Duration::from_millis(300),
            commit_deadline: Duration::from_secs(2),
            transfer_deadline: Duration::from_secs(1),
            shutdown_deadline: Duration::from_secs(5),
        }
    }
}

impl RaftTiming {
    fn validate(&self) -> Result<(), OpenError> {
        let wrong = |option, reason: String| Err(OpenError::Option { option, reason });
        if self.heartbeat < Duration::from_millis(5) {
            return wrong(
                "--heartbeat",
                format!("{:?} is shorter than 5 ms", self.heartbeat),
            );
        }
        if self.election_timeout_min < self.heartbeat * 2 {
            let reason = format!(
                "{:?} is shorter than two heartbeats of {:?}",
                self.election_timeout_min, self.heartbeat
            );
            return wrong("--election-timeout", reason);
        }
        if self.election_timeout_max <= self.election_timeout_min {
            let reason = format!(
                "the longest wait, {:?}, must be longer than the shortest, {:?}",
                self.election_timeout_max, self.election_timeout_min
            );
            return wrong("--election-timeout", reason);
        }
        if self.commit_deadline < self.election_timeout_max {
            let reason = format!(
                "{:?} is shorter than the election timeout of {:?}",
                self.commit_deadline, self.election_timeout_max
            );
            return wrong("--commit-deadline", reason);
        }
        Ok(())
    }
}

// === impl DiskBounds ===

impl Default for DiskBounds {
    fn default() -> Self {
        Self {
            low_bytes: 64 << 20,
            slow_append: Duration::from_millis(500),
        }
    }
}

impl DiskBounds {
    fn validate(&self) -> Result<(), OpenError> {
        if self.slow_append < Duration::from_millis(1) {
            return Err(OpenError::Option {
                option: "--slow-append",
                reason: format!("{:?} is shorter than 1 ms", self.slow_append),
            });
        }
        Ok(())
    }
}

// === impl SnapshotBounds ===

impl Default for SnapshotBounds {
    fn default() -> Self {
        Self {
            entries: 20_000,
            log_bytes: 256 << 20,
            keep_entries: 2_000,
            log_file_bytes: 32 << 20,
        }
    }
}

impl SnapshotBounds {
    fn validate(&self) -> Result<(), OpenError> {
        let wrong = |reason: String| {
            Err(OpenError::Option {
                option: "--snapshot-entries",
                reason,
            })
        };
        if self.entries == 0 {
            return wrong("0 entries between snapshots; at least 1".to_owned());
        }
        if self.keep_entries > self.entries {
            return wrong(format!(
                "{} entries kept behind a snapshot are more than the {} between two",
                self.keep_entries, self.entries
            ));
        }
        if self.log_file_bytes < 1 << 10 || self.log_bytes < self.log_file_bytes {
            return wrong(format!(
                "log files of {} bytes do not fit a log of {} bytes (at least 1 KiB a file)",
                self.log_file_bytes, self.log_bytes
            ));
        }
        Ok(())
    }
}

/// `m1=host:port, m2=...`, as an operator writes it.
pub(super) fn list(peers: &BTreeMap<String, String>) -> String {
    let all: Vec<String> = peers
        .iter()
        .map(|(id, address)| format!("{id}={address}"))
        .collect();
    all.join(",")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(peers: &[(&str, &str)]) -> RaftOptions {
        let me = MasterInfo {
            id: "m1".into(),
            ..MasterInfo::default()
        };
        let peers = peers
            .iter()
            .map(|(id, rpc)| ((*id).into(), (*rpc).into()))
            .collect();
        RaftOptions::new(me, peers, "unused")
    }

    fn refusal(options: &RaftOptions) -> String {
        options.validate().unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_are_valid() {
        let options = options(&[("m1", "127.0.0.1:7077"), ("m2", "127.0.0.1:7078")]);
        options.validate().unwrap();
        options.config().unwrap();
    }

    #[test]
    fn a_refusal_names_the_option_and_the_fix() {
        let missing = options(&[("m2", "127.0.0.1:7078")]);
        assert!(refusal(&missing).contains("add m1=HOST:PORT"));
        let twice = options(&[("m1", "h:1"), ("m2", "h:1")]);
        assert!(refusal(&twice).contains("m1 and m2 have the same address h:1"));
        let no_port = options(&[("m1", "h")]);
        assert!(refusal(&no_port).contains("`m1=h` is not ID=HOST:PORT"));
        let mut fast = options(&[("m1", "h:1")]);
        fast.timing.election_timeout_min = Duration::from_millis(60);
        assert!(refusal(&fast).contains("--election-timeout"));
    }
}
