//! One simulated agent: the machine and the session of a real one, without processes and without a disk.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use interrex_agent::worker::{Action, Event, MachineOptions, Now, WorkerMachine};
use interrex_client::session::{Delivery, Session, SessionEvent, SessionHandle, SessionOptions};
use interrex_proto::{
    clock,
    v1::{WorkerSpec, master_frame, peer_frame},
};
use tokio::{sync::OwnedSemaphorePermit, time::sleep_until};
use tokio_util::sync::CancellationToken;

use super::board::Board;

/// Heartbeats whose acknowledgement is waited for.
const SENT_MAX: usize = 16;
/// Nothing is ever started or ended, so these are never used.
const UNUSED: Duration = Duration::from_secs(10);

/// One agent.
#[derive(Debug)]
pub(super) struct Simulated {
    machine: WorkerMachine,
    options: SessionOptions,
    board: Arc<Board>,
    began: Instant,
    /// Number and instant of what was sent and not acknowledged.
    sent: VecDeque<(u64, Instant)>,
    attached: Option<u64>,
}

// === impl Simulated ===

impl Simulated {
    /// Agent `number` of the cluster with these masters.
    pub(super) fn new(number: u32, masters: String, board: Arc<Board>) -> Self {
        let unique = uuid::Uuid::now_v7().simple().to_string();
        let spec = WorkerSpec {
            id: format!("bench-{number:05}"),
            host: "127.0.0.1".to_owned(),
            web: "127.0.0.1:8081".to_owned(),
            cores: 8,
            memory_mib: 32_768,
            incarnation: unique.clone(),
            work_dir_id: unique,
            ..WorkerSpec::default()
        };
        let options = MachineOptions {
            dictionaries: Vec::new(),
            spec,
            masters: vec![masters.clone()],
            cluster_id: String::new(),
            epoch: 0,
            kill_grace: UNUSED,
            launch_wait: UNUSED,
        };
        Self {
            machine: WorkerMachine::new(options, 1, Vec::new(), Vec::new()),
            options: SessionOptions {
                masters: vec![masters],
                seed: u64::from(number),
                ..SessionOptions::default()
            },
            board,
            began: Instant::now(),
            sent: VecDeque::new(),
            attached: None,
        }
    }

    /// Runs until `stop` is cancelled. `turn` is given back when the first leader has taken it.
    pub(super) async fn run(mut self, turn: OwnedSemaphorePermit, stop: CancellationToken) {
        let mut turn = Some(turn);
        let opened = Session::spawn(self.options.clone(), stop.clone());
        let (session, mut events) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.board.failed(format!("an agent's session: {error}")),
        };
        loop {
            let due = self.machine.next_deadline().map(|due| self.began + due);
            let timer = async {
                match due {
                    Some(due) => sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                () = stop.cancelled() => break,
                event = events.recv() => match event {
                    Some(event) => event,
                    None => break,
                },
                () = timer => {
                    self.feed(Event::Tick, due, &session).await;
                    continue;
                }
            };
            self.note(&event);
            if self.attached.is_some() {
                turn = None;
            }
            self.feed(Event::from(event), None, &session).await;
        }
        drop(turn);
        session.close().await;
    }

    /// Tells the board what concerns it.
    fn note(&mut self, event: &SessionEvent) {
        match event {
            SessionEvent::Attached { epoch, .. } => self.moved(Some(*epoch)),
            SessionEvent::Detached { .. } => self.moved(None),
            SessionEvent::Frame {
                body: master_frame::Body::HeartbeatAck(ack),
                ..
            } => self.acknowledged(ack.sequence),
            SessionEvent::Refused {
                reason,
                permanent: true,
                ..
            } => self.board.failed(format!("an agent was refused: {reason}")),
            SessionEvent::Refused { .. }
            | SessionEvent::Frame { .. }
            | SessionEvent::RegistrationWanted { .. } => {}
        }
    }

    fn moved(&mut self, now: Option<u64>) {
        let before = std::mem::replace(&mut self.attached, now);
        self.board.moved(before, now);
        self.sent.clear();
    }

    fn acknowledged(&mut self, sequence: u64) {
        // A later one acknowledges those before it.
        while let Some((number, at)) = self.sent.pop_front() {
            if number == sequence {
                return self.board.acknowledged(at.elapsed());
            }
            if number > sequence {
                return self.sent.push_front((number, at));
            }
        }
    }

    /// `due`: when the event should have been.
    async fn feed(&mut self, event: Event, due: Option<Instant>, session: &SessionHandle) {
        let elapsed = self.began.elapsed();
        let now = Now {
            elapsed,
            // No lease is ever given, so any clock that never goes back will do.
            boot: elapsed,
            wall_ms: clock::now_ms(),
        };
        for action in self.machine.handle(event, now) {
            match action {
                Action::Register {
                    stream,
                    registration,
                } => {
                    let body = peer_frame::Body::RegisterWorker(*registration);
                    if session.register(stream, body).await.is_err() {
                        tracing::debug!("a registration came too late: the session is closed");
                    }
                }
                Action::Heartbeat(heartbeat) => {
                    let sequence = heartbeat.sequence;
                    let body = peer_frame::Body::Heartbeat(heartbeat);
                    if session.send(body).await == Ok(Delivery::Queued) {
                        self.beaten(sequence, due);
                    }
                }
                Action::Stale(stale) => {
                    let body = peer_frame::Body::StaleEpoch(stale);
                    if session.send(body).await != Ok(Delivery::Queued) {
                        tracing::debug!("nobody is left to be told of an old frame");
                    }
                }
                // There is no disk to write to, and there are no processes.
                Action::PersistEpoch(_)
                | Action::PersistCluster(_)
                | Action::PersistMasters(_)
                | Action::Report(_)
                | Action::Start(_)
                | Action::Kill { .. }
                | Action::Renew(_)
                | Action::Store(_)
                | Action::Forget(_) => {}
            }
        }
    }

    fn beaten(&mut self, sequence: u64, due: Option<Instant>) {
        if let Some(due) = due {
            self.board.beaten(due.elapsed());
        }
        if self.sent.len() >= SENT_MAX {
            self.sent.pop_front();
        }
        self.sent.push_back((sequence, Instant::now()));
    }
}
