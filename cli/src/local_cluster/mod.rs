//! A cluster of real processes on this machine, for `interrex dev` and `interrex bench`.
//!
//! It starts this very program as masters and agents, waits until they are ready, keeps `cluster.json`
//! true, and ends them in order. It must never leave a process behind, however it ends itself.

pub(crate) mod child;
pub(crate) mod etcd;
pub(crate) mod layout;
pub(crate) mod manifest;
pub(crate) mod ports;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use tokio::sync::mpsc;

use self::{
    child::{Child, Exited},
    layout::Layout,
    manifest::{AgentEntry, EtcdEntry, Manifest, MasterEntry},
};
use crate::exit::{Exit, Failure};

/// How long processes may take until they are ready.
const READY_DEADLINE: Duration = Duration::from_secs(60);
/// How often a process is asked whether it is ready.
const READY_INTERVAL: Duration = Duration::from_millis(25);
/// How long one such question may take.
const READY_CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// How long processes may take to end in order before they are killed.
const STOP_DEADLINE: Duration = Duration::from_secs(15);
/// Ends of processes that may wait to be noticed.
const EXITS_MAX: usize = 64;

/// A running cluster. Dropping it ends every process at once.
#[derive(Debug)]
pub(crate) struct LocalCluster {
    layout: Layout,
    program: PathBuf,
    children: BTreeMap<String, Child>,
    exits_tx: mpsc::Sender<Exited>,
    exits: mpsc::Receiver<Exited>,
    http: reqwest::Client,
}

// === impl LocalCluster ===

impl LocalCluster {
    /// Starts every process of `layout` and waits until all are ready.
    ///
    /// # Errors
    /// Busy ports (before anything is started), a foreign data directory, or a process that ends or does not
    /// become ready: with the last lines of its log.
    pub(crate) async fn start(layout: Layout) -> Result<Self, Failure> {
        // Busy ports must leave no trace: the next try may have to use others.
        layout.check_remembered()?;
        ports::check_free(layout.addresses())?;
        if layout.etcd.is_some() {
            etcd::check_installed()?;
        }
        layout.remember()?;
        let program = std::env::current_exe();
        let program = program.map_err(|e| Failure::io("finding this program", &e))?;
        let http = reqwest::Client::builder()
            .timeout(READY_CALL_TIMEOUT)
            .no_proxy()
            .build();
        let http = http.map_err(|e| Failure::failed(format!("starting the HTTP client: {e}")))?;
        let (exits_tx, exits) = mpsc::channel(EXITS_MAX);
        let children = BTreeMap::new();
        let mut cluster = Self {
            layout,
            program,
            children,
            exits_tx,
            exits,
            http,
        };
        let masters = cluster.master_ids();
        let agents = cluster.agent_ids();
        for id in cluster.etcd_ids().iter().chain(&masters).chain(&agents) {
            cluster.spawn(id)?;
        }
        cluster.wait_ready(&masters).await?;
        cluster.wait_ready(&agents).await?;
        Ok(cluster)
    }

    /// What it consists of.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The ids of all masters, in order.
    pub(crate) fn master_ids(&self) -> Vec<String> {
        self.layout.masters.iter().map(|m| m.id.clone()).collect()
    }

    /// The ids of all agents, in order.
    pub(crate) fn agent_ids(&self) -> Vec<String> {
        self.layout.agents.iter().map(|a| a.id.clone()).collect()
    }

    /// The id of its etcd, if it has one.
    pub(crate) fn etcd_ids(&self) -> Vec<String> {
        let etcd = self.layout.etcd.iter();
        etcd.map(|_| etcd::ETCD.to_owned()).collect()
    }

    /// How to start process `id` again by hand.
    pub(crate) fn shell_line(&self, id: &str) -> String {
        self.layout.shell_line(&self.program, id)
    }

    /// The process id of `id`, while it runs.
    pub(crate) fn pid(&self, id: &str) -> Option<u32> {
        self.children.get(id).and_then(Child::pid)
    }

