//! Records of the event log ⇄ events.
//!
//! The key of a record is its first and last number, so that numbers stay known even when a record is not readable.
//! A kind that this version does not know is kept as it is: it was a newer leader's.

use std::sync::Arc;

use interrex_core::{
    event::{Event, EventKind, EventSequence, Fact, Group, Who},
    ids::{Attempt, Epoch, WorkerId},
    time::Timestamp,
};
use interrex_proto::v1;

use crate::records::{RecordError, states};

/// The key of the record that holds the events from `first` to `last`.
pub(super) fn key(first: EventSequence, last: EventSequence) -> String {
    format!("{:020}-{:020}", first.0, last.0)
}

/// The key that `record` lies under.
pub(super) fn key_of(record: &[Event]) -> String {
    let first = record.first().map(|event| event.sequence);
    let last = record.last().map(|event| event.sequence);
    key(first.unwrap_or_default(), last.unwrap_or_default())
}

/// The number behind those that a key names; 0 for what is no such key.
pub(super) fn next_after(key: &str) -> EventSequence {
    let last = key.split_once('-').and_then(|(_, last)| last.parse().ok());
    EventSequence(last.map_or(0, |last: u64| last.saturating_add(1)))
}

pub(super) fn message(record: &[Event]) -> v1::EventsRecord {
    let first = record.first();
    v1::EventsRecord {
        first_sequence: first.map_or(0, |event| event.sequence.0),
        epoch: first.map_or(0, |event| event.epoch.0),
        events: std::iter::once(None)
            .chain(record.iter().map(|event| Some(&event.fact)))
            .zip(record)
            .map(|(before, event)| fact_message(before, &event.fact))
            .collect(),
    }
}

pub(super) fn record(message: v1::EventsRecord) -> Result<Arc<[Event]>, RecordError> {
    let v1::EventsRecord {
        first_sequence,
        epoch,
        events,
    } = message;
    let length = u64::try_from(events.len()).unwrap_or(u64::MAX);
    if events.is_empty() || first_sequence.checked_add(length).is_none() {
        return Err(RecordError::Field {
            field: "events",
            value: format!("{length} from {first_sequence} on"),
        });
    }
    let mut read: Vec<Event> = Vec::with_capacity(events.len());
    for (sequence, message) in (first_sequence..).zip(events) {
        let fact = fact(read.last().map(|event| &event.fact), message);
        read.push(Event {
            sequence: EventSequence(sequence),
            epoch: Epoch(epoch),
            fact,
        });
    }
    Ok(read.into())
}

/// Without what is as in the event before.
fn fact_message(before: Option<&Fact>, fact: &Fact) -> v1::EventRecord {
    let differs = |same: fn(&Fact, &Fact) -> bool| !before.is_some_and(|before| same(before, fact));
    let worker = fact.worker.as_ref().map(ToString::to_string);
    v1::EventRecord {
        at_ms: differs(|a, b| a.at == b.at).then_some(fact.at.0),
        kind: fact.kind.to_string(),
        subject: differs(|a, b| a.subject == b.subject).then(|| fact.subject.to_string()),
        worker_id: worker.unwrap_or_default(),
        attempt: fact.attempt.map(|attempt| attempt.0),
        who: differs(|a, b| a.who == b.who).then(|| fact.who.to_string()),
        why: fact.why.clone(),
    }
}

/// With what is as in the event before.
fn fact(before: Option<&Fact>, record: v1::EventRecord) -> Fact {
    let worker = Some(record.worker_id).filter(|id| !id.is_empty());
    Fact {
        at: match record.at_ms {
            Some(at_ms) => Timestamp(at_ms),
            None => before.map_or_else(Timestamp::default, |before| before.at),
        },
        kind: kind(&record.kind),
        subject: match record.subject {
            Some(subject) => subject.into(),
            None => before.map_or_else(|| Arc::from(""), |before| Arc::clone(&before.subject)),
        },
        worker: worker.map(WorkerId::from),
        attempt: record.attempt.map(Attempt),
        who: match record.who {
            Some(who) => Who::from_text(&who),
            None => before.map_or_else(|| Who::from_text(""), |before| before.who.clone()),
        },
        why: record.why,
    }
}

