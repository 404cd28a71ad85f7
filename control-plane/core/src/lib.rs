//! Interrex's decisions, without clock, I/O, tasks or randomness.
//!
//! ```text
//!            Command + now                       Transition
//!  edges ──▶ LeaderMachine ──▶ ClusterState ──▶ { mutations, effects, reply }
//!                 │                                  │
//!                 │  Commit(mutations) ──▶ store     │  held until the commit is durable
//!                 ◀── committed ─────────────────────┘
//!                 └──▶ Publish, Reply, Effect
//! ```
//!
//! Rules: time is an argument; every map is ordered; the same inputs give the same outputs, bit for bit.
//! Outside input never reaches an assertion: what can be wrong is refused with a [`transition::Rejection`].

mod apply;
pub mod caps;
pub mod command;
pub mod config;
pub mod effect;
pub mod event;
pub mod explain;
pub mod ids;
pub mod leader;
pub mod liveness;
mod machines;
pub mod resources;
mod scheduler;
pub mod spec;
pub mod state;
pub mod time;
pub mod transition;
