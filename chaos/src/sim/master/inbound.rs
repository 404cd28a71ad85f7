//! What peers and clients say to a master, as the sessions and edges of the control plane take it.

use std::sync::Arc;

use interrex_control_plane::{
    edge::{
        convert,
        grpc::session::{
            frames::{self, Asked, Taken},
            registrations,
        },
    },
    runtime::peer::Peer,
};
use interrex_core::{
    command::{Command, Report, WorkersNamed},
    ids::{Epoch, RequestId, WorkerId},
    leader::{Heartbeat, Ticket},
};
use interrex_persistence::epoch;
use interrex_proto::v1::{self, MasterFrame, PeerFrame, master_frame::Body};

use super::{
    super::{
        env::{CallId, Env, Request, Response},
        net::{ConnId, Frame, Way},
        plan::Job,
        plant::Plant,
        store::Op,
    },
    DRAIN_DEADLINE, Master, REQUEST_DEADLINE, Role, Waiter, driver_spec, seen,
    words::events_after,
};

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
        let leads = match &self.role {
            Role::Leading(leader) => Some(Epoch(leader.epoch)),
            Role::Standby | Role::Opening { .. } => None,
        };
        let Taken {
            seen_more,
            heard_of,
            asked,
        } = frames::take(leads, || self.peer_of(conn), frame);
        if seen_more || matches!(asked, Asked::Verify(_)) {
            env.hit("newer-epoch-seen");
            self.verify(env);
        }
        if let Some(worker) = heard_of {
            self.heard_of(worker, env);
        }
        let epoch = leads.unwrap_or_default().0;
        match asked {
            // Only ever shown.
            Asked::Nothing | Asked::Verify(_) | Asked::Progress { .. } => {}
            Asked::Senseless(what) => env.broken(self.node(), what),
            Asked::Standby => self.send(conn, 0, Body::Standby(v1::Standby::default()), env),
            Asked::Reregister(reason) | Asked::Outdated(reason) => {
                let reason = reason.to_owned();
                let body = Body::Reregister(v1::Reregister { reason });
                self.send(conn, epoch, body, env);
            }
            Asked::RegisterWorker(register) => self.register_worker(conn, register, env),
            Asked::RegisterApplication(register) => self.register_app(conn, register, env),
            Asked::Heartbeat {
                worker,
                sequence,
                said,
            } => self.heard((conn, sequence), &worker, said, env),
            Asked::Report { worker, report, .. } => match report {
                Ok(report) => self.submit_report(worker, report, env),
                Err(error) => env.broken(self.node(), &error.to_string()),
            },
            Asked::Request(command) => self.submit(command, Waiter::Request(conn), env),
            // No simulated peer asks for what cannot be.
            Asked::Refused { reason, .. } => env.broken(self.node(), &reason),
        }
        self.act(env);
    }

    fn peer_of(&self, conn: ConnId) -> Option<Peer> {
        match &self.role {
            Role::Leading(leader) => leader.peers.get(&conn).cloned(),
            Role::Standby | Role::Opening { .. } => None,
        }
    }

    fn heard_of(&mut self, worker: WorkerId, env: &Env) {
        let now = self.now(env);
        if let Role::Leading(leader) = &mut self.role {
            leader.beats.entry(worker).or_insert((now, None)).0 = now;
        }
    }

    /// The heartbeat will be acknowledged if this master still leads.
    fn heard(
        &mut self,
        (conn, sequence): (ConnId, u64),
        worker: &WorkerId,
        said: Heartbeat,
        env: &mut Env,
    ) {
        let me = (self.index, self.life);
        if let Role::Leading(leader) = &mut self.role {
            if let Some(beat) = leader.beats.get_mut(worker) {
                beat.1 = Some(said);
            }
            let op = env.ask_store(me, Op::Confirm(epoch::Epoch(leader.epoch)));
            leader.heartbeats.insert(op, (conn, sequence));
        }
    }

    fn submit_report(&mut self, worker: WorkerId, report: Report, env: &Env) {
        let now = self.now(env);
        if let Role::Leading(leader) = &mut self.role {
            let command = Command::Report { worker, report };
            let deadline = now.plus(REQUEST_DEADLINE);
            leader.machine.submit(None, command, deadline, now);
        }
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
