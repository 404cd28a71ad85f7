//! Commits as proposals, and what their failures mean.
//!
//! The only question that matters about a failure is whether the batch may be in the log: before openraft has taken
//! the proposal it surely is not, afterwards it may be. A proposal carries the term it was made for, so a batch of one
//! leadership never enters the log under another.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use openraft::{
    ReadPolicy,
    errors::{ClientWriteError, LinearizableReadError, RaftError},
    impls::ProgressResponder,
};

use super::{
    metrics,
    node::Node,
    types::{ApplyOutcome, LogEntry, Types, leader_of},
};
use crate::{
    engine::PersistenceEngine,
    epoch::{CommitSeq, Epoch},
    error::{CommitError, Source},
    metrics::timed,
    options::EngineKind,
    record::{CommitBatch, Recovered},
};

/// Records in one Raft cluster.
#[derive(Debug)]
pub(super) struct RaftEngine {
    node: Arc<Node>,
}

/// Writes entries that say nothing, of any format; for tests.
#[doc(hidden)]
#[derive(Debug)]
pub struct FormatProbe(Arc<RaftEngine>);

// === impl FormatProbe ===

impl FormatProbe {
    pub(super) fn new(engine: Arc<RaftEngine>) -> Self {
        Self(engine)
    }

    /// Whether every member is known to apply `format`.
    #[must_use]
    pub fn may_write(&self, format: u32) -> bool {
        let node = &self.0.node;
        let formats = &node.ground.formats;
        formats
            .may_write(format, node.number(), &node.members())
            .is_ok()
    }

    /// Writes one in the leadership of `epoch`, and waits until it is applied here.
    ///
    /// # Errors
    /// `Rejected` when a member does not apply `format`; else as for a commit.
    pub async fn write(&self, epoch: Epoch, format: u32) -> Result<(), CommitError> {
        let body = Bytes::from_static(b"of a later version");
        let entry = LogEntry::Extension { format, body };
        self.0.propose(epoch, entry).await.map(drop)
    }
}

// === impl RaftEngine ===

impl RaftEngine {
    pub(super) fn new(node: Arc<Node>) -> Self {
        Self { node }
    }

    /// Proposes `entry` in the term of `epoch` and waits until it is applied here.
    async fn propose(&self, epoch: Epoch, entry: LogEntry) -> Result<ApplyOutcome, CommitError> {
        let deadline = self.node.options().timing.commit_deadline;
        self.check_term(epoch)?;
        let node = &self.node;
        if entry.format() > 1 {
            let (formats, members) = (&node.ground.formats, node.members());
            let writable = formats.may_write(entry.format(), node.number(), &members);
            writable.map_err(rejected)?;
        }
        let (responder, answer) = ProgressResponder::complete_only();
        let raft = self.node.raft();
        let proposal = raft
            .write(entry)
            .with_leader(leader_of(self.node.applied().epochs().term(epoch)))
            .responder(responder);
        let began = Instant::now();
        // A full queue means that openraft is busy; nothing has entered it when this gives up.
        match tokio::time::timeout(deadline, proposal).await {
            Ok(Ok(())) => {}
            Ok(Err(fatal)) => return Err(rejected(fatal)),
            Err(_) => {
                return Err(rejected(format!(
                    "raft is too busy to take it within {deadline:?}"
                )));
            }
        }
        let left = deadline.saturating_sub(began.elapsed());
        match tokio::time::timeout(left, answer).await {
            Ok(Ok(Ok(response))) => Ok(response.data),
            Ok(Ok(Err(error))) => Err(self.refused(epoch, error)),
            Ok(Err(_)) => Err(unknown("raft stopped before it answered")),
            Err(_) => Err(unknown(format!(
                "no quorum has stored it within {deadline:?}"
            ))),
        }
    }

    fn refused(&self, epoch: Epoch, error: ClientWriteError<Types>) -> CommitError {
        match error {
            // Refused before it was appended.
            ClientWriteError::ForwardToLeader(forward) => match self.check_term(epoch) {
                Ok(()) => rejected(forward),
                Err(fenced) => fenced,
            },
            // Appended here; another leader may have it too.
            error @ ClientWriteError::LogEntryDiscarded(_) => unknown(error),
            // Only for changes of the membership and for preconditions, of which there are none here.
            error @ (ClientWriteError::ChangeMembershipError(_)
            | ClientWriteError::PreconditionFailed(_)) => unknown(error),
        }
    }

