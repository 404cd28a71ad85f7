//! The types that openraft is made of here, and what one log entry may say.
//!
//! Owned by the Raft backend; none of these names leaves it. Entries are stored and sent as postcard: a variant is
//! only ever added at the end, and never changes its meaning, because logs and snapshots outlive the program.

use std::{collections::BTreeSet, fmt};

use bytes::Bytes;
use openraft::{
    alias::{
        CommittedLeaderIdOf, EntryPayloadOf, LogIdOf, SnapshotMetaOf, StoredMembershipOf, VoteOf,
    },
    impls::leader_id_std,
};
use serde::{Deserialize, Serialize};

use crate::{
    epoch::{CommitSeq, Epoch},
    record::CommitBatch,
};

use super::state_machine::StateMachine;

openraft::declare_raft_types!(
    /// Standard Raft: at most one leader a term, so that the term can be the epoch.
    pub(super) Types:
        D = LogEntry,
        R = ApplyOutcome,
        NodeId = u64,
        Node = NodeInfo,
        Term = u64,
        LeaderId = leader_id_std::LeaderId<u64, u64>,
);

/// The running node.
pub(super) type RaftHandle = openraft::Raft<Types, StateMachine>;
/// Term and index of an entry.
pub(super) type LogId = LogIdOf<Types>;
/// The leader part of a [`LogId`]: the term.
pub(super) type CommittedLeaderId = CommittedLeaderIdOf<Types>;
/// What openraft keeps about elections.
pub(super) type Vote = VoteOf<Types>;
/// What an entry holds: nothing, a [`LogEntry`], or a membership.
pub(super) type Payload = EntryPayloadOf<Types>;
/// Who votes and who learns, and which entry said so.
pub(super) type StoredMembership = StoredMembershipOf<Types>;
/// What a snapshot covers.
pub(super) type SnapshotMeta = SnapshotMetaOf<Types>;

/// A master as the membership knows it. Its number is not in here: that is the key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodeInfo {
    /// The configured id, such as `m1`.
    pub(super) id: String,
    /// Where its gRPC server was when it joined.
    pub(super) rpc: String,
    /// Where its REST server was when it joined; empty: off.
    pub(super) rest: String,
    /// Where its pages were when it joined; empty: off.
    pub(super) web: String,
}

/// What a log entry asks of every replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum LogEntry {
    /// Names the cluster; only the first one counts.
    Form {
        /// Random, minted by the first leader.
        cluster_id: String,
    },
    /// Fences all smaller epochs.
    OpenEpoch(Epoch),
    /// Changes records, if its epoch is the open one.
    Batch(CommitBatch),
    /// Later terms get epochs larger than this.
    RaiseEpoch(Epoch),
    /// Nodes that were left behind when the cluster was recovered: they never take part again.
    Expel(BTreeSet<u64>),
    /// Something that a later version brings. All kinds that are added from now on are written as this, so that any version
    /// can read the log, and see what it cannot apply; see [`super::formats`].
    Extension {
        /// Versions that know this format know what is in it.
        format: u32,
        /// Its content.
        body: Bytes,
    },
}

/// What applying an entry came to, on every replica alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ApplyOutcome {
    /// The entry was not one of ours (a blank, a membership), or it named the cluster.
    Nothing,
    /// The epoch is open.
    Opened,
    /// The batch is stored.
    Stored(CommitSeq),
    /// Refused: a larger epoch is open.
    Fenced(Epoch),
    /// Refused: the epoch was never opened; the smaller one that is open.
    NotOpened(Epoch),
    /// Every later term has an epoch larger than the floor.
    Raised,
}

// === impl NodeInfo ===

impl fmt::Display for NodeInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.id, self.rpc)
    }
}

// === impl LogEntry ===

impl LogEntry {
    /// Which format a master has to know to apply this.
    pub(super) fn format(&self) -> u32 {
        match self {
            Self::Form { .. }
            | Self::OpenEpoch(_)
            | Self::Batch(_)
            | Self::RaiseEpoch(_)
            | Self::Expel(_) => 1,
            Self::Extension { format, .. } => *format,
        }
    }
}

/// Which format a master has to know to apply `payload`.
pub(super) fn format_of(payload: &Payload) -> u32 {
    match payload {
        Payload::Normal(entry) => entry.format(),
        Payload::Blank | Payload::Membership(_) => 1,
    }
}

impl fmt::Display for LogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form { cluster_id } => write!(f, "form cluster {cluster_id}"),
            Self::OpenEpoch(epoch) => write!(f, "open epoch {epoch}"),
            Self::Batch(batch) => {
                write!(
                    f,
                    "batch of epoch {}, {} mutations",
                    batch.epoch,
                    batch.mutations.len()
                )
            }
            Self::RaiseEpoch(floor) => write!(f, "raise epochs above {floor}"),
            Self::Expel(nodes) => write!(f, "expel {} nodes", nodes.len()),
            Self::Extension { format, body } => {
                write!(f, "something of format {format}, {} bytes", body.len())
            }
        }
    }
}

// === impl ApplyOutcome ===

impl fmt::Display for ApplyOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing to do"),
            Self::Opened => f.write_str("opened"),
            Self::Stored(seq) => write!(f, "stored as {seq}"),
            Self::Fenced(current) => write!(f, "fenced by epoch {current}"),
            Self::NotOpened(current) => write!(f, "not opened (open is {current})"),
            Self::Raised => f.write_str("raised"),
        }
    }
}

/// The leader id of `term`, for proposals that only its leader may make.
pub(super) fn leader_of(term: u64) -> CommittedLeaderId {
    CommittedLeaderId::new(term)
}
