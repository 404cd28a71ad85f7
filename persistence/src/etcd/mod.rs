//! Masters that keep their records and elect their leader in an etcd that somebody runs already.
//!
//! ```text
//!  campaign ─▶ election ─┐             ┌─ session    lease and registration, kept alive
//!  commit ───▶ engine ───┼──▶ Node ────┼─ observer   the control keys, as they change
//!  operator ─▶ admin ────┘    │        ├─ writer     the only one that changes records
//!                             ▼        └─ compact    old history
//!                            Link ──▶ one member of etcd at a time, every call with a deadline
//! ```
//! *Leader.* Whoever creates the leader key, on a lease. The epoch is the key's create-revision, plus a base that makes
//! epochs rise even where revisions fall back. *Fence.* Every write compares that create-revision, the key's value and
//! the opening of the epoch, in one transaction with what it writes. *Clock.* A leader stops acting by its own
//! monotonic clock before its lease can be taken ([`seat`]); the fence covers whatever is on its way all the same.
//!
//! *Records* are a log of batches and a snapshot ([`log`], [`snapshot`]), not one key a record: a batch is atomic at any
//! size, a group commit costs one put instead of thousands, and a new leader reads megabytes instead of hundreds of
//! thousands of keys. The leader keeps them in a [`RecordStore`](crate::record_store::RecordStore), as all engines do.
//!
//! What must never happen: a write without the fence; an outcome that is called certain and is not; leading over a
//! store that is not this master's cluster's. Every name of `etcd_client` stays inside this directory.
//!
//! In the data directory: `LOCK`, `etcd.json`.

mod admin;
mod compact;
mod control;
mod election;
mod engine;
mod failure;
mod identity;
mod keys;
mod limits;
mod link;
mod log;
pub(crate) mod metrics;
mod node;
mod observer;
mod opened;
mod options;
mod reader;
mod seat;
mod session;
mod snapshot;
mod status;
mod write;
mod writer;

use std::sync::Arc;

use tokio::sync::mpsc;

use self::{identity::DataDir, limits::QUEUE_LEN_MAX, link::Link, node::Node, writer::Writer};
use crate::{backend::Backend, error::OpenError, identity_file};

pub use options::{
    DEFAULT_COMPACT_EVERY, DEFAULT_ENDPOINT, DEFAULT_LEASE, DEFAULT_PREFIX, ENDPOINTS_MAX,
    EtcdOptions, EtcdSettings, PREFIX_BYTES_MAX,
};

/// The file that says that a data directory is one of this engine.
pub(crate) const IDENTITY_FILE: &str = <identity::Identity as identity_file::Identity>::FILE;

/// Opens this master's part of a cluster on etcd. It registers and watches from now on; whether etcd answers already
/// makes no difference, and is shown by [`health`](crate::backend::BackendAdmin::health).
///
/// # Errors
/// `Option` for an unusable option or file; `InUse`, `Foreign`, `Corrupt` and `Io` for the data directory.
///
/// # Cancel safety
/// Dropping the future leaves nothing behind but the data directory.
pub async fn open(options: EtcdOptions) -> Result<Backend, OpenError> {
    options.settings.validate()?;
    let connect = options.settings.connect_options()?;
    metrics::describe();
    let (path, id) = (options.data_dir.clone(), options.me.id.clone());
    let opening = tokio::task::spawn_blocking(move || DataDir::open(&path, &id));
    let dir = opening.await.unwrap_or_else(|error| {
        Err(OpenError::Io {
            path: options.data_dir.clone(),
            source: std::io::Error::other(error),
        })
    })?;
    let link = Link::new(options.settings.endpoints.clone(), connect);
    let node = Arc::new(Node::new(options, link, dir));
    let (requests, queue) = mpsc::channel(QUEUE_LEN_MAX);
    node.tasks.spawn(session::run(Arc::clone(&node)));
    node.tasks.spawn(observer::run(Arc::clone(&node)));
    node.tasks.spawn(compact::run(Arc::clone(&node)));
    node.tasks.spawn(Writer::new(Arc::clone(&node)).run(queue));
    Ok(Backend {
        election: Arc::new(election::EtcdElection::new(Arc::clone(&node))),
        engine: Arc::new(engine::EtcdEngine::new(Arc::clone(&node), requests)),
        peer_routes: None,
        admin: Arc::new(admin::EtcdAdmin::new(node)),
    })
}
