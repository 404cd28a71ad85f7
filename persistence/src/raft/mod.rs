//! Masters that keep their records in a Raft log of their own: nothing else to run.
//!
//! ```text
//!  campaign ─▶ election ─┐                     ┌─ leadership: how long a won term is believed
//!  commit ───▶ engine ───┼─▶ Node ─▶ openraft ─┼─▶ log_store       raft-log: vote and entries, fsync
//!  operator ─▶ admin ────┘    │                ├─▶ state_machine   RecordStore; snapshot files
//!  peers ────▶ peer_service ──┘                └─▶ network         one pipelined stream a peer
//!              running + reopen: a run of openraft, and another one when the disk has failed and works again
//!              disk + pace: too little space, or a slow disk: a leader hands over before it has to stop
//!              greeting + roster: who the masters are, forming the cluster, refusing what does not fit
//!              formats: what masters of several versions understand, and what is not written before all do
//! ```
//! A term is an epoch (plus a number that a restored snapshot may have raised, see `epochs`): openraft lets at most one
//! node lead in a term, and every replica ignores batches of an epoch that is not the opened one. Every name of openraft stays inside this directory.
//!
//! In the data directory: `LOCK`, `identity.json`, `log/`, `snapshots/`.

mod admin;
mod calls;
mod disk;
mod election;
mod engine;
mod epochs;
mod formats;
mod fresh;
mod greeting;
mod hearing;
mod identity;
mod leadership;
mod log_flush;
mod log_format;
mod log_read;
mod log_store;
mod membership;
mod meter;
pub(crate) mod metrics;
mod network;
mod node;
mod offline;
mod options;
mod pace;
mod peer_service;
mod reach;
mod recover;
mod reopen;
mod roster;
mod running;
mod snapshot;
mod snapshot_header;
mod state_machine;
mod status;
mod types;
mod wire;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use self::{
    formats::Formats,
    identity::DataDir,
    meter::Meter,
    network::Peers,
    node::Node,
    peer_service::PeerService,
    running::{Ground, Running},
    status::Status,
};
use crate::{backend::Backend, error::OpenError, identity_file};

#[doc(hidden)]
pub use engine::FormatProbe;
pub use meter::{DiskFaults, ReadFault};
pub(crate) use offline::read as read_offline;
pub use options::{DiskBounds, MASTERS_MAX, RaftOptions, RaftTiming, SnapshotBounds};
pub use recover::{Neighbour, RecoverError, Survivor};

/// The file that says that a data directory is one of this engine.
pub(crate) const IDENTITY_FILE: &str = <identity::Identity as identity_file::Identity>::FILE;

/// What a master logs where no filter is given. The consensus libraries tell every step; what an operator needs of it
/// is said here. Each heartbeat, vote and stream that a dead master misses is none of it.
pub const LOG_FILTER: &str = "info,openraft=warn,openraft::core::heartbeat=error,\
    openraft::core::raft_core=error,\
    openraft::replication=error,openraft::engine::handler::replication_handler=error,\
    raft_log=warn,chunked_wal=warn";

/// Opens this master's part of a Raft cluster. It takes part from now on: it greets the other masters, forms the
/// cluster with them, follows or campaigns. Its `peer_routes` must be served at the address that `peers` names.
///
/// # Errors
/// See [`OpenError`]; peers that cannot be reached or do not fit are none of them, but are shown by
/// [`health`](crate::backend::BackendAdmin::health).
pub async fn open(options: RaftOptions) -> Result<Backend, OpenError> {
    Ok(open_with_probe(options).await?.0)
}

/// As [`open`], with a way to write entries of formats that do not say anything yet: for tests of clusters of several
/// versions.
///
/// # Errors
/// As for [`open`].
#[doc(hidden)]
pub async fn open_with_probe(options: RaftOptions) -> Result<(Backend, FormatProbe), OpenError> {
    options.validate()?;
    metrics::describe();
    let (path, id) = (options.data_dir.clone(), options.id.clone());
    let locked = tokio::task::spawn_blocking(move || {
        let dir = DataDir::lock(&path)?;
        let identity = dir.identity(&id)?;
        Ok::<_, OpenError>((dir, identity))
    });
    let (dir, identity) = locked.await.map_err(|error| OpenError::Io {
        path: options.data_dir.clone(),
        source: std::io::Error::other(error),
    })??;
    let ground = Ground {
        formats: Arc::new(Formats::new(options.entry_format)),
        peers: Arc::new(Peers::new(
            identity.node,
            options.peers.clone(),
            options.dialler.clone(),
            options.credentials.clone(),
        )),
        status: Arc::new(Status::new(&options.id)),
        meter: Arc::new(Meter::new(Arc::clone(&options.faults))),
        closing: CancellationToken::new(),
        options,
    };
    let running = Running::open(&ground, &identity).await?;
    let node = Arc::new(Node::new(ground, dir, identity, running));
    node.tasks.spawn(leadership::watch(Arc::clone(&node)));
    node.tasks.spawn(greeting::greet(Arc::clone(&node)));
    node.tasks.spawn(reopen::supervise(Arc::clone(&node)));
    node.tasks.spawn(disk::watch(Arc::clone(&node)));
    let engine = Arc::new(engine::RaftEngine::new(Arc::clone(&node)));
    let probe = FormatProbe::new(Arc::clone(&engine));
    let backend = Backend {
        election: Arc::new(election::RaftElection::new(Arc::clone(&node))),
        engine,
        peer_routes: Some(PeerService::routes(Arc::clone(&node))),
        admin: Arc::new(admin::RaftAdmin::new(node)),
    };
    Ok((backend, probe))
}
