//! The pump of `LeaderMachine`: feeds it, and carries out what it returns. One task for one leadership.
//!
//! Owns the machine, the view that is being built, and everybody who waits. Never waits for anything but its
//! inputs: commits run in a task of their own, frames go into bounded queues.

mod sources;

use std::{sync::Arc, time::Duration};

use interrex_core::{
    command::Command,
    ids::Epoch,
    leader::{
        Answer, BatchId, CommitFailure, LeaderMachine, Output, Publication, StepDown, Ticket,
    },
    state::meta::RecoveryState,
    transition::{Mutation, Reply},
};
use interrex_persistence::{
    engine::PersistenceEngine,
    epoch,
    error::CommitError,
    kill_point::{KillPoint, Submission},
    record::CommitBatch,
};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, Interval, timeout},
};

pub(crate) use self::sources::Signals;
use self::sources::{Committed, Event, Sources};
use crate::{
    metrics::{self, Queue, Turn},
    records::encode_batch,
    runtime::{
        chronicle,
        dispatcher::Dispatcher,
        error::RequestError,
        hand_over::{Departure, Progress},
        handle::MasterHandle,
        heartbeats::{Fresh, Heartbeats},
        ignored::IgnoredCount,
        peers::{Changes, Peers},
        port::{Input, Outcome, Waiters},
        quarantine::Quarantine,
        restore::{self, RestoreError, RestoreOrder},
        shared::Shared,
        traces::Traces,
        view::ClusterView,
    },
};

/// How often the machine is told that time passes.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// Inputs that are taken from the mailbox at once; they form one batch.
const INPUTS_MAX: usize = 1024;
/// Commands that may wait in the machine before the mailbox is left alone: from there on it fills and refuses.
const BACKLOG_MAX: usize = 1024;

/// One leadership's loop.
#[derive(Debug)]
pub(crate) struct LeaderLoop {
    pub(crate) shared: Arc<Shared>,
    pub(crate) engine: Arc<dyn PersistenceEngine>,
    pub(crate) machine: LeaderMachine,
    pub(crate) view: ClusterView,
    pub(crate) heartbeats: Arc<Heartbeats>,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) peers: Arc<Peers>,
    /// After this a commit's outcome counts as unknown.
    pub(crate) commit_deadline: Duration,
    pub(crate) waiters: Waiters,
    pub(crate) ignored: IgnoredCount,
    pub(crate) quarantine: Quarantine,
    pub(crate) traces: Traces,
    /// When this leadership began to serve.
    pub(crate) began: Instant,
    /// What this leadership has ended for, if it was to restore a snapshot.
    pub(crate) restore: Option<RestoreOrder>,
}

// === impl LeaderLoop ===

