//! A simulated agent: the production session and worker machines, over a simulated disk and simulated processes.

mod processes;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use interrex_agent::{
    process::{EndCause, ProcessEvent, WorkKey, protocol::Lease, record::AttemptRecord},
    worker::{Action, Event, MachineOptions, Now, WorkerMachine},
};
use interrex_client::session::{Input, Moment, Output, SessionMachine, SessionTimings, StreamId};
use interrex_proto::v1::{
    Exit, MasterFrame, WorkReport, WorkerSpec, master_frame, peer_frame::Body,
};
use serde_json::json;

use super::{
    clock::At,
    env::{Env, Happening, Process},
    net::{self, ConnId, End, Frame, Node, Way},
    plant::Plant,
};
use crate::history::{Kind, Op};

/// How long the supervisors of a dead agent take to end what it ran.
const SUPERVISORS_END_WITHIN: Duration = Duration::from_millis(500);
/// How often a supervisor looks at its lease.
const LEASE_WATCHED_EVERY: Duration = Duration::from_millis(50);
/// Report numbers that one life of an agent may use.
const SEQUENCES_PER_LIFE: u64 = 1_000_000;
/// How whatever has run ends, unless by itself. Only what was never started ends without an exit.
const SIGKILLED: Option<Exit> = Some(Exit {
    code: None,
    signal: Some(9),
});

/// What survives the agent's death.
#[derive(Debug, Default)]
struct Disk {
    epoch: u64,
    cluster: String,
    results: BTreeMap<u64, WorkReport>,
    attempts: BTreeMap<WorkKey, AttemptRecord>,
    /// What supervisors wrote about the ends of attempts.
    endings: BTreeMap<WorkKey, Exit>,
}

/// A process and all below it.
#[derive(Debug, Clone)]
struct Running {
    exits_with: i32,
    stubborn: bool,
    started: bool,
    /// Until when it may run.
    lease: Option<Lease>,
    /// The agent's life that started it.
    life: u32,
}

/// What one half of the agent has for the other. In order, as the channel between them keeps it.
#[derive(Debug)]
enum Todo {
    Session(Input),
    /// A report of this number is to be sent.
    Send(u64, Body),
    Worker(Event),
}

/// What lives while the agent lives.
#[derive(Debug)]
struct Mind {
    session: SessionMachine,
    worker: WorkerMachine,
    born: At,
    todo: VecDeque<Todo>,
    /// Results that are on their way to the disk.
    writing: BTreeMap<u64, WorkReport>,
}

/// An agent.
#[derive(Debug)]
pub(crate) struct Agent {
    index: usize,
    /// Which of its lives this is; 0 before the first.
    pub(crate) life: u32,
    /// Stopped until then.
    pub(crate) paused_until: Option<At>,
    mind: Option<Mind>,
    disk: Disk,
    processes: BTreeMap<WorkKey, Running>,
    clock_off: Duration,
    timer: u64,
    /// By order of which epoch each attempt was started, and which one had been heard of then: as frames came over the
    /// network, not as the machines took them.
    ordered_by: BTreeMap<WorkKey, (u64, u64)>,
    /// The largest epoch of all frames that came over the network.
    heard: u64,
}

// === impl Agent ===

impl Agent {
    /// An agent that has never lived.
    #[must_use]
    pub(crate) fn new(index: usize, clock_off: Duration) -> Self {
        Self {
            index,
            life: 0,
            paused_until: None,
            mind: None,
            disk: Disk::default(),
            processes: BTreeMap::new(),
            clock_off,
            timer: 0,
            ordered_by: BTreeMap::new(),
            heard: 0,
        }
    }

    /// Its name in the world.
    #[must_use]
    pub(crate) fn node(&self) -> Node {
        Node::Agent(self.index)
    }

    /// Whether it lives.
    #[must_use]
    pub(crate) fn is_up(&self) -> bool {
        self.mind.is_some()
    }

    /// What runs, whoever started it.
    pub(crate) fn running(&self) -> impl Iterator<Item = &WorkKey> {
        self.processes
            .iter()
            .filter(|(_, process)| process.started)
            .map(|(key, _)| key)
    }

