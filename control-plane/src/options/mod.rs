//! What an operator can set about a master: one struct for its configuration file, one place for the defaults.
//!
//! The command line fills this in (flag over environment over file over default) and hands it to the
//! composition root. Every fault is reported at once, under the name that the file gives the field.

pub mod cluster;
pub mod etcd;
pub mod raft;
pub mod rest;
pub mod server;
pub mod ui;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use interrex_persistence::{election::MasterInfo, options::EngineKind};
use interrex_proto::limits::NAME_BYTES_MAX;
use serde::{Deserialize, Serialize};

pub use self::{
    cluster::ClusterOptions, etcd::EtcdSection, raft::RaftSection, rest::RestOptions,
    server::ServerOptions, ui::UiOptions,
};

/// Everything that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct InvalidConfig(pub Vec<String>);

/// One master, as its configuration file says it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MasterConfig {
    /// This master's id, such as `m1`; the same for the life of its data directory. Required.
    pub id: String,
    /// Where the log, snapshots and identity are. Required unless the engine is `memory`.
    pub data_dir: PathBuf,
    /// Where records are kept: `raft`, `etcd`, `sled` or `memory`. Default `raft`.
    #[serde(with = "engine_name")]
    pub engine: EngineKind,
    /// Every master, this one included: id to gRPC address. Empty: this master alone.
    pub peers: BTreeMap<String, String>,
    /// Addresses of some masters of a cluster that this one is to join; it waits to be added there. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub join: Vec<String>,
    /// Allows addresses other than loopback without TLS and tokens. Default false.
    pub insecure: bool,
    /// A file with the name and token of each caller that may change something, one a line; the first is the masters'
    /// own. Without it anybody may. Default: none. Read again at SIGHUP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<PathBuf>,
    /// Serves Spark's RPC, which has no place for a token, although there are tokens. Default false.
    pub spark_without_token: bool,
    /// Asks Spark's drivers and submission clients of a build that is neither built in nor taught by an agent what its
    /// classes look like; each question is an error in their log. Default false.
    pub spark_probe: bool,
    /// From the first signal to the end, at most. Default 10 s.
    #[serde(with = "humantime_serde")]
    pub shutdown_grace: Duration,
    /// Addresses to listen on and to be reached at.
    pub server: ServerOptions,
    /// How the cluster decides: limits, policies and waits.
    pub cluster: ClusterOptions,
    /// Timing of the Raft engine.
    pub raft: RaftSection,
    /// How the etcd engine reaches etcd.
    pub etcd: EtcdSection,
    /// The submission API.
    pub rest: RestOptions,
    /// The pages for people.
    pub ui: UiOptions,
}

// === impl MasterConfig ===

impl Default for MasterConfig {
    fn default() -> Self {
        Self {
            id: String::new(),
            data_dir: PathBuf::new(),
            engine: EngineKind::default(),
            peers: BTreeMap::new(),
            join: Vec::new(),
            insecure: false,
            tokens: None,
            spark_without_token: false,
            spark_probe: false,
            shutdown_grace: Duration::from_secs(10),
            server: ServerOptions::default(),
            cluster: ClusterOptions::default(),
            raft: RaftSection::default(),
            etcd: EtcdSection::default(),
            rest: RestOptions::default(),
            ui: UiOptions::default(),
        }
    }
}

impl MasterConfig {
    /// Checks everything that can be checked without touching the machine.
    ///
    /// # Errors
    /// [`InvalidConfig`] lists all faults, each with its field, its value and the fix.
    pub fn validate(&self) -> Result<(), InvalidConfig> {
        let mut faults = Vec::new();
        self.validate_identity(&mut faults);
        self.server.validate(self.insecure, &mut faults);
        self.cluster.validate(&mut faults);
        self.rest.validate(&mut faults);
        self.ui.validate(&mut faults);
        let elects = self.engine == EngineKind::Raft;
        self.raft.validate(elects, &mut faults);
        self.etcd.validate(self.engine, &mut faults);
        if faults.is_empty() {
            Ok(())
        } else {
            Err(InvalidConfig(faults))
        }
    }

    /// After this a commit's outcome counts as unknown, and the leadership ends. On etcd not before the lease could have
    /// ended: nobody else can lead until then, and etcd's own election takes a second or two.
    #[must_use]
    pub fn commit_deadline(&self) -> Duration {
        let configured = self.raft.commit_deadline;
        match self.engine {
            EngineKind::Etcd => configured.max(self.etcd.lease),
            EngineKind::Raft | EngineKind::Sled | EngineKind::Memory => configured,
        }
    }

