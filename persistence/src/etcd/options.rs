//! What an operator can set about the etcd backend, with all defaults in one place.

use std::{fs, path::PathBuf, time::Duration};

use etcd_client::{Certificate, ConnectOptions, Identity, TlsOptions};

use super::limits::{CONNECT_DEADLINE, PING_DEADLINE, PING_INTERVAL};
use crate::{election::MasterInfo, error::OpenError};

/// Most endpoints: etcd itself advises at most seven members.
pub const ENDPOINTS_MAX: usize = 16;
/// Longest prefix, in bytes.
pub const PREFIX_BYTES_MAX: usize = 256;
/// Where everything is kept in etcd if not said otherwise.
pub const DEFAULT_PREFIX: &str = "/interrex/main";
/// Where etcd is if not said otherwise.
pub const DEFAULT_ENDPOINT: &str = "127.0.0.1:2379";
/// How long a dead leader keeps its place if not said otherwise.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(2);
/// How often history is compacted if not said otherwise.
pub const DEFAULT_COMPACT_EVERY: Duration = Duration::from_secs(60);
/// Shortest and longest lease.
const LEASE_MIN: Duration = Duration::from_secs(1);
const LEASE_MAX: Duration = Duration::from_secs(60);
/// Compacting more often costs etcd more than it gives.
const COMPACT_EVERY_MIN: Duration = Duration::from_secs(10);

/// What to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdOptions {
    /// Where this master keeps its identity; made where it is missing.
    pub data_dir: PathBuf,
    /// The master that the directory belongs to.
    pub me: MasterInfo,
    /// How etcd is reached and used.
    pub settings: EtcdSettings,
}

/// How etcd is reached and used. The same on every master, but for `accept_wiped`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdSettings {
    /// Members of the etcd cluster: `HOST:PORT`, or with `http://` or `https://`. One is used at a time, the next one
    /// when it fails. 1 to [`ENDPOINTS_MAX`]. Default [`DEFAULT_ENDPOINT`].
    pub endpoints: Vec<String>,
    /// All keys begin with this and a slash; masters with the same prefix are one cluster. Default
    /// [`DEFAULT_PREFIX`].
    pub prefix: String,
    /// How long a leader that fell silent keeps its place; whole seconds from 1 to 60, and etcd may grant more.
    /// Default [`DEFAULT_LEASE`].
    pub lease: Duration,
    /// The leader compacts etcd's history this often, since etcd keeps every old value until somebody does; zero
    /// leaves it to others. Default [`DEFAULT_COMPACT_EVERY`].
    pub compact_every: Duration,
    /// User, and the file with the password.
    pub user: Option<String>,
    /// The file whose first line is the user's password.
    pub password_file: Option<PathBuf>,
    /// Certificates (PEM) that the endpoints' are checked against; needed by `https`.
    pub ca_file: Option<PathBuf>,
    /// This master's certificate (PEM), where etcd asks for one.
    pub cert_file: Option<PathBuf>,
    /// Its key (PEM).
    pub key_file: Option<PathBuf>,
    /// This master may found its cluster again in an etcd that holds nothing under the prefix any more. Default
    /// false: a wiped etcd is refused.
    pub accept_wiped: bool,
}

// === impl EtcdSettings ===

impl Default for EtcdSettings {
    fn default() -> Self {
        Self {
            endpoints: vec![DEFAULT_ENDPOINT.to_owned()],
            prefix: DEFAULT_PREFIX.to_owned(),
            lease: DEFAULT_LEASE,
            compact_every: DEFAULT_COMPACT_EVERY,
            user: None,
            password_file: None,
            ca_file: None,
            cert_file: None,
            key_file: None,
            accept_wiped: false,
        }
    }
}

