//! Live faults: real processes, every link through a proxy of ours, no root.
//!
//! A run starts masters, agents and clients from this program, breaks them by a [`Scenario`], mends everything, waits until
//! all has come to rest, asks after every submission, ends everything, and writes down one
//! [`History`](crate::history::History). What ran is known from the [`ledger`] and from the kernel, never from what a master says. The same [`checks`](crate::checks) judge it that
//! judge simulated worlds; a run in which a required fault has done nothing is unknown, not valid.

pub mod client;
pub mod clock;
mod cluster;
mod collect;
pub mod figures;
mod follow;
mod journal;
pub mod ledger;
mod load;
mod observer;
pub mod options;
mod places;
mod proc_marks;
mod process;
pub mod proxy;
mod rest;
mod runner;
mod scenario;
mod scenarios;
mod stage;
pub mod work;

pub use figures::Figures;
pub use options::{Engine, LiveError, LiveOptions};
pub use runner::{LiveRun, run};
pub use scenario::Scenario;
