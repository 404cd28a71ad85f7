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

#[cfg(test)]
mod machine_properties;
#[cfg(test)]
mod machine_test;
