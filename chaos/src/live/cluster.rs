//! The processes of a live run, by the names of their nodes, and the proxies between them.
//!
//! Owned by the runner. What must never happen: a process outlives the run, or one is signalled that is not ours.

use std::{collections::BTreeMap, ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use nix::sys::signal::Signal;

use super::{
    options::{Engine, LiveError},
    places::{ETCD, Places},
    process::{Process, how},
    proxy::{Callers, Links, Proxy},
};

/// How long a killed process may take to be gone.
const KILL_DEADLINE: Duration = Duration::from_secs(10);
/// How long a process may take to end in order before it is killed.
const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// The running processes, and what is between them.
#[derive(Debug)]
pub(super) struct Cluster {
    /// Who is where.
    pub(super) places: Places,
    /// The rules of all links.
    pub(super) links: Links,
    callers: Callers,
    program: PathBuf,
    processes: BTreeMap<String, Process>,
    proxies: BTreeMap<String, Vec<Proxy>>,
}

/// A process that has ended though nobody had told it to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unasked {
    /// Which.
    pub(super) node: String,
    /// How.
    pub(super) how: String,
}

// === impl Cluster ===

impl Cluster {
    /// A cluster without processes yet, its proxies listening.
    ///
    /// # Errors
    /// [`LiveError::Io`] where a proxy cannot listen.
    pub(super) async fn new(
        places: Places,
        engine: Engine,
        program: PathBuf,
    ) -> Result<Self, LiveError> {
        let mut cluster = Self {
            places,
            links: Links::default(),
            callers: Callers::default(),
            program,
            processes: BTreeMap::new(),
            proxies: BTreeMap::new(),
        };
        cluster.callers.set("me", std::process::id());
        let etcd = (engine == Engine::Etcd).then(|| ETCD.to_owned());
        for node in cluster.places.masters().into_iter().chain(etcd) {
            cluster.add_proxies(&node).await?;
        }
        Ok(cluster)
    }

    /// Puts a proxy in front of everything that `node` serves to others.
    ///
    /// # Errors
    /// [`LiveError::Io`] where it cannot listen.
    pub(super) async fn add_proxies(&mut self, node: &str) -> Result<(), LiveError> {
        let places = &self.places;
        let mut all = vec![(places.proxied(node), places.direct(node))];
        if node != ETCD {
            all.push((places.proxied_rest(node), places.direct_rest(node)));
        }
        let mut proxies = Vec::new();
        for (at, target) in all {
            proxies.push(self.proxy(node, at, target).await?);
        }
        self.proxies.insert(node.to_owned(), proxies);
        Ok(())
    }

    /// Both of a master's are one link, under one rule.
    async fn proxy(
        &self,
        node: &str,
        at: SocketAddr,
        target: SocketAddr,
    ) -> Result<Proxy, LiveError> {
        Proxy::start(at, node, target, &self.links, &self.callers)
            .await
            .map_err(LiveError::io(format!("listening at {at} for {node}")))
    }

    /// Starts the process of a master, an agent or etcd.
    ///
    /// # Errors
    /// [`LiveError::Io`] where it cannot be started.
    pub(super) fn start(&mut self, node: &str) -> Result<(), LiveError> {
        let args = self.places.command_line(node);
        self.start_with(node, args, None)
    }

    /// Starts this program as `node`, with these arguments and a variable more in its environment.
    ///
    /// # Errors
    /// [`LiveError::Io`] where it cannot be started.
    pub(super) fn start_with(
        &mut self,
        node: &str,
        args: Vec<OsString>,
        env: Option<(&str, &str)>,
    ) -> Result<(), LiveError> {
        let log = self.places.log(node);
        let process = Process::start(&self.program, &args, env, &log)
            .map_err(LiveError::io(format!("starting {node}")))?;
        self.callers.set(node, process.pid());
        self.processes.insert(node.to_owned(), process);
        Ok(())
    }

    /// Whether `node` runs; a stopped one does.
    pub(super) fn is_alive(&mut self, node: &str) -> bool {
        self.processes.get_mut(node).is_some_and(Process::is_alive)
    }

    /// The process of `node`, if it has one.
    #[must_use]
    pub(super) fn pid(&self, node: &str) -> Option<u32> {
        self.processes.get(node).map(Process::pid)
    }

    /// Signals `node`; false where it does not run.
    pub(super) fn signal(&mut self, node: &str, signal: Signal) -> bool {
        let process = self.processes.get_mut(node);
        process.is_some_and(|process| process.signal(signal))
    }

    /// Kills `node` with SIGKILL and waits until it is gone; false where it did not run.
    pub(super) async fn kill(&mut self, node: &str) -> bool {
        let Some(mut process) = self.processes.remove(node) else {
            return false;
        };
        let killed = process.signal(Signal::SIGKILL);
        process.wait(KILL_DEADLINE).await;
        self.callers.forget(node);
        killed
    }

    /// Ends `node` with SIGTERM, and with SIGKILL if that takes too long. `None`: it did not run; else how it ended.
    pub(super) async fn stop(&mut self, node: &str) -> Option<String> {
        let mut process = self.processes.remove(node)?;
        let asked = process.signal(Signal::SIGTERM);
        process.signal(Signal::SIGCONT);
        let ended = process.wait(STOP_DEADLINE).await;
        if ended.is_none() {
            process.signal(Signal::SIGKILL);
            process.wait(KILL_DEADLINE).await;
        }
        self.callers.forget(node);
        asked.then(|| ended.map_or_else(|| "SIGKILL, after a minute".to_owned(), how))
    }

    /// Waits until `node` has ended by itself; how, or `None` at the limit.
    pub(super) async fn wait(&mut self, node: &str, limit: Duration) -> Option<String> {
        let process = self.processes.get_mut(node)?;
        let status = process.wait(limit).await?;
        self.processes.remove(node);
        self.callers.forget(node);
        Some(how(status))
    }

    /// Processes that have ended though nobody ended them; each is told once.
    pub(super) async fn unasked(&mut self) -> Vec<Unasked> {
        let mut ended = Vec::new();
        for (node, process) in &mut self.processes {
            if !process.is_alive()
                && let Some(status) = process.wait(Duration::ZERO).await
            {
                ended.push(Unasked {
                    node: node.clone(),
                    how: how(status),
                });
            }
        }
        for Unasked { node, .. } in &ended {
            self.processes.remove(node);
            self.callers.forget(node);
        }
        ended
    }

    /// All nodes that have a process.
    #[must_use]
    pub(super) fn running(&self) -> Vec<String> {
        self.processes.keys().cloned().collect()
    }
}
