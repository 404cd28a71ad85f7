//! Who is where in a live run: names, ports, directories and command lines. Nothing here starts anything.
//!
//! A master listens on 127.0.0.1, and tells everybody the same port of 127.0.0.2, where its proxy is. So all masters can be
//! given the same list of each other, which they insist on, and nobody ever learns an address that leads past a proxy.

use std::{
    ffi::OsString,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use super::{
    options::{Engine, LiveOptions},
    work::AGENT_CORES,
};

/// Where the processes themselves listen.
const DIRECT: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Where proxies listen.
const PROXIED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// The node that is the coordinator.
pub(super) const ETCD: &str = "etcd";
/// A worker that is silent for so long is dead: short, so that runs of half a minute see it.
const WORKER_TIMEOUT: &str = "8s";
/// Five times the defaults of what masters wait for each other.
const PATIENT: [(&str, &str); 4] = [
    ("--heartbeat", "250ms"),
    ("--election-timeout-min", "750ms"),
    ("--election-timeout-max", "1500ms"),
    ("--commit-deadline", "10s"),
];

/// Everything about places that does not change during a run.
#[derive(Debug, Clone)]
pub(super) struct Places {
    dir: PathBuf,
    base_port: u16,
    masters: u16,
    agents: u16,
    engine: Engine,
    /// Given to agents.
    spark_home: Option<PathBuf>,
    patient: bool,
}

// === impl Places ===

impl Places {
    /// The places of a run.
    #[must_use]
    pub(super) fn new(options: &LiveOptions) -> Self {
        Self {
            dir: options.dir.clone(),
            base_port: options.base_port,
            masters: options.masters,
            agents: options.agents,
            engine: options.engine,
            spark_home: options.spark_home.clone(),
            patient: options.patient,
        }
    }

    /// `m1`, `m2` ...: those that form the cluster.
    #[must_use]
    pub(super) fn masters(&self) -> Vec<String> {
        (1..=self.masters).map(|n| format!("m{n}")).collect()
    }

    /// `w1`, `w2` ...
    #[must_use]
    pub(super) fn agents(&self) -> Vec<String> {
        (1..=self.agents).map(|n| format!("w{n}")).collect()
    }

    /// Where the records of processes and clients are.
    #[must_use]
    pub(super) fn data(&self, node: &str) -> PathBuf {
        self.dir.join("data").join(node)
    }

    /// Where the ledger is.
    #[must_use]
    pub(super) fn ledger(&self) -> PathBuf {
        self.dir.join("ledger")
    }

    /// What a process says.
    #[must_use]
    pub(super) fn log(&self, node: &str) -> PathBuf {
        self.dir.join("logs").join(format!("{node}.log"))
    }

    /// A client's part of the history.
    #[must_use]
    pub(super) fn client_history(&self, client: &str) -> PathBuf {
        self.dir.join("clients").join(format!("{client}.jsonl"))
    }

    /// Where all of these are.
    #[must_use]
    pub(super) fn clients(&self) -> PathBuf {
        self.dir.join("clients")
    }

    /// Where everything is that processes have said.
    #[must_use]
    pub(super) fn logs(&self) -> PathBuf {
        self.dir.join("logs")
    }

    /// Every directory that must be there before anything starts.
    pub(super) fn directories(&self) -> [PathBuf; 4] {
        ["data", "logs", "clients", "ledger"].map(|name| self.dir.join(name))
    }

    fn rpc_port(&self, master: &str) -> u16 {
        self.base_port + number(master)
    }

    /// Where a master, or etcd, itself listens.
    #[must_use]
    pub(super) fn direct(&self, node: &str) -> SocketAddr {
        (DIRECT, self.port(node)).into()
    }

    /// Where its proxy does.
    #[must_use]
    pub(super) fn proxied(&self, node: &str) -> SocketAddr {
        (PROXIED, self.port(node)).into()
    }

    fn port(&self, node: &str) -> u16 {
        if node == ETCD {
            self.base_port + 9
        } else {
            self.rpc_port(node)
        }
    }

    /// Where a master itself serves submissions over REST.
    #[must_use]
    pub(super) fn direct_rest(&self, master: &str) -> SocketAddr {
        (DIRECT, self.rest_port(master)).into()
    }

    /// Where the proxy in front of that is.
    #[must_use]
    pub(super) fn proxied_rest(&self, master: &str) -> SocketAddr {
        (PROXIED, self.rest_port(master)).into()
    }

    fn rest_port(&self, master: &str) -> u16 {
        self.base_port + 10 + number(master)
    }

    /// All masters' REST addresses behind their proxies.
    #[must_use]
    pub(super) fn rest_list(&self) -> Vec<String> {
        let masters = self.masters().into_iter();
        masters.map(|m| self.proxied_rest(&m).to_string()).collect()
    }

    /// Where a master's or an agent's health is.
    #[must_use]
    pub(super) fn web(&self, node: &str) -> SocketAddr {
        let first = if node.starts_with('w') { 30 } else { 20 };
        (DIRECT, self.base_port + first + number(node)).into()
    }

    /// All masters behind their proxies, as clients and agents take them.
    #[must_use]
    pub(super) fn masters_list(&self) -> Vec<String> {
        let masters = self.masters().into_iter();
        masters.map(|m| self.proxied(&m).to_string()).collect()
    }

    /// The arguments of a node's process.
    #[must_use]
    pub(super) fn command_line(&self, node: &str) -> Vec<OsString> {
        let parent = std::process::id().to_string();
        let words = |all: &[&str]| -> Vec<OsString> { all.iter().map(OsString::from).collect() };
        if node == ETCD {
            let mut args = words(&["tied-program", &parent, ETCD]);
            args.extend(self.etcd());
            return args;
        }
        let mut args = words(&["--exit-with-parent", &parent, "--log-format", "json"]);
        let data = self.data(node);
        if node.starts_with('w') {
            args.extend(self.agent(node, &data));
        } else {
            args.extend(self.master(node, &data));
        }
        args
    }

    fn agent(&self, node: &str, work_dir: &Path) -> Vec<OsString> {
        let (masters, web) = (self.masters_list().join(","), self.web(node).to_string());
        let mut args = vec!["agent".into(), "--work-dir".into(), work_dir.into()];
        for (option, value) in [
            ("--id", node),
            ("--masters", &masters),
            ("--cores", &AGENT_CORES.to_string()),
            ("--memory", "4GiB"),
            ("--web", &web),
            ("--kill-grace", "1s"),
            // The disk of the machine that tests run on is not what is tested.
            ("--work-min-free", "0"),
        ] {
            args.extend([option.into(), value.into()]);
        }
        if let Some(home) = &self.spark_home {
            args.extend(["--spark-home".into(), home.into()]);
        }
        args
    }

    fn master(&self, node: &str, data: &Path) -> Vec<OsString> {
        let mut args = vec!["master".into(), "--data-dir".into(), data.into()];
        let (bind, web) = (self.direct(node).to_string(), self.web(node).to_string());
        let rest = self.direct_rest(node).to_string();
        for (option, value) in [
            ("--id", node),
            ("--bind", &bind),
            ("--advertise", &PROXIED.to_string()),
            ("--rest", &rest),
            ("--web", &web),
            ("--engine", self.engine.name()),
            ("--worker-timeout", WORKER_TIMEOUT),
            ("--recovery-timeout", WORKER_TIMEOUT),
            // Nothing may be forgotten before it has been asked after.
            ("--retained-drivers", "1000000"),
            ("--retained-events", "1000000"),
            // An application is to outlive any number of agents.
            ("--executor-failures-max", "-1"),
        ] {
            args.extend([option.into(), value.into()]);
        }
        if self.patient && self.engine == Engine::Raft {
            let patient = PATIENT.into_iter();
            args.extend(patient.flat_map(|(option, value)| [option.into(), value.into()]));
        }
        match self.engine {
            Engine::Etcd => args.extend([
                "--etcd-endpoints".into(),
                self.proxied(ETCD).to_string().into(),
            ]),
            // One that comes later asks those that are there.
            Engine::Raft if number(node) > self.masters => {
                args.extend(["--join".into(), self.masters_list().join(",").into()]);
            }
            Engine::Raft => {
                let peers = self.masters().into_iter();
                let peers: Vec<String> = peers
                    .map(|peer| format!("{peer}={}", self.proxied(&peer)))
                    .collect();
                args.extend(["--peers".into(), peers.join(",").into()]);
            }
        }
        args
    }

    fn etcd(&self) -> Vec<OsString> {
        let client = format!("http://{}", self.direct(ETCD));
        let peer = format!("http://{DIRECT}:{}", self.base_port + 10);
        let mut args: Vec<OsString> = vec!["--data-dir".into(), self.data(ETCD).into()];
        for (option, value) in [
            ("--name", ETCD),
            ("--listen-client-urls", &client),
            (
                "--advertise-client-urls",
                &format!("http://{}", self.proxied(ETCD)),
            ),
            ("--listen-peer-urls", &peer),
            ("--initial-advertise-peer-urls", &peer),
            ("--initial-cluster", &format!("{ETCD}={peer}")),
            ("--log-level", "warn"),
        ] {
            args.extend([option.into(), value.into()]);
        }
        args
    }
}

/// The number in a node's name.
fn number(node: &str) -> u16 {
    let digits = node.trim_start_matches(|c: char| !c.is_ascii_digit());
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::live::scenario::Scenario;

    fn places(engine: Engine) -> Places {
        Places::new(&LiveOptions {
            dir: "/r".into(),
            engine,
            masters: 7,
            agents: 12,
            ..LiveOptions::of(Scenario::LeaderKill)
        })
    }

    fn line(places: &Places, node: &str) -> String {
        let words = places.command_line(node);
        let words: Vec<_> = words.iter().map(|w| w.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn every_port_is_used_once_and_within_the_block() {
        let places = places(Engine::Etcd);
        let mut ports = BTreeSet::new();
        for node in places.masters().iter().chain(&["m8".into(), ETCD.into()]) {
            assert!(ports.insert(places.port(node)), "{node}");
        }
        for node in places.masters().iter().chain(&places.agents()) {
            assert!(ports.insert(places.web(node).port()), "{node}");
        }
        for node in places.masters().iter().chain(&["m8".into()]) {
            assert!(ports.insert(places.rest_port(node)), "{node}");
        }
        assert!(ports.insert(20_010), "etcd's peers");
        assert!(ports.iter().all(|port| (20_000..20_050).contains(port)));
    }

    #[test]
    fn nobody_is_given_an_address_that_leads_past_a_proxy() {
        let raft = places(Engine::Raft);
        let master = line(&raft, "m2");
        assert!(master.contains("--bind 127.0.0.1:20002"), "{master}");
        assert!(
            master.contains("--peers m1=127.0.0.2:20001,m2=127.0.0.2:20002"),
            "{master}"
        );
        assert!(line(&raft, "w1").contains("--masters 127.0.0.2:20001,127.0.0.2:20002"));
        assert!(line(&raft, "m8").contains("--join 127.0.0.2:20001,"));
        let etcd = line(&places(Engine::Etcd), "m1");
        assert!(etcd.contains("--etcd-endpoints 127.0.0.2:20009"), "{etcd}");
    }
}
