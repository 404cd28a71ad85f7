//! What has been decided and may not leave yet.
//!
//! Owned by `LeaderMachine`. At most one batch is being committed; what is decided meanwhile fills the next.
//! Nothing is taken out of here but by the commit that covers it, or by a failure that ends the leadership.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use crate::{
    effect::Effect,
    event::Fact,
    leader::{
        Ticket,
        batch::{Batch, BatchId, BatchLimits, Held, estimated_bytes, fact_bytes},
        event_log::EventLog,
    },
    state::{meta::RecoveryState, worker::Worker},
    transition::{Mutation, Transition},
};

/// One decided command, with what has to be shown besides its mutations.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) ticket: Option<Ticket>,
    pub(super) transition: Transition,
    pub(super) shown: Vec<Arc<Worker>>,
    pub(super) recovery: Option<RecoveryState>,
}

/// What need not wait: everything that it rests on is durable, and nobody asked for it.
#[derive(Debug, Default)]
pub(super) struct Free {
    pub(super) effects: Vec<Effect>,
    pub(super) shown: Vec<Arc<Worker>>,
    pub(super) recovery: Option<RecoveryState>,
}

/// The batches of one leadership.
#[derive(Debug)]
pub(super) struct Outbox {
    limits: BatchLimits,
    events: EventLog,
    in_flight: Option<Batch>,
    /// Never empty; only the last one is being filled.
    waiting: VecDeque<Batch>,
    next: BatchId,
}

// === impl Outbox ===

impl Outbox {
    pub(super) fn new(limits: BatchLimits, events: EventLog) -> Self {
        let mut outbox = Self {
            limits,
            events,
            in_flight: None,
            waiting: VecDeque::new(),
            next: BatchId::default(),
        };
        outbox.open();
        outbox
    }

