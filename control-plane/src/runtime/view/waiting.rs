//! Who waits for how long, carried along with each change, so that a scrape costs nothing: the sets are ordered by time.

use std::time::Duration;

use imbl::OrdSet;
use interrex_core::{
    ids::{AppId, DriverId},
    state::{
        app::{Application, ApplicationState},
        driver::{Driver, DriverState},
    },
    time::Timestamp,
};

/// Drivers without a place, and applications without a process. A clone costs O(1).
#[derive(Debug, Clone, Default)]
pub(super) struct Waiting {
    drivers: OrdSet<(Timestamp, DriverId)>,
    apps: OrdSet<(Timestamp, AppId)>,
}

// === impl Waiting ===

impl Waiting {
    pub(super) fn driver(&mut self, old: Option<&Driver>, new: Option<&Driver>) {
        let (old, new) = (old.and_then(driver_wait), new.and_then(driver_wait));
        if old != new {
            replace(&mut self.drivers, old, new);
        }
    }

    pub(super) fn app(&mut self, old: Option<&Application>, new: Option<&Application>) {
        let (old, new) = (old.and_then(app_wait), new.and_then(app_wait));
        if old != new {
            replace(&mut self.apps, old, new);
        }
    }

    /// How long the driver and the application that have waited longest have done so; zero where none waits.
    pub(super) fn longest(&self, now: Timestamp) -> (Duration, Duration) {
        let driver = self.drivers.get_min().map(|(since, _)| now.since(*since));
        let app = self.apps.get_min().map(|(since, _)| now.since(*since));
        (driver.unwrap_or_default(), app.unwrap_or_default())
    }
}

fn replace<T: Ord + Clone>(set: &mut OrdSet<T>, old: Option<T>, new: Option<T>) {
    if let Some(old) = old {
        set.remove(&old);
    }
    if let Some(new) = new {
        set.insert(new);
    }
}

fn driver_wait(driver: &Driver) -> Option<(Timestamp, DriverId)> {
    let waits = match driver.state {
        DriverState::Submitted => true,
        // Between two attempts it waits by design.
        DriverState::Relaunching
        | DriverState::Launching
        | DriverState::Running
        | DriverState::Finished
        | DriverState::Killed
        | DriverState::Failed
        | DriverState::Error => false,
    };
    waits.then(|| (driver.submitted_at, driver.id.clone()))
}

fn app_wait(app: &Application) -> Option<(Timestamp, AppId)> {
    let waits = match app.state {
        ApplicationState::Waiting => true,
        ApplicationState::Running
        | ApplicationState::Finished
        | ApplicationState::Failed
        | ApplicationState::Killed => false,
    };
    waits.then(|| (app.registered_at, app.id.clone()))
}
