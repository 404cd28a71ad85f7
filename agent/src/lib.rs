//! The Interrex agent: offers a machine's cores and memory to a cluster, and runs drivers and executors on it.
//!
//! * [`app`]: the composition root. [`Agent::start`](app::Agent::start) is all that the command line needs.
//! * [`worker`]: the pure machine that decides what to start, end and report, and the pump around it.
//! * [`process`]: the runner, and the supervisor process under which each program lives.
//! * [`cleanup`]: old directories go, and new work is refused before the disk is full.
//! * [`outbox`]: reports that no master has acknowledged yet, on disk where they are results.
//! * [`spark`]: the installations of Spark that it offers.
//! * [`state`]: the lock on the work directory, and what the agent remembers of itself.
//! * [`web`]: health, metrics, processes and logs over HTTP.
//!
//! An agent that loses its masters keeps its processes and keeps trying. An agent that dies takes its processes
//! along, however it dies, and its next life reports what became of them.

pub mod app;
pub mod cleanup;
mod clock;
pub mod error;
mod files;
pub mod metrics;
pub mod options;
pub mod outbox;
pub mod process;
pub mod spark;
pub mod state;
mod traces;
pub mod web;
pub mod worker;

pub use app::{Agent, RunningAgent};
pub use error::AgentError;
pub use options::AgentOptions;
pub use process::supervisor;
