//! The worker: a pure machine that decides, and the pump that feeds it and carries out what it says.

pub mod action;
pub mod event;
pub mod machine;
mod memory;
pub mod pump;
mod report;
pub(crate) mod store;
pub mod view;

pub use action::Action;
pub use event::{Event, Now};
pub use machine::{MachineOptions, WorkerMachine};

/// Most pieces of work that one agent runs or lets wait; an order beyond it is left unanswered, and repeated by the
/// master. Bounds the registration, which names them all.
pub const WORK_MAX: usize = 4_000;

#[cfg(test)]
mod machine_properties;
#[cfg(test)]
mod machine_test;
