//! A simulated master: the production leader machine, fed and obeyed as the leader's loop does it.
//!
//! What the pumps of the control plane do around the machine is done here again, in a world without tasks: campaign,
//! open the epoch, recover, announce, commit one batch at a time, bind sessions, step down in place.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use interrex_control_plane::{
    edge::{
        convert,
        grpc::{
            reports,
            session::{registrations, requests},
        },
        status::executor_info,
    },
    records::{decode_all, encode_batch},
    runtime::{
        dispatcher::{notice_body, order_body},
        heartbeats::Heartbeats,
        view::{ClusterView, Found},
    },
};
use interrex_core::{
    command::{Command, WorkersNamed},
    effect::Effect,
    ids::{AppId, Epoch, RequestId, WorkerId},
    leader::{
        Answer as Outcome, BatchId, CommitFailure, Heartbeat, LeaderConfig, LeaderMachine, Output,
        StepDown, Ticket,
    },
    time::Timestamp,
    transition::{Mutation, Reply},
};
use interrex_persistence::{epoch, record::CommitBatch};
use interrex_proto::v1::{self, MasterFrame, PeerFrame, master_frame::Body, peer_frame};

use super::{
    clock::At,
    env::{CallId, Env, Happening, Request, Response, Seen},
    net::{ConnId, End, Frame, Node, Way},
    plan::Job,
    plant::Plant,
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

/// Whom a session is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Peer {
    Worker(WorkerId),
    App(AppId),
}

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
        let machine = LeaderMachine::recover(
            Epoch(epoch),
            LeaderConfig::default(),
            env.plan.cluster.clone(),
            decoded.entities,
            now,
        );
        if !machine.state().inconsistencies().is_empty() {
            let what = format!(
                "records do not fit together: {:?}",
                machine.state().inconsistencies()
            );
            env.broken(self.node(), &what);
        }
        let view = first_view(&machine);
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

    /// A peer has connected.
    pub(crate) fn on_dialled(&mut self, conn: ConnId) {
        self.sessions.push(conn);
    }

    /// A connection is gone.
    pub(crate) fn on_gone(&mut self, conn: ConnId) {
        self.sessions.retain(|known| *known != conn);
        if let Role::Leading(leader) = &mut self.role
            && let Some(peer) = leader.peers.remove(&conn)
            && leader.bound.get(&peer) == Some(&conn)
        {
            leader.bound.remove(&peer);
            match peer {
                Peer::Worker(worker) => leader.gone.push(worker),
                Peer::App(app) => leader.attached.push((app, false)),
            }
        }
    }

    /// A frame of a peer has arrived.
    pub(crate) fn on_frame(&mut self, conn: ConnId, frame: PeerFrame, env: &mut Env) {
        if !self.sessions.contains(&conn) {
            return;
        }
        let PeerFrame { seen_epoch, body } = frame;
        let Some(body) = body else { return };
        let epoch = match &self.role {
            Role::Leading(leader) => leader.epoch,
            Role::Standby | Role::Opening { .. } => {
                if !matches!(
                    body,
                    peer_frame::Body::Heartbeat(_) | peer_frame::Body::StaleEpoch(_)
                ) {
                    self.send(conn, 0, Body::Standby(v1::Standby::default()), env);
                }
                return;
            }
        };
        let stale = matches!(body, peer_frame::Body::StaleEpoch(_));
        if seen_epoch > epoch || stale {
            env.hit("newer-epoch-seen");
            self.verify(env);
        }
        match body {
            peer_frame::Body::RegisterWorker(register) => self.register_worker(conn, register, env),
            peer_frame::Body::RegisterApplication(register) => {
                self.register_app(conn, register, env)
            }
            peer_frame::Body::StaleEpoch(_) => {}
            body @ (peer_frame::Body::Heartbeat(_)
            | peer_frame::Body::Report(_)
            | peer_frame::Body::UnregisterApplication(_)
            | peer_frame::Body::RequestExecutors(_)
            | peer_frame::Body::KillExecutors(_)) => self.registered_frame(conn, epoch, body, env),
        }
        self.act(env);
    }

    /// Asks the store whether it still leads.
    fn verify(&mut self, env: &mut Env) {
        let me = (self.index, self.life);
        if let Role::Leading(leader) = &mut self.role {
            let op = Op::Confirm(epoch::Epoch(leader.epoch));
            let op = env.ask_store(me, op);
            // Nobody waits for it; what the fence says counts.
            let nobody = CallId(u64::MAX);
            leader.reads.insert(op, (nobody, 0, String::new()));
        }
    }

    fn register_worker(&mut self, conn: ConnId, register: v1::RegisterWorker, env: &mut Env) {
        if let Role::Leading(leader) = &self.role
            && register.seen_epoch.is_some_and(|seen| seen < leader.epoch)
        {
            let reason = "this registration is older than this leadership".to_owned();
            let body = Body::Reregister(v1::Reregister { reason });
            return self.send(conn, leader.epoch, body, env);
        }
        match registrations::worker_command(register) {
            Ok((command, worker, _senseless)) => {
                self.submit(command, Waiter::Worker(conn, worker), env);
            }
            Err(error) => env.broken(self.node(), &error.to_string()),
        }
    }

    fn register_app(&mut self, conn: ConnId, register: v1::RegisterApplication, env: &mut Env) {
        match registrations::app_command(register) {
            Ok(command) => self.submit(command, Waiter::App(conn), env),
            Err(error) => env.broken(self.node(), &error.to_string()),
        }
    }

    fn registered_frame(
        &mut self,
        conn: ConnId,
        epoch: u64,
        body: peer_frame::Body,
        env: &mut Env,
    ) {
        let now = self.now(env);
        let me = (self.index, self.life);
        let Role::Leading(leader) = &mut self.role else {
            return;
        };
        match (leader.peers.get(&conn).cloned(), body) {
            (None, _) => {
                let reason = "this session has not registered in this epoch".to_owned();
                let body = Body::Reregister(v1::Reregister { reason });
                self.send(conn, epoch, body, env);
            }
            (Some(Peer::Worker(worker)), body) => {
                let said = leader.beats.entry(worker.clone()).or_insert((now, None));
                said.0 = now;
                if let peer_frame::Body::Heartbeat(heartbeat) = &body {
                    said.1 = Some(Heartbeat {
                        digest: heartbeat.digest,
                        not_accepting: heartbeat.not_accepting.clone(),
                    });
                    let op = env.ask_store(me, Op::Confirm(epoch::Epoch(epoch)));
                    leader.heartbeats.insert(op, (conn, heartbeat.sequence));
                }
                if let peer_frame::Body::Report(message) = body {
                    match reports::report(message) {
                        Ok(report) => {
                            let command = Command::Report { worker, report };
                            let twice = env.plant == Some(Plant::DoubleCount);
                            let deadline = now.plus(REQUEST_DEADLINE);
                            leader.machine.submit(None, command, deadline, now);
                            if twice {
                                leader.count_twice(now);
                            }
                        }
                        Err(error) => env.broken(self.node(), &error.to_string()),
                    }
                }
            }
            (Some(Peer::App(app)), body) => self.app_frame(conn, app, body, env),
        }
    }

    fn app_frame(&mut self, conn: ConnId, app: AppId, body: peer_frame::Body, env: &mut Env) {
        let command = match body {
            peer_frame::Body::UnregisterApplication(message) => Command::UnregisterApplication {
                app,
                failed: message.failed,
                message: message.message,
            },
            peer_frame::Body::RequestExecutors(message) => {
                match requests::executors(&app, message) {
                    Ok(command) => command,
                    Err(error) => return env.broken(self.node(), &error.to_string()),
                }
            }
            peer_frame::Body::KillExecutors(message) => match requests::kill(&app, message) {
                Ok(command) => command,
                Err(error) => return env.broken(self.node(), &error.to_string()),
            },
            peer_frame::Body::Heartbeat(_)
            | peer_frame::Body::Report(_)
            | peer_frame::Body::RegisterWorker(_)
            | peer_frame::Body::RegisterApplication(_)
            | peer_frame::Body::StaleEpoch(_) => return,
        };
        self.submit(command, Waiter::Request(conn), env);
    }

    /// A call of a client has arrived.
    pub(crate) fn on_call(&mut self, call: CallId, client: usize, request: Request, env: &mut Env) {
        let me = (self.index, self.life);
        let Role::Leading(leader) = &mut self.role else {
            return env.answer(call, client, me.0, Response::NotLeader);
        };
        match request {
            Request::Submit { mut request, job } => {
                let mut message = driver_spec(&job);
                if let Some(command) = &mut message.command {
                    command.env.insert("SUBMISSION".to_owned(), request.clone());
                }
                if env.plant == Some(Plant::NonIdempotentSubmission) {
                    request = format!("{request}-{}", call.0);
                }
                match convert::driver_spec(message) {
                    Ok(spec) => {
                        let command = Command::SubmitDriver {
                            request: RequestId::from(request),
                            fingerprint: convert::driver_fingerprint(&spec),
                            spec: Arc::new(spec),
                        };
                        self.submit(command, Waiter::Call(call, client), env);
                    }
                    Err(error) => env.broken(self.node(), &error.to_string()),
                }
            }
            Request::Kill {
                request,
                submission,
            } => {
                let key = convert::request_key(request, "kill", &submission);
                let command = Command::Kill {
                    request: Some(key),
                    id: submission,
                };
                self.submit(command, Waiter::Call(call, client), env);
            }
            Request::Drain {
                request,
                worker,
                undo,
            } => {
                let verb = if undo { "undrain" } else { "drain" };
                let key = Some(convert::request_key(request, verb, &worker));
                let workers = WorkersNamed::Id(WorkerId::from(worker));
                let command = if undo {
                    Command::UndrainWorkers {
                        request: key,
                        workers,
                    }
                } else {
                    Command::DrainWorkers {
                        request: key,
                        workers,
                        deadline: Some(DRAIN_DEADLINE),
                        reason: "the nemesis".to_owned(),
                    }
                };
                self.submit(command, Waiter::Call(call, client), env);
            }
            Request::Status { submission } => {
                if env.plant == Some(Plant::StaleRead) {
                    let seen = seen(&leader.view, &submission);
                    return env.answer(call, client, me.0, Response::Done(seen));
                }
                let op = Op::Confirm(epoch::Epoch(leader.epoch));
                let op = env.ask_store(me, op);
                leader.reads.insert(op, (call, client, submission));
            }
        }
        self.act(env);
    }

    fn submit(&mut self, command: Command, waiter: Waiter, env: &mut Env) {
        let now = self.now(env);
        if let Role::Leading(leader) = &mut self.role {
            let ticket = Ticket(leader.next_ticket);
            leader.next_ticket += 1;
            leader.waiters.insert(ticket, waiter);
            leader
                .machine
                .submit(Some(ticket), command, now.plus(REQUEST_DEADLINE), now);
        }
    }

    fn send(&self, conn: ConnId, epoch: u64, body: Body, env: &mut Env) {
        let frame = MasterFrame {
            epoch,
            body: Some(body),
        };
        env.send(conn, Way::Down, Frame::Master(Box::new(frame)));
    }
}

