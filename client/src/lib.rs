//! How agents, applications and submitters reach an Interrex cluster.
//!
//! * [`session`]: the one session type of agents and applications: a stream to every master, register, follow
//!   the leader, refuse whatever an older leader still says.
//! * [`app`]: [`AppClient`](app::AppClient), an application with executors, over a session.
//! * [`control`]: [`ControlClient`](control::ControlClient), submissions and questions, with request ids,
//!   deadlines and retries.
//! * [`masters`]: the list of masters as people write it.
//! * [`backoff`]: exponential back-off with seeded jitter.
//! * [`metrics`]: the names that this crate counts under.
//!
//! Nothing in here exits, panics or gives up because a master does not answer: giving up is an option that a
//! caller sets.

pub mod app;
pub mod backoff;
pub mod control;
pub mod masters;
pub mod metrics;
pub mod session;

/// A new request id (UUID version 7). Keep it for every retry of the same request: the same id has one effect.
#[must_use]
pub fn new_request_id() -> String {
    uuid::Uuid::now_v7().to_string()
}