    /// Whether another command may be decided now. At most one batch waits, unless one command filled several.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() == 1
            && self
                .waiting
                .iter()
                .all(|batch| batch.has_room(&self.limits))
    }

    /// Whether nothing is being committed and nothing waits to be.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_none() && self.waiting.iter().all(Batch::is_idle)
    }

    /// Takes what was decided. Returns what may leave at once: effects that rest on durable state only.
    ///
    /// An answer always waits for a commit that begins after it was decided, be it an empty one: a leader that
    /// has been deposed must not answer from its memory. Effects carry the epoch, so they need no such proof.
    pub(super) fn hold(&mut self, decided: Decided) -> Free {
        let Decided {
            ticket,
            transition,
            shown,
            recovery,
        } = decided;
        if transition.mutations.is_empty() && transition.events.is_empty() && ticket.is_none() {
            return self.hold_effects(transition, shown, recovery);
        }
        let limits = self.limits;
        let sizes: Vec<usize> = transition.mutations.iter().map(estimated_bytes).collect();
        // A command is split only if it is larger than a whole batch: a crash between two batches must not leave
        // half of a submission behind.
        let told: usize = transition.events.iter().map(fact_bytes).sum();
        let all = sizes.iter().sum::<usize>() + told;
        if !self.last().fits(sizes.len(), all, &limits) {
            self.open();
        }
        let whole = sizes.len() <= limits.mutations && all <= limits.bytes;
        let (mut parts, facts) = match whole {
            true => (BTreeMap::new(), transition.events),
            false => (by_subject(transition.events), Vec::new()),
        };
        let (mut stored, mut spans) = (0, false);
        for (mutation, bytes) in transition.mutations.into_iter().zip(sizes) {
            // What a part changes is told with that part.
            let told = match whole {
                true => Vec::new(),
                false => parts.remove(&subject(&mutation)).unwrap_or_default(),
            };
            let bytes_told: usize = told.iter().map(fact_bytes).sum();
            if !self.last().fits(1, bytes + bytes_told, &limits) {
                spans |= stored > 0;
                self.open();
            }
            self.last().store(mutation, bytes);
            self.last().tell(told);
            stored += 1;
        }
        self.last().tell(parts.into_values().flatten().chain(facts));
        let batch = self.last();
        batch.shown.extend(shown);
        batch.recovery = recovery.or(batch.recovery);
        batch.hold(Held {
            ticket,
            reply: transition.reply,
            effects: transition.effects,
            spans,
        });
        Free::default()
    }

    /// The next batch is to be committed even if nothing comes.
    pub(super) fn ask_for_proof(&mut self) {
        self.last().proof = true;
    }

    /// The batch to commit now, if there is one and none is being committed.
    pub(super) fn seal(&mut self) -> Option<&Batch> {
        if self.in_flight.is_some() || self.waiting.front().is_none_or(Batch::is_idle) {
            return None;
        }
        self.in_flight = self.waiting.pop_front().map(|mut batch| {
            let facts = std::mem::take(&mut batch.facts);
            batch.mutations.extend(self.events.store(facts));
            batch
        });
        if self.waiting.is_empty() {
            self.open();
        }
        self.in_flight.as_ref()
    }

    /// Takes out the batch that has been committed; `None` if that is not the one under way.
    pub(super) fn release(&mut self, id: BatchId) -> Option<Batch> {
        self.in_flight.take_if(|batch| batch.id == id)
    }

    /// Whether this batch is being committed.
    pub(super) fn is_in_flight(&self, id: BatchId) -> bool {
        self.in_flight.as_ref().is_some_and(|batch| batch.id == id)
    }

    /// Gives up everything: the callers of the batch under way, then those of batches that never left.
    pub(super) fn abandon(&mut self) -> (Vec<Held>, Vec<Held>) {
        let begun = self
            .in_flight
            .take()
            .map(|batch| batch.held)
            .unwrap_or_default();
        let never = std::mem::take(&mut self.waiting)
            .into_iter()
            .flat_map(|batch| batch.held);
        (begun, never.collect())
    }

    fn hold_effects(
        &mut self,
        transition: Transition,
        shown: Vec<Arc<Worker>>,
        recovery: Option<RecoveryState>,
    ) -> Free {
        let Transition {
            effects,
            reply,
            mutations: _,
            events: _,
        } = transition;
        if effects.is_empty() && shown.is_empty() && recovery.is_none() {
            return Free::default();
        }
        let seen = match self.waiting.back_mut() {
            Some(batch) if !batch.is_idle() => Some(batch),
            Some(_) | None => self.in_flight.as_mut(),
        };
        let Some(batch) = seen else {
            return Free {
                effects,
                shown,
                recovery,
            };
        };
        batch.shown.extend(shown);
        batch.recovery = recovery.or(batch.recovery);
        if !effects.is_empty() {
            batch.held.push(Held {
                ticket: None,
                reply,
                effects,
                spans: false,
            });
        }
        Free::default()
    }

    fn open(&mut self) {
        self.waiting.push_back(Batch::new(self.next));
        self.next = BatchId(self.next.0 + 1);
    }

    fn last(&mut self) -> &mut Batch {
        if self.waiting.is_empty() {
            self.open();
        }
        let last = self.waiting.len() - 1;
        &mut self.waiting[last]
    }
}

fn by_subject(facts: Vec<Fact>) -> BTreeMap<Arc<str>, Vec<Fact>> {
    let mut parts: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for fact in facts {
        let subject = Arc::clone(&fact.subject);
        parts.entry(subject).or_default().push(fact);
    }
    parts
}

/// How events name the entity that this changes; empty for what no event tells of.
fn subject(mutation: &Mutation) -> Arc<str> {
    match mutation {
        Mutation::PutWorker(worker) => worker.id.as_str().into(),
        Mutation::PutApp(app) => app.id.as_str().into(),
        Mutation::PutDriver(driver) => driver.id.as_str().into(),
        Mutation::PutExecutor(executor) => format!("{}/{}", executor.app, executor.id).into(),
        Mutation::PutMeta(_)
        | Mutation::DeleteWorker(_)
        | Mutation::DeleteApp(_)
        | Mutation::DeleteDriver(_)
        | Mutation::DeleteExecutor(..)
        | Mutation::PutRequest(_)
        | Mutation::DeleteRequest(_)
        | Mutation::PutEvents(_)
        | Mutation::DeleteEvents { .. } => Arc::default(),
    }
}
