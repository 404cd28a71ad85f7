//! Whole clusters of real processes.

mod bad_requests;
mod bench;
mod dev;
mod disk;
mod drain;
mod etcd;
mod etcd_members;
mod events;
mod explain;
mod failover;
mod jobs;
mod kill_points;
mod live;
mod masters;
mod membership;
mod moving;
mod place;
mod restoring;
mod spark;
mod tokens;
mod wordcount;
