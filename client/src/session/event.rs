//! What goes into a session and what comes out: the words between the machine, its pump and the role.

use std::{fmt, time::Duration};

use interrex_proto::v1::{self, MasterFrame, PeerFrame, master_frame, peer_frame};

/// A moment on a session's own clock: the time since the session began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(Duration);

/// One attempt at a stream to one master. Never used twice in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u64);

/// What a session tells its role (an agent or an application), in order.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a frame is what nearly all of them are"
)]
pub enum SessionEvent {
    /// A master waits for this peer's registration on `stream`. Answer with
    /// [`SessionHandle::register`](super::SessionHandle::register), with a report that is current now.
    RegistrationWanted {
        /// Where to send it.
        stream: StreamId,
        /// The largest epoch observed so far. No order of a smaller one is passed on any more.
        seen: u64,
    },
    /// A leader has accepted the registration. Comes again, without a [`Detached`](Self::Detached) between, when
    /// the same leader has asked for another registration.
    Attached {
        /// The leader's epoch; never smaller than any epoch observed before.
        epoch: u64,
        /// The address it was reached at.
        master: String,
        /// What it said.
        registered: v1::Registered,
    },
    /// An order or answer of the adopted leader, already fenced.
    Frame {
        /// The leader's epoch.
        epoch: u64,
        /// What it said.
        body: master_frame::Body,
    },
    /// There is no leader for now; the session looks for the next one by itself.
    Detached {
        /// Why, for logs.
        reason: String,
    },
    /// A master refused the registration; the session keeps trying, slowly where the refusal is permanent. While
    /// attached: the leader refused something that was sent, and stays adopted.
    Refused {
        /// The address of that master.
        master: String,
        /// Its words.
        reason: String,
        /// The same registration or request will never be accepted.
        permanent: bool,
    },
}

/// What happened, for [`SessionMachine::step`](super::SessionMachine::step).
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The stream is up: frames sent on it will leave.
    Opened {
        /// Which stream.
        stream: StreamId,
    },
    /// A master said something.
    Frame {
        /// Where it came from.
        stream: StreamId,
        /// What it was.
        frame: MasterFrame,
    },
    /// The stream has ended, or could not be opened.
    Disconnected {
        /// Which stream.
        stream: StreamId,
        /// Why, for logs.
        reason: String,
    },
    /// The role's answer to [`SessionEvent::RegistrationWanted`].
    RegistrationReady {
        /// The stream that was named.
        stream: StreamId,
        /// The registration.
        body: peer_frame::Body,
    },
    /// The role has something for the leader.
    Send {
        /// What.
        body: peer_frame::Body,
    },
    /// The moment named by [`SessionMachine::next_wakeup`](super::SessionMachine::next_wakeup) has come.
    Timer,
}

/// What the pump (or the simulator) has to do now, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Open `stream` to `address`; answer `Opened` or `Disconnected`.
    Connect {
        /// The new stream.
        stream: StreamId,
        /// `host:port`.
        address: String,
    },
    /// Write `frame` to `stream`.
    Send {
        /// Where to.
        stream: StreamId,
        /// What.
        frame: PeerFrame,
    },
    /// The frame of [`Input::Send`] was not sent: there is no leader.
    NotAttached,
    /// Drop `stream` at once; nothing more is expected from it.
    Close {
        /// Which stream.
        stream: StreamId,
    },
    /// Tell the role.
    Notify(SessionEvent),
    /// Something to count.
    Observe(Observation),
}

/// Something to count or log; no action follows from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// A frame of an older epoch was refused.
    Stale {
        /// The frame's name, see [`Body::kind`](master_frame::Body::kind).
        kind: &'static str,
        /// The refused epoch.
        refused: u64,
        /// The largest epoch known.
        seen: u64,
    },
    /// An order came from a master that has not been adopted; it was dropped (it will be sent again).
    Unadopted {
        /// The frame's name.
        kind: &'static str,
    },
    /// A larger epoch than the one known was seen.
    FailoverSeen {
        /// The new epoch.
        epoch: u64,
    },
    /// A hint led to another master.
    Redirect {
        /// Its address.
        address: String,
    },
}

// === impl Moment ===

impl Moment {
    /// The moment the session began.
    pub const START: Self = Self(Duration::ZERO);

    /// The moment `elapsed` after the session began.
    #[must_use]
    pub const fn from_elapsed(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// The time from the session's beginning to this moment.
    #[must_use]
    pub const fn elapsed(self) -> Duration {
        self.0
    }

    /// The moment `wait` later.
    #[must_use]
    pub const fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }
}

// === impl StreamId ===

impl StreamId {
    /// The stream with number `n`; only machines and tests make these.
    #[must_use]
    pub const fn new(n: u64) -> Self {
        Self(n)
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}
