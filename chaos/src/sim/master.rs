//! A simulated master: the production leader machine, fed and obeyed as the leader's loop does it.
//!
//! What the pumps of the control plane do around the machine is done here again, in a world without tasks: campaign,
//! open the epoch, recover, announce, commit one batch at a time, bind sessions, step down in place.

mod inbound;
mod leader;
mod words;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use interrex_control_plane::{
    records::{decode_all, encode_batch},
    runtime::{
        peer::Peer,
        view::{ClusterView, EventLog},
    },
};
use interrex_core::{
    command::Command,
    ids::{AppId, Epoch, WorkerId},
    leader::{
        BatchId, CommitFailure, Heartbeat, LeaderConfig, LeaderMachine, Output, StepDown, Ticket,
    },
    time::Timestamp,
    transition::Mutation,
};
use interrex_persistence::{epoch, record::CommitBatch};
use interrex_proto::v1::{self, master_frame::Body};

pub(in crate::sim) use self::words::entities;
use self::words::{driver_spec, first_view, response_of, seen};
use super::{
    clock::At,
    env::{CallId, Env, Happening, Response},
    net::{ConnId, End, Node},
    plant::{self, Plant},
    store::{Answer, Op, OpId},
};
use crate::history;

/// The wall clock at the start of the world.
pub(crate) const WALL_START_MS: u64 = 1_800_000_000_000;
/// Time between two ticks of the leader, as in the leader's loop.
const TICK: Duration = Duration::from_millis(100);
/// How long a commit may take.
const COMMIT_DEADLINE: Duration = Duration::from_secs(2);
/// How long a request may wait.
const REQUEST_DEADLINE: Duration = Duration::from_secs(5);
/// When what runs on a drained worker is ended.
const DRAIN_DEADLINE: Duration = Duration::from_secs(3);
/// Applications of the state after which its invariants are looked at.
const VALIDATE_EVERY: u64 = 4;

/// Who waits for an answer of the machine.
#[derive(Debug, Clone)]
enum Waiter {
    Call(CallId, usize),
    Worker(ConnId, WorkerId),
    App(ConnId),
    Request(ConnId),
}

/// A leadership.
#[derive(Debug)]
struct Leader {
    epoch: u64,
    leadership: u64,
    machine: LeaderMachine,
    view: ClusterView,
    commit: Option<(BatchId, OpId, At)>,
    bound: BTreeMap<Peer, ConnId>,
    peers: BTreeMap<ConnId, Peer>,
    beats: BTreeMap<WorkerId, (Timestamp, Option<Heartbeat>)>,
    attached: Vec<(AppId, bool)>,
    gone: Vec<WorkerId>,
    waiters: BTreeMap<Ticket, Waiter>,
    reads: BTreeMap<OpId, (CallId, usize, String)>,
    heartbeats: BTreeMap<OpId, (ConnId, u64)>,
    next_ticket: u64,
    steps: u64,
    /// A worker has gone in this leadership.
    lost_any: bool,
}

#[derive(Debug)]
enum Role {
    Standby,
    Opening {
        epoch: u64,
        leadership: u64,
        op: OpId,
        asked_at: At,
    },
    Leading(Box<Leader>),
}

/// A master.
#[derive(Debug)]
pub(crate) struct Master {
    index: usize,
    /// Which of its lives this is.
    pub(crate) life: u32,
    /// Whether it lives.
    pub(crate) up: bool,
    /// Stopped until then.
    pub(crate) paused_until: Option<At>,
    /// Not to be elected before.
    pub(crate) rests_until: At,
    role: Role,
    sessions: Vec<ConnId>,
    clock_off: Duration,
}

// === impl Master ===

impl Master {
    /// A master that has never lived.
    #[must_use]
    pub(crate) fn new(index: usize, clock_off: Duration) -> Self {
        Self {
            index,
            life: 0,
            up: false,
            paused_until: None,
            rests_until: At::default(),
            role: Role::Standby,
            sessions: Vec::new(),
            clock_off,
        }
    }