impl EtcdSettings {
    /// Checks everything that can be checked without touching the machine.
    ///
    /// # Errors
    /// `Option`, naming the first option that is unusable, with the fix.
    pub fn validate(&self) -> Result<(), OpenError> {
        self.validate_endpoints()?;
        validate_prefix(&self.prefix)?;
        if self.lease < LEASE_MIN || self.lease > LEASE_MAX || self.lease.subsec_nanos() != 0 {
            return Err(option(
                "--etcd-lease",
                format!(
                    "{:?}; give whole seconds, from {LEASE_MIN:?} to {LEASE_MAX:?}",
                    self.lease
                ),
            ));
        }
        if !self.compact_every.is_zero() && self.compact_every < COMPACT_EVERY_MIN {
            return Err(option(
                "--etcd-compact-every",
                format!(
                    "{:?}; give at least {COMPACT_EVERY_MIN:?}, or 0s to leave it to others",
                    self.compact_every
                ),
            ));
        }
        let pairs = [
            (
                "--etcd-user",
                self.user.is_some(),
                "--etcd-password-file",
                self.password_file.is_some(),
            ),
            (
                "--etcd-cert",
                self.cert_file.is_some(),
                "--etcd-key",
                self.key_file.is_some(),
            ),
        ];
        for (one, has_one, other, has_other) in pairs {
            if has_one != has_other {
                let (given, missing) = if has_one { (one, other) } else { (other, one) };
                return Err(option(given, format!("needs {missing} too")));
            }
        }
        Ok(())
    }

    /// Checks everything, with the files that are named.
    ///
    /// # Errors
    /// `Option`, as [`validate`](Self::validate), or naming the option whose file cannot be read.
    pub fn check(&self) -> Result<(), OpenError> {
        self.validate()?;
        self.connect_options().map(drop)
    }

    fn validate_endpoints(&self) -> Result<(), OpenError> {
        const NAME: &str = "--etcd-endpoints";
        if self.endpoints.is_empty() || self.endpoints.len() > ENDPOINTS_MAX {
            return Err(option(
                NAME,
                format!(
                    "{} given; give 1 to {ENDPOINTS_MAX}, such as {DEFAULT_ENDPOINT}",
                    self.endpoints.len()
                ),
            ));
        }
        for endpoint in &self.endpoints {
            let (secure, address) = split_scheme(endpoint);
            let port = address
                .rsplit_once(':')
                .filter(|(host, _)| !host.is_empty() && !host.contains(['/', ' ', '@']))
                .and_then(|(_, port)| port.parse::<u16>().ok())
                .filter(|port| *port != 0);
            if port.is_none() {
                let reason = format!("`{endpoint}`; write HOST:PORT such as {DEFAULT_ENDPOINT}");
                return Err(option(NAME, reason));
            }
            if secure != self.ca_file.is_some() {
                let reason = if secure {
                    format!("`{endpoint}` needs --etcd-ca, the certificates to check it against")
                } else {
                    format!(
                        "`{endpoint}` is not encrypted, but --etcd-ca is given; write https://{address}"
                    )
                };
                return Err(option(NAME, reason));
            }
            if !secure && self.cert_file.is_some() {
                let reason = format!("`{endpoint}` is not encrypted, but --etcd-cert is given");
                return Err(option(NAME, reason));
            }
        }
        Ok(())
    }

    /// The lease in etcd's unit.
    pub(super) fn lease_seconds(&self) -> i64 {
        i64::try_from(self.lease.as_secs()).unwrap_or(i64::MAX)
    }

    /// Reads the files, and says how connections are made.
    ///
    /// # Errors
    /// `Option` naming the option whose file cannot be read.
    pub(super) fn connect_options(&self) -> Result<ConnectOptions, OpenError> {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(CONNECT_DEADLINE)
            .with_keep_alive(PING_INTERVAL, PING_DEADLINE)
            .with_keep_alive_while_idle(true)
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if let (Some(user), Some(file)) = (&self.user, &self.password_file) {
            let text = read("--etcd-password-file", file)?;
            let password = text.lines().next().unwrap_or_default();
            options = options.with_user(user.clone(), password);
        }
        if let Some(ca) = &self.ca_file {
            let mut tls =
                TlsOptions::new().ca_certificate(Certificate::from_pem(read("--etcd-ca", ca)?));
            if let (Some(cert), Some(key)) = (&self.cert_file, &self.key_file) {
                tls = tls.identity(Identity::from_pem(
                    read("--etcd-cert", cert)?,
                    read("--etcd-key", key)?,
                ));
            }
            options = options.with_tls(tls);
        }
        Ok(options)
    }
}