// === impl Leader ===

impl Leader {
    fn reply(&mut self, index: usize, ticket: Ticket, outcome: Outcome, env: &mut Env) {
        let Some(waiter) = self.waiters.remove(&ticket) else {
            return;
        };
        match waiter {
            Waiter::Call(call, client) => {
                let response = response_of(outcome, env.plant);
                env.answer(call, client, index, response);
            }
            Waiter::Worker(conn, worker) => match outcome {
                Outcome::Reply(Reply::Rejected(rejection)) => {
                    self.refuse(conn, rejection.to_string(), true, env);
                }
                Outcome::Reply(_) => {
                    if self.bind(Peer::Worker(worker.clone()), conn, env) {
                        let now = self.machine.state().worker(&worker).map(|_| ());
                        if now.is_some() {
                            self.registered(conn, index, String::new(), Vec::new(), env);
                        }
                    }
                }
                Outcome::NotLeader | Outcome::OutcomeUnknown => self.say_standby(conn, env),
                Outcome::DeadlineExceeded | Outcome::Busy => {
                    self.refuse(conn, "busy".to_owned(), false, env);
                }
            },
            Waiter::App(conn) => match outcome {
                Outcome::Reply(Reply::AppRegistered { app, executors }) => {
                    if self.bind(Peer::App(app.id.clone()), conn, env) {
                        let executors = executors
                            .iter()
                            .map(|executor| executor_info(&self.view, executor))
                            .collect();
                        self.registered(conn, index, app.id.to_string(), executors, env);
                    }
                }
                Outcome::Reply(Reply::Rejected(rejection)) => {
                    self.refuse(conn, rejection.to_string(), true, env);
                }
                Outcome::Reply(_) => {}
                Outcome::NotLeader | Outcome::OutcomeUnknown => self.say_standby(conn, env),
                Outcome::DeadlineExceeded | Outcome::Busy => {
                    self.refuse(conn, "busy".to_owned(), false, env);
                }
            },
            Waiter::Request(conn) => match outcome {
                Outcome::Reply(Reply::Rejected(rejection)) => {
                    self.refuse(conn, rejection.to_string(), true, env);
                }
                Outcome::Reply(_) => {}
                Outcome::NotLeader | Outcome::OutcomeUnknown => self.say_standby(conn, env),
                Outcome::DeadlineExceeded | Outcome::Busy => {
                    self.refuse(conn, "busy".to_owned(), false, env);
                }
            },
        }
    }