impl LeaderLoop {
    /// Leads until the leadership ends; everybody who waited has been answered then. The order is what it ended for.
    pub(crate) async fn run(
        mut self,
        mailbox: mpsc::Receiver<Input>,
        signals: Signals,
    ) -> (StepDown, Option<RestoreOrder>) {
        let mut sources = Sources::new(mailbox, signals);
        // What it has woken up for, and when.
        let mut busy: Option<(Turn, Instant)> = None;
        let reason = loop {
            if sources.departure.is_draining() && self.machine.is_idle() {
                self.depart(&mut sources.departure);
            }
            if let Some(reason) = self.act(&mut sources.commit) {
                break reason;
            }
            if let Some((turn, woke)) = busy.take() {
                metrics::turned(turn, woke.elapsed());
            }
            let room = self.machine.queue_len() < BACKLOG_MAX;
            let event = sources.next(room).await;
            busy = Some((event.turn(), Instant::now()));
            match event {
                Event::Lost => self.machine.step_down(StepDown::Lost),
                Event::Stop => sources.departure.stop(),
                Event::HandOver(order) => sources.departure.begin(order),
                Event::Restore(order) => {
                    if let Some(order) = self.admit(order) {
                        sources.departure.make_way(order);
                    }
                }
                Event::Departure(Progress::DrainedTooLong) => {
                    tracing::warn!(epoch = self.epoch().0, "leaving with a commit under way");
                    self.depart(&mut sources.departure);
                }
                Event::Departure(Progress::Failed) => sources.departure.stay(),
                Event::Departure(Progress::Moved) | Event::MailboxClosed => {
                    self.machine.step_down(StepDown::Resigned);
                }
                Event::Committed(batch, result) => {
                    sources.commit = None;
                    self.on_commit(batch, result);
                }
                Event::Tick(due) if sources.departure.is_staying() => {
                    self.on_tick(due, &mut sources.ticks);
                }
                // Whatever a tick would begin could be left unfinished.
                Event::Tick(_) => self.shared.pulse.beat(),
                Event::Inputs => {
                    let Sources { inbox, .. } = &mut sources;
                    inbox.drain(..).for_each(|input| self.on_input(input));
                    if sources.commit.is_none() {
                        self.gather(&mut sources.mailbox).await;
                    }
                }
            }
        };
        // The next leadership may be one of the same epoch, which no fence keeps this commit out of: what has not
        // reached the store by now never does.
        if let Some((_, commit)) = sources.commit.take() {
            commit.abort();
            drop(commit.await);
        }
        self.refuse_rest(&mut sources.mailbox).await;
        metrics::queue(Queue::Leader, 0, self.machine.queue_max());
        (reason, self.restore)
    }

    /// Answers an order that cannot be carried out, or has been; else returns it.
    fn admit(&self, order: RestoreOrder) -> Option<RestoreOrder> {
        let state = self.machine.state();
        let has_work = state.drivers().next().is_some()
            || state.apps().next().is_some()
            || state.requests().next().is_some();
        let answer = match restore::admit(&order.source, state.meta(), has_work) {
            Ok(None) => return Some(order),
            Ok(Some(restored)) => Ok(restored),
            Err(error) => Err(error),
        };
        if order.done.send(answer).is_err() {
            tracing::debug!("whoever asked for the restore has gone");
        }
        None
    }

    /// Nothing is under way any more, or it is not waited for: hands over as ordered, or resigns.
    fn depart(&mut self, departure: &mut Departure) {
        if let Some(order) = departure.take_restore() {
            let idle = self.machine.is_idle();
            // Once more: what was under way may have been the first driver.
            self.restore = self.admit(order).and_then(|order| {
                if idle {
                    return Some(order);
                }
                drop(
                    order
                        .done
                        .send(Err(RestoreError::Busy("a commit is under way"))),
                );
                None
            });
            if self.restore.is_none() {
                departure.stay();
                return;
            }
        }
        let admin = Arc::clone(&self.shared.admin);
        if !departure.hand_over(admin, &self.shared.me.id) {
            self.machine.step_down(StepDown::Resigned);
        }
    }

    /// Lets those who are about to ask do so before a batch leaves: after a commit its callers come back all
    /// at once, and without this the first of them would have a batch of its own.
    async fn gather(&mut self, mailbox: &mut mpsc::Receiver<Input>) {
        tokio::task::yield_now().await;
        for _ in 0..INPUTS_MAX {
            let Ok(input) = mailbox.try_recv() else { break };
            self.on_input(input);
        }
    }

    fn on_input(&mut self, input: Input) {
        let Input {
            command,
            deadline,
            waiter,
            trace,
        } = input;
        if let Some(rejection) = self.quarantine.refuses(&command) {
            if let Some(waiter) = waiter {
                waiter.answer(Err(RequestError::Rejected(rejection)));
            }
            return;
        }
        let ticket = waiter.map(|waiter| self.waiters.add(waiter));
        if let (Some(ticket), Some(place)) = (ticket, trace) {
            self.traces.taken(ticket, &command, place);
        }
        let deadline = self.shared.clock.at(deadline);
        self.machine
            .submit(ticket, command, deadline, self.shared.clock.now());
    }

