//! What an operator may ask of a memory cluster.

use std::time::Duration;

use async_trait::async_trait;

use super::Member;
use crate::{
    backend::{BackendAdmin, Freshness, Health, MemberStatus, StoreSnapshot, check_floor},
    epoch::Epoch,
    error::AdminError,
    options::EngineKind,
};

/// How long a transfer waits until the heir has taken over.
const TRANSFER_DEADLINE: Duration = Duration::from_secs(2);

// === impl BackendAdmin for Member ===

#[async_trait]
impl BackendAdmin for Member {
    fn members(&self) -> Vec<MemberStatus> {
        self.shared.state().statuses()
    }

    fn health(&self) -> Health {
        let ready = self.alive();
        let detail = if ready {
            "memory, nothing is kept"
        } else {
            "closed"
        };
        Health {
            ready,
            detail: detail.to_owned(),
        }
    }

    async fn transfer_leader(&self, to: Option<String>) -> Result<String, AdminError> {
        let heir = self.shared.change(|state| {
            if !state.leads(&self.me.id, self.life) {
                return Err(AdminError::NotLeader);
            }
            state.hand_over(to.as_deref()).ok_or_else(|| match &to {
                Some(to) => AdminError::Refused(format!("master {to} is not a waiting standby")),
                None => AdminError::Refused("there is no standby to take over".to_owned()),
            })
        })?;
        let mut view = self.shared.view.subscribe();
        let taken = view.wait_for(|view| view.leader.as_ref().is_some_and(|l| l.id == heir));
        match tokio::time::timeout(TRANSFER_DEADLINE, taken).await {
            Ok(Ok(_view)) => Ok(heir),
            Ok(Err(_)) | Err(_) => Err(AdminError::Timeout(format!(
                "master {heir} has not led yet"
            ))),
        }
    }

    async fn add_master(&self, id: String, _rpc: String) -> Result<String, AdminError> {
        Err(AdminError::Unsupported(format!(
            "memory cannot add {id}: it lives in one process"
        )))
    }

    async fn remove_master(&self, id: String) -> Result<String, AdminError> {
        Err(AdminError::Unsupported(format!(
            "memory cannot remove {id}: it lives in one process"
        )))
    }

    async fn snapshot(&self, _freshness: Freshness) -> Result<StoreSnapshot, AdminError> {
        // One store, so every cut is current.
        let state = self.shared.state();
        if !state.alive(&self.me.id, self.life) {
            return Err(AdminError::Refused("this master is closed".to_owned()));
        }
        Ok(StoreSnapshot {
            engine: EngineKind::Memory,
            cluster_id: None,
            store: state.store.clone(),
        })
    }

    async fn raise_epoch(&self, floor: Epoch) -> Result<(), AdminError> {
        check_floor(floor)?;
        self.shared.change(|state| {
            if !state.leads(&self.me.id, self.life) {
                return Err(AdminError::NotLeader);
            }
            state.raise_epoch(floor);
            Ok(())
        })
    }

    async fn shutdown(&self) {
        self.shared.change(|state| {
            if state.alive(&self.me.id, self.life) {
                state.crash(&self.me.id);
            }
        });
    }
}