    /// It runs nothing, as far as it knows, and has nothing left to say.
    #[must_use]
    pub(crate) fn is_at_rest(&self) -> bool {
        self.mind
            .as_ref()
            .is_some_and(|mind| mind.worker.has_reported_all() && mind.worker.is_idle())
    }

    /// Begins a life.
    pub(crate) fn start(&mut self, env: &mut Env) {
        self.life += 1;
        let (cores, memory_mib) = env.plan.agents[self.index];
        let offer = env.note(self.node(), Kind::Info, Op::Offer, "");
        offer.value = json!({"cores": cores, "memory_mib": memory_mib});
        let masters: Vec<_> = (0..env.plan.masters).map(net::address).collect();
        let options = MachineOptions {
            dictionaries: Vec::new(),
            spec: WorkerSpec {
                id: self.node().to_string(),
                host: self.node().to_string(),
                web: String::new(),
                cores,
                memory_mib,
                incarnation: format!("life-{}", self.life),
                work_dir_id: format!("dir-{}", self.index),
                ..Default::default()
            },
            masters: masters.clone(),
            cluster_id: self.disk.cluster.clone(),
            epoch: self.disk.epoch,
            kill_grace: Duration::from_secs(2),
            launch_wait: Duration::from_secs(5),
        };
        if env.plant == Some(Plant::LostOutbox) {
            self.disk.results.clear();
        }
        let former: Vec<_> = self.disk.attempts.values().cloned().collect();
        let seed = env.chance.seed();
        let Ok(session) = SessionMachine::new(&masters, self.disk.epoch, seed, timings()) else {
            return env.broken(self.node(), "the session does not take its masters");
        };
        let worker = WorkerMachine::new(
            options,
            u64::from(self.life) * SEQUENCES_PER_LIFE,
            self.disk.results.values().cloned().collect(),
            former.clone(),
        );
        self.mind = Some(Mind {
            session,
            worker,
            born: env.now,
            todo: VecDeque::new(),
            writing: BTreeMap::new(),
        });
        env.trace(self.node(), || format!("lives (life {})", former.len()));
        // As the runner does: what a former life left is told as soon as nothing of it is left.
        for record in former {
            if !self.processes.contains_key(&record.key) {
                self.tell_former(&record.key, env);
            }
        }
        self.add(Todo::Session(Input::Timer));
        self.work(env);
    }

    fn tell_former(&self, key: &WorkKey, env: &mut Env) {
        let event = match self.disk.endings.get(key) {
            Some(exit) => ProcessEvent::Ended {
                key: key.clone(),
                exit: Some(*exit),
                cause: EndCause::Itself,
            },
            None => ProcessEvent::Ended {
                key: key.clone(),
                exit: None,
                cause: EndCause::AgentGone,
            },
        };
        self.tell(self.life, event, env);
    }

    /// It dies: what is on its disk stays, its supervisors end what it ran.
    pub(crate) fn crash(&mut self, env: &mut Env) {
        self.mind = None;
        self.paused_until = None;
        for conn in env.net.of(self.node()) {
            env.close(conn, End::Peer);
        }
        let orphans: Vec<_> = self.processes.keys().cloned().collect();
        for key in orphans {
            let wait = env.chance.time(Duration::ZERO, SUPERVISORS_END_WITHIN);
            env.after(
                wait,
                Happening::Process(self.index, self.life, key, Process::Dies),
            );
        }
    }

    fn now(&self, now: At) -> Now {
        let elapsed = self
            .mind
            .as_ref()
            .map_or(Duration::ZERO, |mind| now.since(mind.born));
        let wall = super::master::WALL_START_MS + now.0 / 1_000;
        let off = u64::try_from(self.clock_off.as_millis()).unwrap_or(0);
        Now {
            elapsed,
            boot: now.since(At::default()),
            wall_ms: wall + off,
        }
    }

    /// A dialled connection has come about, or has not.
    pub(crate) fn on_dialled(&mut self, conn: ConnId, stream: StreamId, open: bool, env: &mut Env) {
        if open {
            self.session(Input::Opened { stream }, env);
        } else {
            env.net.release(conn, End::Peer);
            let reason = "connection refused".to_owned();
            self.session(Input::Disconnected { stream, reason }, env);
        }
    }

