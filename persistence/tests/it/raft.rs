//! Raft clusters in one process: real tonic over loopback, real files in temporary directories.

mod cluster;
mod disk;
mod failover;
mod identity;
