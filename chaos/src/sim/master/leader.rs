//! What a leadership says to others: answers, registrations, orders and notices.

use super::super::env::Env;
use super::super::net::ConnId;
use super::super::net::End;
use super::super::net::Frame;
use super::super::net::Node;
use super::super::net::Way;
use super::{Leader, Waiter, response_of};
use interrex_control_plane::edge::status::executor_info;
use interrex_control_plane::runtime::dispatcher::notice_body;
use interrex_control_plane::runtime::dispatcher::order_body;
use interrex_control_plane::runtime::peer::Peer;
use interrex_core::effect::Effect;
use interrex_core::leader::Answer as Outcome;
use interrex_core::leader::Ticket;
use interrex_core::transition::Reply;
use interrex_proto::v1;
use interrex_proto::v1::MasterFrame;
use interrex_proto::v1::master_frame::Body;
use std::time::Duration;

impl Leader {
    pub(super) fn reply(&mut self, index: usize, ticket: Ticket, outcome: Outcome, env: &mut Env) {
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
    pub(super) fn bind(&mut self, peer: Peer, conn: ConnId, env: &mut Env) -> bool {
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

    pub(super) fn registered(
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

    pub(super) fn refuse(&self, conn: ConnId, reason: String, permanent: bool, env: &mut Env) {
        let body = Body::Refused(v1::Refused { reason, permanent });
        self.send(conn, self.epoch, body, env);
    }

    pub(super) fn say_standby(&self, conn: ConnId, env: &mut Env) {
        self.send(conn, 0, Body::Standby(v1::Standby::default()), env);
    }

    pub(super) fn effect(&self, effect: Effect, env: &mut Env) {
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

    pub(super) fn send_to(&self, peer: &Peer, body: Body, env: &mut Env) {
        if let Some(conn) = self.bound.get(peer) {
            self.send(*conn, self.epoch, body, env);
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
