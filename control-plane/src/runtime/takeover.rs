//! From what is stored to a leader that can serve: decoding, judging, indexing. Blocking, and without I/O.
//!
//! What must never happen: that a leader serves over records that it does not understand, or that are another
//! cluster's.

use std::sync::Arc;

use interrex_core::{
    command::Command,
    config::ClusterConfig,
    ids::Epoch,
    leader::{LeaderConfig, LeaderMachine},
    state::cluster::RecoveredEntities,
    time::Timestamp,
    transition::Mutation,
};
use interrex_persistence::record::Recovered;

use crate::{
    metrics,
    records::{self, NewerFormat, Quarantined, SET_ASIDE},
    runtime::{
        heartbeats::Heartbeats,
        view::{ClusterView, EventLog},
    },
};

/// What a new leader starts from, besides the records.
#[derive(Debug)]
pub(crate) struct Takeover {
    pub(crate) epoch: Epoch,
    /// Who takes over, for the event log.
    pub(crate) master: String,
    pub(crate) leader: LeaderConfig,
    pub(crate) cluster: ClusterConfig,
    /// The cluster that the backend says it belongs to, if it says so.
    pub(crate) backend_cluster: Option<String>,
    pub(crate) now: Timestamp,
    pub(crate) heartbeats: Arc<Heartbeats>,
}

/// What a new leader begins with.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) machine: LeaderMachine,
    /// What readers see before the first commit.
    pub(crate) view: ClusterView,
    /// Records that cannot be read, by which the leader must not step.
    pub(crate) quarantined: Vec<Quarantined>,
}

/// Why a master must not lead over what is stored. Trying again does not help.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfit {
    /// A newer version has written there.
    #[error(transparent)]
    Newer(#[from] NewerFormat),
    /// The store is another cluster's.
    #[error(
        "the records belong to cluster `{stored}`, but this master belongs to cluster `{ours}`; check its data \
         directory, or restore the records that are this cluster's"
    )]
    Foreign {
        /// As the meta record says.
        stored: String,
        /// As the backend says.
        ours: String,
    },
    /// Only a part of the records is there.
    #[error("restore of snapshot {snapshot} incomplete: run the command again or wipe")]
    Restoring {
        /// The snapshot.
        snapshot: String,
    },
}

// === impl Takeover ===

impl Takeover {
    /// Decodes and indexes everything; with many records this takes a while.
    ///
    /// # Errors
    /// [`Unfit`].
    pub(crate) fn recover(self, recovered: Recovered) -> Result<Taken, Unfit> {
        let epoch = self.epoch;
        let records = recovered.records.len();
        let decoded = records::decode_all(recovered)?;
        let stored = &decoded.entities.meta.cluster_id;
        if let Some(ours) = self.backend_cluster
            && !stored.is_empty()
            && *stored != ours
        {
            let stored = stored.clone();
            return Err(Unfit::Foreign { stored, ours });
        }
        let snapshot = decoded.entities.meta.restoring.clone();
        if !snapshot.is_empty() {
            return Err(Unfit::Restoring { snapshot });
        }
        decoded.quarantined.iter().for_each(Quarantined::report);
        let entities = decoded.entities;
        count(&entities, &decoded.quarantined);
        let events = EventLog::recovered(&entities.events, entities.next_event);
        let mut machine =
            LeaderMachine::recover(epoch, self.leader, self.cluster, entities, self.now);
        for note in machine.state().inconsistencies() {
            tracing::warn!(epoch = epoch.0, note, "stored records do not fit together");
        }
        let quarantined = decoded.quarantined.len();
        tracing::info!(epoch = epoch.0, records, quarantined, "recovered");
        let mut view = first_view(&machine, self.heartbeats);
        view.set_quarantined(quarantined);
        view.set_events(events);
        // What was set aside was told when it was.
        let unusable = decoded
            .quarantined
            .iter()
            .filter(|record| record.key.kind != SET_ASIDE);
        let told = Command::TakeOver {
            master: self.master,
            found: format!("{records} records found"),
            quarantined: unusable.map(Quarantined::shown).collect(),
        };
        machine.submit(None, told, Timestamp(u64::MAX), self.now);
        Ok(Taken {
            machine,
            view,
            quarantined: decoded.quarantined,
        })
    }
}

