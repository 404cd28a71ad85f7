//! Whole clusters of real processes.

mod bad_requests;
mod bench;
mod dev;
mod disk;
mod drain;
mod etcd;
mod events;
mod explain;
mod failover;
mod jobs;
mod masters;
mod membership;
mod moving;
mod wordcount;
