//! The nemesis: what breaks, when, and when it is whole again; and what users ask for meanwhile.

use std::time::Duration;

use serde_json::json;

use super::{
    clock::At,
    env::Happening,
    net::{Cut, End, Node},
    plan::Fault,
    world::{FAULT, HEAL, JOB, KILL, RESTART_AGENT, RESTART_MASTER, UNDRAIN, World},
};
use crate::history::{Kind, Op};

/// What a fault hit.
struct Hit {
    /// The node or nodes, as the history names them.
    node: String,
    /// How long it will last; `None`: it takes an instant.
    lasts: Option<Duration>,
}

/// An operator looks again after this whether a worker gets work.
const UNDRAINED_WITHIN: Duration = Duration::from_secs(10);

// === impl Hit ===

impl Hit {
    fn of(node: impl ToString, lasts: Duration) -> Self {
        Self {
            node: node.to_string(),
            lasts: Some(lasts),
        }
    }

    fn instant(node: impl ToString) -> Self {
        Self {
            node: node.to_string(),
            lasts: None,
        }
    }
}

// === impl World ===

impl World {
    /// Something is due.
    pub(super) fn step(&mut self, step: u64) {
        let nth = |from: u64| usize::try_from(step - from).unwrap_or(0);
        match step {
            FAULT => self.next_fault(),
            UNDRAIN.. => self.undrain(nth(UNDRAIN)),
            HEAL.. => {
                let (master, peer) = (nth(HEAL) % 100, nth(HEAL) / 100);
                let peer = self.peers().get(peer).copied();
                if let Some(peer) = peer {
                    self.set_cut(peer, master, Cut::default());
                }
            }
            RESTART_AGENT.. => self.restart_agent(nth(RESTART_AGENT)),
            RESTART_MASTER.. => self.restart_master(nth(RESTART_MASTER)),
            KILL.. => {
                let (_, job) = self.env.plan.kills[nth(KILL)];
                let client = job % self.clients.len();
                let submission = format!("s{job}");
                self.clients[client].kill(&submission, &mut self.env);
            }
            JOB.. => {
                let n = nth(JOB);
                let (_, job) = self.env.plan.jobs[n].clone();
                let client = n % self.clients.len();
                self.clients[client].submit(&format!("s{n}"), job, &mut self.env);
            }
            _never => {}
        }
    }

    /// Everybody who may be cut off, in a fixed order: peers, clients, and the masters' own ways to the store.
    fn peers(&self) -> Vec<Node> {
        let agents = (0..self.agents.len()).map(Node::Agent);
        let apps = (0..self.apps.len()).map(Node::App);
        let clients = (0..self.clients.len()).map(Node::Client);
        let masters = (0..self.masters.len()).map(Node::Master);
        agents.chain(apps).chain(clients).chain(masters).collect()
    }

    fn next_fault(&mut self) {
        if self.env.calm {
            return;
        }
        let (from, to) = self.env.plan.fault_every;
        let wait = self.env.chance.time(from, to);
        self.env.after(wait, Happening::Nemesis(FAULT));
        let faults = self.env.plan.faults.clone();
        if faults.is_empty() {
            return;
        }
        let fault = faults[self.env.chance.index(faults.len())];
        let took = match fault {
            Fault::MasterCrash => self.crash_master(),
            Fault::MasterPause => self.pause_master(),
            Fault::MasterCutOff => self.cut_off_master(),
            Fault::TwoLeaders => self.two_leaders(),
            Fault::AgentCrash => self.crash_agent(),
            Fault::AgentPause => self.pause_agent(),
            Fault::LinkCut => self.cut_link(),
            Fault::PeerCutOff => self.cut_off_peer(),
            Fault::Reset => self.reset(),
            Fault::PowerCut => self.power_cut(),
            Fault::Drain => self.drain(),
        };
        if let Some(Hit { node, lasts }) = took {
            self.env.hit(fault.name());
            self.env
                .trace("nemesis", || format!("{} {node}", fault.name()));
            let until = lasts.map(|lasts| self.env.now.plus(lasts).0);
            let record = self
                .env
                .note("nemesis", Kind::Info, Op::Fault, fault.name());
            record.value = match until {
                Some(until) => json!({"node": node, "hit": true, "until": until}),
                None => json!({"node": node, "hit": true}),
            };
        }
    }

    fn pick_master(&mut self) -> Option<usize> {
        // The leader is what matters most.
        let leader = self.env.store.holder.map(|(master, _)| master);
        let chosen = if self.env.chance.percent(60.0) {
            leader
        } else {
            None
        };
        let n = chosen.unwrap_or_else(|| self.env.chance.index(self.masters.len()));
        self.masters[n].up.then_some(n)
    }

