//! What the machine hears.

use std::time::Duration;

use interrex_client::session::{SessionEvent, StreamId};
use interrex_proto::v1::{Registered, master_frame};

use crate::process::ProcessEvent;

/// The time at which something is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Since the machine began; never goes back. All waits are measured with it.
    pub elapsed: Duration,
    /// Since the machine on which it runs was started, suspensions included; never goes back. Leases are measured
    /// with it.
    pub boot: Duration,
    /// The wall clock in milliseconds since the Unix epoch; only ever reported, never compared.
    pub wall_ms: u64,
}

/// Something that the machine has to know.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A master waits for this worker's registration.
    RegistrationWanted {
        /// On which stream.
        stream: StreamId,
        /// The largest epoch that the session has observed; orders of smaller ones count no more from here on.
        seen: u64,
    },
    /// A leader took the registration.
    Attached {
        /// Its epoch.
        epoch: u64,
        /// Its address.
        master: String,
        /// What it said.
        registered: Box<Registered>,
    },
    /// The leader said something.
    Frame {
        /// Its epoch.
        epoch: u64,
        /// What it said.
        body: Box<master_frame::Body>,
    },
    /// There is no leader now.
    Detached {
        /// Why.
        reason: String,
    },
    /// A master does not want this worker.
    Refused {
        /// Its address.
        master: String,
        /// Its words.
        reason: String,
        /// Whether it will never want it.
        permanent: bool,
    },
    /// Something happened to a process.
    Process(ProcessEvent),
    /// A result was written to disk, or could not be.
    Stored {
        /// Its number.
        sequence: u64,
        /// Whether it is on disk.
        stored: bool,
    },
    /// The session had no room for a report.
    NotSent {
        /// Its number.
        sequence: u64,
    },
    /// The disk has become too full for new work, or has room again.
    Disk {
        /// Why no new work is accepted; unset: it is.
        trouble: Option<String>,
    },
    /// The time named by `next_deadline` has come.
    Tick,
    /// The agent is to end in an orderly way.
    Stop,
}

// === impl Event ===

impl From<SessionEvent> for Event {
    fn from(event: SessionEvent) -> Self {
        match event {
            SessionEvent::RegistrationWanted { stream, seen } => {
                Self::RegistrationWanted { stream, seen }
            }
            SessionEvent::Attached {
                epoch,
                master,
                registered,
            } => {
                let registered = Box::new(registered);
                Self::Attached {
                    epoch,
                    master,
                    registered,
                }
            }
            SessionEvent::Frame { epoch, body } => Self::Frame {
                epoch,
                body: Box::new(body),
            },
            SessionEvent::Detached { reason } => Self::Detached { reason },
            SessionEvent::Refused {
                master,
                reason,
                permanent,
            } => Self::Refused {
                master,
                reason,
                permanent,
            },
        }
    }
}
