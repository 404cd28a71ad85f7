//! The end of a world: whether everything has come to rest, and what is left.

use super::super::app::App;
use super::super::client::Client;
use super::super::clock::At;
use super::{Outcome, World, hash};
use crate::history::Kind;
use crate::history::Op;
use interrex_agent::process::WorkKey;
use interrex_control_plane::records::decode_all;
use interrex_core::state::cluster::RecoveredEntities;
use interrex_core::state::meta::RecoveryState;
use interrex_core::state::worker::WorkerState;
use serde_json::json;

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
        let leader = self
            .leader()
            .map(|machine| hash(machine.state().drivers().map(|driver| driver.as_ref())));
        let at_rest = self.env.history.about(Op::Converged).next().is_some();
        if self.env.calm
            && !at_rest
            && let Some(why) = self.unrest()
        {
            self.env
                .broken("world", &format!("does not come to rest: {why}"));
        }
        if let (Some(leader), true) = (leader, at_rest) {
            self.env.note("leader", Kind::Info, Op::Hash, "").value = json!({"hash": leader});
            let stored = hash(entities.drivers.iter());
            self.env.note("store", Kind::Info, Op::Hash, "").value = json!({"hash": stored});
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