    fn crash_master(&mut self) -> Option<Hit> {
        let n = self.pick_master()?;
        self.masters[n].crash(&mut self.env);
        let wait = self
            .env
            .chance
            .time(Duration::from_millis(50), Duration::from_secs(8));
        self.env
            .after(wait, Happening::Nemesis(RESTART_MASTER + n as u64));
        Some(Hit::of(Node::Master(n), wait))
    }

    fn pause_master(&mut self) -> Option<Hit> {
        let n = self.pick_master()?;
        let wait = self
            .env
            .chance
            .time(Duration::from_millis(200), Duration::from_secs(12));
        self.masters[n].paused_until = Some(self.env.now.plus(wait));
        Some(Hit::of(Node::Master(n), wait))
    }

    fn cut_off_master(&mut self) -> Option<Hit> {
        let n = self.pick_master()?;
        let cut = Cut {
            up: true,
            down: true,
        };
        let lasts = self.cut_for(Node::Master(n), n, cut);
        // A leader without a quorum notices by itself, a little later.
        if let Some(leadership) = self.masters[n].believes() {
            let wait = self
                .env
                .chance
                .time(Duration::from_millis(300), Duration::from_secs(2));
            let life = self.masters[n].life;
            self.env
                .after(wait, Happening::Deposed(n, life, leadership));
        }
        Some(Hit::of(Node::Master(n), lasts))
    }

    fn two_leaders(&mut self) -> Option<Hit> {
        let (old, _) = self.env.store.holder?;
        let before = self.env.store.epochs();
        self.elect_somebody(Some(old));
        let elected = self.env.store.epochs() > before;
        elected.then(|| Hit::instant(Node::Master(old)))
    }

    fn crash_agent(&mut self) -> Option<Hit> {
        let n = self.env.chance.index(self.agents.len());
        if !self.agents[n].is_up() {
            return None;
        }
        self.agents[n].crash(&mut self.env);
        let wait = self
            .env
            .chance
            .time(Duration::from_millis(20), Duration::from_secs(10));
        self.env
            .after(wait, Happening::Nemesis(RESTART_AGENT + n as u64));
        Some(Hit::of(Node::Agent(n), wait))
    }

    fn pause_agent(&mut self) -> Option<Hit> {
        let n = self.env.chance.index(self.agents.len());
        if !self.agents[n].is_up() {
            return None;
        }
        let wait = self
            .env
            .chance
            .time(Duration::from_millis(200), Duration::from_secs(10));
        self.agents[n].paused_until = Some(self.env.now.plus(wait));
        Some(Hit::of(Node::Agent(n), wait))
    }

    fn cut_link(&mut self) -> Option<Hit> {
        let peers = self.peers();
        let peers: Vec<_> = peers
            .into_iter()
            .filter(|peer| !matches!(peer, Node::Master(_)))
            .collect();
        let peer = peers[self.env.chance.index(peers.len())];
        let master = self.env.chance.index(self.masters.len());
        let cut = match self.env.chance.index(3) {
            0 => Cut {
                up: true,
                down: false,
            },
            1 => Cut {
                up: false,
                down: true,
            },
            _both => Cut {
                up: true,
                down: true,
            },
        };
        let lasts = self.cut_for(peer, master, cut);
        let ends = format!("{peer} {}", Node::Master(master));
        Some(Hit::of(ends, lasts))
    }

    fn cut_off_peer(&mut self) -> Option<Hit> {
        let peer = Node::Agent(self.env.chance.index(self.agents.len()));
        let cut = Cut {
            up: true,
            down: true,
        };
        let lasts = (0..self.masters.len())
            .map(|master| self.cut_for(peer, master, cut))
            .max()?;
        Some(Hit::of(peer, lasts))
    }

    /// Returns for how long.
    fn cut_for(&mut self, peer: Node, master: usize, cut: Cut) -> Duration {
        self.set_cut(peer, master, cut);
        let Some(number) = self.peers().iter().position(|known| *known == peer) else {
            return Duration::ZERO;
        };
        let wait = self
            .env
            .chance
            .time(Duration::from_millis(100), Duration::from_secs(12));
        let step = HEAL + (number * 100 + master) as u64;
        self.env.after(wait, Happening::Nemesis(step));
        wait
    }

    /// A worker is drained, and undrained a little later: by somebody who asks, as everybody does.
    fn drain(&mut self) -> Option<Hit> {
        let n = self.env.chance.index(self.agents.len());
        let worker = Node::Agent(n).to_string();
        self.clients[0].drain(&worker, false, &mut self.env);
        self.drained.insert(n);
        let wait = self
            .env
            .chance
            .time(Duration::from_millis(500), Duration::from_secs(9));
        self.env.after(wait, Happening::Nemesis(UNDRAIN + n as u64));
        Some(Hit::of(worker, wait))
    }

