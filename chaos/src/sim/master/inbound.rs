//! What peers and clients say to a master, as the sessions and edges of the control plane take it.

use super::super::env::CallId;
use super::super::env::Env;
use super::super::env::Request;
use super::super::env::Response;
use super::super::net::ConnId;
use super::super::net::Frame;
use super::super::net::Way;
use super::super::plan::Job;
use super::super::plant::Plant;
use super::super::store::Op;
use super::words::events_after;
use super::{DRAIN_DEADLINE, Master, Peer, REQUEST_DEADLINE, Role, Waiter, driver_spec, seen};
use interrex_control_plane::edge::convert;
use interrex_control_plane::edge::grpc::reports;
use interrex_control_plane::edge::grpc::session::registrations;
use interrex_control_plane::edge::grpc::session::requests;
use interrex_core::command::Command;
use interrex_core::command::WorkersNamed;
use interrex_core::ids::AppId;
use interrex_core::ids::RequestId;
use interrex_core::ids::WorkerId;
use interrex_core::leader::Heartbeat;
use interrex_core::leader::Ticket;
use interrex_persistence::epoch;
use interrex_proto::v1;
use interrex_proto::v1::MasterFrame;
use interrex_proto::v1::PeerFrame;
use interrex_proto::v1::master_frame::Body;
use interrex_proto::v1::peer_frame;
use std::sync::Arc;

// === impl Master ===

impl Master {
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
    pub(super) fn verify(&mut self, env: &mut Env) {
        let me = (self.index, self.life);
        if let Role::Leading(leader) = &mut self.role {
            let op = Op::Confirm(epoch::Epoch(leader.epoch));
            let op = env.ask_store(me, op);
            // Nobody waits for it; what the fence says counts.
            let nobody = CallId(u64::MAX);
            leader.reads.insert(op, (nobody, 0, String::new()));
        }
    }

    pub(super) fn register_worker(
        &mut self,
        conn: ConnId,
        register: v1::RegisterWorker,
        env: &mut Env,
    ) {
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

    pub(super) fn register_app(
        &mut self,
        conn: ConnId,
        register: v1::RegisterApplication,
        env: &mut Env,
    ) {
        match registrations::app_command(register) {
            Ok(command) => self.submit(command, Waiter::App(conn), env),
            Err(error) => env.broken(self.node(), &error.to_string()),
        }
    }

    pub(super) fn registered_frame(
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

    pub(super) fn app_frame(
        &mut self,
        conn: ConnId,
        app: AppId,
        body: peer_frame::Body,
        env: &mut Env,
    ) {
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
            Request::Submit { request, job } => {
                self.submit_driver((call, client), request, &job, env);
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
            Request::Events { after } => {
                let page = events_after(&leader.view, after);
                return env.answer(call, client, me.0, page);
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

    fn submit_driver(
        &mut self,
        (call, client): (CallId, usize),
        mut request: String,
        job: &Job,
        env: &mut Env,
    ) {
        let mut message = driver_spec(job);
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

    pub(super) fn submit(&mut self, command: Command, waiter: Waiter, env: &mut Env) {
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

    pub(super) fn send(&self, conn: ConnId, epoch: u64, body: Body, env: &mut Env) {
        let frame = MasterFrame {
            epoch,
            body: Some(body),
        };
        env.send(conn, Way::Down, Frame::Master(Box::new(frame)));
    }
}
