//! What becomes of a worker. Pure: a worker and an event in, a worker out.
//!
//! ```text
//!             Registered                    Expired
//!  (new) ───────────────▶ Alive ─────────────────────▶ Dead ──▶ forgotten
//!                         │   ▲                         ▲  │
//!            Disconnected ▼   │ Registered      Expired │  │ Registered
//!                         Unknown ──────────────────────┘  ▼
//!                                                         Alive
//! ```
//!
//! A drain is beside the state and survives every change of it.

use std::sync::Arc;

use crate::{
    ids::WorkerId,
    spec::WorkerSpec,
    state::worker::{Drain, Worker, WorkerState},
    time::Timestamp,
};

/// Something that happens to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WorkerEvent {
    /// It has registered, with a full report.
    Registered {
        /// What it offers now.
        spec: Arc<WorkerSpec>,
        /// When.
        at: Timestamp,
    },
    /// Its session ended.
    Disconnected,
    /// It was silent for longer than its timeout.
    Expired,
    /// It is to be emptied.
    Drained(Drain),
    /// It is not to be emptied any more.
    Undrained,
    /// Its heartbeats say why it wants no new work; empty: it does.
    Accepting(String),
}

/// What the event means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WorkerStep {
    /// The worker is this now.
    Becomes(Box<Worker>),
    /// Nothing new.
    Repeated,
    /// The event does not fit the state: nothing changes.
    Refused,
}

// === impl Worker ===

impl Worker {
    /// A worker that registers for the first time.
    pub(crate) fn new(id: WorkerId, spec: Arc<WorkerSpec>, at: Timestamp) -> Self {
        Self {
            id,
            spec,
            state: WorkerState::Alive,
            registered_at: at,
            drain: None,
            not_accepting: String::new(),
        }
    }

    /// What becomes of it.
    pub(crate) fn after(&self, event: WorkerEvent) -> WorkerStep {
        let mut next = self.clone();
        match (self.state, event) {
            (state, WorkerEvent::Registered { spec, at }) => {
                next.spec = spec;
                next.state = WorkerState::Alive;
                if state == WorkerState::Dead {
                    next.registered_at = at;
                }
            }
            (WorkerState::Alive, WorkerEvent::Disconnected) => next.state = WorkerState::Unknown,
            (WorkerState::Alive | WorkerState::Unknown, WorkerEvent::Expired) => {
                next.state = WorkerState::Dead;
            }
            (WorkerState::Unknown | WorkerState::Dead, WorkerEvent::Disconnected)
            | (WorkerState::Dead, WorkerEvent::Expired) => {}
            (WorkerState::Alive | WorkerState::Unknown, WorkerEvent::Drained(drain)) => {
                next.drain = Some(drain);
            }
            // It runs nothing, and whoever drains it should know.
            (WorkerState::Dead, WorkerEvent::Drained(_)) => return WorkerStep::Refused,
            (_, WorkerEvent::Undrained) => next.drain = None,
            (WorkerState::Alive, WorkerEvent::Accepting(why)) => next.not_accepting = why,
            // Only of one that has registered we know that it speaks for itself.
            (WorkerState::Unknown | WorkerState::Dead, WorkerEvent::Accepting(_)) => {
                return WorkerStep::Refused;
            }
        }
        if next == *self {
            WorkerStep::Repeated
        } else {
            WorkerStep::Becomes(Box::new(next))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(state: WorkerState) -> Worker {
        Worker {
            state,
            ..Worker::new("w1".into(), Arc::default(), Timestamp(1))
        }
    }

    /// The state that it has then, or what else the event means.
    fn step(state: WorkerState, event: WorkerEvent) -> &'static str {
        match worker(state).after(event) {
            WorkerStep::Becomes(next) => next.state_name(),
            WorkerStep::Repeated => "repeated",
            WorkerStep::Refused => "refused",
        }
    }

    #[test]
    fn every_event_in_every_state() {
        let registered = || WorkerEvent::Registered {
            spec: Arc::new(WorkerSpec {
                host: "h".to_owned(),
                ..WorkerSpec::default()
            }),
            at: Timestamp(9),
        };
        let events = || {
            [
                registered(),
                WorkerEvent::Disconnected,
                WorkerEvent::Expired,
                WorkerEvent::Drained(Drain::default()),
                WorkerEvent::Undrained,
                WorkerEvent::Accepting("disk full".to_owned()),
            ]
        };
        let table = [
            (
                WorkerState::Alive,
                [
                    "ALIVE",
                    "UNKNOWN",
                    "DEAD",
                    "DECOMMISSIONED",
                    "repeated",
                    "ALIVE",
                ],
            ),
            (
                WorkerState::Unknown,
                [
                    "ALIVE", "repeated", "DEAD", "UNKNOWN", "repeated", "refused",
                ],
            ),
            (
                WorkerState::Dead,
                [
                    "ALIVE", "repeated", "repeated", "refused", "repeated", "refused",
                ],
            ),
        ];
        for (state, outcomes) in table {
            assert_eq!(
                events().map(|event| step(state, event)),
                outcomes,
                "{state:?}"
            );
        }
    }

    #[test]
    fn a_drain_outlives_every_state_until_it_is_taken_back() {
        let mut worker = worker(WorkerState::Alive);
        let become_ = |worker: &mut Worker, event| match worker.after(event) {
            WorkerStep::Becomes(next) => *worker = *next,
            step @ (WorkerStep::Repeated | WorkerStep::Refused) => panic!("{step:?}"),
        };
        become_(&mut worker, WorkerEvent::Drained(Drain::default()));
        become_(&mut worker, WorkerEvent::Disconnected);
        become_(&mut worker, WorkerEvent::Expired);
        let (spec, at) = (Arc::default(), Timestamp(9));
        become_(&mut worker, WorkerEvent::Registered { spec, at });
        assert_eq!(worker.state_name(), "DECOMMISSIONED");
        assert_eq!(worker.registered_at, Timestamp(9));
        become_(&mut worker, WorkerEvent::Undrained);
        assert_eq!(worker.state_name(), "ALIVE");
    }
}
