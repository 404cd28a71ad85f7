//! Register with every master and follow the leader: the one session type of agents and applications.
//!
//! A session dials every master, registers on each stream and obeys the leader that accepts. The streams to the
//! standbys stay open and idle, so a new leader announces itself at once on a stream that is there already. What
//! an older leader still says is answered `StaleEpoch` and never reaches the role.
//!
//! [`machine`] decides, [`pump`] carries out. The role (agent or application) owns the [`SessionHandle`] and the
//! receiver of [`SessionEvent`]s; events come in the order in which the streams delivered them.

mod event;
mod handle;
mod link;
pub mod machine;
mod options;
pub mod pump;
mod stream;

pub use event::{Input, Moment, Observation, Output, SessionEvent, StreamId};
pub use handle::{Delivery, SessionClosed, SessionHandle};
pub use machine::{Attachment, SessionMachine};
pub use options::{
    EVENT_QUEUE_LEN, INBOUND_QUEUE_LEN, LEARNT_FAILURES_MAX, LEARNT_MASTERS_MAX, MAILBOX_LEN,
    STREAM_QUEUE_LEN, SessionError, SessionOptions, SessionTimings,
};
pub use pump::Session;
pub(crate) use stream::describe;

#[cfg(test)]
mod machine_test;