    /// A frame has arrived.
    pub(crate) fn on_frame(&mut self, stream: StreamId, mut frame: MasterFrame, env: &mut Env) {
        let stale = frame.epoch < self.heard;
        self.heard = self.heard.max(frame.epoch);
        let unfenced = env.plant == Some(Plant::NoAgentFence);
        if let Some(key) = ordered(&frame).filter(|_| !stale || unfenced) {
            self.ordered_by.insert(key, (frame.epoch, self.heard));
        }
        if env.plant == Some(Plant::NoAgentFence)
            && let Some(mind) = &self.mind
            && frame.epoch > 0
        {
            frame.epoch = frame.epoch.max(mind.session.seen());
        }
        self.session(Input::Frame { stream, frame }, env);
    }

    /// A connection is gone.
    pub(crate) fn on_gone(&mut self, stream: StreamId, env: &mut Env) {
        let reason = "the connection broke".to_owned();
        self.session(Input::Disconnected { stream, reason }, env);
    }

    /// Its timer has run out; an older one means nothing.
    pub(crate) fn on_timer(&mut self, timer: u64, env: &mut Env) {
        if timer == self.timer {
            self.session(Input::Timer, env);
            self.worker(Event::Tick, env);
        }
    }

    /// Its disk has written a result, or could not.
    pub(crate) fn on_written(&mut self, sequence: u64, stored: bool, env: &mut Env) {
        let Some(mind) = &mut self.mind else { return };
        if let Some(report) = mind.writing.remove(&sequence)
            && stored
        {
            if let Some(body) = &report.body {
                let key = interrex_agent::outbox::key_of(body);
                self.forget(&key);
            }
            self.disk.results.insert(sequence, report);
        }
        self.worker(Event::Stored { sequence, stored }, env);
    }

    fn session(&mut self, input: Input, env: &mut Env) {
        self.add(Todo::Session(input));
        self.work(env);
    }

    fn worker(&mut self, event: Event, env: &mut Env) {
        self.add(Todo::Worker(event));
        self.work(env);
    }

    fn add(&mut self, todo: Todo) {
        if let Some(mind) = &mut self.mind {
            mind.todo.push_back(todo);
        }
    }

    /// Does what there is to do, in order.
    fn work(&mut self, env: &mut Env) {
        while let Some(mind) = &mut self.mind
            && let Some(todo) = mind.todo.pop_front()
        {
            let moment = Moment::from_elapsed(env.now.since(mind.born));
            match todo {
                Todo::Session(input) => {
                    let outputs = mind.session.step(moment, input);
                    outputs
                        .into_iter()
                        .for_each(|output| self.carry_out(output, env));
                }
                Todo::Send(sequence, body) => {
                    for output in mind.session.step(moment, Input::Send { body }) {
                        if output == Output::NotAttached {
                            self.add(Todo::Worker(Event::NotSent { sequence }));
                        } else {
                            self.carry_out(output, env);
                        }
                    }
                }
                Todo::Worker(event) => {
                    let now = self.now(env.now);
                    let Some(mind) = &mut self.mind else { return };
                    let actions = mind.worker.handle(event, now);
                    actions.into_iter().for_each(|action| self.act(action, env));
                }
            }
        }
        self.arm(env);
    }

    fn carry_out(&mut self, output: Output, env: &mut Env) {
        let me = (self.node(), self.life);
        match output {
            Output::Connect { stream, address } => dial(me, stream, &address, env),
            Output::Send { stream, frame } => {
                if let Some(conn) = env.net.by_stream(me, stream) {
                    env.send(conn, Way::Up, Frame::Peer(Box::new(frame)));
                }
            }
            Output::NotAttached => {}
            Output::Close { stream } => {
                if let Some(conn) = env.net.by_stream(me, stream) {
                    env.close(conn, End::Peer);
                }
            }
            Output::Notify(event) => self.add(Todo::Worker(event.into())),
            Output::Observe(observation) => {
                env.trace(self.node(), || format!("{observation:?}"));
            }
        }
    }

