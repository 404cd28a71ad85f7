//! The tokio side of a session: one task owns the machine, one task a stream reads and writes.
//!
//! The owner never waits for the role or for a master. Events for the role wait in a bounded queue; while that is
//! full the streams are not read (and no deadline of theirs counts), but the role's commands still are. So a role
//! that waits for `send` can never dead-lock with a session that waits for the role.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use interrex_proto::v1::PeerFrame;
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};

use super::{
    event::{Input, Moment, Observation, Output, SessionEvent, StreamId},
    handle::{Command, Delivery, SessionHandle},
    machine::SessionMachine,
    options::{
        EVENT_QUEUE_LEN, INBOUND_QUEUE_LEN, MAILBOX_LEN, STREAM_QUEUE_LEN, SessionError,
        SessionOptions,
    },
    stream::{StreamEvent, StreamTask},
};
use crate::metrics;

/// Most events held by the owner itself when the role's queue is full; beyond that no stream is read. One
/// frame makes at most a handful of events.
const HELD_EVENTS_MAX: usize = 16;

/// Opens sessions.
#[derive(Debug)]
pub struct Session;

/// The task that owns a session.
struct Owner {
    machine: SessionMachine,
    options: SessionOptions,
    began: Instant,
    seen: Arc<AtomicU64>,
    streams: BTreeMap<StreamId, StreamLink>,
    tasks: TaskTracker,
    to_owner: mpsc::Sender<(StreamId, StreamEvent)>,
    from_streams: mpsc::Receiver<(StreamId, StreamEvent)>,
    mailbox: mpsc::Receiver<Command>,
    events: mpsc::Sender<SessionEvent>,
    held: VecDeque<SessionEvent>,
    detached_at: Option<Instant>,
}

/// The owner's end of a stream.
struct StreamLink {
    outbound: mpsc::Sender<PeerFrame>,
    dropped: CancellationToken,
    opened: bool,
}

/// What the owner woke up for.
#[expect(
    clippy::large_enum_variant,
    reason = "lives on the stack for one turn of the loop"
)]
enum Wake {
    Shutdown,
    Delivered,
    Command(Option<Command>),
    Stream(StreamId, StreamEvent),
    Timer,
    Nobody,
}

// === impl Session ===

impl Session {
    /// Opens a session in the current tokio runtime and returns at once. It ends when `shutdown` is cancelled,
    /// when [`SessionHandle::close`] is called, or when every handle or the receiver of events is dropped.
    ///
    /// # Errors
    /// [`SessionError`] when the options are bad.
    ///
    /// # Panics
    /// When called outside a tokio runtime.
    pub fn spawn(
        options: SessionOptions,
        shutdown: CancellationToken,
    ) -> Result<(SessionHandle, mpsc::Receiver<SessionEvent>), SessionError> {
        let machine = SessionMachine::new(
            &options.masters,
            options.seen,
            options.seed,
            options.timings,
        )?
        .with_learnt(&options.learnt);
        let (to_owner, from_streams) = mpsc::channel(INBOUND_QUEUE_LEN);
        let (commands, mailbox) = mpsc::channel(MAILBOX_LEN);
        let (events, received) = mpsc::channel(EVENT_QUEUE_LEN);
        let seen = Arc::new(AtomicU64::new(options.seen));
        let owner = Owner {
            machine,
            options,
            began: Instant::now(),
            seen: Arc::clone(&seen),
            streams: BTreeMap::new(),
            tasks: TaskTracker::new(),
            to_owner,
            from_streams,
            mailbox,
            events,
            held: VecDeque::new(),
            detached_at: None,
        };
        tokio::spawn(owner.run(shutdown));
        Ok((SessionHandle::new(commands, seen), received))
    }
}

// === impl Owner ===

impl Owner {
    async fn run(mut self, shutdown: CancellationToken) {
        let mut closing = None;
        loop {
            match self.wake(&shutdown).await {
                Wake::Delivered => {}
                Wake::Command(Some(Command::Register { stream, body })) => {
                    self.feed(Input::RegistrationReady {
                        stream,
                        body: *body,
                    });
                }
                Wake::Command(Some(Command::Send { body, answer })) => {
                    let delivery = self.feed(Input::Send { body: *body });
                    // The caller may have gone.
                    answer.send(delivery).unwrap_or_default();
                }
                Wake::Command(Some(Command::Close { done })) => {
                    closing = Some(done);
                    break;
                }
                Wake::Stream(stream, event) => self.on_stream(stream, event),
                Wake::Timer => {
                    self.feed(Input::Timer);
                }
                Wake::Shutdown | Wake::Nobody | Wake::Command(None) => break,
            }
        }
        self.close().await;
        if let Some(done) = closing {
            done.send(()).unwrap_or_default();
        }
    }

    async fn wake(&mut self, shutdown: &CancellationToken) -> Wake {
        let reading = self.held.len() < HELD_EVENTS_MAX;
        let due = self
            .machine
            .next_wakeup()
            .map(|moment| self.began + moment.elapsed());
        let timer = async {
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => Wake::Shutdown,
            permit = self.events.reserve(), if !self.held.is_empty() => match permit {
                Ok(permit) => {
                    if let Some(event) = self.held.pop_front() {
                        permit.send(event);
                    }
                    Wake::Delivered
                }
                Err(_) => Wake::Nobody,
            },
            () = self.events.closed() => Wake::Nobody,
            command = self.mailbox.recv() => Wake::Command(command),
            Some((stream, event)) = self.from_streams.recv(), if reading => {
                Wake::Stream(stream, event)
            }
            () = timer, if reading => Wake::Timer,
        }
    }