    /// Its name in the world.
    #[must_use]
    pub(crate) fn node(&self) -> Node {
        Node::Master(self.index)
    }

    /// The leadership that it believes to have.
    #[must_use]
    pub(crate) fn believes(&self) -> Option<u64> {
        match &self.role {
            Role::Standby => None,
            Role::Opening { leadership, .. } => Some(*leadership),
            Role::Leading(leader) => Some(leader.leadership),
        }
    }

    /// What it has decided, if it leads.
    #[must_use]
    pub(crate) fn machine(&self) -> Option<&LeaderMachine> {
        match &self.role {
            Role::Leading(leader) => Some(&leader.machine),
            Role::Standby | Role::Opening { .. } => None,
        }
    }

    /// Begins a life.
    pub(crate) fn start(&mut self, env: &mut Env) {
        self.life += 1;
        self.up = true;
        self.role = Role::Standby;
        self.sessions.clear();
        env.trace(self.node(), || "lives".to_owned());
        let timer = Happening::Timer(self.node(), self.life, 0);
        env.after(TICK, timer);
    }

    /// It dies. What it had sent is under way, what it knew is gone.
    pub(crate) fn crash(&mut self, env: &mut Env) {
        self.up = false;
        self.paused_until = None;
        self.role = Role::Standby;
        self.sessions.clear();
        for conn in env.net.of(self.node()) {
            env.close(conn, End::Master);
        }
    }

    fn now(&self, env: &Env) -> Timestamp {
        let off = u64::try_from(self.clock_off.as_millis()).unwrap_or(0);
        Timestamp(WALL_START_MS + env.now.0 / 1_000 + off)
    }

    /// The election has made it the leader.
    pub(crate) fn on_elected(&mut self, epoch: u64, leadership: u64, env: &mut Env) {
        if !matches!(self.role, Role::Standby) {
            self.step_down(StepDown::Lost, env);
        }
        env.trace(self.node(), || format!("is elected in epoch {epoch}"));
        let op = env.ask_store((self.index, self.life), Op::Open(epoch::Epoch(epoch)));
        self.role = Role::Opening {
            epoch,
            leadership,
            op,
            asked_at: env.now,
        };
    }

    /// Asks the store again when it does not answer.
    fn open_again(&mut self, env: &mut Env) {
        if let Role::Opening {
            epoch,
            leadership,
            asked_at,
            ..
        } = self.role
            && env.now.since(asked_at) > COMMIT_DEADLINE
        {
            let op = Op::Open(epoch::Epoch(epoch));
            let op = env.ask_store((self.index, self.life), op);
            self.role = Role::Opening {
                epoch,
                leadership,
                op,
                asked_at: env.now,
            };
        }
    }

    /// It learns that its leadership is gone.
    pub(crate) fn on_deposed(&mut self, leadership: u64, env: &mut Env) {
        if self.believes() == Some(leadership) {
            self.step_down(StepDown::Lost, env);
        }
    }

