//! Taking over the records of a snapshot: the order, and the leader that carries it out instead of serving.
//!
//! A restore belongs to a leadership that does not serve: one that served an empty cluster and stopped for it, or one that
//! found a restore half done and waits to be told to go on. What must never happen: that anybody works with a part of the
//! records, or that the new cluster leads in epochs that the snapshot's agents take for old ones.

use std::{sync::Arc, time::Duration};

use interrex_core::state::meta::Meta;
use interrex_persistence::{
    backend::BackendAdmin,
    engine::PersistenceEngine,
    epoch::Epoch,
    error::{AdminError, CommitError},
    kill_point::KillPoint,
    record::{CommitBatch, Mutation},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    records,
    runtime::{role::RoleOptions, shared::Shared},
    snapshot::{RestorePlan, Source},
};

/// Orders that may wait for the leader.
pub(crate) const RESTORES_MAX: usize = 2;
/// How long raising the epochs may take.
const RAISE_MAX: Duration = Duration::from_secs(10);

/// An operator's order to take over a snapshot's records.
#[derive(Debug)]
pub(crate) struct RestoreOrder {
    pub(crate) source: Source,
    /// What came of it.
    pub(crate) done: oneshot::Sender<Result<Restored, RestoreError>>,
}

/// The way to the leader for such orders.
#[derive(Debug, Clone)]
pub(crate) struct RestorePort {
    pub(crate) orders: mpsc::Sender<RestoreOrder>,
    /// The snapshot whose restore has begun and not ended; then nothing else is served.
    pub(crate) restoring: Option<String>,
}

/// A snapshot has been restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The snapshot's SHA-256.
    pub snapshot: String,
    /// The cluster that has the records now.
    pub cluster_id: String,
    /// The clusters that had them before.
    pub formerly: Vec<String>,
    /// How many records there are.
    pub records: u64,
    /// Every later leadership has a larger epoch.
    pub floor: u64,
    /// It had been restored before; nothing was changed.
    pub already: bool,
}

/// Why a snapshot was not restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// Ask the leader. Nothing was changed.
    #[error("this master is not the leader")]
    NotLeader,
    /// Nothing was changed.
    #[error(
        "the cluster has work, or had some ({drivers} drivers and {apps} applications so far); a snapshot is restored \
         into a new cluster: start masters with empty data directories"
    )]
    NotEmpty {
        /// Drivers so far.
        drivers: u64,
        /// Applications so far.
        apps: u64,
    },
    /// Nothing was changed.
    #[error(
        "restore of snapshot {restoring} incomplete: run the command again with that snapshot, or wipe the masters' data \
         directories"
    )]
    Another {
        /// The snapshot whose restore has begun.
        restoring: String,
    },
    /// Nothing was changed.
    #[error("the leader is busy: {0}; run the command again")]
    Busy(&'static str),
    /// Some records may have been stored.
    #[error("restore of snapshot {snapshot} incomplete: {reason}; run the command again")]
    Incomplete {
        /// The snapshot.
        snapshot: String,
        /// What went wrong.
        reason: String,
    },
}

/// What a restore needs of the leadership that it happens in.
#[derive(Debug)]
pub(crate) struct Restorer<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) engine: &'a Arc<dyn PersistenceEngine>,
    pub(crate) epoch: Epoch,
    pub(crate) options: RoleOptions,
    /// Cancelled when the leadership is gone.
    pub(crate) lost: &'a CancellationToken,
}

/// Whether the cluster of `meta` may take over `source`; `Some` where it has done so already.
///
/// # Errors
/// `NotEmpty`.
pub(crate) fn admit(
    source: &Source,
    meta: &Meta,
    has_work: bool,
) -> Result<Option<Restored>, RestoreError> {
    if meta.restored == source.name() {
        return Ok(Some(Restored {
            snapshot: source.name(),
            cluster_id: meta.cluster_id.clone(),
            formerly: meta.formerly.clone(),
            records: source.file.header.records,
            floor: 0,
            already: true,
        }));
    }
    if has_work || meta.next_driver > 0 || meta.next_app > 0 {
        return Err(RestoreError::NotEmpty {
            drivers: meta.next_driver,
            apps: meta.next_app,
        });
    }
    Ok(None)
}

