//! Where the outside meets the master: gRPC, Spark's RPC and REST API, health and metrics, and pages for people.
//!
//! Edges hold **no decisions**. They check what comes in ([`validate`]), turn it into commands ([`convert`]),
//! hand them to the [`MasterHandle`](crate::runtime::handle::MasterHandle), and turn answers and views into messages
//! ([`status`]). Errors become a gRPC `Status` in [`grpc::errors`] and an HTTP answer in [`rest::errors`], and
//! nowhere else.

pub mod admin;
pub mod cluster;
pub mod convert;
pub mod explain;
mod field;
pub mod grpc;
pub mod rest;
pub(crate) mod spark_rpc;
pub mod status;
pub mod validate;
pub mod web;
