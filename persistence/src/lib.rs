//! Where Interrex keeps its records, and how its masters elect a leader.
//!
//! A backend gives two things: a [`LeaderElection`](election::LeaderElection), which says who may act and in
//! which [`Epoch`](epoch::Epoch), and a [`PersistenceEngine`](engine::PersistenceEngine), which keeps records.
//! The contract between them is the fence: once a larger epoch has been opened, no batch of a smaller one is
//! ever stored. To this crate a record is a key and bytes; it knows nothing of drivers and workers.
//!
//! There are no reads by key, scans, locks or watches here: what a backend needs for those stays inside it.

pub mod backend;
#[cfg(feature = "test-util")]
pub mod conformance;
mod data_dir;
pub mod election;
pub mod engine;
pub mod epoch;
pub mod error;
pub mod etcd;
#[cfg(feature = "test-util")]
pub mod faulty;
mod identity_file;
pub mod kill_point;
pub mod memory;
pub mod metrics;
pub mod offline;
pub mod options;
pub mod raft;
pub mod record;
pub mod record_store;
mod requests;
pub mod sled;
pub mod snapshot_file;