fn kind(name: &str) -> EventKind {
    let rest = |group: &str| name.strip_prefix(group)?.strip_prefix('_');
    let plain = EventKind::PLAIN.iter().find(|kind| {
        let (group, state) = kind.parts();
        rest(group) == Some(state)
    });
    if let Some(plain) = plain {
        return plain.clone();
    }
    let known = if let Some(state) = rest(Group::Driver.name()) {
        states::driver(state).map(EventKind::Driver)
    } else if let Some(state) = rest(Group::App.name()) {
        states::app(state).map(EventKind::App)
    } else if let Some(state) = rest(Group::Executor.name()) {
        states::executor(state).map(EventKind::Executor)
    } else if let Some(state) = rest(Group::Worker.name()) {
        states::worker(state).map(EventKind::Worker)
    } else {
        return EventKind::Other(name.into());
    };
    known.unwrap_or_else(|_unknown| EventKind::Other(name.into()))
}

/// Every kind that this version writes.
#[cfg(test)]
pub(crate) fn all_kinds() -> Vec<EventKind> {
    use interrex_core::state::{
        app::ApplicationState, driver::DriverState, executor::ExecutorState, worker::WorkerState,
    };
    let drivers = DriverState::ALL.map(EventKind::Driver);
    let apps = ApplicationState::ALL.map(EventKind::App);
    let executors = ExecutorState::ALL.map(EventKind::Executor);
    let workers = WorkerState::ALL.map(EventKind::Worker);
    drivers
        .into_iter()
        .chain(apps)
        .chain(executors)
        .chain(workers)
        .chain(EventKind::PLAIN)
        .collect()
}

#[cfg(test)]
mod tests {
    use interrex_core::state::driver::DriverState;

    use super::*;

    fn events(kinds: Vec<EventKind>) -> Vec<Event> {
        let event = |(sequence, kind): (u64, EventKind)| Event {
            sequence: EventSequence(sequence),
            epoch: Epoch(7),
            fact: Fact {
                at: Timestamp(sequence),
                kind,
                subject: "app-1/2".into(),
                worker: sequence.is_multiple_of(2).then(|| "w1".into()),
                attempt: sequence.is_multiple_of(3).then_some(Attempt(2)),
                who: Who::Agent("w1".into()),
                why: "exit code 3".to_owned(),
            },
        };
        (41..).zip(kinds).map(event).collect()
    }

    #[test]
    fn every_kind_reads_back_as_it_was_written() {
        let mut kinds = all_kinds();
        assert!(kinds.len() > 35, "{kinds:?}");
        kinds.push(EventKind::Other("DRIVER_TELEPORTED".into()));
        kinds.push(EventKind::Other("SNAPSHOT".into()));
        let written = events(kinds);
        assert_eq!(*record(message(&written)).expect("readable"), *written);
        let last = EventSequence(40 + written.len() as u64);
        assert_eq!(key_of(&written), key(EventSequence(41), last));
    }

    #[test]
    fn what_is_as_in_the_event_before_is_stored_once() {
        let kinds = [
            DriverState::Submitted,
            DriverState::Launching,
            DriverState::Running,
        ];
        let mut written = events(kinds.map(EventKind::Driver).to_vec());
        let (at, who) = (written[0].fact.at, Who::Leader);
        written[1].fact.at = at;
        written[2].fact.who = who;
        // What is empty is not taken for what is unset.
        written[2].fact.subject = "".into();
        let stored = message(&written);
        let last = &stored.events[2];
        assert_eq!(
            (&stored.events[1].subject, &stored.events[1].who),
            (&None, &None)
        );
        assert_eq!(
            (last.subject.as_deref(), last.who.as_deref()),
            (Some(""), Some("leader"))
        );
        assert_eq!(*record(stored).expect("readable"), *written);
    }

    #[test]
    fn a_key_names_the_numbers_that_are_used() {
        let (first, last) = (EventSequence(9), EventSequence(12));
        assert_eq!(next_after(&key(first, last)), EventSequence(13));
        for odd in ["", "x", "9", "1-x", "-"] {
            assert_eq!(next_after(odd), EventSequence(0), "{odd}");
        }
        let (small, large) = (EventSequence(99), EventSequence(100));
        assert!(key(small, small) < key(large, large), "keys are in order");
    }

    #[test]
    fn a_record_without_events_or_beyond_all_numbers_is_refused() {
        let mut bad = message(&events(vec![EventKind::LeaderElected]));
        bad.first_sequence = u64::MAX;
        assert!(record(bad).is_err());
        assert!(record(v1::EventsRecord::default()).is_err());
    }

    #[test]
    fn the_documentation_lists_every_kind() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/events.md");
        let text = std::fs::read_to_string(path).expect("docs/events.md");
        let mut table = "\n| kind | meaning |\n|---|---|\n".to_owned();
        for kind in all_kinds() {
            table.push_str(&format!("| `{kind}` | {} |\n", kind.meaning()));
        }
        let (_, listed) = text.split_once("right table -->\n").expect("the marker");
        assert_eq!(listed, table, "docs/events.md has to end with\n{table}");
    }
}