// === impl Restorer ===

impl Restorer<'_> {
    /// Stores everything, and tells who asked. The leadership has to end afterwards, whatever came of it.
    pub(crate) async fn carry_out(&self, order: RestoreOrder) {
        let RestoreOrder { source, done } = order;
        let snapshot = source.name();
        tracing::info!(epoch = self.epoch.0, snapshot, "restoring a snapshot");
        let outcome = self.restore(&source).await;
        match &outcome {
            Ok(restored) => tracing::info!(
                epoch = self.epoch.0,
                snapshot,
                records = restored.records,
                floor = restored.floor,
                "a snapshot is restored"
            ),
            Err(error) => tracing::warn!(epoch = self.epoch.0, snapshot, %error, "not restored"),
        }
        if done.send(outcome).is_err() {
            tracing::debug!("whoever asked for the restore has gone");
        }
    }

    async fn restore(&self, source: &Source) -> Result<Restored, RestoreError> {
        let open = self.engine.open_epoch(self.epoch);
        let present = self
            .bounded(source, self.options.open_deadline, open)
            .await?;
        let ours = self.cluster_id(&present);
        let (planned, id) = (source.clone(), ours.clone());
        let plan = move || RestorePlan::new(&planned, present, &id);
        let plan = tokio::task::spawn_blocking(plan).await;
        let mut plan = plan.map_err(|error| incomplete(source, error.to_string()))?;
        self.commit(source, plan.begin()).await?;
        for batch in plan.batches() {
            KillPoint::RestoreBetweenBatches.reach();
            self.commit(source, batch).await?;
        }
        KillPoint::RestoreBetweenBatches.reach();
        // Before the mark goes: whoever leads over restored records leads above their agents' epochs.
        self.raise(source, plan.floor).await?;
        self.commit(source, plan.end()).await?;
        Ok(Restored {
            snapshot: source.name(),
            cluster_id: ours,
            formerly: plan.formerly().to_vec(),
            records: source.file.header.records,
            floor: plan.floor.0,
            already: false,
        })
    }

    /// The new cluster's id: as the backend or the store has it, else a new one.
    fn cluster_id(&self, present: &interrex_persistence::record::Recovered) -> String {
        let stored = || records::cluster_id_in(&present.records);
        let known = self.shared.admin.cluster_id().or_else(stored);
        known.unwrap_or_else(|| uuid::Uuid::new_v4().to_string())
    }

    async fn commit(&self, source: &Source, mutations: Vec<Mutation>) -> Result<(), RestoreError> {
        let batch = CommitBatch {
            epoch: self.epoch,
            mutations,
        };
        let commit = self.engine.commit(batch);
        self.bounded(source, self.options.commit_deadline, commit)
            .await
            .map(drop)
    }

    async fn raise(&self, source: &Source, floor: Epoch) -> Result<(), RestoreError> {
        let admin: &Arc<dyn BackendAdmin> = &self.shared.admin;
        match timeout(RAISE_MAX, admin.raise_epoch(floor)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(incomplete(source, error.to_string())),
            Err(_elapsed) => {
                let error = AdminError::Timeout(format!("epochs not raised within {RAISE_MAX:?}"));
                Err(incomplete(source, error.to_string()))
            }
        }
    }

    async fn bounded<T>(
        &self,
        source: &Source,
        deadline: Duration,
        work: impl Future<Output = Result<T, CommitError>>,
    ) -> Result<T, RestoreError> {
        self.shared.pulse.beat();
        tokio::select! {
            biased;
            () = self.lost.cancelled() => Err(incomplete(source, "leadership was lost".to_owned())),
            done = timeout(deadline, work) => match done {
                Ok(Ok(done)) => Ok(done),
                Ok(Err(error)) => Err(incomplete(source, error.to_string())),
                Err(_elapsed) => Err(incomplete(source, format!("the store has not answered within {deadline:?}"))),
            },
        }
    }
}

fn incomplete(source: &Source, reason: String) -> RestoreError {
    RestoreError::Incomplete {
        snapshot: source.name(),
        reason,
    }
}
