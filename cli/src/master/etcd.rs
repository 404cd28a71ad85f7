//! The options of a master on etcd.
//!
//! Each has the default of [`MasterConfig`]; an option that is not given changes nothing.

use std::{path::PathBuf, time::Duration};

use interrex_control_plane::options::MasterConfig;

use super::tuning::set;

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "etcd (engine `etcd`; the same on every master)")]
pub(super) struct EtcdArgs {
    /// Members of the etcd cluster, HOST:PORT or https://HOST:PORT [default: 127.0.0.1:2379]
    #[arg(long, env = "INTERREX_MASTER_ETCD_ENDPOINTS", value_name = "A,B,C")]
    #[arg(value_delimiter = ',')]
    etcd_endpoints: Option<Vec<String>>,
    /// Where everything is kept in etcd; masters with the same prefix are one cluster [default: /interrex/main]
    #[arg(long, env = "INTERREX_MASTER_ETCD_PREFIX", value_name = "PREFIX")]
    etcd_prefix: Option<String>,
    /// How long a leader that fell silent keeps its place, in whole seconds [default: 2s]
    #[arg(long, env = "INTERREX_MASTER_ETCD_LEASE", value_name = "TIME")]
    #[arg(value_parser = humantime::parse_duration)]
    etcd_lease: Option<Duration>,
    /// How often the leader compacts etcd's history; 0s leaves it to others [default: 1m]
    #[arg(long, env = "INTERREX_MASTER_ETCD_COMPACT_EVERY", value_name = "TIME")]
    #[arg(value_parser = humantime::parse_duration)]
    etcd_compact_every: Option<Duration>,
    /// The user to log in to etcd as
    #[arg(long, env = "INTERREX_MASTER_ETCD_USER", value_name = "NAME")]
    etcd_user: Option<String>,
    /// The file whose first line is that user's password
    #[arg(long, env = "INTERREX_MASTER_ETCD_PASSWORD_FILE", value_name = "FILE")]
    etcd_password_file: Option<PathBuf>,
    /// Certificates to check etcd's against (PEM); needed by https
    #[arg(long, env = "INTERREX_MASTER_ETCD_CA", value_name = "FILE")]
    etcd_ca: Option<PathBuf>,
    /// This master's certificate (PEM), where etcd asks for one
    #[arg(long, env = "INTERREX_MASTER_ETCD_CERT", value_name = "FILE")]
    etcd_cert: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, env = "INTERREX_MASTER_ETCD_KEY", value_name = "FILE")]
    etcd_key: Option<PathBuf>,
    /// Found this master's cluster again in an etcd that has lost it for good, without its records; for one start of
    /// one master
    #[arg(long, env = "INTERREX_MASTER_ETCD_ACCEPT_WIPED")]
    etcd_accept_wiped: bool,
}

// === impl EtcdArgs ===

impl EtcdArgs {
    /// The first of these options that was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        [
            ("--etcd-endpoints", self.etcd_endpoints.is_some()),
            ("--etcd-prefix", self.etcd_prefix.is_some()),
            ("--etcd-lease", self.etcd_lease.is_some()),
            ("--etcd-compact-every", self.etcd_compact_every.is_some()),
            ("--etcd-user", self.etcd_user.is_some()),
            ("--etcd-password-file", self.etcd_password_file.is_some()),
            ("--etcd-ca", self.etcd_ca.is_some()),
            ("--etcd-cert", self.etcd_cert.is_some()),
            ("--etcd-key", self.etcd_key.is_some()),
            ("--etcd-accept-wiped", self.etcd_accept_wiped),
        ]
        .into_iter()
        .find_map(|(option, given)| given.then_some(option))
    }

    /// Puts what was given into `config`.
    pub(super) fn apply(&self, config: &mut MasterConfig) {
        let etcd = &mut config.etcd;
        set(&mut etcd.endpoints, self.etcd_endpoints.as_ref());
        set(&mut etcd.prefix, self.etcd_prefix.as_ref());
        set(&mut etcd.lease, self.etcd_lease.as_ref());
        set(&mut etcd.compact_every, self.etcd_compact_every.as_ref());
        etcd.user.clone_from(&self.etcd_user);
        etcd.password_file.clone_from(&self.etcd_password_file);
        etcd.ca.clone_from(&self.etcd_ca);
        etcd.cert.clone_from(&self.etcd_cert);
        etcd.key.clone_from(&self.etcd_key);
        etcd.accept_wiped = self.etcd_accept_wiped;
    }
}
