//! Who is there, who waits, who leads, and the records. Pure; its owner wakes and tells.

use std::collections::{BTreeMap, VecDeque};

use tokio_util::sync::CancellationToken;

use crate::{
    backend::MemberStatus,
    election::{LeaderView, Leadership, MasterInfo},
    epoch::Epoch,
    record_store::RecordStore,
};

/// The whole of a memory cluster.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) store: RecordStore,
    /// Largest epoch that was given to a leader or opened.
    newest: Epoch,
    /// Every later leadership has a larger epoch than this.
    floor: Epoch,
    /// Every leadership up to this epoch is known to be over.
    ended: Epoch,
    held: Option<Held>,
    /// First come, first served.
    queue: VecDeque<Candidate>,
    /// Set by a transfer: nobody else may take the free leadership.
    heir: Option<String>,
    members: BTreeMap<String, Life>,
    counter: u64,
}

/// The leadership in force.
#[derive(Debug)]
struct Held {
    id: String,
    life: u64,
    leadership: Leadership,
}

/// A campaign that waits.
#[derive(Debug)]
struct Candidate {
    ticket: u64,
    id: String,
}

/// The current life of a master.
#[derive(Debug)]
struct Life {
    me: MasterInfo,
    number: u64,
    alive: bool,
}

// === impl State ===

impl State {
    pub(super) fn join(&mut self, me: &MasterInfo) -> u64 {
        self.crash(&me.id);
        let number = self.next();
        self.members.insert(
            me.id.clone(),
            Life {
                me: me.clone(),
                number,
                alive: true,
            },
        );
        number
    }

    pub(super) fn crash(&mut self, id: &str) {
        if self.held.as_ref().is_some_and(|held| held.id == id) {
            self.end_leadership(true);
        }
        self.queue.retain(|candidate| candidate.id != id);
        if self.heir.as_deref() == Some(id) {
            self.heir = None;
        }
        if let Some(life) = self.members.get_mut(id) {
            life.alive = false;
        }
    }

    pub(super) fn alive(&self, id: &str, life: u64) -> bool {
        self.members
            .get(id)
            .is_some_and(|found| found.alive && found.number == life)
    }

    /// Ends whatever leadership is in force. Untold, its holder goes on until it meets the fence.
    pub(super) fn end_leadership(&mut self, told: bool) -> Option<Epoch> {
        let held = self.held.take()?;
        if told {
            self.ended = self.ended.max(held.leadership.epoch);
            held.leadership.lost.cancel();
        }
        Some(held.leadership.epoch)
    }

    /// Ends the leadership of this life, and no other.
    pub(super) fn resign(&mut self, id: &str, life: u64) {
        if self.leads(id, life) {
            self.end_leadership(true);
        }
    }

    pub(super) fn leads(&self, id: &str, life: u64) -> bool {
        self.held
            .as_ref()
            .is_some_and(|held| held.id == id && held.life == life)
    }

    pub(super) fn enqueue(&mut self, id: &str) -> u64 {
        let ticket = self.next();
        self.queue.push_back(Candidate {
            ticket,
            id: id.to_owned(),
        });
        ticket
    }

    pub(super) fn withdraw(&mut self, ticket: u64) {
        let Some(at) = self
            .queue
            .iter()
            .position(|candidate| candidate.ticket == ticket)
        else {
            return;
        };
        let gone = self.queue.remove(at);
        if gone.is_some_and(|gone| self.heir == Some(gone.id)) {
            self.heir = None;
        }
    }

    /// Gives the free leadership to the candidate whose turn it is, if that is `ticket`.
    pub(super) fn take(&mut self, ticket: u64, life: u64) -> Option<Leadership> {
        if self.held.is_some() || self.turn()? != ticket {
            return None;
        }
        let at = self
            .queue
            .iter()
            .position(|candidate| candidate.ticket == ticket)?;
        let id = self.queue.remove(at)?.id;
        self.heir = None;
        self.newest = Epoch(self.newest.max(self.floor).0 + 1);
        let leadership = Leadership {
            epoch: self.newest,
            lost: CancellationToken::new(),
        };
        self.held = Some(Held {
            id,
            life,
            leadership: leadership.clone(),
        });
        Some(leadership)
    }

    fn turn(&self) -> Option<u64> {
        let mut waiting = self.queue.iter();
        match &self.heir {
            Some(heir) => waiting.find(|candidate| candidate.id == *heir),
            None => waiting.next(),
        }
        .map(|candidate| candidate.ticket)
    }

    /// Frees the leadership for `to`, or for the next in the queue; returns who that is.
    pub(super) fn hand_over(&mut self, to: Option<&str>) -> Option<String> {
        let heir = match to {
            Some(to) => self.queue.iter().find(|candidate| candidate.id == to),
            None => self.queue.front(),
        }?
        .id
        .clone();
        self.end_leadership(true);
        self.heir = Some(heir.clone());
        Some(heir)
    }

    /// The epoch that has taken over from `epoch`, if its leadership is known to be over.
    pub(super) fn successor(&self, epoch: Epoch) -> Option<Epoch> {
        (epoch < self.newest || epoch <= self.ended).then_some(self.newest)
    }

    pub(super) fn note_opened(&mut self) {
        self.newest = self.newest.max(self.store.opened());
    }

    pub(super) fn raise_epoch(&mut self, floor: Epoch) {
        self.floor = self.floor.max(floor);
    }

    pub(super) fn view(&self) -> LeaderView {
        let leader = self
            .held
            .as_ref()
            .and_then(|held| self.members.get(&held.id));
        LeaderView {
            leader: leader.map(|life| life.me.clone()),
            epoch: self
                .held
                .as_ref()
                .map_or(self.newest, |held| held.leadership.epoch),
            masters: self.members.values().map(|life| life.me.clone()).collect(),
        }
    }

    pub(super) fn statuses(&self) -> Vec<MemberStatus> {
        let status = |(id, life): (&String, &Life)| MemberStatus {
            id: id.clone(),
            rpc: life.me.rpc.clone(),
            voter: true,
            healthy: Some(life.alive),
            lag: Some(0),
        };
        self.members.iter().map(status).collect()
    }

    fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }
}
