//! Which drivers have a connection to this master, and which applications have attached in this epoch.
//!
//! Only for the question whether a driver has to be dialled; who gets an application's notices is the sessions' matter.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use interrex_core::ids::{AppId, Epoch};
use interrex_spark_wire::Address;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Drivers {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// How many connections each driver has here.
    connections: BTreeMap<Address, usize>,
    /// The newest epoch in which an application attached here; forgotten with its session.
    attached: BTreeMap<AppId, Epoch>,
    /// How often each driver's machine has said in a row that nobody listens there.
    refused: BTreeMap<AppId, u32>,
}

// === impl Drivers ===

impl Drivers {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No change of the maps can panic half way.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn came(&self, driver: &Address) {
        *self.lock().connections.entry(driver.clone()).or_default() += 1;
    }

    pub(super) fn went(&self, driver: &Address) {
        let mut inner = self.lock();
        if let Some(count) = inner.connections.get_mut(driver) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                inner.connections.remove(driver);
            }
        }
    }

    /// Whether this driver has a connection here.
    pub(super) fn is_here(&self, driver: &Address) -> bool {
        self.lock().connections.contains_key(driver)
    }

    pub(super) fn attached(&self, app: &AppId, epoch: Epoch) {
        let mut inner = self.lock();
        inner.attached.insert(app.clone(), epoch);
        inner.refused.remove(app);
    }

    /// A new leadership: what was tried before says nothing.
    pub(super) fn begin(&self) {
        self.lock().refused.clear();
    }

    /// A driver's machine says that nobody listens there.
    pub(super) fn refused(&self, app: &AppId) {
        *self.lock().refused.entry(app.clone()).or_default() += 1;
    }

    /// How often it has said so.
    pub(super) fn refusals(&self, app: &AppId) -> u32 {
        self.lock().refused.get(app).copied().unwrap_or_default()
    }

    pub(super) fn detached(&self, app: &AppId) {
        self.lock().attached.remove(app);
    }

    pub(super) fn is_attached(&self, app: &AppId, epoch: Epoch) -> bool {
        self.lock().attached.get(app) == Some(&epoch)
    }
}
