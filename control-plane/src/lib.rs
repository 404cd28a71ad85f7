//! The Interrex master: the leader's loop, sessions, and its gRPC, REST and admin edges.
//!
//! * [`messages`]: how messages and the core's types correspond.
//! * [`records`]: entities of `interrex-core` as stored records, and back.
//! * [`runtime`]: elections, the leader's loop, sessions' queues, the published view.
//! * [`snapshot`]: what is in a snapshot, and how one becomes the records of a new cluster.
//! * [`edge`]: gRPC, REST and admin servers; they hold no decisions.
//! * [`access`]: who may change something, and who did.
//! * [`app`]: the composition root.

pub mod access;
pub mod app;
pub mod edge;
pub mod messages;
pub mod metrics;
pub mod options;
pub mod records;
pub mod runtime;
pub mod snapshot;
