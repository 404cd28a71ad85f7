//! The event log as readers see it: its records, shared, oldest first, without a hole.

use std::sync::Arc;

use imbl::OrdMap;
use interrex_core::{
    event::{Event, EventKind, EventSequence},
    time::Timestamp,
};

/// Committed events. Cloning costs O(1).
#[derive(Debug, Clone, Default)]
pub struct EventLog {
    /// By the number of their first event.
    records: OrdMap<u64, Arc<[Event]>>,
    /// Behind the newest event.
    next: u64,
    /// When the newest leader was elected; kept when its event is forgotten.
    elected: Option<Timestamp>,
}

// === impl EventLog ===

impl EventLog {
    /// What was stored, ordered; `next`: where numbers go on. A record that could not be read is a hole: nothing
    /// before it is shown, because nobody could follow over it.
    #[must_use]
    pub fn recovered(records: &[Arc<[Event]>], next: EventSequence) -> Self {
        let mut log = Self {
            next: next.0.max(1),
            ..Self::default()
        };
        let mut expected = log.next;
        for record in records.iter().rev() {
            let (Some(first), Some(last)) = (record.first(), record.last()) else {
                continue;
            };
            if last.sequence.0 + 1 != expected {
                break;
            }
            expected = first.sequence.0;
            log.elected = log.elected.or_else(|| election_in(record));
            log.records.insert(expected, Arc::clone(record));
        }
        log
    }

    pub(super) fn put(&mut self, record: &Arc<[Event]>) {
        if let (Some(first), Some(last)) = (record.first(), record.last()) {
            self.records.insert(first.sequence.0, Arc::clone(record));
            self.next = last.sequence.0 + 1;
            self.elected = election_in(record).or(self.elected);
        }
    }

    pub(super) fn delete(&mut self, first: EventSequence) {
        self.records.remove(&first.0);
    }

    /// The oldest event that is kept; one more than the newest if there is none.
    #[must_use]
    pub fn oldest(&self) -> u64 {
        self.records
            .get_min()
            .map_or(self.next, |(first, _)| *first)
    }

    /// The newest event; 0 if there was none ever.
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    /// When the newest leader was elected, as far as is known.
    #[must_use]
    pub fn elected_at(&self) -> Option<Timestamp> {
        self.elected
    }

    /// Whether everything behind `sequence` is here; if not, something was forgotten, or `sequence` is of another
    /// life of this cluster.
    #[must_use]
    pub fn follows(&self, sequence: u64) -> bool {
        sequence.saturating_add(1) >= self.oldest() && sequence <= self.newest()
    }

    /// Events behind `sequence`, oldest first.
    pub fn after(&self, sequence: u64) -> impl Iterator<Item = &Event> {
        let next = sequence.saturating_add(1);
        let from = self
            .records
            .get_prev(&next)
            .map_or(next, |(first, _)| *first);
        self.records
            .range(from..)
            .flat_map(|(_, record)| record.iter())
            .skip_while(move |event| event.sequence.0 < next)
    }

    /// All events, newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &Event> {
        self.records
            .iter()
            .rev()
            .flat_map(|(_, record)| record.iter().rev())
    }
}

/// When the newest election in `record` was.
fn election_in(record: &[Event]) -> Option<Timestamp> {
    let election = |event: &&Event| event.fact.kind == EventKind::LeaderElected;
    record
        .iter()
        .rev()
        .find(election)
        .map(|event| event.fact.at)
}

#[cfg(test)]
mod tests {
    use interrex_core::{
        event::{Fact, Who},
        ids::Epoch,
    };

    use super::*;

    fn record(numbers: std::ops::RangeInclusive<u64>) -> Arc<[Event]> {
        let event = |sequence| Event {
            sequence: EventSequence(sequence),
            epoch: Epoch(1),
            fact: Fact {
                at: Timestamp(1),
                kind: EventKind::LeaderElected,
                subject: "m1".into(),
                worker: None,
                attempt: None,
                who: Who::Leader,
                why: String::new(),
            },
        };
        numbers.map(event).collect()
    }

    fn numbers<'a>(events: impl Iterator<Item = &'a Event>) -> Vec<u64> {
        events.map(|event| event.sequence.0).collect()
    }

    #[test]
    fn events_are_found_wherever_in_a_record_one_begins() {
        let mut log = EventLog::recovered(&[], EventSequence(0));
        assert_eq!((log.oldest(), log.newest(), log.follows(0)), (1, 0, true));
        for part in [1..=3, 4..=4, 5..=9] {
            log.put(&record(part));
        }
        for after in 0..=9 {
            let want: Vec<_> = (after + 1..=9).collect();
            assert_eq!(numbers(log.after(after)), want);
        }
        assert_eq!(numbers(log.newest_first()).first(), Some(&9));
        log.delete(EventSequence(1));
        assert_eq!((log.oldest(), log.newest()), (4, 9));
        assert!(!log.follows(2) && log.follows(3) && log.follows(9) && !log.follows(10));
    }

    #[test]
    fn the_newest_election_is_known_even_when_its_event_is_forgotten() {
        let mut election = record(1..=2).to_vec();
        for event in &mut election {
            event.fact.at = Timestamp(event.sequence.0 * 10);
        }
        let mut other = record(3..=3).to_vec();
        other[0].fact.kind = EventKind::RecoveryEnded;
        let (election, other): (Arc<[Event]>, Arc<[Event]>) = (election.into(), other.into());
        let mut log = EventLog::default();
        assert_eq!(log.elected_at(), None);
        log.put(&election);
        log.put(&other);
        assert_eq!(log.elected_at(), Some(Timestamp(20)));
        let read_back = EventLog::recovered(&[election, other], EventSequence(4));
        assert_eq!(read_back.elected_at(), Some(Timestamp(20)));
        log.delete(EventSequence(1));
        assert_eq!(log.elected_at(), Some(Timestamp(20)));
    }

    #[test]
    fn what_lies_before_a_hole_is_not_shown() {
        let records = [record(1..=2), record(5..=6), record(7..=7)];
        let log = EventLog::recovered(&records, EventSequence(8));
        assert_eq!((log.oldest(), log.newest()), (5, 7));
        let log = EventLog::recovered(&records, EventSequence(11));
        assert_eq!(
            (log.oldest(), log.newest()),
            (11, 10),
            "the newest was lost"
        );
        assert!(!log.follows(7));
    }
}
