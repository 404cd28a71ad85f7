//! What a cluster on this machine consists of, before any process exists.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use interrex_agent::spark::SparkHome;
use serde::{Deserialize, Serialize};

use super::{
    etcd::{ETCD, EtcdPlace},
    ports::{AGENTS_MAX, MASTERS_MAX, Ports},
};
use crate::{exit::Failure, master::EngineKind, traces::Endpoint};

/// The file in the data directory that remembers the layout between runs.
const FILE: &str = "layout.json";

/// The option that ties a process to the one that starts it.
const TIE: &str = "--exit-with-parent";

/// How large a local cluster is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Size {
    /// Masters, 1 to 7.
    pub(crate) masters: u16,
    /// Agents, 0 to 20.
    pub(crate) agents: u16,
    /// Where the masters keep their records.
    pub(crate) engine: EngineKind,
    /// Cores that each agent offers.
    pub(crate) cores: u32,
    /// Memory that each agent offers, as its `--memory`.
    pub(crate) memory: String,
}

/// One master's place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MasterPlace {
    /// `m1`, `m2` ...
    pub(crate) id: String,
    /// gRPC, `host:port`.
    pub(crate) rpc: String,
    /// REST, `host:port`.
    pub(crate) rest: String,
    /// Health and metrics, `host:port`.
    pub(crate) web: String,
}

/// One agent's place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AgentPlace {
    /// `w1`, `w2` ...
    pub(crate) id: String,
    /// Health, metrics and logs, `host:port`.
    pub(crate) web: String,
}

/// Every process of a local cluster, with its addresses and directories.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// Where everything is kept.
    pub(crate) data_dir: PathBuf,
    /// The masters, in order.
    pub(crate) masters: Vec<MasterPlace>,
    /// The agents, in order.
    pub(crate) agents: Vec<AgentPlace>,
    /// The etcd that the masters keep their records in, if they do.
    pub(crate) etcd: Option<EtcdPlace>,
    /// Masters that were not there at the start and ask to be let in.
    joining: Vec<MasterPlace>,
    size: Size,
    handed_on: HandedOn,
    spark_homes: Vec<SparkHome>,
}

/// Options of the program itself that masters and agents are started with, too.
#[derive(Debug, Clone, Default)]
pub(crate) struct HandedOn {
    /// `--config`
    pub(crate) config: Option<PathBuf>,
    /// `--otlp-endpoint`
    pub(crate) otlp_endpoint: Option<Endpoint>,
}

/// What must not change while the data directory is kept: the masters' identities are bound to it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Remembered {
    engine: String,
    masters: Vec<MasterPlace>,
}

// === impl MasterPlace ===

impl MasterPlace {
    /// The place of the master with this index, from 0.
    fn new(index: u16, ports: Ports) -> Self {
        Self {
            id: format!("m{}", index + 1),
            rpc: ports.rpc(index),
            rest: ports.rest(index),
            web: ports.web(index),
        }
    }
}

// === impl Layout ===

impl Layout {
    /// Lays out a cluster of `size` under `data_dir`.
    ///
    /// # Errors
    /// A size that is out of bounds, or more than one master on an engine for one.
    pub(crate) fn new(data_dir: PathBuf, size: Size, ports: Ports) -> Result<Self, Failure> {
        if size.masters == 0 || size.masters > MASTERS_MAX {
            return Err(Failure::usage(format!(
                "--masters must be 1 to {MASTERS_MAX}"
            )));
        }
        if size.agents > AGENTS_MAX {
            return Err(Failure::usage(format!(
                "--agents must be 0 to {AGENTS_MAX}"
            )));
        }
        if size.masters > 1 && !size.engine.has_standbys() {
            return Err(Failure::usage(format!(
                "--engine {} is for one master; use --masters 1, or --engine raft or etcd",
                size.engine.name()
            )));
        }
        let masters = (0..size.masters)
            .map(|i| MasterPlace::new(i, ports))
            .collect();
        let agents = (0..size.agents)
            .map(|i| AgentPlace {
                id: format!("w{}", i + 1),
                web: ports.agent_web(i),
            })
            .collect();
        let etcd = (size.engine == EngineKind::Etcd).then(|| {
            let (client, peer) = ports.etcd();
            EtcdPlace { client, peer }
        });
        Ok(Self {
            data_dir,
            masters,
            agents,
            etcd,
            joining: Vec::new(),
            size,
            handed_on: HandedOn::default(),
            spark_homes: Vec::new(),
        })
    }

    /// Lays out one more master, which asks the first ones to be let in; returns its place.
    ///
    /// # Errors
    /// When there are as many masters as possible.
    pub(crate) fn add_joining(&mut self, ports: Ports) -> Result<MasterPlace, Failure> {
        let index = u16::try_from(self.masters.len() + self.joining.len()).unwrap_or(MASTERS_MAX);
        if index >= MASTERS_MAX {
            return Err(Failure::usage(format!(
                "a local cluster has at most {MASTERS_MAX} masters"
            )));
        }
        let place = MasterPlace::new(index, ports);
        self.joining.push(place.clone());
        Ok(place)
    }

