//! One connection of Spark's protocol, whoever has opened it: frames in, frames out.
//!
//! Owns the socket and what is known of the peer. The channel is symmetric: a driver sends on the connection over which
//! it last heard of the leader, whichever end has opened it. What is written comes from here alone: answers to
//! requests, and what the leader puts into the session's queue.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{FutureExt, SinkExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use interrex_core::{
    command::{ProcessChange, Subject},
    ids::AppId,
};
use interrex_spark_wire::{
    Address, Dictionary, Envelope, Frame, FrameCodec, FrameError, Outbound, Recogniser,
};
use tokio::{
    net::TcpStream,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::codec::Framed;

use crate::{
    edge::spark_rpc::{
        FRAME_BYTES_MAX, MASTER_ENDPOINT, SparkRpc, application::Registration, call,
        probing::Probing, worker::KnownWorker,
    },
    metrics::{self, Queue},
    runtime::peers::{Attached, Peer, SessionId},
};

/// A connection that somebody opened and on which nothing whole came for this long is closed.
const FIRST_FRAME_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a peer may take to read what was sent.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// Requests of one peer that may wait for their answers.
pub(super) const ANSWERS_MAX: usize = 64;

/// What to do next.
#[derive(Debug, Default)]
pub(super) struct Step {
    pub(super) frames: Vec<Frame>,
    /// Nothing more is to be said here.
    pub(super) close: bool,
    /// What the leader is to hear when the frames are on their way, in a worker's place.
    pub(super) reports: Vec<(Subject, ProcessChange)>,
    /// What a worker was to start, and has not been told to.
    pub(super) forget: Option<Subject>,
}

/// A driver or a worker, as it said itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownPeer {
    pub(super) address: Address,
    pub(super) endpoint: String,
}

/// See the module.
pub(super) struct Connection {
    pub(super) rpc: Arc<SparkRpc>,
    pub(super) session: SessionId,
    /// For logs.
    pub(super) from: String,
    pub(super) recogniser: Recogniser,
    /// Set where the build is known from the application's record.
    pub(super) line: Option<Arc<Dictionary>>,
    pub(super) driver: Option<KnownPeer>,
    /// What it has registered on this connection, answered or not.
    pub(super) registration: Option<Registration>,
    /// Its application, once a leader has told it so.
    pub(super) app: Option<AppId>,
    /// It waits for the answer to its registration.
    pub(super) awaits: bool,
    /// It has said that it is done.
    pub(super) is_over: bool,
    pub(super) answers: FuturesUnordered<BoxFuture<'static, Step>>,
    /// Set where the peer is one of Spark's own workers.
    pub(super) worker: Option<KnownWorker>,
    /// What has to be asked before the peer is understood.
    pub(super) probing: Probing,
}

// === impl Step ===

impl Step {
    pub(super) fn send(frame: Frame) -> Self {
        Self {
            frames: vec![frame],
            ..Self::default()
        }
    }

    pub(super) fn report(subject: Subject, change: ProcessChange) -> Self {
        Self {
            reports: vec![(subject, change)],
            ..Self::default()
        }
    }
}

// === impl Connection ===

impl Connection {
    /// One that a peer has opened.
    pub(super) fn accepted(rpc: Arc<SparkRpc>, session: SessionId, socket: &TcpStream) -> Self {
        let from = socket
            .peer_addr()
            .map_or_else(|_gone| "?".to_owned(), |a| a.to_string());
        Self {
            rpc,
            session,
            from,
            recogniser: Recogniser::default(),
            line: None,
            driver: None,
            registration: None,
            app: None,
            awaits: false,
            is_over: false,
            answers: FuturesUnordered::new(),
            worker: None,
            probing: Probing::default(),
        }
    }

    /// Runs until either end has had enough.
    pub(super) async fn run(mut self, socket: TcpStream, attached: Attached, greeting: Vec<Frame>) {
        let reason = self.exchange(socket, attached, greeting).await;
        tracing::debug!(from = self.from, reason, "a connection of Spark has ended");
        let bound = self.rpc.peers.peer_of(self.session);
        self.rpc.peers.detach(self.session);
        if let Some(driver) = &self.driver {
            self.rpc.drivers.went(&driver.address);
        }
        if let Some(worker) = &self.worker {
            self.rpc.drivers.went(worker.address());
        }
        // Only the connection that speaks for the application in this epoch says anything by its end.
        if let Some(Peer::App(app)) = bound {
            self.rpc.drivers.detached(&app);
            if !self.is_over {
                call::after_loss(&self.rpc, app);
            }
        }
    }

