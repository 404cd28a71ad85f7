//! What every node of the world shares: time, dice, network, store and history.
//!
//! Nodes never touch each other. What one does to another goes through the queue, so that the order of everything is
//! the queue's.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use interrex_agent::process::{ProcessEvent, WorkKey};
use serde_json::{Value, json};

use super::{
    chance::Chance,
    clock::{At, Queue},
    net::{ConnId, End, Frame, Net, Node, Way},
    plan::Plan,
    plant::Plant,
    store::{Answer, Asked, Op, OpId, SimStore},
};
use crate::history::{self, History, Kind, Record};

/// Lines of the trace that are kept.
const TRACE_LINES_MAX: usize = 4_000;

/// A call of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CallId(pub(crate) u64);

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    /// Run this driver.
    Submit {
        /// The client's id for it.
        request: String,
        /// What to run.
        job: super::plan::Job,
    },
    /// End this submission.
    Kill {
        /// The client's id for the kill.
        request: String,
        /// Which.
        submission: String,
    },
    /// Empty this worker, or let it work again.
    Drain {
        /// The client's id for it.
        request: String,
        /// Which.
        worker: String,
        /// Let it work again.
        undo: bool,
    },
    /// What has happened behind this place of the event log?
    Events {
        /// The newest event that is known; `None`: all that are kept.
        after: Option<u64>,
    },
    /// How is this submission?
    Status {
        /// Which.
        submission: String,
    },
}

/// What a client hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Response {
    /// Done; what it says.
    Done(Seen),
    /// Events, each with its number and a digest of it; `None`: what follows is no longer kept.
    Events(Option<Vec<(u64, u32)>>),
    /// Surely not done, and repeating it does not help.
    Refused(String),
    /// Surely not done: ask another master.
    NotLeader,
    /// Nobody knows.
    Unknown,
}

/// A submission as it was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Its driver.
    pub(crate) driver: String,
    /// Its state; empty for requests that have none.
    pub(crate) state: String,
    /// Its newest attempt.
    pub(crate) attempt: u32,
}

/// Something that happens.
#[derive(Debug)]
pub(crate) enum Happening {
    /// A dialled connection has come about, or has not.
    Dialled(ConnId),
    /// A frame arrives.
    Frame(ConnId, Way, Frame),
    /// An end of a connection learns that it is gone.
    Gone(ConnId, End),
    /// A call arrives at a master.
    Call(CallId, usize, usize, Request),
    /// Its answer arrives at the client.
    Answer(CallId, usize, Response),
    /// An operation arrives at the store.
    Store(OpId),
    /// Its answer arrives at a master, in the life that asked.
    StoreAnswer(usize, u32, OpId, Answer),
    /// The election has a result: master, life, epoch, leadership.
    Elected(usize, u32, u64, u64),
    /// A master learns that its leadership is gone.
    Deposed(usize, u32, u64),
    /// A node's own timer, in one of its lives.
    Timer(Node, u32, u64),
    /// An agent's disk has written a result.
    Written(usize, u32, u64, bool),
    /// A process of an agent comes to something, whether the agent goes on or not.
    Process(usize, u32, WorkKey, Process),
    /// An agent hears of a process.
    Told(usize, u32, Box<ProcessEvent>),
    /// The nemesis acts.
    Nemesis(u64),
    /// The world looks after itself: elections, keep-alives.
    Housekeeping,
}

/// What a process comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Process {
    /// It has started.
    Started,
    /// It ends by itself.
    Exits,
    /// The signal to end reaches it.
    Dies,
    /// Its supervisor looks whether its lease is over.
    Lease,
    /// Its lease is over, and so is it.
    LeaseOver,
}

/// All that nodes share.
#[derive(Debug)]
pub(crate) struct Env {
    /// The present.
    pub(crate) now: At,
    /// The future.
    pub(crate) queue: Queue<Happening>,
    /// Dice.
    pub(crate) chance: Chance,
    /// The network.
    pub(crate) net: Net,
    /// The store and the election.
    pub(crate) store: SimStore,
    /// What this world is like.
    pub(crate) plan: Plan,
    /// What happened.
    pub(crate) history: History,
    /// How often each kind of fault hit something.
    pub(crate) hits: BTreeMap<&'static str, u64>,
    /// A bug that is planted.
    pub(crate) plant: Option<Plant>,
    /// No more faults.
    pub(crate) calm: bool,
    trace: VecDeque<String>,
    next_call: u64,
}

// === impl Env ===

impl Env {
    /// The shared part of a world.
    #[must_use]
    pub(crate) fn new(seed: u64, plan: Plan, plant: Option<Plant>) -> Self {
        Self {
            now: At::default(),
            queue: Queue::default(),
            // Another stream than the one that made the plan.
            chance: Chance::new(seed ^ 0x9e37_79b9_7f4a_7c15),
            net: Net::default(),
            store: SimStore::default(),
            plan,
            history: History::default(),
            hits: BTreeMap::new(),
            plant,
            calm: false,
            trace: VecDeque::new(),
            next_call: 0,
        }
    }

    /// Later, `happening` happens.
    pub(crate) fn after(&mut self, wait: Duration, happening: Happening) {
        self.queue.put(self.now.plus(wait), happening);
    }

