//! Numbers events and bounds their log. One batch is at most one record of it, in the batch itself: an event is
//! stored with the change that it tells of, or not at all, so the numbers have no gaps over failovers.
//!
//! Kept here are only the ends of the records; the events are with whoever shows them.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    event::{Event, EventSequence, Fact},
    ids::Epoch,
    transition::Mutation,
};

/// Records forgotten with one batch: with a bound that was lowered, many are too much at once.
const FORGOTTEN_PER_BATCH_MAX: usize = 100;

/// The event log of one leadership.
#[derive(Debug)]
pub(super) struct EventLog {
    epoch: Epoch,
    /// Events kept; a record's worth more, because a record is forgotten as a whole.
    retained: u64,
    next: EventSequence,
    /// First and last event of each record, oldest first.
    records: VecDeque<(EventSequence, EventSequence)>,
    kept: u64,
}

// === impl EventLog ===

impl EventLog {
    /// Goes on behind what is stored.
    pub(super) fn new(
        epoch: Epoch,
        retained: u32,
        stored: &[Arc<[Event]>],
        next: EventSequence,
    ) -> Self {
        let mut log = Self {
            epoch,
            retained: u64::from(retained),
            next,
            records: VecDeque::with_capacity(stored.len()),
            kept: 0,
        };
        for record in stored {
            log.keep(record);
        }
        log.next = EventSequence(log.next.0.max(1));
        log
    }

    /// The record of a batch's events, and what is too much with it.
    pub(super) fn store(&mut self, facts: Vec<Fact>) -> Vec<Mutation> {
        if facts.is_empty() {
            return Vec::new();
        }
        let (epoch, first) = (self.epoch, self.next.0);
        let record: Arc<[Event]> = (first..)
            .zip(facts)
            .map(|(sequence, fact)| Event {
                sequence: EventSequence(sequence),
                epoch,
                fact,
            })
            .collect();
        self.keep(&record);
        let mut mutations = vec![Mutation::PutEvents(record)];
        while mutations.len() <= FORGOTTEN_PER_BATCH_MAX
            && let Some((first, last)) = self.records.front().copied()
            && self.kept.saturating_sub(length(first, last)) >= self.retained
            && self.records.len() > 1
        {
            self.records.pop_front();
            self.kept -= length(first, last);
            mutations.push(Mutation::DeleteEvents { first, last });
        }
        mutations
    }

    fn keep(&mut self, record: &[Event]) {
        let (Some(first), Some(last)) = (record.first(), record.last()) else {
            return;
        };
        let (first, last) = (first.sequence, last.sequence);
        self.records.push_back((first, last));
        self.kept += length(first, last);
        self.next = self.next.max(EventSequence(last.0.saturating_add(1)));
    }
}

fn length(first: EventSequence, last: EventSequence) -> u64 {
    (last.0 + 1).saturating_sub(first.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::{EventKind, Who},
        time::Timestamp,
    };

    fn facts(count: usize) -> Vec<Fact> {
        let fact = Fact {
            at: Timestamp(1),
            kind: EventKind::LeaderElected,
            subject: "m1".into(),
            worker: None,
            attempt: None,
            who: Who::Leader,
            why: String::new(),
        };
        vec![fact; count]
    }

    fn record(mutations: &[Mutation]) -> Arc<[Event]> {
        let Some(Mutation::PutEvents(record)) = mutations.first() else {
            panic!("{mutations:?}")
        };
        Arc::clone(record)
    }

    #[test]
    fn numbers_begin_at_one_and_go_on_in_the_next_epoch() {
        let mut log = EventLog::new(Epoch(3), 10, &[], EventSequence(0));
        let first = record(&log.store(facts(2)));
        let numbers: Vec<_> = first.iter().map(|event| event.sequence.0).collect();
        assert_eq!(numbers, [1, 2]);
        let mut next = EventLog::new(Epoch(4), 10, &[first], EventSequence(0));
        let second = record(&next.store(facts(1)));
        assert_eq!(
            (second[0].sequence, second[0].epoch),
            (EventSequence(3), Epoch(4))
        );
    }

    #[test]
    fn a_number_that_a_lost_record_has_used_is_not_used_again() {
        let mut log = EventLog::new(Epoch(4), 10, &[], EventSequence(8));
        assert_eq!(record(&log.store(facts(1)))[0].sequence, EventSequence(8));
    }

    #[test]
    fn the_oldest_records_are_forgotten_when_enough_newer_events_are_kept() {
        let mut log = EventLog::new(Epoch(1), 4, &[], EventSequence(0));
        let deleted = |mutations: Vec<Mutation>| -> Vec<(u64, u64)> {
            let mut deleted = Vec::new();
            for mutation in mutations {
                if let Mutation::DeleteEvents { first, last } = mutation {
                    deleted.push((first.0, last.0));
                }
            }
            deleted
        };
        assert_eq!(deleted(log.store(facts(3))), []);
        assert_eq!(deleted(log.store(facts(2))), [], "two would be too few");
        assert_eq!(deleted(log.store(facts(2))), [(1, 3)]);
        assert_eq!(deleted(log.store(facts(9))), [(4, 5), (6, 7)]);
        assert_eq!(log.records.len(), 1, "the newest is always kept");
    }

    #[test]
    fn a_lowered_bound_is_reached_batch_by_batch() {
        let mut log = EventLog::new(Epoch(1), u32::MAX, &[], EventSequence(0));
        let stored: Vec<_> = (0..250).map(|_| record(&log.store(facts(1)))).collect();
        let mut log = EventLog::new(Epoch(2), 1, &stored, EventSequence(0));
        let sizes: Vec<_> = (0..3).map(|_| log.store(facts(1)).len() - 1).collect();
        assert_eq!(sizes, [100, 100, 52]);
        assert_eq!(log.kept, 1);
    }

    #[test]
    fn a_batch_without_events_costs_nothing() {
        let mut log = EventLog::new(Epoch(1), 4, &[], EventSequence(0));
        assert_eq!(log.store(Vec::new()), []);
    }
}