    /// Whether the session is still there.
    fn bind(&mut self, peer: Peer, conn: ConnId, env: &mut Env) -> bool {
        if env.net.conn(conn).is_none_or(|known| !known.held_by.1) {
            return false;
        }
        if let Some(older) = self.bound.insert(peer.clone(), conn)
            && older != conn
        {
            self.peers.remove(&older);
            env.close(older, End::Master);
        }
        if let Peer::App(app) = &peer {
            self.attached.push((app.clone(), true));
        }
        self.peers.insert(conn, peer);
        true
    }

    fn registered(
        &self,
        conn: ConnId,
        index: usize,
        app_id: String,
        executors: Vec<v1::ExecutorInfo>,
        env: &mut Env,
    ) {
        let lease = env.plan.cluster.at_most_once_lease();
        let interval = env.plan.cluster.worker_timeout / 4;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let body = Body::Registered(v1::Registered {
            cluster_id: "sim".to_owned(),
            master_id: Node::Master(index).to_string(),
            heartbeat_interval_ms: millis(interval),
            app_id,
            executors,
            at_most_once_lease_ms: millis(lease),
            ..Default::default()
        });
        self.send(conn, self.epoch, body, env);
    }

    fn refuse(&self, conn: ConnId, reason: String, permanent: bool, env: &mut Env) {
        let body = Body::Refused(v1::Refused { reason, permanent });
        self.send(conn, self.epoch, body, env);
    }

