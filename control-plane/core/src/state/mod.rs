//! The entities of a cluster, and [`cluster::ClusterState`], which holds them.

pub mod app;
pub(crate) mod changes;
pub mod cluster;
pub mod driver;
pub mod executor;
pub(crate) mod facts;
pub(crate) mod index;
pub mod meta;
mod recount;
mod recover;
mod validate;
pub mod worker;
pub(crate) mod write;
