//! The master's loop: who owns what, and which channel connects them.
//!
//! ```text
//!  edges ── MasterHandle ──▶ mailbox (bounded) ──▶ leader_loop ── owns LeaderMachine, ClusterView
//!    │                                               │  ├─ commit task ──▶ PersistenceEngine
//!    ├── read() ──▶ reads (bounded) ──▶ read_gate ───┼──┴─ confirm ─────▶ PersistenceEngine
//!    └── view() ◀── watch ◀── publish ───────────────┤
//!  sessions ◀── peers (one bounded queue each) ◀── dispatcher ◀── effects
//!  sessions ──▶ heartbeats (a table, never a queue) ──▶ each tick
//!           ──▶ heard (bounded) ──▶ heartbeat_acks ── confirm ──▶ PersistenceEngine, then peers
//! ```
//!
//! `role` owns the life: campaign, recover, lead, step down, campaign again. It never exits before shutdown.

pub mod dispatcher;
pub mod error;
pub mod handle;
pub mod heartbeats;
pub mod peer;
pub mod port;
pub mod restore;
pub mod role;
pub mod status;
pub mod view;

mod beside;
mod chronicle;
pub(crate) mod clock;
pub(crate) mod hand_over;
pub(crate) mod heartbeat_acks;
pub(crate) mod ignored;
pub(crate) mod leader_loop;
pub(crate) mod leader_watch;
pub(crate) mod peers;
pub(crate) mod places;
pub(crate) mod pulse;
pub(crate) mod quarantine;
pub(crate) mod read_gate;
pub(crate) mod shared;
pub(crate) mod takeover;
pub(crate) mod tasks;
pub(crate) mod traces;

pub use self::{
    error::RequestError,
    handle::{MasterHandle, MasterStatus, Role},
    role::RoleOptions,
    view::{ClusterView, Counts, Found, WorkerLoad},
};
