//! Every backend, seen through its contract.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests: a panic is how a test fails"
)]

mod etcd;
mod faulty;
mod memory;
mod raft;
mod sled;
mod turmoil;
