//! Masters that keep their records in a Raft log of their own: nothing else to run.
//!
//! ```text
//!  campaign ─▶ election ─┐                     ┌─ leadership: how long a won term is believed
//!  commit ───▶ engine ───┼─▶ Node ─▶ openraft ─┼─▶ log_store       raft-log: vote and entries, fsync
//!  operator ─▶ admin ────┘    │                ├─▶ state_machine   RecordStore; snapshot files
//!  peers ────▶ peer_service ──┘                └─▶ network         one pipelined stream a peer
//!              greeting + roster: who the masters are, forming the cluster, refusing what does not fit
//! ```
//! A term is an epoch (plus a number that a restored snapshot may have raised, see `epochs`): openraft lets at most one
//! node lead in a term, and every replica ignores batches of an epoch that is not the opened one. Every name of openraft stays inside this directory.
//!
//! In the data directory: `LOCK`, `identity.json`, `log/`, `snapshots/`.

mod admin;
mod election;
mod engine;
mod epochs;
mod fresh;
mod greeting;
mod identity;
mod leadership;
mod log_flush;
mod log_format;
mod log_store;
mod metrics;
mod network;
mod node;
mod options;
mod peer_service;
mod reach;
mod roster;
mod snapshot;
mod state_machine;
mod status;
mod types;
mod wire;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use self::{
    identity::{DataDir, Identity},
    log_store::LogStore,
    network::{Network, Peers},
    node::{Node, Parts},
    peer_service::PeerService,
    snapshot::Snapshots,
    state_machine::{Applied, StateMachine},
    status::Status,
    types::RaftHandle,
};
use crate::{backend::Backend, error::OpenError};

pub use options::{MASTERS_MAX, RaftOptions, RaftTiming, SnapshotBounds};

/// What a master logs where no filter is given. The consensus libraries tell every step; what an operator needs of it
/// is said here. Each heartbeat and stream that a dead master misses is none of it.
pub const LOG_FILTER: &str = "info,openraft=warn,openraft::core::heartbeat=error,\
    openraft::replication=error,openraft::engine::handler::replication_handler=error,\
    raft_log=warn,chunked_wal=warn";

/// What was read from the data directory.
struct Disk {
    dir: DataDir,
    identity: Identity,
    log: LogStore,
    snapshots: Snapshots,
    image: snapshot::Image,
}

/// Opens this master's part of a Raft cluster. It takes part from now on: it greets the other masters, forms the
/// cluster with them, follows or campaigns. Its `peer_routes` must be served at the address that `peers` names.
///
/// # Errors
/// See [`OpenError`]; peers that cannot be reached or do not fit are none of them, but are shown by
/// [`health`](crate::backend::BackendAdmin::health).
pub async fn open(options: RaftOptions) -> Result<Backend, OpenError> {
    options.validate()?;
    let config = options.config()?;
    metrics::describe();
    let wanted = options.clone();
    let path = options.data_dir.clone();
    let disk = tokio::task::spawn_blocking(move || Disk::open(&wanted))
        .await
        .map_err(|error| OpenError::Io {
            path,
            source: std::io::Error::other(error),
        })??;
    let closing = CancellationToken::new();
    let status = Arc::new(Status::new(&options.id));
    let applied = Arc::new(Applied::new(
        disk.image,
        disk.snapshots,
        Arc::clone(&status),
        closing.clone(),
    ));
    let peers = Arc::new(Peers::new(disk.identity.node, options.peers.clone()));
    let network = Network::new(Arc::clone(&peers), options.timing);
    let damaged = |reason: String| OpenError::Corrupt {
        path: options.data_dir.clone(),
        reason,
    };
    let raft = RaftHandle::new(
        disk.identity.node,
        config,
        network,
        disk.log.clone(),
        StateMachine(Arc::clone(&applied)),
    )
    .await
    .map_err(|fatal| damaged(fatal.to_string()))?;
    let initialized = raft
        .is_initialized()
        .await
        .map_err(|fatal| damaged(fatal.to_string()))?;
    let node = Arc::new(Node::new(Parts {
        options,
        dir: disk.dir,
        identity: disk.identity,
        log: disk.log,
        applied,
        raft,
        peers,
        status,
        closing,
        initialized,
    }));
    node.tasks.spawn(leadership::watch(Arc::clone(&node)));
    node.tasks.spawn(greeting::greet(Arc::clone(&node)));
    Ok(Backend {
        election: Arc::new(election::RaftElection::new(Arc::clone(&node))),
        engine: Arc::new(engine::RaftEngine::new(Arc::clone(&node))),
        peer_routes: Some(PeerService::routes(Arc::clone(&node))),
        admin: Arc::new(admin::RaftAdmin::new(node)),
    })
}

// === impl Disk ===

impl Disk {
    /// Locks and reads the data directory. Blocks.
    fn open(options: &RaftOptions) -> Result<Self, OpenError> {
        let dir = DataDir::lock(&options.data_dir)?;
        let identity = dir.identity(&options.id)?;
        let (snapshots, image) = Snapshots::open(&dir.join("snapshots"))?;
        let log_dir = dir.join("log");
        let log = LogStore::open(&log_dir, &options.snapshots)?;
        let empty = log.is_pristine().map_err(|source| OpenError::Io {
            path: log_dir.clone(),
            source,
        })?;
        if empty && !identity.cluster_id.is_empty() {
            // It has voted and promised, and does not know what any more.
            return Err(OpenError::Corrupt {
                path: log_dir,
                reason: format!(
                    "the log of this member of cluster {} is missing; move the data directory away and let this \
                     master rejoin with `interrex cluster add {}=HOST:PORT`",
                    identity.cluster_id, identity.id
                ),
            });
        }
        Ok(Self {
            dir,
            identity,
            log,
            snapshots,
            image: image.unwrap_or_default(),
        })
    }
}