    fn on_stream(&mut self, stream: StreamId, event: StreamEvent) {
        match event {
            StreamEvent::Opened => {
                if let Some(link) = self.streams.get_mut(&stream) {
                    link.opened = true;
                }
                self.feed(Input::Opened { stream });
            }
            StreamEvent::Frame(frame) => {
                self.feed(Input::Frame { stream, frame });
            }
            StreamEvent::Ended { reason } => {
                if self.streams.remove(&stream).is_some() {
                    debug!(%stream, reason, "a master's stream has ended");
                    self.feed(Input::Disconnected { stream, reason });
                }
            }
        }
    }

    /// Feeds the machine and carries out what it says. The result matters for `Input::Send` only.
    fn feed(&mut self, input: Input) -> Delivery {
        let mut delivery = Delivery::Queued;
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            // Only what the role asked to send may be refused as busy: anything else that does not fit means that
            // the stream is stuck.
            let from_role = matches!(input, Input::Send { .. });
            let now = Moment::from_elapsed(self.began.elapsed());
            for output in self.machine.step(now, input) {
                match output {
                    Output::Connect { stream, address } => self.connect(stream, address),
                    Output::Send { stream, frame } => {
                        if !self.write(stream, frame) {
                            if from_role {
                                delivery = Delivery::Busy;
                            } else {
                                self.drop_stream(stream);
                                let reason = "its queue is full".to_owned();
                                inputs.push_back(Input::Disconnected { stream, reason });
                            }
                        }
                    }
                    Output::NotAttached => delivery = Delivery::NotAttached,
                    Output::Close { stream } => self.drop_stream(stream),
                    Output::Notify(event) => self.notify(event),
                    Output::Observe(observation) => observe(&observation),
                }
            }
        }
        self.seen.store(self.machine.seen(), Ordering::Release);
        delivery
    }

    fn connect(&mut self, stream: StreamId, address: String) {
        let (outbound, queued) = mpsc::channel(STREAM_QUEUE_LEN);
        let dropped = CancellationToken::new();
        self.streams.insert(
            stream,
            StreamLink {
                outbound,
                dropped: dropped.clone(),
                opened: false,
            },
        );
        debug!(%stream, master = address, "dialling a master");
        let task = StreamTask {
            stream,
            address,
            channel: self.options.channel.clone(),
            outbound: queued,
            owner: self.to_owner.clone(),
            dropped,
        };
        self.tasks.spawn(task.run());
    }

    /// False when the stream's queue is full. A stream whose task has ended takes everything: its end is on the
    /// way to the machine.
    fn write(&self, stream: StreamId, frame: PeerFrame) -> bool {
        let Some(link) = self.streams.get(&stream) else {
            return true;
        };
        match link.outbound.try_send(frame) {
            Err(TrySendError::Full(_)) => {
                metrics::refused("stream");
                false
            }
            Ok(()) | Err(TrySendError::Closed(_)) => true,
        }
    }

    fn drop_stream(&mut self, stream: StreamId) {
        if let Some(link) = self.streams.remove(&stream) {
            link.dropped.cancel();
        }
    }

    fn notify(&mut self, event: SessionEvent) {
        match &event {
            SessionEvent::Attached { epoch, master, .. } => {
                info!(event = "attached", epoch, master, "attached to the leader");
                let gap = self.detached_at.take().map(|at| at.elapsed());
                metrics::attached(*epoch, gap);
            }
            SessionEvent::Detached { reason } => {
                info!(
                    seen = self.machine.seen(),
                    reason, "detached from the leader"
                );
                self.detached_at = Some(Instant::now());
                metrics::detached();
            }
            SessionEvent::Refused {
                master,
                reason,
                permanent,
            } => {
                warn!(master, reason, permanent, "a master refused this peer");
            }
            SessionEvent::RegistrationWanted { .. } | SessionEvent::Frame { .. } => {}
        }
        self.held.push_back(event);
    }

    /// Lets the streams write what is queued, within `close_timeout`, then drops them.
    async fn close(mut self) {
        let mut tokens = Vec::new();
        for link in std::mem::take(&mut self.streams).into_values() {
            if link.opened {
                tokens.push(link.dropped);
            } else {
                link.dropped.cancel();
            }
        }
        self.tasks.close();
        let limit: Duration = self.options.timings.close_timeout;
        let drained = timeout(limit, async {
            tokio::select! {
                () = self.tasks.wait() => {}
                // Frames that still come in are dropped, so that no task waits for this one.
                () = async { while self.from_streams.recv().await.is_some() {} } => {}
            }
        });
        if drained.await.is_err() {
            debug!("a master did not end its stream in time");
        }
        for token in tokens {
            token.cancel();
        }
        metrics::detached();
    }
}

fn observe(observation: &Observation) {
    match observation {
        Observation::Stale {
            kind,
            refused,
            seen,
        } => {
            warn!(
                frame = kind,
                refused, seen, "refused a frame of an older epoch"
            );
            metrics::stale_message(kind);
        }
        Observation::Unadopted { kind } => {
            debug!(
                frame = kind,
                "dropped a frame of a master that is not adopted"
            );
        }
        Observation::FailoverSeen { epoch } => {
            info!(event = "failover_seen", epoch, "a newer leader exists");
            metrics::failover_seen();
        }
        Observation::Redirect { address } => {
            debug!(master = address, "following a hint");
            metrics::redirect_followed();
        }
    }
}