    /// An epoch beyond `epoch` belongs to another leadership.
    fn check_term(&self, epoch: Epoch) -> Result<(), CommitError> {
        let current = self.node.epoch();
        if current > epoch {
            Err(CommitError::Fenced { current })
        } else {
            Ok(())
        }
    }

    fn outcome(epoch: Epoch, outcome: ApplyOutcome) -> Result<Option<CommitSeq>, CommitError> {
        match outcome {
            ApplyOutcome::Stored(seq) => Ok(Some(seq)),
            ApplyOutcome::Opened => Ok(None),
            ApplyOutcome::Fenced(current) => Err(CommitError::Fenced { current }),
            ApplyOutcome::NotOpened(open) => Err(rejected(format!(
                "epoch {epoch} has not been opened (open is {open})"
            ))),
            ApplyOutcome::Nothing | ApplyOutcome::Raised => {
                Err(unknown("the entry was applied as another one"))
            }
        }
    }

    async fn read_index(&self, deadline: Duration) -> Result<(), CommitError> {
        // openraft sends one round of heartbeats for all reads that wait.
        let raft = self.node.raft();
        let confirmed = raft.ensure_linearizable(ReadPolicy::ReadIndex);
        match tokio::time::timeout(deadline, confirmed).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(forward)))) => {
                Err(rejected(forward))
            }
            Ok(Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(error)))) => {
                Err(unknown(error))
            }
            Ok(Err(RaftError::Fatal(fatal))) => Err(unknown(fatal)),
            Err(_) => Err(unknown(format!(
                "no quorum has answered within {deadline:?}"
            ))),
        }
    }
}

#[async_trait]
impl PersistenceEngine for RaftEngine {
    async fn open_epoch(&self, epoch: Epoch) -> Result<Recovered, CommitError> {
        let proposal = self.propose(epoch, LogEntry::OpenEpoch(epoch));
        let outcome = timed(EngineKind::Raft, "open_epoch", proposal).await?;
        Self::outcome(epoch, outcome)?;
        // Applied here, so everything before it is too. An O(1) clone; the list is made from it on another thread.
        let store = self.node.applied().image().store;
        if store.opened() != epoch {
            return Err(CommitError::Fenced {
                current: store.opened(),
            });
        }
        tokio::task::spawn_blocking(move || store.recovered())
            .await
            .map_err(unknown)
    }

    async fn commit(&self, batch: CommitBatch) -> Result<CommitSeq, CommitError> {
        let began = Instant::now();
        batch.check_limits().map_err(rejected)?;
        let epoch = batch.epoch;
        let proposal = self.propose(epoch, LogEntry::Batch(batch));
        let outcome = timed(EngineKind::Raft, "commit", proposal).await?;
        match Self::outcome(epoch, outcome)? {
            Some(seq) => {
                metrics::committed(began.elapsed());
                Ok(seq)
            }
            None => Err(unknown("the batch was applied as another entry")),
        }
    }

    async fn confirm(&self, epoch: Epoch) -> Result<(), CommitError> {
        self.check_term(epoch)?;
        let asked = self.read_index(self.node.options().timing.commit_deadline);
        let confirmed = timed(EngineKind::Raft, "confirm", asked).await;
        // Whatever the answer: a later term is another leadership.
        self.check_term(epoch)?;
        match confirmed {
            Ok(()) => {}
            // The same term, but this node does not lead in it.
            Err(CommitError::Rejected(_)) => return Err(CommitError::Fenced { current: epoch }),
            Err(error) => return Err(error),
        }
        let opened = self.node.applied().image().store.opened();
        if opened > epoch {
            Err(CommitError::Fenced { current: opened })
        } else {
            Ok(())
        }
    }
}

fn rejected(source: impl Into<Source>) -> CommitError {
    CommitError::Rejected(source.into())
}

fn unknown(source: impl Into<Source>) -> CommitError {
    CommitError::Indeterminate(source.into())
}
