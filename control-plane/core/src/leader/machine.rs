//! `LeaderMachine`: the state and the outbox of one epoch.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use crate::{
    command::Command,
    config::ClusterConfig,
    ids::{AppId, Epoch, WorkerId},
    leader::{
        Answer, BatchId, CommitFailure, Heartbeat, LeaderConfig, Output, Publication, Reregister,
        StepDown, Ticket,
        batch::{Batch, Held},
        differences::Differences,
        event_log::EventLog,
        outbox::{Decided, Free, Outbox},
    },
    liveness::Liveness,
    state::{
        cluster::{ClusterState, RecoveredEntities},
        meta::RecoveryState,
        worker::{Worker, WorkerState},
    },
    time::Timestamp,
    transition::{Mutation, Reply},
};

/// How long news about whether a worker wants work may wait for room.
const ACCEPTING_DEADLINE: Duration = Duration::from_secs(5);

/// The leader of one epoch. Feed it, then take what it wants done with [`poll`](Self::poll).
#[derive(Debug)]
pub struct LeaderMachine {
    epoch: Epoch,
    config: LeaderConfig,
    state: ClusterState,
    liveness: Liveness,
    differences: Differences,
    outbox: Outbox,
    queue: VecDeque<Queued>,
    outputs: Vec<Output>,
    /// When the store last confirmed a commit of this epoch.
    proven_at: Timestamp,
    /// Time has passed, and there was no room for what that means. It comes before all that waits: else a flood of
    /// commands would keep the dead from being noticed.
    tick_owed: bool,
    over: bool,
}

/// A command that waits for room in a batch.
#[derive(Debug)]
struct Queued {
    ticket: Option<Ticket>,
    command: Command,
    deadline: Timestamp,
}

// === impl LeaderMachine ===

impl LeaderMachine {
    /// The leader of `epoch`, over what was stored before it.
    #[must_use]
    pub fn recover(
        epoch: Epoch,
        config: LeaderConfig,
        cluster: ClusterConfig,
        entities: RecoveredEntities,
        now: Timestamp,
    ) -> Self {
        let events = EventLog::new(
            epoch,
            cluster.retained_events,
            &entities.events,
            entities.next_event,
        );
        let state = ClusterState::recover(cluster.clone(), entities, now);
        let liveness = Liveness::renewed(&state, &cluster, now);
        Self {
            epoch,
            config,
            state,
            liveness,
            differences: Differences::default(),
            outbox: Outbox::new(config.batch, events),
            queue: VecDeque::new(),
            outputs: Vec::new(),
            proven_at: now,
            tick_owed: false,
            over: false,
        }
    }

    /// The epoch that it leads in.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// What has been decided, durable or not. For tests, simulation and the first publication; readers get
    /// publications only.
    #[must_use]
    pub fn state(&self) -> &ClusterState {
        &self.state
    }

    /// Plants a bug: from now on a repeated report is counted again.
    #[cfg(feature = "planted-bugs")]
    pub fn plant_double_count(&mut self) {
        self.state.plant_double_count();
    }

    /// Commands that wait for room in a batch.
    #[must_use]
    pub fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// Commands that may wait so.
    #[must_use]
    pub fn queue_max(&self) -> usize {
        self.config.queue_max
    }

