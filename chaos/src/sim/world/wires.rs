//! Connections of the world: who hears what, and who learns when that a connection is gone.

use super::super::env::Happening;
use super::super::net::ConnId;
use super::super::net::End;
use super::super::net::Frame;
use super::super::net::Node;
use super::super::net::Way;
use super::{HOUSEKEEPING, World};

// === impl World ===

impl World {
    pub(super) fn dialled(&mut self, id: ConnId) {
        let Some(conn) = self.env.net.conn(id) else {
            return;
        };
        let (peer, stream, master) = (conn.peer, conn.stream, conn.master);
        if self.life(peer) != Some(conn.peer_life) {
            return self.env.net.release(id, End::Peer);
        }
        let cut = self.env.net.cut(peer, master);
        let open = self.masters[master].up && !cut.up && !cut.down;
        if open {
            let life = self.masters[master].life;
            if let Some(conn) = self.env.net.conn_mut(id) {
                conn.master_life = life;
                conn.held_by.1 = true;
            }
            self.masters[master].on_dialled(id);
        }
        match peer {
            Node::Agent(n) => self.agents[n].on_dialled(id, stream, open, &mut self.env),
            Node::App(n) => self.apps[n].on_dialled(id, stream, open, &mut self.env),
            Node::Master(_) | Node::Client(_) => {}
        }
    }

    pub(super) fn frame(&mut self, id: ConnId, way: Way, frame: Frame) {
        let held = self.env.net.is_held(id, way);
        let Some(conn) = self.env.net.conn_mut(id) else {
            return;
        };
        if held {
            conn.hold(way, frame);
            return self.env.hit("frame-held");
        }
        let (peer, stream, master) = (conn.peer, conn.stream, conn.master);
        let (peer_life, master_life) = (conn.peer_life, conn.master_life);
        let (peer_holds, master_holds) = conn.held_by;
        self.env.trace(peer, || frame.describe(way, master, id));
        match frame {
            Frame::Peer(frame)
                if master_holds && self.life(Node::Master(master)) == Some(master_life) =>
            {
                self.masters[master].on_frame(id, *frame, &mut self.env);
            }
            Frame::Master(frame) if peer_holds && self.life(peer) == Some(peer_life) => {
                match peer {
                    Node::Agent(n) => self.agents[n].on_frame(stream, *frame, &mut self.env),
                    Node::App(n) => self.apps[n].on_frame(stream, *frame, &mut self.env),
                    Node::Master(_) | Node::Client(_) => {}
                }
            }
            // The receiver has no such connection: it says so, and the sender learns that it is gone.
            Frame::Peer(_) => self.reset_to(id, End::Peer),
            Frame::Master(_) => self.reset_to(id, End::Master),
        }
    }

    pub(super) fn reset_to(&mut self, id: ConnId, end: End) {
        let wait = self.env.latency();
        self.env.after(wait, Happening::Gone(id, end));
    }

    /// One end learns that a connection is gone; over a cut link it does not, until the keep-alive notices.
    pub(super) fn gone(&mut self, id: ConnId, end: End) {
        if self.env.net.is_held(id, end.way()) {
            self.env.after(HOUSEKEEPING, Happening::Gone(id, end));
            return;
        }
        self.lose(id, end);
    }

    /// An end gives a connection up.
    pub(in crate::sim) fn lose(&mut self, id: ConnId, end: End) {
        let Some(conn) = self.env.net.conn(id) else {
            return;
        };
        let (peer, stream, master) = (conn.peer, conn.stream, conn.master);
        let holds = match end {
            End::Peer => conn.held_by.0 && self.life(peer) == Some(conn.peer_life),
            End::Master => {
                conn.held_by.1 && self.life(Node::Master(master)) == Some(conn.master_life)
            }
        };
        self.env.net.release(id, end);
        if !holds {
            return;
        }
        match (end, peer) {
            (End::Master, _) => self.masters[master].on_gone(id),
            (End::Peer, Node::Agent(n)) => self.agents[n].on_gone(stream, &mut self.env),
            (End::Peer, Node::App(n)) => self.apps[n].on_gone(stream, &mut self.env),
            (End::Peer, Node::Master(_) | Node::Client(_)) => {}
        }
    }
}