    fn act(&mut self, action: Action, env: &mut Env) {
        match action {
            Action::PersistEpoch(epoch) => self.disk.epoch = self.disk.epoch.max(epoch),
            Action::PersistCluster(cluster) => self.disk.cluster = cluster,
            Action::Register {
                stream,
                registration,
            } => {
                let body = Body::RegisterWorker(*registration);
                self.add(Todo::Session(Input::RegistrationReady { stream, body }));
            }
            Action::PersistMasters(_) => {}
            Action::Renew(lease) => self.renew(lease),
            Action::Heartbeat(heartbeat) => {
                let body = Body::Heartbeat(heartbeat);
                self.add(Todo::Session(Input::Send { body }));
            }
            Action::Report(report) => {
                env.trace(self.node(), || {
                    let key = report.body.as_ref().map(interrex_agent::outbox::key_of);
                    let key = key.map_or_else(String::new, |key| key.to_string());
                    format!("reports {} about {key}", report.sequence)
                });
                self.add(Todo::Send(report.sequence, Body::Report(report)));
            }
            Action::Stale(stale) => {
                let body = Body::StaleEpoch(stale);
                self.add(Todo::Session(Input::Send { body }));
            }
            Action::Start(launch) => self.launch(*launch, env),
            Action::Kill { key, grace } => self.kill(&key, grace, env),
            Action::Store(report) => self.store(report, env),
            Action::Forget(sequence) => {
                if let Some(report) = self.disk.results.remove(&sequence)
                    && let Some(body) = &report.body
                {
                    self.forget(&interrex_agent::outbox::key_of(body));
                }
            }
        }
    }

    /// A result is on the disk when that has taken its time; an agent that dies before has lost it.
    fn store(&mut self, report: WorkReport, env: &mut Env) {
        let stored = !env.loses("disk-error", env.plan.disk_error_percent);
        let wait = env
            .chance
            .time(Duration::from_micros(200), Duration::from_millis(30));
        let sequence = report.sequence;
        if let Some(mind) = &mut self.mind {
            mind.writing.insert(sequence, report);
        }
        let written = Happening::Written(self.index, self.life, sequence, stored);
        env.after(wait, written);
    }

    /// The record of an attempt is of no use once its result is in the outbox.
    fn forget(&mut self, key: &WorkKey) {
        self.disk.attempts.remove(key);
        self.disk.endings.remove(key);
    }

    /// Sets its timer to the next moment at which it has something to do.
    fn arm(&mut self, env: &mut Env) {
        let Some(mind) = &self.mind else { return };
        let session = mind.session.next_wakeup().map(Moment::elapsed);
        let next = session.into_iter().chain(mind.worker.next_deadline()).min();
        self.timer += 1;
        if let Some(elapsed) = next {
            let at = mind.born.plus(elapsed).max(At(env.now.0 + 1));
            let timer = Happening::Timer(self.node(), self.life, self.timer);
            env.queue.put(at, timer);
        }
    }
}

/// The session's times in this world: shorter, as everything is.
pub(super) fn timings() -> SessionTimings {
    SessionTimings {
        redial_max: Duration::from_secs(2),
        registration_timeout: Duration::from_secs(3),
        registration_interval: Duration::from_secs(2),
        ..SessionTimings::default()
    }
}

/// Dials a master for a peer.
pub(super) fn dial(peer: (Node, u32), stream: StreamId, address: &str, env: &mut Env) {
    let Some(master) = net::master_at(address, env.plan.masters) else {
        return;
    };
    let conn = env.net.dial(peer, stream, master, env.now);
    let wait = env.latency() + env.latency();
    env.after(wait, Happening::Dialled(conn));
}

/// What a frame orders to be started.
fn ordered(frame: &MasterFrame) -> Option<WorkKey> {
    let body = frame.body.as_ref()?;
    if let master_frame::Body::LaunchDriver(order) = body {
        Some(WorkKey::driver(&order.driver_id, order.attempt))
    } else if let master_frame::Body::LaunchExecutor(order) = body {
        Some(WorkKey::executor(&order.app_id, order.executor_id))
    } else {
        None
    }
}

/// How the history names a process.
fn named(key: &WorkKey) -> (String, Option<u32>) {
    match key {
        WorkKey::Driver { driver_id, attempt } => (driver_id.clone(), Some(*attempt)),
        WorkKey::Executor {
            app_id,
            executor_id,
        } => (format!("{app_id}/{executor_id}"), None),
    }
}
