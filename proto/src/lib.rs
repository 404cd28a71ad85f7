//! Interrex's wire and stored messages, and what every end of a wire shares.
//!
//! * [`v1`]: the generated messages, clients and servers of `proto/interrex/v1`.
//! * [`channel`]: the only place that dials gRPC, with deadlines and keep-alive on every connection.
//! * [`credentials`]: the token that a caller shows.
//! * [`digest`]: what an agent runs, in one number.
//! * `frames`: names of frames, the same at both ends.
//! * [`limits`]: the size and time bounds of every message, each named once.
//! * [`leader_hint`]: who leads, carried in the metadata of a refused call.
//! * [`clock`]: the wall clock, read in pumps only.
//! * [`metric`]: what a metric is, for every crate's table of them.
//! * [`trace`]: how a trace goes from one program to the next.
//! * [`version`]: which build this is.

pub mod channel;
pub mod clock;
pub mod credentials;
pub mod digest;
mod frames;
pub mod leader_hint;
pub mod limits;
pub mod metric;
pub mod trace;
pub mod version;

/// The generated messages and services of the package `interrex.v1`.
#[expect(
    missing_docs,
    reason = "generated: the .proto files carry the documentation"
)]
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    reason = "generated code"
)]
#[allow(clippy::allow_attributes_without_reason, reason = "generated code")]
#[allow(
    clippy::doc_markdown,
    clippy::wildcard_enum_match_arm,
    reason = "generated code"
)]
pub mod v1 {
    tonic::include_proto!("interrex.v1");

    /// The descriptors of every service, for gRPC reflection.
    pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("interrex");
}
