//! The network: connections between peers and masters, and links that can be cut in either direction.
//!
//! A connection behaves like TCP: what is sent arrives in order or not at all. While a link is cut, what is under way
//! is held back and arrives late when the link heals; a connection whose link stays cut is given up by both ends, each
//! at its own time. So an old leader's frames can arrive seconds after a newer one has been heard.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
};

use interrex_client::session::StreamId;
use interrex_proto::v1::{MasterFrame, PeerFrame, master_frame, peer_frame};

use super::clock::At;

/// A process of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Node {
    /// A master.
    Master(usize),
    /// An agent.
    Agent(usize),
    /// An application.
    App(usize),
    /// Somebody who submits and asks.
    Client(usize),
}

/// One connection, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConnId(pub(crate) u64);

/// Which way a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Way {
    /// From a peer to a master.
    Up,
    /// From a master to a peer.
    Down,
}

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum End {
    /// The one that dialled.
    Peer,
    /// The one that accepted.
    Master,
}

/// What is under way on a connection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Frame {
    /// From a peer.
    Peer(Box<PeerFrame>),
    /// From a master.
    Master(Box<MasterFrame>),
}

/// A connection between a peer and a master.
#[derive(Debug)]
pub(crate) struct Conn {
    /// The peer's end.
    pub(crate) peer: Node,
    /// The life of the peer that dialled.
    pub(crate) peer_life: u32,
    /// The session's name for it.
    pub(crate) stream: StreamId,
    /// The master's end.
    pub(crate) master: usize,
    /// The life of the master that accepted.
    pub(crate) master_life: u32,
    /// Whether each end still holds it: the peer's, the master's.
    pub(crate) held_by: (bool, bool),
    /// Frames that wait for a cut link, in order.
    waiting: VecDeque<(Way, Frame)>,
    last_up: At,
    last_down: At,
}

/// Which directions of a link are cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Towards the master.
    pub(crate) up: bool,
    /// From the master.
    pub(crate) down: bool,
}

/// All connections and links.
#[derive(Debug, Default)]
pub(crate) struct Net {
    conns: BTreeMap<ConnId, Conn>,
    cuts: BTreeMap<(Node, usize), Cut>,
    next: u64,
}

// === impl Net ===

impl Net {
    /// A new connection, held by the peer only.
    pub(crate) fn dial(
        &mut self,
        peer: (Node, u32),
        stream: StreamId,
        master: usize,
        now: At,
    ) -> ConnId {
        let id = ConnId(self.next);
        self.next += 1;
        let conn = Conn {
            peer: peer.0,
            peer_life: peer.1,
            stream,
            master,
            master_life: 0,
            held_by: (true, false),
            waiting: VecDeque::new(),
            last_up: now,
            last_down: now,
        };
        self.conns.insert(id, conn);
        id
    }

    /// A connection that at least one end holds.
    #[must_use]
    pub(crate) fn conn(&self, id: ConnId) -> Option<&Conn> {
        self.conns.get(&id)
    }

    /// The same, to change it.
    pub(crate) fn conn_mut(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.conns.get_mut(&id)
    }

    /// The connection behind a session's stream.
    #[must_use]
    pub(crate) fn by_stream(&self, peer: (Node, u32), stream: StreamId) -> Option<ConnId> {
        self.conns
            .iter()
            .find(|(_, conn)| {
                (conn.peer, conn.peer_life) == peer && conn.stream == stream && conn.held_by.0
            })
            .map(|(id, _)| *id)
    }

    /// One end lets go of it.
    pub(crate) fn release(&mut self, id: ConnId, end: End) {
        if let Some(conn) = self.conns.get_mut(&id) {
            match end {
                End::Peer => conn.held_by.0 = false,
                End::Master => conn.held_by.1 = false,
            }
            if conn.held_by == (false, false) {
                self.conns.remove(&id);
            }
        }
    }

    /// Connections with `node` at either end.
    #[must_use]
    pub(crate) fn of(&self, node: Node) -> Vec<ConnId> {
        self.conns
            .iter()
            .filter(|(_, conn)| conn.peer == node || Node::Master(conn.master) == node)
            .map(|(id, _)| *id)
            .collect()
    }

    /// Connections over one link.
    #[must_use]
    pub(crate) fn over(&self, peer: Node, master: usize) -> Vec<ConnId> {
        self.conns
            .iter()
            .filter(|(_, conn)| conn.peer == peer && conn.master == master)
            .map(|(id, _)| *id)
            .collect()
    }

