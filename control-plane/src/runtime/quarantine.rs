//! Records that could not be read: kept, and never lost to something new of the same name. Pure.
//!
//! Owned by the leader's loop. What must never happen: a quarantined record is overwritten or deleted without a copy of its
//! bytes in the same batch; a request whose record is unreadable is taken for a new one and has its effect a second time.

use std::collections::BTreeMap;

use bytes::Bytes;
use interrex_core::{command::Command, ids::RequestId, transition::Rejection};
use interrex_persistence::record::{Mutation, RecordKey};

use crate::records::{Quarantined, REQUEST, SET_ASIDE, aside_key};

/// The quarantined records whose places are not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    records: BTreeMap<RecordKey, Bytes>,
}

// === impl Quarantine ===

impl Quarantine {
    pub(crate) fn new(quarantined: Vec<Quarantined>) -> Self {
        let records = quarantined
            .into_iter()
            .filter(|record| record.key.kind != SET_ASIDE)
            .map(|record| (record.key, record.value));
        Self {
            records: records.collect(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The copies that have to be stored together with `mutations`, because these take the places of damaged records.
    pub(crate) fn copies(&mut self, mutations: &[Mutation]) -> Vec<Mutation> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut copies = Vec::new();
        for mutation in mutations {
            let (Mutation::Put { key, .. } | Mutation::Delete { key }) = mutation;
            if let Some(value) = self.records.remove(key) {
                let key = aside_key(key, &value);
                copies.push(Mutation::Put { key, value });
            }
        }
        copies
    }

    /// Whether `command` repeats a request whose record cannot be read: what it did is not known, so it is not done again.
    pub(crate) fn refuses(&self, command: &Command) -> Option<Rejection> {
        if self.is_empty() {
            return None;
        }
        let request = request_of(command)?;
        let key = RecordKey {
            kind: REQUEST,
            id: request.as_str().into(),
        };
        self.records
            .contains_key(&key)
            .then(|| Rejection::Conflict {
                id: request.clone(),
                created: "something that cannot be read: its record is damaged".to_owned(),
            })
    }
}

/// The request id of a command that has one.
fn request_of(command: &Command) -> Option<&RequestId> {
    match command {
        Command::SubmitDriver { request, .. }
        | Command::RegisterApplication {
            request, app: None, ..
        } => Some(request),
        Command::Kill { request, .. }
        | Command::KillAllDrivers { request }
        | Command::ClearCompleted { request }
        | Command::DrainWorkers { request, .. }
        | Command::UndrainWorkers { request, .. } => request.as_ref().map(|request| &request.id),
        // One that comes back creates nothing: its own record knows the request.
        Command::RegisterApplication { app: Some(_), .. }
        | Command::RegisterWorker { .. }
        | Command::Report { .. }
        | Command::WorkerDisconnected { .. }
        | Command::ExpireWorker { .. }
        | Command::UnregisterApplication { .. }
        | Command::ExpireApplication { .. }
        | Command::RequestExecutors { .. }
        | Command::KillExecutors { .. }
        | Command::AcceptingChanged { .. }
        | Command::Tick
        | Command::Initialize { .. }
        | Command::TakeOver { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{RecordError, WORKER};

    fn key(kind: interrex_persistence::record::RecordKind, id: &str) -> RecordKey {
        RecordKey {
            kind,
            id: id.into(),
        }
    }

    fn damaged(key: RecordKey) -> Quarantined {
        Quarantined {
            key,
            value: Bytes::from_static(b"damaged"),
            reason: RecordError::Garbage("test".to_owned()),
        }
    }

    #[test]
    fn the_bytes_of_a_damaged_record_are_kept_when_its_place_is_taken() {
        let worker = key(WORKER, "w1");
        let mut quarantine = Quarantine::new(vec![damaged(worker.clone())]);
        let put = |key: RecordKey| Mutation::Put {
            key,
            value: Bytes::from_static(b"new"),
        };
        assert_eq!(quarantine.copies(&[put(key(WORKER, "w2"))]), vec![]);
        let copies = quarantine.copies(&[put(worker.clone())]);
        let [Mutation::Put { key: aside, value }] = copies.as_slice() else {
            panic!("one copy: {copies:?}");
        };
        assert_eq!(value.as_ref(), b"damaged");
        assert_eq!(aside.kind, SET_ASIDE);
        assert!(aside.id.starts_with("2/w1#"), "{}", aside.id);
        // The second time there is nothing to lose.
        assert_eq!(
            quarantine.copies(&[Mutation::Delete { key: worker }]),
            vec![]
        );
    }

    #[test]
    fn a_request_whose_record_is_damaged_is_not_done_again() {
        let quarantine = Quarantine::new(vec![damaged(key(REQUEST, "r1"))]);
        let kill = |id: &str| Command::Kill {
            request: Some(interrex_core::command::RequestKey {
                id: RequestId::new(id),
                fingerprint: interrex_core::ids::Fingerprint([0; 32]),
            }),
            id: "driver-1".to_owned(),
        };
        assert!(quarantine.refuses(&kill("r1")).is_some());
        assert!(quarantine.refuses(&kill("r2")).is_none());
        assert!(quarantine.refuses(&Command::Tick).is_none());
    }

    #[test]
    fn an_application_comes_back_though_the_record_of_its_request_is_damaged() {
        let quarantine = Quarantine::new(vec![damaged(key(REQUEST, "r1"))]);
        let register = |app: Option<&str>| Command::RegisterApplication {
            request: RequestId::new("r1"),
            fingerprint: interrex_core::ids::Fingerprint([0; 32]),
            app: app.map(interrex_core::ids::AppId::new),
            spec: std::sync::Arc::default(),
        };
        assert!(quarantine.refuses(&register(None)).is_some());
        assert!(quarantine.refuses(&register(Some("app-1"))).is_none());
    }
}