    fn undrain(&mut self, n: usize) {
        let worker = Node::Agent(n).to_string();
        let again = Happening::Nemesis(UNDRAIN + n as u64);
        if self.clients[0].has_open_drain(&worker) {
            // Two requests at the same time have no order.
            self.env.after(Duration::from_millis(500), again);
        } else if self.drained.remove(&n) || (self.env.calm && self.is_drained(&worker)) {
            self.clients[0].drain(&worker, true, &mut self.env);
            self.env.after(UNDRAINED_WITHIN, again);
        }
    }

    fn is_drained(&self, worker: &str) -> bool {
        let known = self
            .leader()
            .and_then(|machine| machine.state().worker(&worker.into()));
        known.is_some_and(|worker| worker.drain.is_some())
    }

    fn set_cut(&mut self, peer: Node, master: usize, cut: Cut) {
        self.env.net.set_cut(peer, master, cut);
        self.cut_since.retain(|(link, _)| *link != (peer, master));
        if cut == Cut::default() {
            // What was held back arrives now, in order.
            for id in self.env.net.over(peer, master) {
                let waiting = self
                    .env
                    .net
                    .conn_mut(id)
                    .map(super::net::Conn::take_waiting)
                    .unwrap_or_default();
                for (way, frame) in waiting {
                    self.env.send(id, way, frame);
                }
            }
        } else {
            self.cut_since.push(((peer, master), self.env.now));
        }
    }

    fn reset(&mut self) -> Option<Hit> {
        let agent = Node::Agent(self.env.chance.index(self.agents.len()));
        let conns = self.env.net.of(agent);
        if conns.is_empty() {
            return None;
        }
        let conn = conns[self.env.chance.index(conns.len())];
        for end in [End::Peer, End::Master] {
            let wait = self.env.latency();
            self.env.after(wait, Happening::Gone(conn, end));
        }
        Some(Hit::instant(agent))
    }

    fn power_cut(&mut self) -> Option<Hit> {
        let back = self
            .env
            .chance
            .time(Duration::from_millis(500), Duration::from_secs(5));
        for n in 0..self.masters.len() {
            if self.masters[n].up {
                self.masters[n].crash(&mut self.env);
                let wait = back + self.env.chance.time(Duration::ZERO, Duration::from_secs(1));
                self.env
                    .after(wait, Happening::Nemesis(RESTART_MASTER + n as u64));
            }
        }
        for n in 0..self.agents.len() {
            if self.agents[n].is_up() {
                self.agents[n].crash(&mut self.env);
                let wait = back + self.env.chance.time(Duration::ZERO, Duration::from_secs(1));
                self.env
                    .after(wait, Happening::Nemesis(RESTART_AGENT + n as u64));
            }
        }
        Some(Hit::of("all", back))
    }

    fn restart_master(&mut self, n: usize) {
        if !self.masters[n].up {
            if self.env.store.holder.is_some_and(|(holder, _)| holder == n) {
                self.env.store.holder = None;
            }
            self.masters[n].start(&mut self.env);
        }
    }

    fn restart_agent(&mut self, n: usize) {
        if !self.agents[n].is_up() {
            self.agents[n].start(&mut self.env);
        }
    }

    /// No more faults: everything is up, whole and connected.
    pub(super) fn calm(&mut self) {
        self.env.calm = true;
        let hits: u64 = self.env.hits.values().sum();
        self.env.note("nemesis", Kind::Info, Op::Calm, "").value = json!({"hits": hits});
        self.env
            .trace("nemesis", || "the faults are over".to_owned());
        for (peer, master) in self.env.net.cut_links() {
            self.set_cut(peer, master, Cut::default());
        }
        let now = At(self.env.now.0);
        for n in 0..self.masters.len() {
            if self.masters[n]
                .paused_until
                .is_some_and(|until| until > now)
            {
                self.masters[n].paused_until = Some(now);
            }
            self.restart_master(n);
        }
        for n in 0..self.agents.len() {
            if self.agents[n].paused_until.is_some_and(|until| until > now) {
                self.agents[n].paused_until = Some(now);
            }
            self.restart_agent(n);
            self.undrain(n);
            // Of a drain that its client has given up, an old try may still arrive now, behind its undoing.
            let again = Happening::Nemesis(UNDRAIN + n as u64);
            self.env.after(UNDRAINED_WITHIN, again);
        }
    }
}
