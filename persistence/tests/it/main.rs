//! Every backend, seen through its contract.

mod faulty;
mod memory;
mod raft;
mod sled;
