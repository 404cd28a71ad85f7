//! The contract of an election.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{epoch::Epoch, error::ElectionError};

/// Where a master can be reached. Addresses are `host:port`; an empty one means that server is off.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MasterInfo {
    /// The master's configured id, such as `m1`.
    pub id: String,
    /// gRPC.
    pub rpc: String,
    /// Spark submission API.
    pub rest: String,
    /// Health, metrics and pages.
    pub web: String,
}

/// Leadership that has been won.
///
/// Dropping it does not resign by itself; the backend ends it by cancelling `lost`, and the holder ends it by
/// calling [`LeaderElection::resign`].
#[derive(Debug, Clone)]
pub struct Leadership {
    /// The epoch to open and to put on every order.
    pub epoch: Epoch,
    /// Cancelled as soon as the backend knows, or must assume, that leadership is gone.
    pub lost: CancellationToken,
}

/// Who leads, as far as this master knows. A hint: only the store can prove it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaderView {
    /// The leader, if one is known.
    pub leader: Option<MasterInfo>,
    /// The epoch it leads in.
    pub epoch: Epoch,
    /// All masters that are known, the leader included, ordered by id.
    pub masters: Vec<MasterInfo>,
}

/// An election among masters.
#[async_trait]
pub trait LeaderElection: Send + Sync + std::fmt::Debug {
    /// Waits until this master leads. Epochs never go down from one call to the next.
    ///
    /// # Errors
    /// See [`ElectionError`].
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the candidacy or leaves it to the backend; calling again is always right.
    async fn campaign(&self, me: &MasterInfo) -> Result<Leadership, ElectionError>;

    /// Gives up leadership on purpose, handing it to a standby where the backend can. Returns when this master
    /// leads no longer, or after a bounded wait.
    async fn resign(&self);

    /// Who leads, for hints and forwarding; the receiver sees every change, though perhaps not each of them.
    fn observe(&self) -> watch::Receiver<LeaderView>;
}
