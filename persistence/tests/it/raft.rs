//! Raft clusters in one process: real tonic over loopback, real files in temporary directories.

mod cluster;
mod conformance;
mod disk;
mod failover;
mod identity;
mod log_reads;
mod membership;
mod rates;
mod trouble;
mod versions;
