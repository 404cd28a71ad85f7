//! What the machine wants done, in the order in which it is to be done.

use std::time::Duration;

use interrex_client::session::StreamId;
use interrex_proto::v1::{Heartbeat, RegisterWorker, StaleEpoch, WorkReport};

use crate::process::{Launch, Lease, WorkKey};

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Write the epoch to disk before anything that follows.
    PersistEpoch(u64),
    /// Write the cluster's id to disk before anything that follows.
    PersistCluster(String),
    /// Write down who the masters are, for the next start. Nothing depends on it.
    PersistMasters(Vec<String>),
    /// Answer a master that waits for the registration.
    Register {
        /// On which stream.
        stream: StreamId,
        /// With what.
        registration: Box<RegisterWorker>,
    },
    /// Tell the leader that this worker lives.
    Heartbeat(Heartbeat),
    /// Send a report to the leader; answer `NotSent` where the session has no room.
    Report(WorkReport),
    /// Tell the sender of an old frame that it does not lead any more.
    Stale(StaleEpoch),
    /// Start a process.
    Start(Box<Launch>),
    /// End a process and its tree: SIGTERM, and SIGKILL after the grace.
    Kill {
        /// Which.
        key: WorkKey,
        /// From SIGTERM to SIGKILL.
        grace: Duration,
    },
    /// Renew the leases of all at-most-once attempts.
    Renew(Lease),
    /// Write a result to disk, and answer `Stored`.
    Store(WorkReport),
    /// Remove a result from disk.
    Forget(u64),
}
