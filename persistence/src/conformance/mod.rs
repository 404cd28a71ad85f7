//! What every backend must pass, unchanged: the promises of [`crate::engine`] and [`crate::election`] as tests.
//!
//! A backend brings a [`Fixture`]; `conformance_suite!(MyFixture)` makes one test of each check, and
//! `contention_suite!(MyFixture)` those that need two masters. A check that fails says which promise is broken. The
//! checks use nothing but the contract, and allow what it allows: a leader may lose its leadership at any time.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "checks of a test suite: a panic is how they say which promise is broken"
)]

pub mod contention;
pub mod durability;
pub mod election;
pub mod fencing;
pub mod indeterminate;
pub mod moving;
pub mod recovery;
pub mod sigkill;
pub mod snapshots;

mod bench;
mod suite;

use async_trait::async_trait;

use crate::{backend::Backend, election::MasterInfo, error::OpenError};

pub use bench::{Bench, Led, delete, key, put};

/// How a master ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// In order, as by SIGTERM.
    Clean,
    /// In the middle, as by SIGKILL: what was not synced by then may be used, but nothing more is written.
    Crash,
    /// As `Crash`, with the last write torn: the end of the newest file of the log is cut or made garbage, in
    /// such a way that nothing acknowledged is touched. A backend whose files cannot be torn does a `Crash`.
    TornTail,
}

/// A store under test, with its masters. All masters run after [`fresh`](Self::fresh).
#[async_trait]
pub trait Fixture: Sized + Send + Sync + 'static {
    /// An empty store, with all its masters open.
    async fn fresh() -> Self;

    /// How many masters there are; at least one.
    fn masters(&self) -> usize;

    /// How master `n` (from 0) is called.
    fn me(&self, n: usize) -> MasterInfo;

    /// The backend of master `n`; `None` while it is stopped.
    fn backend(&self, n: usize) -> Option<Backend>;

    /// Ends master `n`. Its data stays.
    async fn stop(&mut self, n: usize, how: Stop);

    /// Opens master `n` again on its data.
    async fn start(&mut self, n: usize);

    /// Takes leadership from the leader `n` without asking it (it may or may not hear of it), so that another
    /// campaign wins. `false` where the backend has no way to do so.
    async fn depose(&mut self, n: usize) -> bool {
        let _cannot = n;
        false
    }

    /// What opening the data of the running master `n` a second time gives; `None` where there is no directory.
    async fn open_twice(&self, n: usize) -> Option<OpenError> {
        let _cannot = n;
        None
    }

    /// Lets the backend do now what it does now and then to bound its space. Backends that do so by themselves
    /// have nothing to do here.
    async fn compact(&self) {}

    /// Bytes on disk of all masters together, and their bound after [`SNAPSHOT_BYTES_WRITTEN`](snapshots) of
    /// overwrites; `None` where nothing is kept on disk.
    fn disk(&self) -> Option<(u64, u64)> {
        None
    }
}
