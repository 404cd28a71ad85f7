//! One master as the session machine sees it: its address and where its one stream stands. Pure.

use super::event::{Moment, StreamId};

/// One known master.
#[derive(Debug)]
pub(super) struct Link {
    /// `host:port`.
    pub(super) address: String,
    /// Learnt from a hint; may be forgotten.
    pub(super) learnt: bool,
    /// Which master leads from here, as it last said itself; empty: not known. Two addresses may lead to one.
    pub(super) master_id: String,
    /// Failures in a row, for the back-off; an answered registration ends the row.
    pub(super) failures: u32,
    pub(super) state: LinkState,
}

/// Where the stream to one master stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkState {
    /// No stream; dial at `until`.
    Waiting { until: Moment },
    /// Being opened; given up at `deadline`.
    Dialling { stream: StreamId, deadline: Moment },
    /// Open.
    Open {
        stream: StreamId,
        registration: Registration,
    },
    /// Another address of the master behind stream `of`: not dialled while that stream lives.
    Alias { of: StreamId },
}

/// Where the registration on an open stream stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Registration {
    /// The role has been asked for it. No deadline: the role is in this process.
    Wanted,
    /// Sent; the stream is given up at `deadline`.
    Sent { deadline: Moment },
    /// Accepted by a leader.
    Accepted,
    /// Answered by a standby: idle. Sent again at `again`, but only while there is no leader.
    Standby { again: Moment },
    /// Refused for now; sent again at `again`.
    Refused { again: Moment },
}

// === impl Link ===

impl Link {
    pub(super) fn new(address: String, learnt: bool, until: Moment) -> Self {
        Self {
            address,
            learnt,
            master_id: String::new(),
            failures: 0,
            state: LinkState::Waiting { until },
        }
    }

    pub(super) fn stream(&self) -> Option<StreamId> {
        match self.state {
            LinkState::Dialling { stream, .. } | LinkState::Open { stream, .. } => Some(stream),
            LinkState::Waiting { .. } | LinkState::Alias { .. } => None,
        }
    }

    /// Whether its stream is up.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, LinkState::Open { .. })
    }

    /// When this link needs the timer next. `attached`: the session has a leader.
    pub(super) fn wakeup(&self, attached: bool) -> Option<Moment> {
        match self.state {
            LinkState::Waiting { until } => Some(until),
            LinkState::Dialling { deadline, .. } => Some(deadline),
            LinkState::Open { registration, .. } => match registration {
                Registration::Sent { deadline } => Some(deadline),
                Registration::Refused { again } => Some(again),
                Registration::Standby { again } => (!attached).then_some(again),
                Registration::Wanted | Registration::Accepted => None,
            },
            LinkState::Alias { .. } => None,
        }
    }
}