    /// Starts the process `id`, and says so in `cluster.json`. To be called on the main thread.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn spawn(&mut self, id: &str) -> Result<(), Failure> {
        let args = self.layout.command_line(id);
        let log = self.layout.log_file(id);
        let child = Child::spawn(id, &self.program, args, &log, self.exits_tx.clone())?;
        self.children.insert(id.to_owned(), child);
        self.write_manifest()
    }

    /// Starts one more master on `ports`, which waits to be let in; returns its id and RPC address.
    ///
    /// # Errors
    /// When there are as many masters as possible, or it cannot be started.
    pub(crate) fn spawn_joining(
        &mut self,
        ports: ports::Ports,
    ) -> Result<(String, String), Failure> {
        let place = self.layout.add_joining(ports)?;
        self.spawn(&place.id)?;
        Ok((place.id, place.rpc))
    }

    /// Sends a signal to the process `id`, if it runs.
    pub(crate) fn signal(&self, id: &str, signal: Signal) {
        if let Some(child) = self.children.get(id) {
            child.signal(signal);
        }
    }

    /// Waits for the next end of a process, and takes it out of `cluster.json`.
    ///
    /// # Cancel safety
    /// Safe: an end is either returned or returned by the next call.
    pub(crate) async fn next_exit(&mut self) -> Exited {
        // This value holds a sender, so the channel never closes.
        match self.exits.recv().await {
            Some(exited) => {
                self.note_exit(&exited);
                exited
            }
            None => std::future::pending().await,
        }
    }

    /// Waits until the process `id` has ended.
    ///
    /// # Errors
    /// When it has not ended within the deadline for stopping.
    pub(crate) async fn wait_exit(&mut self, id: &str) -> Result<(), Failure> {
        let ended = async {
            while self.children.contains_key(id) {
                let _other = self.next_exit().await;
            }
        };
        let ended = tokio::time::timeout(STOP_DEADLINE, ended).await;
        ended.map_err(|_elapsed| Failure::new(Exit::Timeout, format!("{id} does not end")))
    }

    /// Waits until `/readyz` of each of `ids` answers 200.
    ///
    /// # Errors
    /// A process that ended or is not ready at the deadline, with the last lines of its log.
    pub(crate) async fn wait_ready(&mut self, ids: &[String]) -> Result<(), Failure> {
        let deadline = Instant::now() + READY_DEADLINE;
        let mut pending: Vec<String> = ids.to_vec();
        loop {
            let mut still = Vec::new();
            for id in pending {
                if !self.is_ready(&id).await {
                    still.push(id);
                }
            }
            pending = still;
            let Some(first) = pending.first() else {
                return Ok(());
            };
            if Instant::now() >= deadline {
                let why = format!("{first} is not ready after {READY_DEADLINE:?}");
                return Err(self.with_log(Exit::Timeout, &why, first));
            }
            if let Ok(exited) = tokio::time::timeout(READY_INTERVAL, self.next_exit()).await {
                let why = format!("{} ended with {}", exited.id, exited.how());
                return Err(self.with_log(Exit::Failed, &why, &exited.id));
            }
        }
    }

    /// Ends all agents, then all masters, then their etcd: first politely, then by force.
    pub(crate) async fn stop(&mut self) {
        for ids in [self.agent_ids(), self.master_ids(), self.etcd_ids()] {
            for id in &ids {
                self.signal(id, Signal::SIGTERM);
            }
            self.wait_for_ends(&ids).await;
        }
        self.kill_all().await;
    }

    /// Ends every process at once.
    pub(crate) async fn kill_all(&mut self) {
        let ids: Vec<String> = self.children.keys().cloned().collect();
        for id in &ids {
            self.signal(id, Signal::SIGKILL);
        }
        self.wait_for_ends(&ids).await;
    }

    /// Returns when all of these have ended, or after [`STOP_DEADLINE`].
    async fn wait_for_ends(&mut self, ids: &[String]) {
        let deadline = tokio::time::Instant::now() + STOP_DEADLINE;
        while ids.iter().any(|id| self.children.contains_key(id)) {
            if tokio::time::timeout_at(deadline, self.next_exit())
                .await
                .is_err()
            {
                break;
            }
        }
    }

    /// A process counts as running until its end is noted here, so that no end is taken for a later one's.
    fn note_exit(&mut self, exited: &Exited) {
        self.children.remove(&exited.id);
        tracing::info!(id = exited.id, how = exited.how(), "a process has ended");
        if let Err(failure) = self.write_manifest() {
            tracing::warn!(error = failure.message, "cluster.json is out of date");
        }
    }

    fn write_manifest(&self) -> Result<(), Failure> {
        let masters = self.layout.masters.iter().map(|m| MasterEntry {
            id: m.id.clone(),
            pid: self.pid(&m.id),
            rpc: m.rpc.clone(),
            rest: m.rest.clone(),
            web: m.web.clone(),
        });
        let agents = self.layout.agents.iter().map(|a| AgentEntry {
            id: a.id.clone(),
            pid: self.pid(&a.id),
            web: a.web.clone(),
        });
        let manifest = Manifest {
            masters: masters.collect(),
            agents: agents.collect(),
            etcd: self.layout.etcd.as_ref().map(|place| EtcdEntry {
                pid: self.pid(etcd::ETCD),
                client: place.client.clone(),
            }),
            dev_pid: std::process::id(),
        };
        let path = self.layout.data_dir.join(manifest::FILE);
        manifest::write_atomically(&path, &manifest)
            .map_err(|e| Failure::io(&path.display().to_string(), &e))
    }

    async fn is_ready(&self, id: &str) -> bool {
        let Some(web) = self.layout.web_of(id) else {
            return false;
        };
        let answer = self.http.get(format!("http://{web}/readyz")).send().await;
        answer.is_ok_and(|a| a.status().is_success())
    }

    fn with_log(&self, exit: Exit, why: &str, id: &str) -> Failure {
        let log = self.layout.log_file(id);
        Failure::new(
            exit,
            format!(
                "{why}; the end of {}:\n{}",
                log.display(),
                child::tail(&log)
            ),
        )
    }
}