    /// Whether everything that was submitted has been answered.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.outbox.is_idle() && self.queue.is_empty()
    }

    /// Takes a request. `ticket`: who waits for the answer, if anybody does.
    pub fn submit(
        &mut self,
        ticket: Option<Ticket>,
        command: Command,
        deadline: Timestamp,
        now: Timestamp,
    ) {
        if self.over {
            self.answer(ticket, Answer::NotLeader);
        } else if self.queue.is_empty() && self.outbox.has_room() {
            self.apply_in_time(
                Queued {
                    ticket,
                    command,
                    deadline,
                },
                now,
            );
        } else if self.queue.len() < self.config.queue_max {
            self.queue.push_back(Queued {
                ticket,
                command,
                deadline,
            });
        } else {
            self.answer(ticket, Answer::Busy);
        }
    }

    /// The store has confirmed `batch`.
    pub fn committed(&mut self, batch: BatchId, now: Timestamp) {
        let Some(batch) = self.outbox.release(batch) else {
            return;
        };
        self.proven_at = now;
        let Batch {
            mutations,
            held,
            shown,
            recovery,
            ..
        } = batch;
        let shown = not_stored(shown, &mutations);
        self.publish(mutations, shown, recovery);
        let mut effects = Vec::new();
        for held in held {
            self.answer(held.ticket, Answer::Reply(held.reply));
            effects.extend(held.effects);
        }
        self.outputs.extend(effects.into_iter().map(Output::Effect));
        self.refill(now);
    }

    /// The commit of `batch` did not succeed: the leadership ends.
    pub fn commit_failed(&mut self, batch: BatchId, failure: CommitFailure) {
        if self.outbox.is_in_flight(batch) {
            self.end(StepDown::CommitFailed(failure));
        }
    }

    /// The leadership ends for a reason outside.
    pub fn step_down(&mut self, reason: StepDown) {
        if !self.over {
            self.end(reason);
        }
    }

    /// Time has passed: expiries, re-sent orders, deadlines, and a proof of leadership when nothing else was
    /// committed for a while. To be called about every 100 ms; while the outbox is full, several calls count as one.
    pub fn tick(&mut self, now: Timestamp) {
        if self.over {
            return;
        }
        self.tick_owed = true;
        self.refill(now);
    }

    fn tick_now(&mut self, now: Timestamp) {
        for command in self.liveness.expired(now) {
            self.apply(None, command, now);
        }
        self.apply(None, Command::Tick, now);
        if self.outbox.is_idle() && now.since(self.proven_at) >= self.config.self_check_interval {
            self.outbox.ask_for_proof();
        }
    }

    /// A sign of life; never stored. A worker that has not registered in this epoch is asked to.
    pub fn heartbeat(&mut self, worker: &WorkerId, now: Timestamp) {
        if self.over {
            return;
        }
        match self.state.worker(worker).map(|worker| worker.state) {
            Some(WorkerState::Alive) => self.liveness.touch_worker(worker, now),
            Some(WorkerState::Unknown) => {
                // Its heartbeats are acknowledged, so what may run at most once may still live there.
                self.liveness.touch_worker(worker, now);
                self.reregister(worker, Reregister::NoReport);
            }
            Some(WorkerState::Dead) => self.reregister(worker, Reregister::NoReport),
            None => self.reregister(worker, Reregister::NotRegistered),
        }
    }

    /// What a heartbeat says besides being one. A difference that stays is settled by a full report, both ways.
    pub fn heard(&mut self, worker: &WorkerId, heartbeat: Heartbeat, now: Timestamp) {
        if self.over {
            return;
        }
        let Some(known) = self.state.worker(worker) else {
            return;
        };
        if known.state != WorkerState::Alive {
            return;
        }
        let news = known.not_accepting != heartbeat.not_accepting;
        let (reported, recorded) = (heartbeat.digest, self.state.digest(worker));
        let awaits = reported != recorded && self.state.awaits_answer(worker);
        if self
            .differences
            .persists(worker, reported, recorded, awaits)
        {
            self.reregister(worker, Reregister::Differs);
        }
        if news {
            let command = Command::AcceptingChanged {
                worker: worker.clone(),
                not_accepting: heartbeat.not_accepting,
            };
            // Where there is no room now, the next heartbeat says it again.
            self.submit(None, command, now.plus(ACCEPTING_DEADLINE), now);
        }
    }

    /// An application's session is attached.
    pub fn app_attached(&mut self, app: &AppId) {
        self.liveness.attach_app(app);
    }

    /// An application's session ended; its grace begins.
    pub fn app_detached(&mut self, app: &AppId, now: Timestamp) {
        if self.state.app(app).is_some_and(|app| !app.state.is_final()) {
            self.liveness.detach_app(app, now);
        }
    }

    /// What is to be done now, in order. Seals the next batch when none is being committed, so feed everything
    /// that has arrived before calling this: that is what makes a group commit.
    #[must_use]
    pub fn poll(&mut self, now: Timestamp) -> Vec<Output> {
        if !self.over {
            self.seal();
            self.refill(now);
        }
        std::mem::take(&mut self.outputs)
    }

    fn seal(&mut self) {
        if let Some(batch) = self.outbox.seal() {
            let mutations = Arc::from(batch.mutations.as_slice());
            self.outputs.push(Output::Commit {
                batch: batch.id,
                mutations,
            });
        }
    }

    /// Moves what waits into the batch that is being filled.
    fn refill(&mut self, now: Timestamp) {
        while self.outbox.has_room() {
            if std::mem::take(&mut self.tick_owed) {
                self.tick_now(now);
                continue;
            }
            let Some(queued) = self.queue.pop_front() else {
                break;
            };
            self.apply_in_time(queued, now);
        }
    }

    fn apply_in_time(&mut self, queued: Queued, now: Timestamp) {
        if queued.deadline <= now {
            self.answer(queued.ticket, Answer::DeadlineExceeded);
        } else {
            self.apply(queued.ticket, queued.command, now);
        }
    }

    fn apply(&mut self, ticket: Option<Ticket>, command: Command, now: Timestamp) {
        let before = self.state.recovery_state();
        let worker = touched_worker(&command).cloned();
        let registers = matches!(command, Command::RegisterWorker { .. });
        let transition = self.state.apply(now, command);
        let after = self.state.recovery_state();
        // Whoever was refused is not this worker: its tries must not keep a dead one alive.
        let refused = matches!(transition.reply, Reply::Rejected(_));
        if let Some(worker) = worker.as_ref().filter(|_| !refused) {
            // Whatever has happened to it, what was seen before says nothing any more.
            self.differences.forget(worker);
            if registers {
                self.liveness.touch_worker(worker, now);
            }
        }
        if let Reply::AppRegistered { app, .. } = &transition.reply {
            // Its session has to say that it is attached; until then, it is as if it had gone.
            self.liveness.detach_app(&app.id, now);
        }
        let decided = Decided {
            ticket,
            shown: self.shown_besides(worker.as_ref(), &transition.mutations),
            recovery: (after != before).then_some(after),
            transition,
        };
        let Free {
            effects,
            shown,
            recovery,
        } = self.outbox.hold(decided);
        self.publish(Vec::new(), shown, recovery);
        self.outputs.extend(effects.into_iter().map(Output::Effect));
    }

    /// A worker is `Unknown` without its record saying so; readers have to be told apart from the mutations.
    fn shown_besides(&self, id: Option<&WorkerId>, stored: &[Mutation]) -> Vec<Arc<Worker>> {
        let Some(worker) = id.and_then(|id| self.state.worker(id)) else {
            return Vec::new();
        };
        let told = stored
            .iter()
            .any(|mutation| matches!(mutation, Mutation::PutWorker(put) if **put == **worker));
        if told {
            Vec::new()
        } else {
            vec![Arc::clone(worker)]
        }
    }

    fn publish(
        &mut self,
        mutations: Vec<Mutation>,
        workers: Vec<Arc<Worker>>,
        recovery: Option<RecoveryState>,
    ) {
        if !mutations.is_empty() || !workers.is_empty() || recovery.is_some() {
            let mutations = mutations.into();
            self.outputs.push(Output::Publish(Publication {
                mutations,
                workers,
                recovery,
            }));
        }
    }

    fn reregister(&mut self, worker: &WorkerId, reason: Reregister) {
        self.outputs.push(Output::Reregister {
            worker: worker.clone(),
            reason,
        });
    }

    fn answer(&mut self, ticket: Option<Ticket>, answer: Answer) {
        if let Some(ticket) = ticket {
            self.outputs.push(Output::Reply { ticket, answer });
        }
    }

    /// Answers everybody who waits, and stops for good.
    fn end(&mut self, reason: StepDown) {
        self.over = true;
        let written = match reason {
            StepDown::CommitFailed(CommitFailure::Fenced | CommitFailure::Rejected) => false,
            StepDown::CommitFailed(CommitFailure::Unknown)
            | StepDown::Lost
            | StepDown::Resigned => true,
        };
        let (begun, never) = self.outbox.abandon();
        for (held, maybe) in [(begun, written), (never, false)] {
            for Held { ticket, spans, .. } in held {
                let unknown = maybe || spans;
                let answer = if unknown {
                    Answer::OutcomeUnknown
                } else {
                    Answer::NotLeader
                };
                self.answer(ticket, answer);
            }
        }
        for queued in std::mem::take(&mut self.queue) {
            self.answer(queued.ticket, Answer::NotLeader);
        }
        self.outputs.push(Output::StepDown(reason));
    }
}