    /// The store answers.
    pub(crate) fn on_store(&mut self, op: OpId, answer: Answer, env: &mut Env) {
        match &mut self.role {
            Role::Opening {
                epoch,
                leadership,
                op: asked,
                ..
            } if *asked == op => {
                let (epoch, leadership) = (*epoch, *leadership);
                match answer {
                    Answer::Opened(recovered) => self.lead(epoch, leadership, recovered, env),
                    Answer::Committed | Answer::Confirmed | Answer::Fenced | Answer::Rejected => {
                        self.role = Role::Standby;
                        self.rests_until = env.now.plus(TICK);
                    }
                }
            }
            Role::Leading(leader) => {
                if let Some((batch, asked, _)) = leader.commit
                    && asked == op
                {
                    leader.commit = None;
                    let now = self.now(env);
                    let Role::Leading(leader) = &mut self.role else {
                        return;
                    };
                    match answer {
                        Answer::Committed => leader.machine.committed(batch, now),
                        Answer::Fenced => {
                            leader.machine.commit_failed(batch, CommitFailure::Fenced)
                        }
                        Answer::Rejected | Answer::Opened(_) | Answer::Confirmed => {
                            leader.machine.commit_failed(batch, CommitFailure::Rejected);
                        }
                    }
                    self.act(env);
                } else if let Some((conn, sequence)) = leader.heartbeats.remove(&op) {
                    if answer == Answer::Confirmed {
                        let body = Body::HeartbeatAck(v1::HeartbeatAck { sequence });
                        leader.send(conn, leader.epoch, body, env);
                    }
                } else if let Some((call, client, submission)) = leader.reads.remove(&op) {
                    let response = if answer == Answer::Confirmed {
                        Response::Done(seen(&leader.view, &submission))
                    } else {
                        Response::NotLeader
                    };
                    env.answer(call, client, self.index, response);
                    if answer == Answer::Fenced {
                        self.step_down(StepDown::Lost, env);
                    }
                }
            }
            Role::Standby | Role::Opening { .. } => {}
        }
    }

    fn lead(
        &mut self,
        epoch: u64,
        leadership: u64,
        recovered: interrex_persistence::record::Recovered,
        env: &mut Env,
    ) {
        let decoded = match decode_all(recovered) {
            Ok(decoded) => decoded,
            Err(error) => return env.broken(self.node(), &error.to_string()),
        };
        if !decoded.quarantined.is_empty() {
            env.broken(self.node(), "records are quarantined that nobody damaged");
        }
        let now = self.now(env);
        let events = EventLog::recovered(&decoded.entities.events, decoded.entities.next_event);
        let machine = LeaderMachine::recover(
            Epoch(epoch),
            LeaderConfig::default(),
            env.plan.cluster.clone(),
            decoded.entities,
            now,
        );
        let machine = plant::in_leader(machine, env.plant);
        if !machine.state().inconsistencies().is_empty() {
            let what = format!(
                "records do not fit together: {:?}",
                machine.state().inconsistencies()
            );
            env.broken(self.node(), &what);
        }
        let mut view = first_view(&machine);
        view.set_events(events);
        let mut leader = Leader {
            epoch,
            leadership,
            machine,
            view,
            commit: None,
            bound: BTreeMap::new(),
            peers: BTreeMap::new(),
            beats: BTreeMap::new(),
            attached: Vec::new(),
            gone: Vec::new(),
            waiters: BTreeMap::new(),
            reads: BTreeMap::new(),
            heartbeats: BTreeMap::new(),
            next_ticket: 0,
            steps: 0,
            lost_any: false,
        };
        let minted = Command::Initialize {
            cluster_id: "sim".to_owned(),
        };
        leader
            .machine
            .submit(None, minted, now.plus(COMMIT_DEADLINE), now);
        env.note(self.node(), history::Kind::Info, history::Op::Lead, "")
            .epoch = Some(epoch);
        env.trace(self.node(), || format!("leads in epoch {epoch}"));
        self.role = Role::Leading(Box::new(leader));
        let changed = Body::MasterChanged(v1::MasterChanged {
            leader: Some(self.address()),
        });
        for conn in self.sessions.clone() {
            self.send(conn, epoch, changed.clone(), env);
        }
        self.act(env);
    }

    fn address(&self) -> v1::MasterAddress {
        v1::MasterAddress {
            id: self.node().to_string(),
            rpc: super::net::address(self.index),
            ..Default::default()
        }
    }

    fn step_down(&mut self, reason: StepDown, env: &mut Env) {
        match &mut self.role {
            Role::Standby => {}
            Role::Opening { .. } => self.role = Role::Standby,
            Role::Leading(leader) => {
                leader.machine.step_down(reason);
                self.act(env);
            }
        }
    }

