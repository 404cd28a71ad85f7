//! The end of a world: whether everything has come to rest, and what is left.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use interrex_agent::process::WorkKey;
use interrex_control_plane::records::{EVENTS, decode_all, encode_batch};
use interrex_core::{
    leader::LeaderMachine,
    state::{cluster::RecoveredEntities, meta::RecoveryState, worker::WorkerState},
};
use interrex_persistence::{
    record::{Mutation, RecordKey},
    record_store::RecordStore,
};
use serde_json::json;

use super::{
    super::{app::App, client::Client, clock::At, master::entities},
    Outcome, World,
};
use crate::history::{Kind, Op};

/// A hash of all that a leader knows, as it would store it. Events aside: the machine does not keep them.
fn hash_known(machine: &LeaderMachine) -> String {
    let mut records = BTreeMap::new();
    for mutation in encode_batch(&entities(machine.state())) {
        if let Mutation::Put { key, value } = mutation {
            records.insert(key, value.to_vec());
        }
    }
    hash(&records)
}

/// The same of what is stored.
fn hash_stored(store: &RecordStore) -> String {
    let records = store.recovered().records.into_iter();
    let others = records.filter(|(key, _)| key.kind != EVENTS);
    hash(&others.map(|(key, value)| (key, value.to_vec())).collect())
}

fn hash(records: &BTreeMap<RecordKey, Vec<u8>>) -> String {
    let mut hasher = DefaultHasher::new();
    records.hash(&mut hasher);
    format!("{:016x} ({} records)", hasher.finish(), records.len())
}

// === impl World ===

impl World {
    pub(super) fn is_at_rest(&self) -> bool {
        self.unrest().is_none()
    }

    /// What is still to do; `None`: nothing.
    pub(super) fn unrest(&self) -> Option<String> {
        let Some(machine) = self.leader() else {
            return Some("nobody leads".to_owned());
        };
        let state = machine.state();
        let unfinished = state.drivers().find(|driver| !driver.state.is_final());
        let app = state.apps().find(|app| !app.state.is_final());
        let executor = state
            .executors()
            .find(|executor| !executor.state.is_final());
        let worker = state
            .workers()
            .find(|worker| worker.state != WorkerState::Alive || worker.drain.is_some());
        let agent = self.agents.iter().find(|agent| !agent.is_at_rest());
        if !machine.is_idle() {
            Some("the leader is busy".to_owned())
        } else if state.recovery_state() != RecoveryState::Alive {
            Some(format!("recovery is {}", state.recovery_state().name()))
        } else if let Some(driver) = unfinished {
            Some(format!(
                "{} is {}: {}",
                driver.id,
                driver.state.name(),
                driver.message
            ))
        } else if let Some(app) = app {
            Some(format!("{} is {}", app.id, app.state.name()))
        } else if let Some(executor) = executor {
            let (app, id) = (&executor.app, executor.id);
            Some(format!("executor {app}/{id} is {}", executor.state.name()))
        } else if let Some(worker) = worker {
            Some(format!("worker {} is {}", worker.id, worker.state_name()))
        } else if state.workers().count() != self.agents.len() {
            Some("a worker is not registered".to_owned())
        } else if !self.clients.iter().all(Client::is_idle_or_reading) {
            Some("a request has no answer".to_owned())
        } else if !self.apps.iter().all(App::is_done) {
            Some("an application does not know that it is over".to_owned())
        } else {
            agent.map(|agent| format!("{} runs or has to report something", agent.node()))
        }
    }

    pub(super) fn finish(mut self) -> Outcome {
        let stored = decode_all(self.env.store.records().recovered());
        let entities = stored.map_or_else(
            |_newer| RecoveredEntities::default(),
            |decoded| decoded.entities,
        );
        let known = self.leader().map(hash_known);
        let at_rest = self.env.history.about(Op::Converged).next().is_some();
        if self.env.calm
            && !at_rest
            && let Some(why) = self.unrest()
        {
            self.env
                .broken("world", &format!("does not come to rest: {why}"));
        }
        if let (Some(known), true) = (known, at_rest) {
            let stored = hash_stored(self.env.store.records());
            for (who, hash) in [("leader", known), ("store", stored)] {
                self.env.note(who, Kind::Info, Op::Hash, "").value = json!({"hash": hash});
            }
        }
        for driver in &entities.drivers {
            let record = self
                .env
                .note("store", Kind::Info, Op::Final, driver.submission.as_str());
            record.attempt = Some(driver.attempt.0);
            record.value = json!({
                "driver": driver.id.as_str(), "state": driver.state.name(),
                "exit_code": driver.exit.and_then(|exit| exit.code),
                "forgotten": driver.message.contains("does not run it"),
            });
        }
        self.note_leftovers(&entities);
        Outcome {
            lasted: self.env.now.since(At::default()),
            commits: self.env.store.commits,
            epochs: self.env.store.epochs(),
            trace: self.env.take_trace(),
            hits: self.env.hits,
            history: self.env.history,
        }
    }

    /// Processes that are alive at the end, though what they belong to is over, or never was.
    pub(super) fn note_leftovers(&mut self, entities: &RecoveredEntities) {
        if self.env.history.about(Op::Converged).next().is_none() {
            return;
        }
        let mut alive = Vec::new();
        for agent in &self.agents {
            for key in agent.running() {
                let known = match key {
                    WorkKey::Driver { driver_id, attempt } => {
                        entities.drivers.iter().any(|driver| {
                            driver.id.as_str() == driver_id
                                && driver.attempt.0 == *attempt
                                && driver.state.is_placed()
                        })
                    }
                    WorkKey::Executor { .. } => false,
                };
                if !known {
                    alive.push((agent.node(), key.to_string()));
                }
            }
        }
        for (node, key) in alive {
            self.env.note(node, Kind::Info, Op::Alive, &key).value =
                json!({"why": "what it belongs to is over"});
        }
    }
}