/// Without those whose record changes in the same batch: what is stored may be newer than what was shown.
fn not_stored(mut shown: Vec<Arc<Worker>>, stored: &[Mutation]) -> Vec<Arc<Worker>> {
    if !shown.is_empty() {
        let ids: BTreeSet<_> = stored.iter().filter_map(stored_worker).collect();
        shown.retain(|worker| !ids.contains(&worker.id));
    }
    shown
}

fn stored_worker(mutation: &Mutation) -> Option<&WorkerId> {
    match mutation {
        Mutation::PutWorker(worker) => Some(&worker.id),
        Mutation::DeleteWorker(id) => Some(id),
        Mutation::PutMeta(_)
        | Mutation::PutApp(_)
        | Mutation::DeleteApp(_)
        | Mutation::PutDriver(_)
        | Mutation::DeleteDriver(_)
        | Mutation::PutExecutor(_)
        | Mutation::DeleteExecutor(..)
        | Mutation::PutRequest(_)
        | Mutation::DeleteRequest(_)
        | Mutation::PutEvents(_)
        | Mutation::DeleteEvents { .. } => None,
    }
}

/// The worker whose shown state a command can change without changing its record.
fn touched_worker(command: &Command) -> Option<&WorkerId> {
    match command {
        Command::RegisterWorker { worker, .. }
        | Command::WorkerDisconnected { worker }
        | Command::ExpireWorker { worker }
        | Command::AcceptingChanged { worker, .. } => Some(worker),
        Command::Report { .. }
        | Command::RegisterApplication { .. }
        | Command::UnregisterApplication { .. }
        | Command::ExpireApplication { .. }
        | Command::RequestExecutors { .. }
        | Command::KillExecutors { .. }
        | Command::SubmitDriver { .. }
        | Command::Kill { .. }
        | Command::KillAllDrivers { .. }
        | Command::ClearCompleted { .. }
        | Command::DrainWorkers { .. }
        | Command::UndrainWorkers { .. }
        | Command::Tick
        | Command::Initialize { .. }
        | Command::TakeOver { .. } => None,
    }
}
