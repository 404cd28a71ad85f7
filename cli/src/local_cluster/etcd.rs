//! The etcd of a local cluster: one member, started like the other processes, in the same data directory.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{
    exit::{Exit, Failure},
    parent::TIED_PROGRAM,
};

/// The id of the process, and the name of the program.
pub(crate) const ETCD: &str = "etcd";
/// Where the masters of a local cluster keep their records in it.
const PREFIX: &str = "/interrex/dev";

/// Where it listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EtcdPlace {
    /// For masters, `host:port`.
    pub(crate) client: String,
    /// For other members, which there are none of; it wants one all the same.
    pub(crate) peer: String,
}

// === impl EtcdPlace ===

impl EtcdPlace {
    /// Its own options, with its data under `dir`.
    fn options(&self, dir: &Path) -> Vec<OsString> {
        let (client, peer) = (self.url(), format!("http://{}", self.peer));
        let mut options: Vec<OsString> = vec!["--data-dir".into(), dir.join(ETCD).into()];
        for (option, value) in [
            ("--name", ETCD),
            ("--listen-client-urls", &client),
            ("--advertise-client-urls", &client),
            ("--listen-peer-urls", &peer),
            ("--initial-advertise-peer-urls", &peer),
            ("--initial-cluster", &format!("{ETCD}={peer}")),
            ("--log-level", "warn"),
        ] {
            options.extend([option.into(), value.into()]);
        }
        options
    }

    /// Where masters find it, as a URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.client)
    }

    /// The arguments of this program that make it an etcd which ends with process `parent`.
    pub(crate) fn tied(&self, dir: &Path, parent: u32) -> Vec<OsString> {
        let mut args: Vec<OsString> =
            vec![TIED_PROGRAM.into(), parent.to_string().into(), ETCD.into()];
        args.extend(self.options(dir));
        args
    }

    /// The words that start it by hand.
    pub(crate) fn by_hand(&self, dir: &Path) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![ETCD.into()];
        words.extend(self.options(dir));
        words
    }

    /// The options of a master that keeps its records here.
    pub(crate) fn master_options(&self) -> [OsString; 4] {
        [
            "--etcd-endpoints".into(),
            self.client.as_str().into(),
            "--etcd-prefix".into(),
            PREFIX.into(),
        ]
    }
}

/// Makes sure that there is an etcd to be started.
///
/// # Errors
/// Where there is none, with how to get one.
pub(crate) fn check_installed() -> Result<(), Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir: PathBuf| dir.join(ETCD).is_file());
    if found {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Failed,
        "no `etcd` is installed on this machine (it is looked for on PATH): install one, such as Debian's package \
         etcd-server, or choose another --engine",
    ))
}