    /// Hands `options` on to every master and agent.
    pub(crate) fn handing_on(mut self, options: HandedOn) -> Self {
        self.handed_on = options;
        self
    }

    /// The installations of Spark that every agent offers.
    pub(crate) fn with_spark_homes(mut self, homes: Vec<SparkHome>) -> Self {
        self.spark_homes = homes;
        self
    }

    /// The masters as client commands take them.
    pub(crate) fn masters_list(&self) -> String {
        let list: Vec<&str> = self.masters.iter().map(|m| m.rpc.as_str()).collect();
        list.join(",")
    }

    /// Every address that something of this cluster will listen on.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &str> {
        let masters = self.masters.iter().flat_map(|m| [&m.rpc, &m.rest, &m.web]);
        let etcd = self.etcd.iter().flat_map(|e| [&e.client, &e.peer]);
        masters
            .chain(self.agents.iter().map(|a| &a.web))
            .chain(etcd)
            .map(String::as_str)
    }

    /// Where the output of process `id` goes.
    pub(crate) fn log_file(&self, id: &str) -> PathBuf {
        self.data_dir.join("logs").join(format!("{id}.log"))
    }

    /// The address whose `/readyz` says whether process `id` is ready.
    pub(crate) fn web_of(&self, id: &str) -> Option<&str> {
        let masters = self.masters.iter().chain(&self.joining);
        let masters = masters.map(|m| (&m.id, &m.web));
        let all = masters.chain(self.agents.iter().map(|a| (&a.id, &a.web)));
        all.filter(|(known, _)| *known == id)
            .map(|(_, web)| web.as_str())
            .next()
    }

    /// The arguments of process `id`; its data directory is its name.
    pub(crate) fn command_line(&self, id: &str) -> Vec<OsString> {
        if let Some(etcd) = self.etcd.as_ref().filter(|_| id == ETCD) {
            return etcd.tied(&self.data_dir, std::process::id());
        }
        let mut args: Vec<OsString> = Vec::new();
        if let Some(config) = &self.handed_on.config {
            args.extend(["--config".into(), config.into()]);
        }
        if let Some(endpoint) = &self.handed_on.otlp_endpoint {
            args.extend(["--otlp-endpoint".into(), endpoint.as_str().into()]);
        }
        args.extend([TIE.into(), std::process::id().to_string().into()]);
        let dir = self.data_dir.join(id);
        if let Some(master) = self.masters.iter().find(|m| m.id == id) {
            args.extend(self.master_line(master, &dir, ("--peers", &self.peers())));
        } else if let Some(master) = self.joining.iter().find(|m| m.id == id) {
            args.extend(self.master_line(master, &dir, ("--join", &self.masters_list())));
        } else if let Some(agent) = self.agents.iter().find(|a| a.id == id) {
            args.extend(self.agent_line(agent, &dir));
        }
        args
    }

    /// The masters of the start as each other's `--peers`.
    fn peers(&self) -> String {
        let masters = self.masters.iter();
        let peers: Vec<String> = masters.map(|m| format!("{}={}", m.id, m.rpc)).collect();
        peers.join(",")
    }

    fn master_line(
        &self,
        master: &MasterPlace,
        dir: &Path,
        (how, others): (&str, &str),
    ) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec!["master".into(), "--data-dir".into(), dir.into()];
        for (option, value) in [
            ("--id", master.id.as_str()),
            ("--bind", &master.rpc),
            (how, others),
            ("--rest", &master.rest),
            ("--web", &master.web),
            ("--engine", self.size.engine.name()),
        ] {
            args.extend([option.into(), value.into()]);
        }
        args.extend(self.etcd.iter().flat_map(EtcdPlace::master_options));
        args
    }

    fn agent_line(&self, agent: &AgentPlace, dir: &Path) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec!["agent".into(), "--work-dir".into(), dir.into()];
        for (option, value) in [
            ("--id", agent.id.as_str()),
            ("--masters", &self.masters_list()),
            ("--cores", &self.size.cores.to_string()),
            ("--memory", &self.size.memory),
            ("--web", &agent.web),
        ] {
            args.extend([option.into(), value.into()]);
        }
        for home in &self.spark_homes {
            args.extend(["--spark-home".into(), home.argument()]);
        }
        args
    }

    /// How to start process `id` again by hand, as a line for a shell.
    pub(crate) fn shell_line(&self, program: &Path, id: &str) -> String {
        if let Some(etcd) = self.etcd.as_ref().filter(|_| id == ETCD) {
            let words = etcd.by_hand(&self.data_dir);
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            return words.join(" ");
        }
        let mut words = vec![quoted(program.as_os_str())];
        let mut args = self.command_line(id).into_iter();
        while let Some(arg) = args.next() {
            if arg == TIE {
                // A process that is started by hand is not tied to this one.
                args.next();
            } else {
                words.push(quoted(&arg));
            }
        }
        words.join(" ")
    }

    /// Compares with the layout that the data directory was made for; true where it was made for this one.
    ///
    /// # Errors
    /// Another layout, or a directory that cannot be read.
    pub(crate) fn check_remembered(&self) -> Result<bool, Failure> {
        let path = self.data_dir.join(FILE);
        match std::fs::read(&path) {
            Ok(bytes) => {
                let kept: Remembered = serde_json::from_slice(&bytes)
                    .map_err(|e| Failure::failed(format!("{}: {e}", path.display())))?;
                kept.check_same(&self.to_remember(), &self.data_dir)?;
                Ok(true)
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(Failure::io(&self.doing(), &e)),
        }
    }

    /// Makes the data directory, and remembers this layout in it.
    ///
    /// # Errors
    /// See [`Self::check_remembered`]; or a directory that cannot be written.
    pub(crate) fn remember(&self) -> Result<(), Failure> {
        let wrap = |e: std::io::Error| Failure::io(&self.doing(), &e);
        std::fs::create_dir_all(self.data_dir.join("logs")).map_err(wrap)?;
        if self.check_remembered()? {
            return Ok(());
        }
        super::manifest::write_atomically(&self.data_dir.join(FILE), &self.to_remember())
            .map_err(wrap)
    }

    fn to_remember(&self) -> Remembered {
        Remembered {
            engine: self.size.engine.name().to_owned(),
            masters: self.masters.clone(),
        }
    }

    fn doing(&self) -> String {
        format!("data directory {}", self.data_dir.display())
    }

    /// The base port of the cluster that `data_dir` was made for, if there is one.
    pub(crate) fn remembered_base(data_dir: &Path) -> Option<u16> {
        let bytes = std::fs::read(data_dir.join(FILE)).ok()?;
        let kept: Remembered = serde_json::from_slice(&bytes).ok()?;
        kept.masters.first()?.rpc.rsplit_once(':')?.1.parse().ok()
    }
}

