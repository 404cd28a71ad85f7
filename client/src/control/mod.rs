//! Submissions and questions to the cluster: calls that find the leader, have deadlines, and are retried where
//! that is safe.

mod book;
mod call;
mod client;
mod error;
mod events;
mod options;
mod snapshots;
mod verdict;

pub use client::{ControlClient, Listing};
pub use error::{ClientError, Tried};
pub use events::{EventNews, EventStart, EventStream};
pub use options::{ClientOptions, OptionsError};
pub use snapshots::{Saving, SnapshotClient};
