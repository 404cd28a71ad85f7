//! The world: all nodes, and the loop that lets one thing happen after the other.

mod rest;
mod wires;

use std::{collections::BTreeSet, time::Duration};

use interrex_core::leader::LeaderMachine;

use super::{
    agent::Agent,
    app::App,
    client::Client,
    clock::At,
    env::{Env, Happening},
    master::Master,
    net::{End, Node, Way},
    plan::Plan,
    plant::Plant,
    store::{Answer, OpId},
};
use crate::history::{History, Kind, Op};

/// How often elections and keep-alives are looked at.
const HOUSEKEEPING: Duration = Duration::from_millis(100);
/// How long a leader must be away before another one is elected.
const ELECTION_TIMEOUT: Duration = Duration::from_millis(400);
/// How long a broken link is not noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(4);
/// Events of one world; more mean that something spins.
const EVENTS_MAX: u64 = 3_000_000;

/// All nodes.
#[derive(Debug)]
pub(crate) struct World {
    pub(super) env: Env,
    pub(super) masters: Vec<Master>,
    pub(super) agents: Vec<Agent>,
    pub(super) apps: Vec<App>,
    pub(super) clients: Vec<Client>,
    pub(super) cut_since: Vec<((Node, usize), At)>,
    pub(super) drained: BTreeSet<usize>,
    leaderless_since: Option<At>,
    elected_at: At,
    events: u64,
}

/// What became of a world.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// What happened.
    pub(crate) history: History,
    /// The newest lines of the trace.
    pub(crate) trace: Vec<String>,
    /// How often each kind of fault hit something.
    pub(crate) hits: std::collections::BTreeMap<&'static str, u64>,
    /// Batches that were stored.
    pub(crate) commits: u64,
    /// Leaderships.
    pub(crate) epochs: u64,
    /// How long it was, in the world's time.
    pub(crate) lasted: Duration,
}

// === impl World ===

impl World {
    /// The world of a seed, before anything happens.
    #[must_use]
    pub(crate) fn new(seed: u64, plant: Option<Plant>) -> Self {
        let plan = Plan::drawn(seed);
        let mut env = Env::new(seed, plan.clone(), plant);
        let mut off = || env.chance.time(Duration::ZERO, plan.clock_off);
        let masters = (0..plan.masters).map(|n| Master::new(n, off())).collect();
        let agents = (0..plan.agents.len())
            .map(|n| Agent::new(n, off()))
            .collect();
        let apps = plan.apps.iter().cloned().enumerate();
        Self {
            masters,
            agents,
            apps: apps.map(|(n, app)| App::new(n, app)).collect(),
            clients: (0..plan.clients).map(Client::new).collect(),
            cut_since: Vec::new(),
            drained: BTreeSet::new(),
            leaderless_since: Some(At::default()),
            elected_at: At::default(),
            events: 0,
            env,
        }
    }

    /// Lets everything happen, at most until `until`.
    #[must_use]
    pub(crate) fn run(mut self, until: Option<At>) -> Outcome {
        self.begin();
        let faults_end = At::default().plus(self.env.plan.faults_for);
        let mut give_up = At(u64::MAX);
        while let Some((at, happening)) = self.env.queue.pop() {
            if until.is_some_and(|until| at > until) || at > give_up {
                break;
            }
            self.events += 1;
            if self.events > EVENTS_MAX {
                self.env.broken("world", "something spins: too many events");
                break;
            }
            self.env.now = at;
            let looks = matches!(happening, Happening::Housekeeping);
            self.happen(happening);
            if !self.env.calm && self.env.now >= faults_end {
                self.calm();
                give_up = self.env.now.plus(self.env.plan.rests_within());
            }
            if looks && self.env.calm && self.is_at_rest() {
                self.env.note("nemesis", Kind::Info, Op::Converged, "");
                break;
            }
        }
        self.finish()
    }

    fn begin(&mut self) {
        let Self {
            env,
            masters,
            agents,
            clients,
            apps,
            ..
        } = self;
        masters.iter_mut().for_each(|master| master.start(env));
        agents.iter_mut().for_each(|agent| agent.start(env));
        for (n, app) in env.plan.apps.clone().into_iter().enumerate() {
            env.after(app.begins, Happening::Timer(apps[n].node(), 0, 0));
        }
        for client in clients.iter() {
            env.after(HOUSEKEEPING, Happening::Timer(client.node(), 1, 0));
        }
        env.after(HOUSEKEEPING, Happening::Housekeeping);
        for (n, (at, _job)) in env.plan.jobs.clone().into_iter().enumerate() {
            env.after(at, Happening::Nemesis(JOB + n as u64));
        }
        for (n, (at, _job)) in env.plan.kills.clone().into_iter().enumerate() {
            env.after(at, Happening::Nemesis(KILL + n as u64));
        }
        let wait = env
            .chance
            .time(env.plan.fault_every.0, env.plan.fault_every.1);
        env.after(Duration::from_secs(1) + wait, Happening::Nemesis(FAULT));
    }