    fn say_standby(&self, conn: ConnId, env: &mut Env) {
        self.send(conn, 0, Body::Standby(v1::Standby::default()), env);
    }

    fn effect(&self, effect: Effect, env: &mut Env) {
        match effect {
            Effect::Worker { worker, order } => {
                self.send_to(&Peer::Worker(worker), order_body(order), env);
            }
            Effect::App { app, notice } => {
                let body = notice_body(&app, notice, &self.view);
                self.send_to(&Peer::App(app), body, env);
            }
        }
    }

    fn send_to(&self, peer: &Peer, body: Body, env: &mut Env) {
        if let Some(conn) = self.bound.get(peer) {
            self.send(*conn, self.epoch, body, env);
        }
    }

    fn send(&self, conn: ConnId, epoch: u64, body: Body, env: &mut Env) {
        let frame = MasterFrame {
            epoch,
            body: Some(body),
        };
        env.send(conn, Way::Down, Frame::Master(Box::new(frame)));
    }

    /// The planted bug: whatever is running is registered a second time, as another worker's.
    fn count_twice(&mut self, now: Timestamp) {
        let running = self
            .machine
            .state()
            .drivers()
            .find(|driver| driver.state.is_placed())
            .cloned();
        if let Some(driver) = running {
            let command = Command::SubmitDriver {
                request: RequestId::from(format!("{}-again", driver.submission)),
                fingerprint: convert::driver_fingerprint(&driver.spec),
                spec: Arc::clone(&driver.spec),
            };
            self.machine
                .submit(None, command, now.plus(REQUEST_DEADLINE), now);
        }
    }
}