    fn on_tick(&mut self, due: Instant, ticks: &mut Interval) {
        let lag = due.elapsed();
        metrics::loop_lag(lag);
        if lag > TICK * 5 {
            tracing::warn!(
                event = "loop_late",
                epoch = self.epoch().0,
                lag_ms = lag.as_millis(),
                "the loop is late"
            );
            ticks.reset();
        }
        self.shared.pulse.beat();
        let now = self.shared.clock.now();
        for Fresh { worker, at, said } in self.heartbeats.take_fresh() {
            self.machine.heartbeat(&worker, at);
            if let Some(heartbeat) = said {
                self.machine.heard(&worker, heartbeat, now);
            }
        }
        let Changes { apps, gone } = self.peers.take_changes();
        for (app, attached) in apps {
            if attached {
                self.machine.app_attached(&app);
            } else {
                self.machine.app_detached(&app, now);
                // Whether it makes progress is its next session's to say.
                self.heartbeats.progress(&app, None);
            }
        }
        for worker in gone {
            let command = Command::WorkerDisconnected { worker };
            self.machine
                .submit(None, command, now.plus(self.commit_deadline), now);
        }
        self.machine.tick(now);
        let (waiting, max) = (self.machine.queue_len(), self.machine.queue_max());
        metrics::queue(Queue::Leader, waiting, max);
        let (waiting, max) = self.peers.frames_waiting();
        metrics::queue(Queue::SessionFrames, waiting, max);
        self.ignored.take(&self.machine);
    }

    fn on_commit(&mut self, batch: BatchId, result: Committed) {
        let epoch = self.epoch().0;
        let failure = match result {
            Ok(Ok(_seq)) => {
                self.machine.committed(batch, self.shared.clock.now());
                return;
            }
            Ok(Err(error)) => {
                tracing::warn!(event = "commit_failed", epoch, %error, "commit failed: stepping down");
                let (failure, reason) = match error {
                    CommitError::Fenced { .. } => (CommitFailure::Fenced, "fenced"),
                    CommitError::Rejected(_) => (CommitFailure::Rejected, "rejected"),
                    CommitError::Indeterminate(_) => (CommitFailure::Unknown, "unknown"),
                };
                metrics::commit_failed(reason);
                failure
            }
            Err(_elapsed) => {
                let after_ms = self.commit_deadline.as_millis();
                tracing::warn!(
                    event = "commit_failed",
                    epoch,
                    after_ms,
                    "commit has no answer in time: stepping down"
                );
                metrics::commit_failed("late");
                CommitFailure::Unknown
            }
        };
        self.machine.commit_failed(batch, failure);
    }

    /// Carries out what the machine wants done. Some: the leadership is over.
    fn act(&mut self, commit: &mut Option<(BatchId, JoinHandle<Committed>)>) -> Option<StepDown> {
        let outputs = self.machine.poll(self.shared.clock.now());
        if let Some(Output::StepDown(reason)) = outputs.last() {
            // First, so that nobody who is answered below comes back to this leadership.
            tracing::info!(
                event = "stepping_down",
                epoch = self.epoch().0,
                reason = reason.name(),
                "stepping down"
            );
            self.shared.port.send_replace(None);
        }
        let (mut over, mut replied) = (None, false);
        for output in outputs {
            match output {
                Output::Commit { batch, mutations } => {
                    *commit = Some((batch, self.start_commit(mutations)));
                }
                Output::Publish(publication) => self.publish(&publication),
                Output::Reply { ticket, answer } => {
                    replied = true;
                    self.answer(ticket, answer);
                }
                Output::Effect(effect) => {
                    if replied && effect.launches_driver() {
                        KillPoint::RepliedBeforeLaunch.reach();
                    }
                    let place = self.traces.order(&effect);
                    self.dispatcher.send(effect, &self.view, place.as_ref());
                }
                Output::Reregister { worker, reason } => self.dispatcher.reregister(worker, reason),
                Output::StepDown(reason) => over = Some(reason),
            }
        }
        over
    }