    fn happen(&mut self, happening: Happening) {
        if let Some(resumes) = self.waits_for(&happening) {
            self.env.queue.put(At(resumes.0 + 1), happening);
            return;
        }
        match happening {
            Happening::Dialled(conn) => self.dialled(conn),
            Happening::Frame(conn, way, frame) => self.frame(conn, way, frame),
            Happening::Gone(conn, end) => self.gone(conn, end),
            Happening::Call(call, master, client, request) => {
                let master = &mut self.masters[master];
                if master.up {
                    master.on_call(call, client, request, &mut self.env);
                }
            }
            Happening::Answer(call, client, response) => {
                self.clients[client].on_answer(call, response, &mut self.env);
            }
            Happening::Store(op) => self.store(op),
            Happening::StoreAnswer(master, life, op, answer) => {
                let master = &mut self.masters[master];
                if master.up && master.life == life {
                    master.on_store(op, answer, &mut self.env);
                }
            }
            Happening::Elected(master, life, epoch, leadership) => {
                let newest = self.env.store.is_newest(leadership);
                let master = &mut self.masters[master];
                if master.up && master.life == life && newest {
                    master.on_elected(epoch, leadership, &mut self.env);
                }
            }
            Happening::Deposed(master, life, leadership) => {
                let master = &mut self.masters[master];
                if master.up && master.life == life {
                    master.on_deposed(leadership, &mut self.env);
                }
            }
            Happening::Timer(node, life, timer) => self.timer(node, life, timer),
            Happening::Written(agent, life, sequence, stored) => {
                let agent = &mut self.agents[agent];
                if agent.is_up() && agent.life == life {
                    agent.on_written(sequence, stored, &mut self.env);
                }
            }
            Happening::Process(agent, life, key, what) => {
                self.agents[agent].on_process(life, &key, what, &mut self.env);
            }
            Happening::Told(agent, life, event) => {
                let agent = &mut self.agents[agent];
                if agent.is_up() && agent.life == life {
                    agent.on_told(*event, &mut self.env);
                }
            }
            Happening::Nemesis(step) => self.step(step),
            Happening::Housekeeping => {
                self.env.after(HOUSEKEEPING, Happening::Housekeeping);
                self.keep_alive();
                self.elect();
            }
        }
    }

    /// When a stopped node goes on that this is for.
    fn waits_for(&self, happening: &Happening) -> Option<At> {
        let node = match happening {
            Happening::Dialled(conn) => {
                let known = self.env.net.conn(*conn)?;
                let master = self.paused(Node::Master(known.master));
                return master.max(self.paused(known.peer));
            }
            Happening::Frame(conn, way, _) => {
                let conn = self.env.net.conn(*conn)?;
                match way {
                    Way::Up => Node::Master(conn.master),
                    Way::Down => conn.peer,
                }
            }
            Happening::Gone(conn, end) => {
                let conn = self.env.net.conn(*conn)?;
                match end {
                    End::Master => Node::Master(conn.master),
                    End::Peer => conn.peer,
                }
            }
            Happening::Call(_, master, _, _)
            | Happening::StoreAnswer(master, ..)
            | Happening::Elected(master, ..)
            | Happening::Deposed(master, ..) => Node::Master(*master),
            Happening::Timer(node, ..) => *node,
            Happening::Written(agent, ..) | Happening::Told(agent, ..) => Node::Agent(*agent),
            // Processes and their supervisors go on while their agent is stopped.
            Happening::Process(..)
            | Happening::Answer(..)
            | Happening::Store(_)
            | Happening::Nemesis(_)
            | Happening::Housekeeping => return None,
        };
        self.paused(node)
    }

    pub(super) fn paused(&self, node: Node) -> Option<At> {
        let until = match node {
            Node::Master(n) => self.masters[n].paused_until,
            Node::Agent(n) => self.agents[n].paused_until,
            Node::App(_) | Node::Client(_) => None,
        };
        until.filter(|until| *until > self.env.now)
    }

    fn life(&self, node: Node) -> Option<u32> {
        match node {
            Node::Master(n) => self.masters[n].up.then(|| self.masters[n].life),
            Node::Agent(n) => self.agents[n].is_up().then(|| self.agents[n].life),
            Node::App(n) => Some(self.apps[n].life),
            Node::Client(_) => Some(1),
        }
    }