    /// Where others reach this master.
    #[must_use]
    pub fn me(&self) -> MasterInfo {
        self.server.advertised(&self.id)
    }

    fn validate_identity(&self, faults: &mut Vec<String>) {
        let id = &self.id;
        let usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if id.is_empty() || id.len() > NAME_BYTES_MAX || !id.chars().all(usable) {
            faults.push(format!(
                "id: `{id}`; give 1 to {NAME_BYTES_MAX} letters, digits, `-`, `_` or `.`"
            ));
        }
        if self.data_dir.as_os_str().is_empty() && self.engine != EngineKind::Memory {
            faults.push(format!(
                "data_dir: is not set; engine `{}` needs a directory",
                self.engine
            ));
        }
        if !self.peers.is_empty() && !self.peers.contains_key(id) {
            let known: Vec<&str> = self.peers.keys().map(String::as_str).collect();
            faults.push(format!(
                "peers: `{}` do not name this master; add `{id}`",
                known.join(", ")
            ));
        }
        if !self.join.is_empty() && self.engine != EngineKind::Raft {
            faults.push(format!(
                "join: is for engine `raft`, the engine is `{}`; remove it",
                self.engine
            ));
        }
        if self.peers.len() > 1 && !self.engine.has_standbys() {
            faults.push(format!(
                "peers: {} masters with engine `{}`, which is for one; use `raft` or `etcd`",
                self.peers.len(),
                self.engine
            ));
        }
        if self.shutdown_grace < Duration::from_millis(100) {
            faults.push(format!(
                "shutdown_grace: {:?}; give at least 100 ms",
                self.shutdown_grace
            ));
        }
    }
}

/// An engine by its name on the command line.
mod engine_name {
    use interrex_persistence::options::EngineKind;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    pub(super) fn serialize<S: Serializer>(engine: &EngineKind, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(engine.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<EngineKind, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<MasterConfig, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn a_file_sets_what_it_names_and_leaves_the_rest_at_its_default() {
        let config = parse(
            r#"
            id = "m1"
            data_dir = "data/m1"
            peers = { m1 = "127.0.0.1:7077", m2 = "127.0.0.1:7078", m3 = "127.0.0.1:7079" }

            [server]
            rpc = "127.0.0.1:7077"

            [cluster]
            worker_timeout = "30s"
            default_cores = 4

            [raft]
            heartbeat = "20ms"

            [rest]
            max_body = "8MiB"
            "#,
        )
        .expect("a valid file");
        assert_eq!(config.validate(), Ok(()));
        assert_eq!(config.cluster.worker_timeout, Duration::from_secs(30));
        assert_eq!(config.cluster.app_timeout, Duration::from_secs(10));
        assert_eq!(config.raft.heartbeat, Duration::from_millis(20));
        assert_eq!(config.rest.body_bytes_max(), 8 << 20);
        let again =
            parse(&toml::to_string(&config).expect("serializable")).expect("what we write we read");
        assert_eq!(again, config);
    }

    #[test]
    fn an_unknown_key_is_an_error_that_names_it() {
        for text in [
            "idd = \"m1\"",
            "[cluster]\nworker_timout = \"1s\"",
            "[rest]\nport = 1",
        ] {
            let error = parse(text).expect_err("must be refused").to_string();
            assert!(error.contains("unknown field"), "{error}");
        }
        let error = parse("engine = \"zookeeper\"")
            .expect_err("must be refused")
            .to_string();
        assert!(error.contains("raft, etcd, sled or memory"), "{error}");
    }

    #[test]
    fn all_faults_are_reported_at_once() {
        let mut config = MasterConfig {
            id: "m 1".into(),
            engine: EngineKind::Sled,
            peers: [("m2", "a:1"), ("m3", "b:1")]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .into(),
            shutdown_grace: Duration::ZERO,
            ..MasterConfig::default()
        };
        config.cluster.worker_timeout = Duration::ZERO;
        config.rest.concurrent_requests_max = 0;
        config.server.web = "0.0.0.0:8080".parse().expect("an address");
        let InvalidConfig(faults) = config.validate().expect_err("must be refused");
        for field in [
            "id: `m 1`",
            "data_dir: is not set",
            "peers: `m2, m3` do not name",
            "peers: 2 masters with engine `sled`",
            "shutdown_grace",
            "server.web: 0.0.0.0:8080",
            "cluster.worker_timeout",
            "rest.concurrent_requests_max",
        ] {
            assert!(
                faults.iter().any(|fault| fault.starts_with(field)),
                "{field} in {faults:#?}"
            );
        }
        assert_eq!(faults.len(), 8, "{faults:#?}");
    }
}