fn first_view(machine: &LeaderMachine) -> ClusterView {
    let state = machine.state();
    let mut view = ClusterView::new(machine.epoch(), Arc::new(Heartbeats::default()));
    view.set_recovery(state.recovery_state());
    view.apply(&[Mutation::PutMeta(state.meta().clone())]);
    let workers = state.workers().map(Arc::clone).map(Mutation::PutWorker);
    let apps = state.apps().map(Arc::clone).map(Mutation::PutApp);
    let drivers = state.drivers().map(Arc::clone).map(Mutation::PutDriver);
    let executors = state.executors().map(Arc::clone).map(Mutation::PutExecutor);
    let requests = state.requests().map(Arc::clone).map(Mutation::PutRequest);
    let all: Vec<_> = workers
        .chain(apps)
        .chain(drivers)
        .chain(executors)
        .chain(requests)
        .collect();
    view.apply(&all);
    view
}

fn driver_spec(job: &Job) -> v1::DriverSpec {
    v1::DriverSpec {
        name: "job".to_owned(),
        user: "sim".to_owned(),
        command: Some(job.command()),
        cores: job.cores,
        memory_mib: job.memory_mib,
        supervise: job.supervise,
        at_most_once: job.at_most_once,
        priority: job.priority,
        ..Default::default()
    }
}

/// What a submission looks like to readers.
pub(super) fn seen(view: &ClusterView, submission: &str) -> Seen {
    match view.find(submission) {
        Some(Found::Driver(driver)) => Seen {
            driver: driver.id.to_string(),
            state: driver.state.name().to_owned(),
            attempt: driver.attempt.0,
        },
        Some(Found::App(_)) | None => Seen {
            state: "NOT_FOUND".to_owned(),
            ..Seen::default()
        },
    }
}

fn response_of(outcome: Outcome, plant: Option<Plant>) -> Response {
    match outcome {
        Outcome::Reply(Reply::Rejected(rejection)) => Response::Refused(rejection.to_string()),
        Outcome::Reply(
            Reply::DriverSubmitted { driver, .. } | Reply::DriverKilled { driver, .. },
        ) => Response::Done(Seen {
            driver: driver.id.to_string(),
            state: driver.state.name().to_owned(),
            attempt: driver.attempt.0,
        }),
        Outcome::Reply(_) => Response::Done(Seen::default()),
        Outcome::OutcomeUnknown if plant == Some(Plant::ReplyAfterStepDown) => {
            Response::Done(Seen::default())
        }
        Outcome::NotLeader => Response::NotLeader,
        Outcome::OutcomeUnknown => Response::Unknown,
        Outcome::DeadlineExceeded | Outcome::Busy => Response::NotLeader,
    }
}
