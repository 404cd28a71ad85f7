//! The store behind a lock: durable as long as the cluster's value lives.

use async_trait::async_trait;

use super::Member;
use crate::{
    engine::PersistenceEngine,
    epoch::{CommitSeq, Epoch},
    error::CommitError,
    metrics,
    options::EngineKind,
    record::{CommitBatch, Recovered},
    record_store::RecordStore,
};

/// The master was crashed, replaced or shut down.
#[derive(Debug, thiserror::Error)]
#[error("the memory backend of this master is closed")]
struct Closed;

// === impl PersistenceEngine for Member ===

#[async_trait]
impl PersistenceEngine for Member {
    async fn open_epoch(&self, epoch: Epoch) -> Result<Recovered, CommitError> {
        let opened = async { self.write(|store| store.open_epoch(epoch).map(|()| store.clone())) };
        // Copied out of the lock, from a clone that costs nothing.
        Ok(metrics::timed(EngineKind::Memory, "open_epoch", opened)
            .await?
            .recovered())
    }

    async fn commit(&self, batch: CommitBatch) -> Result<CommitSeq, CommitError> {
        batch.check_limits()?;
        let committed = async { self.write(|store| store.apply(batch)) };
        metrics::timed(EngineKind::Memory, "commit", committed).await
    }

    async fn confirm(&self, epoch: Epoch) -> Result<(), CommitError> {
        let state = self.shared.state();
        if !state.alive(&self.me.id, self.life) {
            return Err(CommitError::Rejected(Box::new(Closed)));
        }
        if let Some(current) = state.successor(epoch) {
            return Err(CommitError::Fenced { current });
        }
        Ok(state.store.check(epoch)?)
    }
}

// === impl Member ===

impl Member {
    fn write<T, E>(
        &self,
        write: impl FnOnce(&mut RecordStore) -> Result<T, E>,
    ) -> Result<T, CommitError>
    where
        CommitError: From<E>,
    {
        let mut state = self.shared.state();
        if !state.alive(&self.me.id, self.life) {
            return Err(CommitError::Rejected(Box::new(Closed)));
        }
        let outcome = write(&mut state.store)?;
        state.note_opened();
        metrics::store_size(EngineKind::Memory, state.store.bytes());
        Ok(outcome)
    }
}