    /// Everything that the machine wants done.
    fn act(&mut self, env: &mut Env) {
        let now = self.now(env);
        let me = (self.index, self.life);
        let Role::Leading(leader) = &mut self.role else {
            return;
        };
        leader.steps += 1;
        if leader.steps.is_multiple_of(VALIDATE_EVERY)
            && let Err(faults) = leader.machine.state().validate()
        {
            let node = Node::Master(me.0);
            env.broken(node, &faults.join("; "));
        }
        let mut over = None;
        for output in leader.machine.poll(now) {
            match output {
                Output::Commit { batch, mutations } => {
                    let batch_of = CommitBatch {
                        epoch: epoch::Epoch(leader.epoch),
                        mutations: encode_batch(&mutations),
                    };
                    let op = env.ask_store(me, Op::Commit(batch_of));
                    leader.commit = Some((batch, op, env.now.plus(COMMIT_DEADLINE)));
                }
                Output::Publish(publication) => {
                    leader.view.apply(&publication.mutations);
                    for worker in &publication.workers {
                        leader
                            .view
                            .apply(&[Mutation::PutWorker(Arc::clone(worker))]);
                    }
                    if let Some(recovery) = publication.recovery {
                        leader.view.set_recovery(recovery);
                    }
                }
                Output::Reply { ticket, answer } => leader.reply(me.0, ticket, answer, env),
                Output::Effect(effect) => leader.effect(effect, env),
                Output::Reregister { worker, reason } => {
                    let reason = reason.words().to_owned();
                    let body = Body::Reregister(v1::Reregister { reason });
                    leader.send_to(&Peer::Worker(worker), body, env);
                }
                Output::StepDown(reason) => over = Some(reason),
            }
        }
        if let Some(reason) = over {
            self.become_standby(reason, env);
        }
    }

    fn become_standby(&mut self, reason: StepDown, env: &mut Env) {
        if let Role::Leading(leader) = &self.role {
            let epoch = leader.epoch;
            env.trace(self.node(), || format!("steps down: {}", reason.name()));
            env.note(self.node(), history::Kind::Info, history::Op::StepDown, "")
                .epoch = Some(epoch);
        }
        self.role = Role::Standby;
        self.rests_until = env.now.plus(TICK);
        if env
            .store
            .holder
            .is_some_and(|(master, _)| master == self.index)
        {
            env.store.holder = None;
        }
        for conn in self.sessions.clone() {
            self.send(conn, 0, Body::Standby(v1::Standby::default()), env);
        }
    }

    /// Its tick.
    pub(crate) fn on_timer(&mut self, env: &mut Env) {
        let timer = Happening::Timer(self.node(), self.life, 0);
        env.after(TICK, timer);
        self.open_again(env);
        let now = self.now(env);
        let at = env.now;
        let Role::Leading(leader) = &mut self.role else {
            return;
        };
        if let Some((batch, _, deadline)) = leader.commit
            && deadline <= at
        {
            leader.commit = None;
            leader.machine.commit_failed(batch, CommitFailure::Unknown);
            return self.act(env);
        }
        for (worker, (at, said)) in std::mem::take(&mut leader.beats) {
            leader.machine.heartbeat(&worker, at);
            if let Some(heartbeat) = said {
                leader.machine.heard(&worker, heartbeat, now);
            }
        }
        for (app, attached) in std::mem::take(&mut leader.attached) {
            if attached {
                leader.machine.app_attached(&app);
            } else {
                leader.machine.app_detached(&app, now);
            }
        }
        leader.lost_any |= !leader.gone.is_empty();
        for worker in std::mem::take(&mut leader.gone) {
            let command = Command::WorkerDisconnected { worker };
            leader
                .machine
                .submit(None, command, now.plus(COMMIT_DEADLINE), now);
        }
        if !(leader.lost_any && env.plant == Some(Plant::SchedulerNotRun)) {
            leader.machine.tick(now);
        }
        self.act(env);
    }
}

// === impl Leader ===
