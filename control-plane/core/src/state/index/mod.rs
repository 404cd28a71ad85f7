//! What is derived from the entities, so that an event costs what it changes. Owned by
//! [`ClusterState`](super::cluster::ClusterState) and written only by `state/write.rs`; never stored, because every
//! bit of it follows from the records. `validate()` derives it anew and compares.

pub(crate) mod app_load;
mod digest;
pub(crate) mod free;
pub(crate) mod load;
pub(crate) mod offer;
pub(crate) mod place;
pub(crate) mod sums;
pub(crate) mod timers;
pub(crate) mod waiting;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ids::{AppId, DriverId, ProfileId, WorkerId},
    state::index::{
        app_load::AppLoad, free::FreeIndex, load::Load, sums::Sums, timers::Timers,
        waiting::Waiting,
    },
    time::Timestamp,
};

/// All indexes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    /// What is placed on each worker.
    pub(crate) loads: BTreeMap<WorkerId, Load>,
    /// Workers that can take something.
    pub(crate) free: FreeIndex,
    /// Drivers that can be placed now.
    pub(crate) waiting: Waiting<DriverId>,
    /// Applications that want another executor of a profile now.
    pub(crate) starving: Waiting<(AppId, ProfileId)>,
    /// What caps are measured by.
    pub(crate) sums: Sums,
    /// Executors by application.
    pub(crate) app_loads: BTreeMap<AppId, AppLoad>,
    /// Drivers that hold resources.
    pub(crate) placed_drivers: BTreeSet<DriverId>,
    /// Drivers that are over, oldest first.
    pub(crate) ended_drivers: BTreeSet<(Timestamp, DriverId)>,
    /// Applications that are over, oldest first.
    pub(crate) ended_apps: BTreeSet<(Timestamp, AppId)>,
    /// What is to be looked at at a given time.
    pub(crate) timers: Timers,
}