    /// A line of the trace.
    pub(crate) fn trace(&mut self, who: impl std::fmt::Display, what: impl FnOnce() -> String) {
        if self.trace.len() >= TRACE_LINES_MAX {
            self.trace.pop_front();
        }
        self.trace
            .push_back(format!("{} {who}: {}", self.now, what()));
    }

    /// The newest lines of the trace.
    #[must_use]
    pub(crate) fn take_trace(&mut self) -> Vec<String> {
        std::mem::take(&mut self.trace).into()
    }

    /// A fault hit something.
    pub(crate) fn hit(&mut self, fault: &'static str) {
        *self.hits.entry(fault).or_default() += 1;
    }

    /// A record of the history.
    pub(crate) fn note(
        &mut self,
        process: impl ToString,
        kind: Kind,
        op: history::Op,
        id: &str,
    ) -> &mut Record {
        let record = Record {
            time: self.now.0,
            process: process.to_string(),
            kind,
            op,
            id: id.to_owned(),
            attempt: None,
            epoch: None,
            value: Value::Null,
        };
        self.history.push_mut(record)
    }

    /// A machine's own invariant does not hold.
    pub(crate) fn broken(&mut self, process: impl ToString, what: &str) {
        self.note(process, Kind::Info, history::Op::Broken, "")
            .value = json!({"what": what});
    }

    /// How long a message takes.
    pub(crate) fn latency(&mut self) -> Duration {
        let slow = !self.calm && self.chance.percent(self.plan.slow_percent);
        if slow {
            self.hit("delay");
            self.chance
                .time(Duration::from_millis(50), self.plan.slow_max)
        } else {
            self.chance
                .time(Duration::from_micros(100), Duration::from_millis(2))
        }
    }

    /// Sends a frame; it arrives in order, late, or never.
    pub(crate) fn send(&mut self, conn: ConnId, way: Way, frame: Frame) {
        let at = self.now.plus(self.latency());
        let Some(known) = self.net.conn_mut(conn) else {
            return;
        };
        let at = known.arrival(way, at);
        self.queue.put(at, Happening::Frame(conn, way, frame));
    }

    /// An end closes a connection; the other one learns of it.
    pub(crate) fn close(&mut self, conn: ConnId, by: End) {
        self.net.release(conn, by);
        let other = by.other();
        // Whoever is told gets it behind all that was sent before.
        let at = self.now.plus(self.latency());
        let Some(known) = self.net.conn_mut(conn) else {
            return;
        };
        let at = known.arrival(other.way(), at);
        self.queue.put(at, Happening::Gone(conn, other));
    }

    /// A call sets out; the answer comes, or does not.
    pub(crate) fn call(&mut self, client: usize, master: usize, request: Request) -> CallId {
        let id = CallId(self.next_call);
        self.next_call += 1;
        let cut = self.net.cut(Node::Client(client), master);
        if cut.up || self.loses("lost-request", self.plan.lost_percent) {
            return id;
        }
        let wait = self.latency();
        self.after(wait, Happening::Call(id, master, client, request));
        id
    }

    /// A master answers a call.
    pub(crate) fn answer(
        &mut self,
        call: CallId,
        client: usize,
        master: usize,
        response: Response,
    ) {
        let cut = self.net.cut(Node::Client(client), master);
        if cut.down || self.loses("lost-reply", self.plan.lost_percent) {
            return;
        }
        let wait = self.latency();
        self.after(wait, Happening::Answer(call, client, response));
    }

    /// A master asks the store.
    pub(crate) fn ask_store(&mut self, master: (usize, u32), op: Op) -> OpId {
        let commits = matches!(op, Op::Commit(_));
        let planted = self.plant == Some(Plant::AckBeforeCommit) && commits;
        let id = self.store.ask(Asked {
            master: master.0,
            op,
        });
        if planted {
            // "It will be stored": said at once, and often true.
            self.after(
                Duration::from_micros(200),
                Happening::StoreAnswer(master.0, master.1, id, Answer::Committed),
            );
        }
        if self.is_cut_off(master.0)
            || self.loses("store-request-lost", self.plan.store_lost_percent)
        {
            self.store.lose(id);
            return id;
        }
        let wait = self.store_latency();
        self.after(wait, Happening::Store(id));
        id
    }

    /// Whether a master cannot reach the store's quorum.
    #[must_use]
    pub(crate) fn is_cut_off(&self, master: usize) -> bool {
        let cut = self.net.cut(Node::Master(master), master);
        cut.up || cut.down
    }

    /// How long an operation of the store takes.
    pub(crate) fn store_latency(&mut self) -> Duration {
        if !self.calm && self.chance.percent(self.plan.store_slow_percent) {
            self.hit("slow-store");
            self.chance
                .time(Duration::from_millis(100), Duration::from_secs(4))
        } else {
            self.chance
                .time(Duration::from_micros(300), Duration::from_millis(4))
        }
    }

    /// Whether something is lost now.
    pub(crate) fn loses(&mut self, fault: &'static str, percent: f64) -> bool {
        let lost = !self.calm && self.chance.percent(percent);
        if lost {
            self.hit(fault);
        }
        lost
    }
}
