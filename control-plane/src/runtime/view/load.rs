//! What drivers and executors hold of a worker, as the view shows it.

use imbl::OrdSet;
use interrex_core::{
    ids::{AppId, DriverId, ExecutorId, WorkerId},
    resources::{Cores, MemoryMib},
    state::{driver::Driver, executor::Executor},
};

/// What is booked on one worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerLoad {
    /// Cores held by its drivers and executors.
    pub cores: Cores,
    /// Memory held by them.
    pub memory: MemoryMib,
    /// Drivers placed on it that are not over.
    pub drivers: OrdSet<DriverId>,
    /// Executors on it that are not over.
    pub executors: OrdSet<(AppId, ExecutorId)>,
}

/// What an entity holds on a worker.
pub(super) struct Booking<'a> {
    pub(super) worker: &'a WorkerId,
    pub(super) cores: Cores,
    pub(super) memory: MemoryMib,
    pub(super) item: Booked,
}

pub(super) enum Booked {
    Driver(DriverId),
    Executor((AppId, ExecutorId)),
}

// === impl WorkerLoad ===

impl WorkerLoad {
    /// Whether nothing is booked.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.drivers.is_empty() && self.executors.is_empty()
    }

    pub(super) fn book(&mut self, booking: Booking<'_>, joins: bool) {
        let (cores, memory) = (&mut self.cores.0, &mut self.memory.0);
        if joins {
            *cores = cores.saturating_add(booking.cores.0);
            *memory = memory.saturating_add(booking.memory.0);
        } else {
            *cores = cores.saturating_sub(booking.cores.0);
            *memory = memory.saturating_sub(booking.memory.0);
        }
        match (booking.item, joins) {
            (Booked::Driver(id), true) => drop(self.drivers.insert(id)),
            (Booked::Driver(id), false) => drop(self.drivers.remove(&id)),
            (Booked::Executor(key), true) => drop(self.executors.insert(key)),
            (Booked::Executor(key), false) => drop(self.executors.remove(&key)),
        }
    }
}

pub(super) fn driver_booking(driver: &Driver) -> Option<Booking<'_>> {
    let worker = driver
        .worker
        .as_ref()
        .filter(|_| driver.state.is_placed())?;
    Some(Booking {
        worker,
        cores: driver.spec.cores,
        memory: driver.spec.memory,
        item: Booked::Driver(driver.id.clone()),
    })
}

pub(super) fn executor_booking(executor: &Executor) -> Option<Booking<'_>> {
    (!executor.state.is_final()).then(|| Booking {
        worker: &executor.worker,
        cores: executor.cores,
        memory: executor.memory,
        item: Booked::Executor((executor.app.clone(), executor.id)),
    })
}