    /// How a link is cut.
    #[must_use]
    pub(crate) fn cut(&self, peer: Node, master: usize) -> Cut {
        self.cuts.get(&(peer, master)).copied().unwrap_or_default()
    }

    /// Cuts or heals a link.
    pub(crate) fn set_cut(&mut self, peer: Node, master: usize, cut: Cut) {
        if cut == Cut::default() {
            self.cuts.remove(&(peer, master));
        } else {
            self.cuts.insert((peer, master), cut);
        }
    }

    /// Links that are cut.
    #[must_use]
    pub(crate) fn cut_links(&self) -> Vec<(Node, usize)> {
        self.cuts.keys().copied().collect()
    }

    /// Whether a message cannot pass now.
    #[must_use]
    pub(crate) fn is_held(&self, id: ConnId, way: Way) -> bool {
        self.conns.get(&id).is_some_and(|conn| {
            let cut = self.cut(conn.peer, conn.master);
            let closed = match way {
                Way::Up => cut.up,
                Way::Down => cut.down,
            };
            closed || conn.waiting.iter().any(|(waits, _)| *waits == way)
        })
    }
}

// === impl Frame ===

impl Frame {
    /// For the trace.
    pub(crate) fn describe(&self, way: Way, master: usize, conn: ConnId) -> String {
        let kind = match self {
            Self::Peer(frame) => frame.body.as_ref().map(kind_of),
            Self::Master(frame) => frame.body.as_ref().map(master_frame::Body::kind),
        };
        let arrow = match way {
            Way::Up => "-->",
            Way::Down => "<--",
        };
        let epoch = match self {
            Self::Peer(_) => String::new(),
            Self::Master(frame) => format!(" of epoch {}", frame.epoch),
        };
        format!(
            "{arrow} m{} {}{epoch} ({conn})",
            master + 1,
            kind.unwrap_or("nothing")
        )
    }
}

// === impl Conn ===

impl Conn {
    /// When a message sent now with this latency arrives: never before one that was sent earlier.
    pub(crate) fn arrival(&mut self, way: Way, at: At) -> At {
        let last = match way {
            Way::Up => &mut self.last_up,
            Way::Down => &mut self.last_down,
        };
        *last = at.max(At(last.0 + 1));
        *last
    }

    /// Keeps a frame until the link heals.
    pub(crate) fn hold(&mut self, way: Way, frame: Frame) {
        self.waiting.push_back((way, frame));
    }

    /// What was held back.
    pub(crate) fn take_waiting(&mut self) -> VecDeque<(Way, Frame)> {
        std::mem::take(&mut self.waiting)
    }
}

// === impl End ===

impl End {
    /// The one opposite.
    #[must_use]
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Peer => Self::Master,
            Self::Master => Self::Peer,
        }
    }

    /// The way that leads to it.
    #[must_use]
    pub(crate) fn way(self) -> Way {
        match self {
            Self::Peer => Way::Down,
            Self::Master => Way::Up,
        }
    }
}

// === impl Node ===

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Master(n) => write!(f, "m{}", n + 1),
            Self::Agent(n) => write!(f, "w{}", n + 1),
            Self::App(n) => write!(f, "a{}", n + 1),
            Self::Client(n) => write!(f, "c{}", n + 1),
        }
    }
}

impl fmt::Display for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conn{}", self.0)
    }
}

fn kind_of(body: &peer_frame::Body) -> &'static str {
    match body {
        peer_frame::Body::RegisterWorker(_) => "register_worker",
        peer_frame::Body::RegisterApplication(_) => "register_application",
        peer_frame::Body::Heartbeat(_) => "heartbeat",
        peer_frame::Body::Report(_) => "report",
        peer_frame::Body::UnregisterApplication(_) => "unregister_application",
        peer_frame::Body::RequestExecutors(_) => "request_executors",
        peer_frame::Body::KillExecutors(_) => "kill_executors",
        peer_frame::Body::AppProgress(_) => "app_progress",
        peer_frame::Body::StaleEpoch(_) => "stale_epoch",
    }
}

/// The address of a master.
#[must_use]
pub(crate) fn address(master: usize) -> String {
    format!("127.0.0.1:{}", 7077 + master)
}

/// The master at an address.
#[must_use]
pub(crate) fn master_at(address: &str, masters: usize) -> Option<usize> {
    (0..masters).find(|master| self::address(*master) == address)
}
