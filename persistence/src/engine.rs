//! The contract of a store.

use async_trait::async_trait;

use crate::{
    epoch::{CommitSeq, Epoch},
    error::CommitError,
    record::{CommitBatch, Recovered},
};

/// A store of records, written by one leader at a time.
///
/// # Correctness requirements
/// 1. *Durable on return.* A batch for which `commit` returned `Ok` is part of every later `open_epoch`, whatever
///    dies, as long as the store's quorum survives.
/// 2. *Atomic.* All mutations of a batch are stored, or none.
/// 3. *Fenced.* After `open_epoch(e)` returned, no batch of an epoch smaller than `e` is ever stored, on any
///    replica; its `commit` returns `Fenced` (or `Indeterminate`, never `Ok`).
/// 4. *Ordered.* Batches of one caller are stored in the order of their `commit` calls.
/// 5. *Honest.* `Rejected` and `Fenced` mean surely not written.
///
/// # Cancel safety
/// Dropping the future of `commit` leaves the outcome unknown, like `Indeterminate`.
#[async_trait]
pub trait PersistenceEngine: Send + Sync + std::fmt::Debug {
    /// Opens `epoch`: fences every smaller epoch, waits until all that was committed before is visible, and
    /// returns it. Opening the epoch that is already open is allowed (the same leader, after a step down).
    ///
    /// # Errors
    /// `Fenced` when a larger epoch is open; `Rejected` and `Indeterminate` may be retried.
    async fn open_epoch(&self, epoch: Epoch) -> Result<Recovered, CommitError>;

    /// Stores `batch`; on `Ok` it is durable.
    ///
    /// # Errors
    /// See [`CommitError`]; none may be retried by the caller within the same leadership.
    async fn commit(&self, batch: CommitBatch) -> Result<CommitSeq, CommitError>;

    /// Confirms that `epoch` is still the newest: everything acknowledged by anybody before this call began is
    /// covered by what the caller has committed. The basis of linearizable reads.
    ///
    /// # Errors
    /// `Fenced` when a larger epoch is open or leadership is gone; `Indeterminate` when nobody answered in time.
    async fn confirm(&self, epoch: Epoch) -> Result<(), CommitError>;
}
