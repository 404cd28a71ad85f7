//! Whom a session is of.

use interrex_core::ids::{AppId, WorkerId};

/// Who a session speaks for, once it has registered in the current epoch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// A worker's agent.
    Worker(WorkerId),
    /// An application.
    App(AppId),
}