fn validate_prefix(prefix: &str) -> Result<(), OpenError> {
    let usable = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let parts = prefix.strip_prefix('/').unwrap_or_default();
    if parts.is_empty()
        || parts.split('/').any(str::is_empty)
        || prefix.len() > PREFIX_BYTES_MAX
        || !prefix.chars().all(usable)
    {
        return Err(option(
            "--etcd-prefix",
            format!(
                "`{prefix}`; write names after slashes such as {DEFAULT_PREFIX}, of letters, digits, `-`, `_` and `.`, \
                 at most {PREFIX_BYTES_MAX} bytes"
            ),
        ));
    }
    Ok(())
}

/// Whether an endpoint is encrypted, and its address.
fn split_scheme(endpoint: &str) -> (bool, &str) {
    if let Some(address) = endpoint.strip_prefix("https://") {
        return (true, address);
    }
    (false, endpoint.strip_prefix("http://").unwrap_or(endpoint))
}

fn read(name: &'static str, file: &PathBuf) -> Result<String, OpenError> {
    fs::read_to_string(file).map_err(|error| option(name, format!("{}: {error}", file.display())))
}

fn option(option: &'static str, reason: String) -> OpenError {
    OpenError::Option { option, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut EtcdSettings)) -> String {
        let mut settings = EtcdSettings::default();
        change(&mut settings);
        settings.validate().unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_are_usable() {
        EtcdSettings::default().validate().unwrap();
        let mut settings = EtcdSettings {
            endpoints: vec![
                "https://etcd-1.example:2379".into(),
                "https://[::1]:2379".into(),
            ],
            ca_file: Some("ca.pem".into()),
            ..EtcdSettings::default()
        };
        settings.validate().unwrap();
        settings.endpoints = vec!["http://a:1".into()];
        settings.ca_file = None;
        settings.validate().unwrap();
    }

    #[test]
    fn an_endpoint_without_a_port_is_refused_by_name() {
        for bad in [
            "etcd",
            "etcd:",
            "etcd:0",
            ":2379",
            "http://etcd:2379/v3",
            "u@etcd:2379",
            "",
        ] {
            let said = refusal(|s| s.endpoints = vec![bad.into()]);
            assert!(
                said.contains("--etcd-endpoints") && said.contains("HOST:PORT"),
                "{said}"
            );
        }
        assert!(refusal(|s| s.endpoints.clear()).contains("0 given"));
    }

    #[test]
    fn encryption_needs_something_to_check_against() {
        let said = refusal(|s| s.endpoints = vec!["https://etcd:2379".into()]);
        assert!(said.contains("--etcd-ca"), "{said}");
        let said = refusal(|s| s.ca_file = Some("ca.pem".into()));
        assert!(said.contains("https://127.0.0.1:2379"), "{said}");
    }

    #[test]
    fn a_lease_is_whole_seconds() {
        for bad in [0, 500, 1500, 61_000] {
            let said = refusal(|s| s.lease = Duration::from_millis(bad));
            assert!(said.contains("--etcd-lease"), "{said}");
        }
    }

    #[test]
    fn a_prefix_is_a_path_of_plain_names() {
        for bad in ["", "/", "interrex", "/a//b", "/a/", "/a b", "/ä"] {
            let said = refusal(|s| s.prefix = bad.into());
            assert!(said.contains("--etcd-prefix"), "{bad}: {said}");
        }
    }

    #[test]
    fn half_of_a_pair_is_refused_with_the_other_half() {
        let said = refusal(|s| s.user = Some("u".into()));
        assert!(said.contains("--etcd-password-file"), "{said}");
        let said = refusal(|s| s.key_file = Some("k".into()));
        assert!(said.contains("needs --etcd-cert"), "{said}");
    }

    #[test]
    fn a_missing_file_is_named_with_its_option() {
        let settings = EtcdSettings {
            user: Some("u".into()),
            password_file: Some("/nonexistent/password".into()),
            ..EtcdSettings::default()
        };
        let said = settings.connect_options().unwrap_err().to_string();
        assert!(
            said.contains("--etcd-password-file") && said.contains("/nonexistent"),
            "{said}"
        );
    }
}
