//! A simulated application: the production session machine, and somebody who registers, changes what it wants, and
//! unregisters.

use std::{collections::VecDeque, time::Duration};

use interrex_client::session::{Input, Moment, Output, SessionEvent, SessionMachine, StreamId};
use interrex_proto::v1::{self, MasterFrame, master_frame, peer_frame::Body};

use super::{
    agent::{dial, timings},
    clock::At,
    env::{Env, Happening},
    net::{self, ConnId, End, Frame, Node, Way},
    plan::App as Wanted,
};

/// How often it says again what has not been confirmed.
const AGAIN: Duration = Duration::from_millis(700);

/// An application.
#[derive(Debug)]
pub(crate) struct App {
    index: usize,
    /// Which of its lives this is; it has one.
    pub(crate) life: u32,
    wanted: Wanted,
    session: Option<SessionMachine>,
    born: At,
    app_id: String,
    ends_at: At,
    wishes_left: u32,
    next_wish: At,
    next_word: At,
    done: bool,
    timer: u64,
}

// === impl App ===

impl App {
    /// An application that has not begun.
    #[must_use]
    pub(crate) fn new(index: usize, wanted: Wanted) -> Self {
        Self {
            index,
            life: 0,
            session: None,
            born: At::default(),
            app_id: String::new(),
            ends_at: At::default(),
            wishes_left: wanted.wishes,
            next_wish: At::default(),
            next_word: At::default(),
            done: false,
            timer: 0,
            wanted,
        }
    }

    /// Its name in the world.
    #[must_use]
    pub(crate) fn node(&self) -> Node {
        Node::App(self.index)
    }

    /// Whether it has been confirmed that it is over.
    #[must_use]
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// It begins.
    pub(crate) fn start(&mut self, env: &mut Env) {
        self.life = 1;
        self.born = env.now;
        self.ends_at = env.now.plus(self.wanted.works);
        self.next_wish = env.now.plus(self.wanted.works / 4);
        let masters: Vec<_> = (0..env.plan.masters).map(net::address).collect();
        let seed = env.chance.seed();
        match SessionMachine::new(&masters, 0, seed, timings()) {
            Ok(session) => self.session = Some(session),
            Err(error) => return env.broken(self.node(), &error.to_string()),
        }
        self.step(Input::Timer, env);
    }

    /// A dialled connection has come about, or has not.
    pub(crate) fn on_dialled(&mut self, conn: ConnId, stream: StreamId, open: bool, env: &mut Env) {
        if open {
            self.step(Input::Opened { stream }, env);
        } else {
            env.net.release(conn, End::Peer);
            let reason = "connection refused".to_owned();
            self.step(Input::Disconnected { stream, reason }, env);
        }
    }

    /// A frame has arrived.
    pub(crate) fn on_frame(&mut self, stream: StreamId, frame: MasterFrame, env: &mut Env) {
        self.step(Input::Frame { stream, frame }, env);
    }

    /// A connection is gone.
    pub(crate) fn on_gone(&mut self, stream: StreamId, env: &mut Env) {
        let reason = "the connection broke".to_owned();
        self.step(Input::Disconnected { stream, reason }, env);
    }

    /// Its timer has run out.
    pub(crate) fn on_timer(&mut self, timer: u64, env: &mut Env) {
        if timer != self.timer {
            return;
        }
        self.step(Input::Timer, env);
        if !self.done && env.now >= self.next_word {
            self.next_word = env.now.plus(AGAIN);
            self.speak(env);
        }
        self.arm(env);
    }

    /// Says what it wants now.
    fn speak(&mut self, env: &mut Env) {
        if self.app_id.is_empty() {
            return;
        }
        let app_id = self.app_id.clone();
        if env.now >= self.ends_at {
            let body = Body::UnregisterApplication(v1::UnregisterApplication {
                app_id,
                failed: false,
                message: "done".to_owned(),
            });
            self.step(Input::Send { body }, env);
        } else if self.wishes_left > 0 && env.now >= self.next_wish {
            self.wishes_left -= 1;
            self.next_wish = env.now.plus(self.wanted.works / 6);
            let top = self.wanted.spec.executor_limit.unwrap_or(1);
            let total = u32::try_from(env.chance.between(0, u64::from(top))).unwrap_or(1);
            let body = if env.chance.percent(70.0) {
                Body::RequestExecutors(v1::RequestExecutors {
                    app_id,
                    total,
                    ..Default::default()
                })
            } else {
                Body::KillExecutors(v1::KillExecutors {
                    app_id,
                    executor_ids: vec![0, total],
                })
            };
            self.step(Input::Send { body }, env);
        }
    }

    fn step(&mut self, input: Input, env: &mut Env) {
        let me = (self.node(), self.life);
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let Some(session) = &mut self.session else {
                return;
            };
            let now = Moment::from_elapsed(env.now.since(self.born));
            for output in session.step(now, input) {
                match output {
                    Output::Connect { stream, address } => dial(me, stream, &address, env),
                    Output::Send { stream, frame } => {
                        if let Some(conn) = env.net.by_stream(me, stream) {
                            env.send(conn, Way::Up, Frame::Peer(Box::new(frame)));
                        }
                    }
                    Output::Close { stream } => {
                        if let Some(conn) = env.net.by_stream(me, stream) {
                            env.close(conn, End::Peer);
                        }
                    }
                    Output::Notify(event) => inputs.extend(self.on_event(event)),
                    Output::NotAttached | Output::Observe(_) => {}
                }
            }
        }
        self.arm(env);
    }

    fn on_event(&mut self, event: SessionEvent) -> Option<Input> {
        match event {
            SessionEvent::RegistrationWanted { stream, .. } if !self.done => {
                let body = Body::RegisterApplication(v1::RegisterApplication {
                    cluster_id: String::new(),
                    request_id: format!("app-request-{}", self.index),
                    app_id: self.app_id.clone(),
                    spec: Some(self.wanted.spec.clone()),
                });
                Some(Input::RegistrationReady { stream, body })
            }
            SessionEvent::Attached { registered, .. } => {
                self.app_id = registered.app_id;
                None
            }
            SessionEvent::Frame {
                body: master_frame::Body::ApplicationRemoved(_),
                ..
            } => {
                self.done = true;
                None
            }
            // The confirmation was lost, and the application is over.
            SessionEvent::Refused {
                permanent: true, ..
            } if !self.app_id.is_empty() => {
                self.done = true;
                None
            }
            SessionEvent::RegistrationWanted { .. }
            | SessionEvent::Frame { .. }
            | SessionEvent::Detached { .. }
            | SessionEvent::Refused { .. } => None,
        }
    }

    fn arm(&mut self, env: &mut Env) {
        let Some(session) = &self.session else { return };
        self.timer += 1;
        let wakeup = session
            .next_wakeup()
            .map(|moment| self.born.plus(moment.elapsed()));
        let word = (!self.done).then_some(self.next_word);
        if let Some(at) = wakeup.into_iter().chain(word).min() {
            let timer = Happening::Timer(self.node(), self.life, self.timer);
            env.queue.put(at.max(At(env.now.0 + 1)), timer);
        }
    }
}