// === impl Remembered ===

impl Remembered {
    fn check_same(&self, wanted: &Self, data_dir: &Path) -> Result<(), Failure> {
        if self == wanted {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "{} was made for {}, not for {}; use another --data-dir, or remove it to start anew",
            data_dir.display(),
            self.describe(),
            wanted.describe()
        )))
    }

    fn describe(&self) -> String {
        let at: Vec<&str> = self.masters.iter().map(|m| m.rpc.as_str()).collect();
        format!(
            "{} masters ({}) on {}",
            at.len(),
            at.join(", "),
            self.engine
        )
    }
}

/// A word for a shell, in quotes where it needs them.
fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(masters: u16, engine: EngineKind) -> Size {
        Size {
            masters,
            agents: 2,
            engine,
            cores: 4,
            memory: "4GiB".into(),
        }
    }

    #[test]
    fn every_process_has_its_own_addresses() {
        let layout = Layout::new("d".into(), size(3, EngineKind::Raft), Ports::DEFAULT).unwrap();
        let mut all: Vec<&str> = layout.addresses().collect();
        assert_eq!(all.len(), 11);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 11);
        assert_eq!(layout.web_of("w2"), Some("127.0.0.1:8092"));
        assert_eq!(layout.web_of("x"), None);
    }

    #[test]
    fn an_engine_for_one_master_refuses_three() {
        let said = Layout::new("d".into(), size(3, EngineKind::Sled), Ports::DEFAULT);
        assert!(said.unwrap_err().message.contains("--masters 1"));
    }

    #[test]
    fn the_line_to_start_a_process_by_hand_is_fit_for_a_shell() {
        let size = size(3, EngineKind::Raft);
        let layout = Layout::new("/a b's".into(), size, Ports::DEFAULT).unwrap();
        assert_eq!(
            layout.shell_line(Path::new("/bin/interrex"), "m2"),
            "/bin/interrex master --data-dir '/a b'\\''s/m2' --id m2 \
             --bind 127.0.0.1:7078 --peers m1=127.0.0.1:7077,m2=127.0.0.1:7078,m3=127.0.0.1:7079 \
             --rest 127.0.0.1:6067 --web 127.0.0.1:8081 --engine raft"
        );
    }

    #[test]
    fn looking_leaves_no_trace() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = dir.path().join("data");
        let size = size(3, EngineKind::Raft);
        let layout = Layout::new(data_dir.clone(), size, Ports::DEFAULT).unwrap();
        assert!(!layout.check_remembered().unwrap());
        assert!(!data_dir.exists());
        layout.remember().unwrap();
        assert!(layout.check_remembered().unwrap());
    }

    #[test]
    fn a_data_directory_is_kept_for_the_same_layout_only() {
        let dir = tempfile::tempdir().unwrap();
        let with = |masters| {
            Layout::new(
                dir.path().into(),
                size(masters, EngineKind::Raft),
                Ports::DEFAULT,
            )
            .unwrap()
        };
        with(3).remember().unwrap();
        with(3).remember().unwrap();
        let said = with(1).remember().unwrap_err().message;
        assert!(
            said.contains("3 masters") && said.contains("--data-dir"),
            "{said}"
        );
        assert_eq!(Layout::remembered_base(dir.path()), Some(7077));
    }
}