    async fn exchange(
        &mut self,
        socket: TcpStream,
        attached: Attached,
        greeting: Vec<Frame>,
    ) -> &'static str {
        keep_alive(&socket);
        let Attached {
            frames: mut queue,
            closed,
            ..
        } = attached;
        let stop = self.rpc.tasks.stop().clone();
        let (mut sink, mut stream) = Framed::new(socket, FrameCodec::new(FRAME_BYTES_MAX)).split();
        let first_by = Instant::now() + FIRST_FRAME_TIMEOUT;
        let mut spoke = !greeting.is_empty();
        let mut step = Step {
            frames: greeting,
            ..Step::default()
        };
        let mut look = Instant::now() + self.rpc.heartbeat_interval;
        loop {
            for frame in step.frames.drain(..) {
                match timeout(SEND_TIMEOUT, sink.send(frame)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_broken)) => return "it is broken",
                    Err(_elapsed) => return "the peer does not read",
                }
            }
            if step.close {
                return "refused";
            }
            for (subject, change) in step.reports.drain(..) {
                self.report(subject, change);
            }
            if let Some(subject) = &step.forget {
                self.worker_has_not(subject);
            }
            let unanswered = self.probing.deadline();
            step = tokio::select! {
                () = closed.cancelled() => return "closed by this master",
                () = stop.cancelled() => return "this master stops",
                () = sleep_until(first_by), if !spoke => return "nothing came in time",
                Some(answer) = self.answers.next(), if !self.answers.is_empty() => answer,
                () = sleep_until(look), if self.worker.is_some() => {
                    look = Instant::now() + self.rpc.heartbeat_interval;
                    self.look_after_worker()
                }
                () = sleep_until(unanswered.unwrap_or(look)), if unanswered.is_some() => {
                    self.peer_is_silent()
                }
                notice = queue.next() => match notice {
                    Some(notice) => self.notice(notice),
                    None => return "closed by this master",
                },
                received = stream.next() => match received {
                    Some(Ok(frame)) => {
                        spoke = true;
                        self.receive(frame)
                    }
                    Some(Err(FrameError::Io(_))) | None => return "closed by the peer",
                    Some(Err(error)) => {
                        self.refused("frame", &error);
                        return "no frames of Spark";
                    }
                },
            };
        }
    }

    /// Something that came makes no sense.
    pub(super) fn refused(&self, what: &'static str, error: &dyn std::fmt::Display) {
        metrics::spark_refused(what);
        tracing::warn!(from = self.from, what, %error, "refused what came over Spark's protocol");
    }

    /// The build of the peer: as far as is known, the best of those that fit.
    pub(super) fn dictionary(&self) -> Option<Arc<Dictionary>> {
        self.line.clone().or_else(|| {
            let fitting = self.rpc.builds.fitting(&self.recogniser);
            fitting.into_iter().next()
        })
    }

    /// A message to the driver.
    pub(super) fn to_driver(&self, message: &Outbound) -> Step {
        let (Some(dictionary), Some(driver)) = (self.dictionary(), &self.driver) else {
            return Step::default();
        };
        match one_way(&self.rpc, &dictionary, driver, message) {
            Ok(frame) => {
                tracing::debug!(from = self.from, message = message.name(), "told a driver");
                Step::send(frame)
            }
            Err(error) => {
                tracing::error!(
                    message = message.name(),
                    line = dictionary.line,
                    error,
                    "cannot be written"
                );
                Step::default()
            }
        }
    }

    /// Answers a request later. Too many of them at once are refused.
    pub(super) fn answer_later(
        &mut self,
        id: i64,
        answer: impl Future<Output = Frame> + Send + 'static,
    ) -> Step {
        if self.answers.len() >= ANSWERS_MAX {
            metrics::refused(Queue::SparkAnswers);
            let text =
                format!("{ANSWERS_MAX} requests of this connection wait already; try again later");
            return Step::send(Frame::Failure { id, text });
        }
        self.answers.push(answer.map(Step::send).boxed());
        Step::default()
    }
}

/// A message to a peer's endpoint as a frame. The sender is the address that the peer knows its master by.
pub(super) fn one_way(
    rpc: &SparkRpc,
    dictionary: &Dictionary,
    peer: &KnownPeer,
    message: &Outbound,
) -> Result<Frame, String> {
    let stream = message.write(dictionary).map_err(|e| e.to_string())?;
    let body = body(rpc, peer, stream)?;
    Ok(Frame::OneWay { body })
}

/// The same, to be answered.
pub(super) fn request(
    rpc: &SparkRpc,
    dictionary: &Dictionary,
    peer: &KnownPeer,
    id: i64,
    message: &Outbound,
) -> Result<Frame, String> {
    let stream = message.write(dictionary).map_err(|e| e.to_string())?;
    raw_request(rpc, peer, id, stream)
}

/// A request whose Java stream is there already.
pub(super) fn raw_request(
    rpc: &SparkRpc,
    peer: &KnownPeer,
    id: i64,
    stream: Vec<u8>,
) -> Result<Frame, String> {
    let body = body(rpc, peer, stream)?;
    Ok(Frame::Request { id, body })
}

fn body(rpc: &SparkRpc, peer: &KnownPeer, stream: Vec<u8>) -> Result<Bytes, String> {
    let envelope = Envelope {
        sender: Some(rpc.me.clone()),
        receiver: Some(peer.address.clone()),
        endpoint: peer.endpoint.clone(),
        payload: Bytes::from(stream),
    };
    envelope.encode().map_err(|e| e.to_string())
}

/// A driver's machine that is gone without a word is noticed within two minutes.
fn keep_alive(socket: &TcpStream) {
    let options = socket2::TcpKeepalive::new()
        .with_time(Duration::from_secs(60))
        .with_interval(Duration::from_secs(15));
    if let Err(error) = socket2::SockRef::from(socket).set_tcp_keepalive(&options) {
        tracing::debug!(%error, "no keep-alive on a connection of Spark");
    }
}

/// Whether a message is for a master.
pub(super) fn is_master(endpoint: &str) -> bool {
    endpoint == MASTER_ENDPOINT
}
