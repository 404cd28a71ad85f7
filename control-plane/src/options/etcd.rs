//! How the etcd engine reaches and uses etcd, in the form of a file.

use std::{path::PathBuf, time::Duration};

use interrex_persistence::{error::OpenError, etcd::EtcdSettings, options::EngineKind};
use serde::{Deserialize, Serialize};

/// Settings of the etcd engine; the meaning of each is told at [`EtcdSettings`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EtcdSection {
    /// Members of the etcd cluster. Default `127.0.0.1:2379`.
    pub endpoints: Vec<String>,
    /// All keys begin with it; the same on every master of a cluster. Default `/interrex/main`.
    pub prefix: String,
    /// How long a leader that fell silent keeps its place. Default 2 s.
    #[serde(with = "humantime_serde")]
    pub lease: Duration,
    /// How often the leader compacts etcd's history; zero: never. Default 60 s.
    #[serde(with = "humantime_serde")]
    pub compact_every: Duration,
    /// The user to log in as. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The file whose first line is the password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// Certificates that etcd's is checked against (PEM); makes `https` possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// This master's certificate (PEM).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// Its key (PEM).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Whether a wiped etcd is accepted. Default false.
    pub accept_wiped: bool,
}

// === impl EtcdSection ===

impl Default for EtcdSection {
    fn default() -> Self {
        let settings = EtcdSettings::default();
        Self {
            endpoints: settings.endpoints,
            prefix: settings.prefix,
            lease: settings.lease,
            compact_every: settings.compact_every,
            user: settings.user,
            password_file: settings.password_file,
            ca: settings.ca_file,
            cert: settings.cert_file,
            key: settings.key_file,
            accept_wiped: settings.accept_wiped,
        }
    }
}

impl EtcdSection {
    /// The same for the engine.
    #[must_use]
    pub fn settings(&self) -> EtcdSettings {
        EtcdSettings {
            endpoints: self.endpoints.clone(),
            prefix: self.prefix.clone(),
            lease: self.lease,
            compact_every: self.compact_every,
            user: self.user.clone(),
            password_file: self.password_file.clone(),
            ca_file: self.ca.clone(),
            cert_file: self.cert.clone(),
            key_file: self.key.clone(),
            accept_wiped: self.accept_wiped,
        }
    }

    /// Adds every fault to `faults`.
    pub(super) fn validate(&self, engine: EngineKind, faults: &mut Vec<String>) {
        if engine != EngineKind::Etcd {
            if *self != Self::default() {
                faults.push(format!(
                    "etcd: is set, but the engine is `{engine}`; set engine to `etcd`, or remove it"
                ));
            }
            return;
        }
        match self.settings().validate() {
            Ok(()) => {}
            Err(OpenError::Option { option, reason }) => {
                let field = option.trim_start_matches("--etcd-").replace('-', "_");
                faults.push(format!("etcd.{field}: {reason}"));
            }
            Err(error) => faults.push(format!("etcd: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(section: &EtcdSection, engine: EngineKind) -> Vec<String> {
        let mut faults = Vec::new();
        section.validate(engine, &mut faults);
        faults
    }

    #[test]
    fn a_fault_is_named_as_the_file_names_the_field() {
        let section = EtcdSection {
            compact_every: Duration::from_secs(1),
            ..EtcdSection::default()
        };
        let found = faults(&section, EngineKind::Etcd);
        assert!(found[0].starts_with("etcd.compact_every: 1s"), "{found:?}");
        assert_eq!(
            faults(&EtcdSection::default(), EngineKind::Etcd),
            Vec::<String>::new()
        );
    }

    #[test]
    fn settings_that_nothing_reads_are_refused() {
        let section = EtcdSection {
            endpoints: vec!["etcd:2379".into()],
            ..EtcdSection::default()
        };
        let found = faults(&section, EngineKind::Raft);
        assert!(found[0].contains("the engine is `raft`"), "{found:?}");
        assert_eq!(
            faults(&EtcdSection::default(), EngineKind::Raft),
            Vec::<String>::new()
        );
    }
}
