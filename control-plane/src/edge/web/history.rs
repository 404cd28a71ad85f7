//! What happened in the last minutes, by the second: for the line on the overview. Made from the event log, which all
//! masters have, so a new leader shows the same line at once, with its own election as a mark.

use std::collections::BTreeMap;

use interrex_core::{
    event::{Event, EventKind},
    ids::Epoch,
    state::driver::DriverState,
    time::Timestamp,
};

use crate::runtime::view::EventLog;

/// How far back the line goes.
pub(super) const SECONDS_KEPT: u64 = 300;
/// Seconds that one point of the line stands for.
pub(super) const SECONDS_A_POINT: u64 = 2;

/// Counts of the last [`SECONDS_KEPT`] seconds.
#[derive(Debug, Default)]
pub(super) struct History {
    epoch: Epoch,
    /// Events up to this one are counted.
    place: u64,
    /// By the second; those in which nothing happened are not there.
    seconds: BTreeMap<u64, Second>,
}

/// One second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Second {
    submitted: u64,
    ended: u64,
    elected: bool,
}

/// The line: points, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// Drivers submitted, by point.
    pub(super) submitted: Vec<u64>,
    /// Points with an election.
    pub(super) elections: Vec<usize>,
    /// Drivers submitted in all of it.
    pub(super) submitted_total: u64,
    /// Drivers that ended in all of it.
    pub(super) ended_total: u64,
}

// === impl History ===

impl History {
    /// Counts what is new in `log`. O(new events); the whole of it once for each leadership.
    pub(super) fn absorb(&mut self, log: &EventLog, epoch: Epoch, now: Timestamp) {
        let horizon = (now.0 / 1000).saturating_sub(SECONDS_KEPT);
        if self.epoch != epoch || !log.follows(self.place) {
            *self = Self {
                epoch,
                ..Self::default()
            };
            let recent = |event: &&Event| event.fact.at.0 / 1000 >= horizon;
            log.newest_first()
                .take_while(recent)
                .for_each(|event| self.count(event));
        } else {
            log.after(self.place).for_each(|event| self.count(event));
        }
        self.place = log.newest();
        self.seconds = self.seconds.split_off(&horizon);
    }

    /// The line that ends now.
    pub(super) fn line(&self, now: Timestamp) -> Line {
        let points = SECONDS_KEPT / SECONDS_A_POINT;
        let last = now.0 / 1000 / SECONDS_A_POINT;
        let mut line = Line::default();
        for point in (last + 1).saturating_sub(points)..=last {
            let from = point * SECONDS_A_POINT;
            let mut sum = Second::default();
            for (_, second) in self.seconds.range(from..from + SECONDS_A_POINT) {
                sum.submitted += second.submitted;
                sum.ended += second.ended;
                sum.elected |= second.elected;
            }
            if sum.elected {
                line.elections.push(line.submitted.len());
            }
            line.submitted.push(sum.submitted);
            line.submitted_total += sum.submitted;
            line.ended_total += sum.ended;
        }
        line
    }

    fn count(&mut self, event: &Event) {
        let second = || event.fact.at.0 / 1000;
        match &event.fact.kind {
            EventKind::Driver(DriverState::Submitted) => {
                self.seconds.entry(second()).or_default().submitted += 1;
            }
            EventKind::Driver(state) if state.is_final() => {
                self.seconds.entry(second()).or_default().ended += 1;
            }
            EventKind::LeaderElected => {
                self.seconds.entry(second()).or_default().elected = true;
            }
            EventKind::Driver(_)
            | EventKind::DriverKillRequested
            | EventKind::App(_)
            | EventKind::AppTarget
            | EventKind::Executor(_)
            | EventKind::Worker(_)
            | EventKind::WorkerDrain
            | EventKind::WorkerUndrain
            | EventKind::WorkerNotAccepting
            | EventKind::WorkerAccepting
            | EventKind::WorkerRefused
            | EventKind::RecoveryEnded
            | EventKind::RecordQuarantined
            | EventKind::HistoryCleared
            | EventKind::RequestReplayed
            | EventKind::RequestConflict
            | EventKind::RequestRefused
            | EventKind::ReportStale
            | EventKind::ReportUnknown
            | EventKind::Other(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use interrex_core::event::{EventSequence, Fact, Who};

    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000_000);

    fn log(events: &[(u64, EventKind)]) -> EventLog {
        let events = events.iter().zip(1..).map(|((before_ms, kind), n)| Event {
            sequence: EventSequence(n),
            epoch: Epoch(1),
            fact: Fact {
                at: Timestamp(NOW.0 - before_ms),
                kind: kind.clone(),
                subject: "x".into(),
                worker: None,
                attempt: None,
                who: Who::Leader,
                why: String::new(),
            },
        });
        let events: Arc<[Event]> = events.collect();
        let next = EventSequence(events.len() as u64 + 1);
        EventLog::recovered(&[events], next)
    }

    #[test]
    fn a_new_leader_shows_what_happened_before_it_led() {
        let submitted = EventKind::Driver(DriverState::Submitted);
        let log = log(&[
            (400_000, submitted.clone()),
            (10_000, submitted.clone()),
            (10_000, submitted),
            (9_000, EventKind::Driver(DriverState::Finished)),
            (4_000, EventKind::LeaderElected),
        ]);
        let mut history = History::default();
        history.absorb(&log, Epoch(2), NOW);
        let line = history.line(NOW);
        assert_eq!(line.submitted.len(), 150);
        assert_eq!(
            (line.submitted_total, line.ended_total),
            (2, 1),
            "what is too old is left out"
        );
        assert_eq!(
            (line.submitted[144], line.elections.as_slice()),
            (2, [147].as_slice())
        );
        history.absorb(&log, Epoch(2), NOW);
        assert_eq!(history.line(NOW), line, "nothing is counted twice");
    }

    #[test]
    fn what_is_old_is_let_go() {
        let log = log(&[(1_000, EventKind::Driver(DriverState::Submitted))]);
        let mut history = History::default();
        history.absorb(&log, Epoch(1), NOW);
        assert_eq!(history.seconds.len(), 1);
        history.absorb(&log, Epoch(1), Timestamp(NOW.0 + 400_000));
        assert_eq!(history.seconds.len(), 0);
    }
}