    fn timer(&mut self, node: Node, life: u32, timer: u64) {
        match node {
            Node::App(n) if life == 0 => self.apps[n].start(&mut self.env),
            Node::Client(n) => self.clients[n].on_timer(&mut self.env),
            _node if self.life(node) != Some(life) => {}
            Node::Master(n) => self.masters[n].on_timer(&mut self.env),
            Node::Agent(n) => self.agents[n].on_timer(timer, &mut self.env),
            Node::App(n) => self.apps[n].on_timer(timer, &mut self.env),
        }
    }

    fn store(&mut self, op: OpId) {
        let env = &mut self.env;
        let refused = env.loses("store-refuses", env.plan.store_refused_percent);
        let carried = if refused {
            env.store.refuse(op).map(|asked| (asked, Answer::Rejected))
        } else {
            env.store.carry_out(op, env.plant)
        };
        let Some((asked, answer)) = carried else {
            return;
        };
        if env.is_cut_off(asked.master)
            || env.loses("store-answer-lost", env.plan.store_lost_percent)
        {
            return;
        }
        let wait = env.store_latency();
        let life = self.masters[asked.master].life;
        self.env
            .after(wait, Happening::StoreAnswer(asked.master, life, op, answer));
    }

    /// Connections over links that have been cut for long, or with a node that has been stopped for long, break.
    fn keep_alive(&mut self) {
        let now = self.env.now;
        let stale: Vec<_> = self
            .cut_since
            .iter()
            .filter(|(_, since)| now.since(*since) > KEEP_ALIVE)
            .map(|(link, _)| *link)
            .collect();
        for (peer, master) in stale {
            for conn in self.env.net.over(peer, master) {
                for end in [End::Peer, End::Master] {
                    let node = match end {
                        End::Peer => peer,
                        End::Master => Node::Master(master),
                    };
                    if self.paused(node).is_none() {
                        self.lose(conn, end);
                    }
                }
            }
        }
    }

    /// Elects somebody when nobody leads for long enough.
    fn elect(&mut self) {
        let now = self.env.now;
        let present = self.env.store.holder.is_some_and(|(master, _)| {
            self.masters[master].up
                && (self.masters[master].believes().is_some()
                    || now.since(self.elected_at) < ELECTION_TIMEOUT)
                && self.paused(Node::Master(master)).is_none()
                && !self.env.is_cut_off(master)
        });
        if present {
            self.leaderless_since = None;
            return;
        }
        let since = *self.leaderless_since.get_or_insert(now);
        if now.since(since) >= ELECTION_TIMEOUT {
            self.elect_somebody(None);
        }
    }

    /// Elects a master that can lead, another one than `but`; the old leader learns of it later.
    pub(super) fn elect_somebody(&mut self, but: Option<usize>) {
        let now = self.env.now;
        let able: Vec<_> = (0..self.masters.len())
            .filter(|n| {
                let master = &self.masters[*n];
                Some(*n) != but
                    && master.up
                    && self.paused(Node::Master(*n)).is_none()
                    && !self.env.is_cut_off(*n)
                    && master.rests_until <= now
                    && master.believes().is_none()
            })
            .collect();
        if able.is_empty() {
            return;
        }
        let chosen = able[self.env.chance.index(able.len())];
        let again = self.env.chance.percent(50.0);
        let (epoch, leadership) = self.env.store.elect(chosen, again);
        self.leaderless_since = None;
        self.elected_at = now;
        let wait = self
            .env
            .chance
            .time(Duration::from_millis(5), Duration::from_millis(60));
        let life = self.masters[chosen].life;
        self.env
            .after(wait, Happening::Elected(chosen, life, epoch, leadership));
        for n in 0..self.masters.len() {
            if let Some(old) = self.masters[n].believes() {
                let wait = self.env.chance.time(Duration::ZERO, Duration::from_secs(3));
                let life = self.masters[n].life;
                self.env.after(wait, Happening::Deposed(n, life, old));
            }
        }
    }

    pub(super) fn leader(&self) -> Option<&LeaderMachine> {
        let (master, _) = self.env.store.holder?;
        self.masters[master].machine()
    }
}

/// Steps of the nemesis: which kind of thing is due.
pub(super) const FAULT: u64 = 0;
pub(super) const JOB: u64 = 1_000_000;
pub(super) const KILL: u64 = 2_000_000;
pub(super) const RESTART_MASTER: u64 = 3_000_000;
pub(super) const RESTART_AGENT: u64 = 4_000_000;
pub(super) const HEAL: u64 = 5_000_000;
pub(super) const UNDRAIN: u64 = 6_000_000;
