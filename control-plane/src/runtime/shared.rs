//! What all handles of one master and its role task share. Owned by nobody in particular: it lives as long as the last of
//! them. Nothing is decided here.

use std::sync::Arc;

use interrex_persistence::{
    backend::{Backend, BackendAdmin},
    election::{LeaderView, MasterInfo},
};
use tokio::sync::watch;

use crate::{
    access::Access,
    runtime::{
        clock::MonotonicClock, handle::Role, places::Places, port::LeaderPort, pulse::Pulse,
        restore::RestorePort, view::ClusterView,
    },
};

/// What all handles of one master and its role task share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) me: MasterInfo,
    pub(crate) access: Access,
    pub(crate) admin: Arc<dyn BackendAdmin>,
    pub(crate) leaders: watch::Receiver<LeaderView>,
    pub(crate) role: watch::Sender<Role>,
    pub(crate) port: watch::Sender<Option<LeaderPort>>,
    pub(crate) restores: watch::Sender<Option<RestorePort>>,
    pub(crate) view: watch::Sender<Arc<ClusterView>>,
    pub(crate) stopping: watch::Sender<bool>,
    pub(crate) pulse: Pulse,
    pub(crate) clock: MonotonicClock,
    /// Places that edges hold, for the gauges.
    pub(crate) places: Places,
}

// === impl Shared ===

impl Shared {
    /// What a master that does not lead yet shares.
    pub(crate) fn new(me: &MasterInfo, access: Access, backend: &Backend) -> Self {
        Self {
            me: me.clone(),
            access,
            admin: Arc::clone(&backend.admin),
            leaders: backend.election.observe(),
            role: watch::Sender::new(Role::Standby),
            port: watch::Sender::new(None),
            restores: watch::Sender::new(None),
            view: watch::Sender::new(Arc::default()),
            stopping: watch::Sender::new(false),
            pulse: Pulse::start(),
            clock: MonotonicClock::start(),
            places: Places::default(),
        }
    }
}
