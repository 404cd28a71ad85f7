//! What the harness itself sees of the cluster: who leads, whether all are well, what the records are.
//!
//! For the nemesis and for the end of a run. Its own connections are never broken, and what it learns decides nothing
//! about work: that is what the ledger is for.

use std::{io, time::Duration};

use futures::future::join_all;
use interrex_client::control::{ClientError, ClientOptions, ControlClient, SnapshotClient};
use interrex_persistence::snapshot_file::SnapshotFile;
use interrex_proto::v1::{DriverStatus, ListKind, WorkerStatus};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::places::Places;

/// How long a master may take to say whether it leads.
const LEADER_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a question about the cluster may take.
const CALL_DEADLINE: Duration = Duration::from_secs(5);

/// Looks at a cluster. Clones share connections.
#[derive(Debug, Clone)]
pub(super) struct Observer {
    http: reqwest::Client,
    control: ControlClient,
    places: Places,
}

/// A master that says that it leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leader {
    pub(super) node: String,
    pub(super) epoch: u64,
}

/// The records of one master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Records {
    pub(super) hash: String,
    pub(super) sequence: u64,
    pub(super) records: u64,
}

#[derive(Debug, Deserialize)]
struct LeaderBody {
    epoch: u64,
}

// === impl Observer ===

impl Observer {
    pub(super) fn new(places: &Places) -> io::Result<Self> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(LEADER_TIMEOUT)
            .build()
            .map_err(io::Error::other)?;
        let mut options = ClientOptions::new(places.masters_list());
        options.total_deadline = CALL_DEADLINE;
        Ok(Self {
            http,
            control: ControlClient::new(options).map_err(io::Error::other)?,
            places: places.clone(),
        })
    }

    /// The master that leads in the largest epoch, among `masters`.
    pub(super) async fn leader(&self, masters: &[String]) -> Option<Leader> {
        let asked = masters.iter().map(|node| async move {
            let url = format!("http://{}/leader", self.places.web(node));
            let answer = self.http.get(url).send().await.ok()?;
            if !answer.status().is_success() {
                return None;
            }
            let body: LeaderBody = serde_json::from_slice(&answer.bytes().await.ok()?).ok()?;
            Some(Leader {
                node: node.clone(),
                epoch: body.epoch,
            })
        });
        let leaders = join_all(asked).await.into_iter().flatten();
        leaders.max_by_key(|leader| leader.epoch)
    }

    /// Whether the process of `node` says that it is ready.
    pub(super) async fn is_ready(&self, node: &str) -> bool {
        let url = format!("http://{}/readyz", self.places.web(node));
        let answer = self.http.get(url).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    /// Why the masters are not all well, as their leader sees it; `None` if they are.
    pub(super) async fn masters_unwell(&self, masters: &[String]) -> Option<String> {
        let seen = match self.control.cluster().await {
            Ok(seen) => seen,
            Err(error) => return Some(error.to_string()),
        };
        if seen.leader.is_empty() {
            return Some("no leader is known".to_owned());
        }
        masters.iter().find_map(|node| {
            let master = seen.masters.iter().find(|master| master.id == **node);
            match master {
                None => Some(format!("{node} is not known")),
                Some(master) if !master.healthy => Some(format!("{node} does not answer")),
                Some(master) => match master.lag.unwrap_or(0) {
                    0 => None,
                    lag => Some(format!("{node} is {lag} entries behind")),
                },
            }
        })
    }

    /// Why not every agent is welcome; `None` if all are.
    pub(super) async fn agents_unwell(&self, agents: &[String]) -> Option<String> {
        let workers = match self.workers().await {
            Ok(workers) => workers,
            Err(error) => return Some(error.to_string()),
        };
        agents.iter().find_map(|node| {
            let worker = workers.iter().find(|worker| worker.id == **node);
            match worker {
                None => Some(format!("{node} is not known")),
                Some(worker) if worker.state != "ALIVE" => {
                    Some(format!("{node} is {}", worker.state))
                }
                Some(_) => None,
            }
        })
    }

    /// Why the application `name` does not run `executors` executors; `None` if it does.
    pub(super) async fn app_unwell(&self, name: &str, executors: u32) -> Option<String> {
        let all = match self.control.list(ListKind::Applications, None).await {
            Ok(all) => all.applications,
            Err(error) => return Some(error.to_string()),
        };
        let apps: Vec<_> = all.iter().filter(|app| app.name == name).collect();
        let [app] = apps.as_slice() else {
            return Some(format!("there are {} applications {name}", apps.len()));
        };
        let run = app.executors.iter().filter(|e| e.state == "RUNNING");
        let run = run.count();
        let well = app.state == "RUNNING" && run == executors as usize;
        let what = format!("{name} is {}, with {run} executors that run", app.state);
        (!well).then_some(what)
    }

    pub(super) async fn workers(&self) -> Result<Vec<WorkerStatus>, ClientError> {
        let all = self.control.list(ListKind::Workers, None).await?;
        Ok(all.workers)
    }

    /// All drivers.
    pub(super) async fn drivers(&self) -> Result<Vec<DriverStatus>, ClientError> {
        let all = self.control.list(ListKind::Drivers, None).await?;
        Ok(all.drivers)
    }

    /// What was submitted under `id`; `None`: nothing.
    pub(super) async fn driver(&self, id: &str) -> Result<Option<DriverStatus>, ClientError> {
        match self.control.status(id, false).await {
            Ok(status) => Ok(status.driver),
            Err(ClientError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The cluster's commands.
    pub(super) fn control(&self) -> &ControlClient {
        &self.control
    }

    /// The records of one master, as it has them.
    pub(super) async fn records(&self, node: &str) -> Result<Records, String> {
        let address = self.places.proxied(node).to_string();
        let mut options = ClientOptions::new(vec![address.clone()]);
        options.total_deadline = CALL_DEADLINE;
        let client = SnapshotClient::new(options).map_err(|e| e.to_string())?;
        let mut saving = client.save(true).await.map_err(|e| e.to_string())?;
        if saving.master != address {
            return Err(format!("{} has answered for {node}", saving.master));
        }
        let mut bytes = Vec::new();
        while let Some(piece) = saving.next().await.map_err(|e| e.to_string())? {
            bytes.extend(piece);
        }
        let read = tokio::task::spawn_blocking(move || SnapshotFile::read(bytes.as_slice())).await;
        let file = read
            .map_err(|e| e.to_string())?
            .map_err(|e| e.to_string())?;
        let mut sha = Sha256::new();
        for (key, value) in file.store.iter() {
            sha.update([key.kind.0]);
            for part in [key.id.as_bytes(), value.as_ref()] {
                sha.update((part.len() as u64).to_le_bytes());
                sha.update(part);
            }
        }
        let digest = sha.finalize();
        let hash: String = digest.iter().take(16).map(|b| format!("{b:02x}")).collect();
        Ok(Records {
            hash,
            sequence: file.header.seq,
            records: file.header.records,
        })
    }
}