// === impl Unfit ===

impl Unfit {
    /// For metrics.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Newer(_) => "newer_format",
            Self::Foreign { .. } => "foreign_store",
            Self::Restoring { .. } => "restoring",
        }
    }
}

/// What was read back, for the figures.
fn count(entities: &RecoveredEntities, quarantined: &[Quarantined]) {
    let kept = |kind, count| metrics::recovered(records::kind_name(kind), "kept", count);
    kept(records::WORKER, entities.workers.len());
    kept(records::APPLICATION, entities.apps.len());
    kept(records::DRIVER, entities.drivers.len());
    kept(records::EXECUTOR, entities.executors.len());
    kept(records::REQUEST, entities.requests.len());
    kept(records::EVENTS, entities.events.len());
    for record in quarantined {
        metrics::recovered(records::kind_name(record.key.kind), "quarantined", 1);
    }
}

/// What readers see before the first commit: everything that was recovered.
fn first_view(machine: &LeaderMachine, heartbeats: Arc<Heartbeats>) -> ClusterView {
    let state = machine.state();
    let mut view = ClusterView::new(machine.epoch(), heartbeats);
    view.set_config(state.config().clone());
    view.set_recovery(state.recovery_state());
    view.apply(&[Mutation::PutMeta(state.meta().clone())]);
    state
        .workers()
        .for_each(|worker| view.apply(&[Mutation::PutWorker(Arc::clone(worker))]));
    state
        .apps()
        .for_each(|app| view.apply(&[Mutation::PutApp(Arc::clone(app))]));
    state
        .drivers()
        .for_each(|driver| view.apply(&[Mutation::PutDriver(Arc::clone(driver))]));
    state
        .executors()
        .for_each(|exec| view.apply(&[Mutation::PutExecutor(Arc::clone(exec))]));
    state
        .requests()
        .for_each(|request| view.apply(&[Mutation::PutRequest(Arc::clone(request))]));
    view
}

#[cfg(test)]
mod tests {
    use interrex_core::state::meta::Meta;

    use super::*;
    use crate::records::encode_batch;

    /// What is stored when the meta record names `cluster`.
    fn stored(cluster: &str) -> Recovered {
        stored_as(Meta {
            cluster_id: cluster.to_owned(),
            ..Meta::default()
        })
    }

    fn stored_as(meta: Meta) -> Recovered {
        let mut recovered = Recovered::default();
        for mutation in encode_batch(&[Mutation::PutMeta(meta)]) {
            if let interrex_persistence::record::Mutation::Put { key, value } = mutation {
                recovered.records.push((key, value));
            }
        }
        recovered
    }

    fn takeover(backend: Option<&str>, stored: Recovered) -> Result<String, Unfit> {
        let takeover = Takeover {
            epoch: Epoch(3),
            master: "m1".to_owned(),
            leader: LeaderConfig::default(),
            cluster: ClusterConfig::default(),
            backend_cluster: backend.map(ToOwned::to_owned),
            now: Timestamp(1),
            heartbeats: Arc::default(),
        };
        let taken = takeover.recover(stored)?;
        Ok(taken.view.cluster_id().to_owned())
    }

    #[test]
    fn a_master_does_not_lead_over_the_records_of_another_cluster() {
        let error = takeover(Some("ours"), stored("theirs")).expect_err("must be refused");
        assert_eq!(error.name(), "foreign_store");
        let text = error.to_string();
        assert!(
            text.contains("`theirs`") && text.contains("`ours`"),
            "{text}"
        );
    }

    #[test]
    fn its_own_records_new_ones_and_a_backend_without_a_name_are_fine() {
        assert_eq!(takeover(Some("ours"), stored("ours")), Ok("ours".into()));
        assert_eq!(
            takeover(Some("ours"), Recovered::default()),
            Ok(String::new())
        );
        assert_eq!(takeover(None, stored("theirs")), Ok("theirs".into()));
    }

    #[test]
    fn nobody_leads_over_a_part_of_the_records() {
        let meta = Meta {
            restoring: "abc".to_owned(),
            ..Meta::default()
        };
        let error = takeover(None, stored_as(meta)).expect_err("must be refused");
        let text = error.to_string();
        assert_eq!(
            text,
            "restore of snapshot abc incomplete: run the command again or wipe"
        );
    }
}