    fn start_commit(&mut self, mutations: Arc<[Mutation]>) -> JoinHandle<Committed> {
        let engine = Arc::clone(&self.engine);
        let epoch = epoch::Epoch(self.epoch().0);
        let deadline = self.commit_deadline;
        metrics::committing(mutations.len());
        let mut copies = Vec::new();
        if !self.quarantine.is_empty() {
            copies = self.quarantine.copies(&encode_batch(&mutations));
        }
        let is_submission = |mutation: &Mutation| matches!(mutation, Mutation::PutRequest(_));
        let submission = Submission::begin(mutations.iter().any(is_submission));
        // In a task of its own: encoding and storing go on while the loop applies the next commands.
        tokio::spawn(async move {
            let mut mutations = encode_batch(&mutations);
            mutations.append(&mut copies);
            KillPoint::BeforeAppend.reach_in_submission();
            let committed =
                timeout(deadline, engine.commit(CommitBatch { epoch, mutations })).await;
            if matches!(committed, Ok(Ok(_))) {
                KillPoint::CommittedBeforeReply.reach_in_submission();
            }
            drop(submission);
            committed
        })
    }

    fn publish(&mut self, publication: &Publication) {
        let now = self.shared.clock.now();
        for mutation in publication.mutations.iter() {
            chronicle::tell(&self.view, mutation, now);
            self.traces.shown(mutation);
        }
        self.view.apply(&publication.mutations);
        for mutation in publication.mutations.iter() {
            if let Mutation::DeleteWorker(worker) = mutation {
                self.heartbeats.forget(worker);
            }
        }
        for worker in &publication.workers {
            self.view.apply(&[Mutation::PutWorker(Arc::clone(worker))]);
        }
        if let Some(recovery) = publication.recovery {
            let (epoch, state) = (self.epoch().0, recovery.name());
            if recovery == RecoveryState::Alive {
                tracing::info!(event = "recovery_complete", epoch, state, "recovery");
                metrics::reconciled(self.began.elapsed());
            } else {
                tracing::info!(event = "recovery", epoch, state, "recovery");
            }
            self.view.set_recovery(recovery);
        }
        self.shared.view.send_replace(Arc::new(self.view.clone()));
    }

    fn answer(&mut self, ticket: Ticket, answer: Answer) {
        self.traces.answered(ticket, &answer);
        let Some(waiter) = self.waiters.take(ticket) else {
            return;
        };
        waiter.answer(self.outcome(answer));
    }

    fn outcome(&self, answer: Answer) -> Outcome {
        match answer {
            Answer::Reply(Reply::Rejected(rejection)) => Err(RequestError::Rejected(rejection)),
            Answer::Reply(reply) => Ok(reply),
            Answer::NotLeader => Err(self.not_leader()),
            Answer::OutcomeUnknown => Err(RequestError::OutcomeUnknown),
            Answer::DeadlineExceeded => Err(RequestError::DeadlineExceeded {
                outcome_unknown: false,
            }),
            Answer::Busy => {
                metrics::refused(Queue::Leader);
                Err(RequestError::Busy {
                    queue: "the leader's queue",
                    max: self.machine.queue_max(),
                })
            }
        }
    }

    /// Answers what is still in the mailbox: none of it has been applied.
    async fn refuse_rest(&mut self, mailbox: &mut mpsc::Receiver<Input>) {
        mailbox.close();
        while let Some(input) = mailbox.recv().await {
            if let Some(waiter) = input.waiter {
                waiter.answer(Err(self.not_leader()));
            }
        }
    }

    fn not_leader(&self) -> RequestError {
        MasterHandle::new(Arc::clone(&self.shared)).not_leader()
    }

    fn epoch(&self) -> Epoch {
        self.machine.epoch()
    }

    /// Has the machine mint the cluster's id, unless there is one.
    pub(crate) fn initialize(&mut self, cluster_id: String) {
        let now = self.shared.clock.now();
        let deadline = now.plus(self.commit_deadline);
        self.machine
            .submit(None, Command::Initialize { cluster_id }, deadline, now);
    }
}
