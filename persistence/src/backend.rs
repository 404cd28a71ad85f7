//! What opening a backend gives, and what an operator may ask of it.

use std::sync::Arc;

use async_trait::async_trait;
use tonic::service::Routes;

use crate::{
    election::LeaderElection, engine::PersistenceEngine, epoch::Epoch, error::AdminError,
    options::EngineKind, record_store::RecordStore,
};

/// Largest floor that epochs can be raised above; far beyond what any cluster reaches.
pub const EPOCH_FLOOR_MAX: Epoch = Epoch(1 << 62);

/// An open backend.
#[derive(Debug, Clone)]
pub struct Backend {
    /// Who may act.
    pub election: Arc<dyn LeaderElection>,
    /// Where records are.
    pub engine: Arc<dyn PersistenceEngine>,
    /// RPCs among masters, to be mounted on the gRPC server without being looked into.
    pub peer_routes: Option<Routes>,
    /// Membership and health.
    pub admin: Arc<dyn BackendAdmin>,
}

/// A master as the backend sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its id.
    pub id: String,
    /// Its gRPC address.
    pub rpc: String,
    /// Whether it votes (else it is a learner).
    pub voter: bool,
    /// Whether it has answered lately; `None` where only the leader knows.
    pub healthy: Option<bool>,
    /// Entries it is behind the leader; `None` where only the leader knows.
    pub lag: Option<u64>,
}

/// Whether the backend works, in words for `/readyz`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Whether this master can take part (a standby is ready).
    pub ready: bool,
    /// Why not, or what it is doing.
    pub detail: String,
}

/// How current a snapshot has to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Freshness {
    /// It has everything that was acknowledged before it was asked for; refused where nobody can confirm that.
    #[default]
    Confirmed,
    /// What this master has, however old: for a cluster that has lost its quorum.
    AsKnown,
}

/// A consistent cut of a store: what every batch up to its sequence has made of it, and nothing of a later one.
#[derive(Debug, Clone)]
pub struct StoreSnapshot {
    /// Which engine it was taken from.
    pub engine: EngineKind,
    /// As [`BackendAdmin::cluster_id`].
    pub cluster_id: Option<String>,
    /// The records, with the epoch that was open and the place of the newest batch.
    pub store: RecordStore,
}

/// What an operator may ask of a backend.
#[async_trait]
pub trait BackendAdmin: Send + Sync + std::fmt::Debug {
    /// All members that this master knows, ordered by id.
    fn members(&self) -> Vec<MemberStatus>;
    /// A change of the masters that was left half way, in words, with what finishes or undoes it.
    fn half_way(&self) -> Option<String> {
        None
    }
    /// Whether this master can take part.
    fn health(&self) -> Health;
    /// The id of the cluster that this master belongs to, where the backend gives it one: known to a leader at the
    /// latest when its epoch is open, and the same for ever. `None`: the backend leaves that to what it stores.
    fn cluster_id(&self) -> Option<String> {
        None
    }
    /// Why this master should hand leadership over now: it leads, but its disk is in trouble, and another one that
    /// is not would take over. `None` from a backend that cannot tell.
    fn unfit(&self) -> Option<String> {
        None
    }
    /// Hands leadership to `to`, or to the most up-to-date standby; returns the new leader's id.
    ///
    /// # Errors
    /// See [`AdminError`].
    async fn transfer_leader(&self, to: Option<String>) -> Result<String, AdminError>;
    /// Adds a master (or lets one whose disk was wiped back in): learner first, voter when it has caught up.
    ///
    /// # Errors
    /// See [`AdminError`].
    async fn add_master(&self, id: String, rpc: String) -> Result<String, AdminError>;
    /// Removes a master.
    ///
    /// # Errors
    /// See [`AdminError`].
    async fn remove_master(&self, id: String) -> Result<String, AdminError>;
    /// A consistent cut of all records, from any master; writing goes on meanwhile. Bounded by the backend.
    ///
    /// # Errors
    /// `Unsupported` where the backend cannot; `Timeout` when nobody confirmed in time that it is current.
    async fn snapshot(&self, freshness: Freshness) -> Result<StoreSnapshot, AdminError> {
        Err(AdminError::Unsupported(format!(
            "it takes no snapshots ({freshness:?})"
        )))
    }
    /// From the next leadership on, every epoch is larger than `floor`: durable, on every master. A floor that is
    /// reached already changes nothing. Asked of the leader, whose own epoch stays what it is.
    ///
    /// # Errors
    /// `Unsupported` where the backend cannot; `Refused` above [`EPOCH_FLOOR_MAX`]; `NotLeader`; after a `Timeout`
    /// the floor may be in force.
    async fn raise_epoch(&self, floor: Epoch) -> Result<(), AdminError> {
        Err(AdminError::Unsupported(format!(
            "it cannot raise its epochs above {floor}"
        )))
    }
    /// Stops the backend: no more elections, files flushed and closed. Bounded by the backend.
    async fn shutdown(&self);
}

/// Whether epochs can be raised above `floor`.
///
/// # Errors
/// `Refused` where they would run out.
pub fn check_floor(floor: Epoch) -> Result<(), AdminError> {
    if floor <= EPOCH_FLOOR_MAX {
        return Ok(());
    }
    Err(AdminError::Refused(format!(
        "epochs cannot be raised above {floor}: at most {EPOCH_FLOOR_MAX} is possible"
    )))
}

// === impl Health ===

impl Health {
    /// Nothing works here any more, and nothing is wanted to.
    pub(crate) fn closed() -> Self {
        Self {
            ready: false,
            detail: "closed".to_owned(),
        }
    }

    /// The health of a master that is `doing` something, and is `led` by itself or another; problems that are `blocking` keep it
    /// from taking part, `warnings` do not.
    pub(crate) fn of_member(
        led: bool,
        doing: String,
        mut blocking: Vec<String>,
        warnings: Vec<String>,
    ) -> Self {
        let ready = led && blocking.is_empty();
        if blocking.is_empty() {
            blocking.push(doing);
        }
        Self {
            ready,
            detail: [blocking, warnings].concat().join("; "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(led: bool, blocking: &[&str]) -> (bool, String) {
        let blocking = blocking.iter().map(ToString::to_string).collect();
        let doing = "following m1".to_owned();
        let health = Health::of_member(led, doing, blocking, vec!["m3 is slow".to_owned()]);
        (health.ready, health.detail)
    }

    #[test]
    fn only_a_led_master_without_a_blocking_problem_is_ready_and_warnings_are_always_told() {
        let following = "following m1; m3 is slow".to_owned();
        assert_eq!(of(true, &[]), (true, following.clone()));
        assert_eq!(of(false, &[]), (false, following));
        let blocked = "disk full; m3 is slow".to_owned();
        assert_eq!(of(true, &["disk full"]), (false, blocked));
    }
}
