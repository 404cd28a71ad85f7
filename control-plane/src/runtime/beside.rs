//! What goes on beside a leader's loop: telling peers who the masters are, and leaving when the disk is in trouble.
//!
//! Each of these ends with the leadership that it belongs to, and none of them decides anything about the cluster.

use std::{sync::Arc, time::Duration};

use interrex_core::ids::Epoch;
use interrex_persistence::election::LeaderView;
use interrex_proto::v1::{self, master_frame::Body};
use tokio::{sync::watch, time::interval};
use tokio_util::sync::CancellationToken;

use crate::{
    messages::master_message,
    runtime::{handle::MasterHandle, peers::Peers},
};

/// How often a leader asks whether it should leave.
const FITNESS_INTERVAL: Duration = Duration::from_millis(500);

/// Tells every session when the masters change, so that agents and applications know the new ones before the old ones
/// are gone. (Whoever registers later hears of them in the answer.)
pub(super) async fn news_of_masters(
    epoch: Epoch,
    mut leaders: watch::Receiver<LeaderView>,
    peers: Arc<Peers>,
    over: CancellationToken,
) {
    let mut told = leaders.borrow_and_update().masters.clone();
    while let Some(Ok(())) = over.run_until_cancelled(leaders.changed()).await {
        let masters = leaders.borrow_and_update().masters.clone();
        if masters != told {
            let named = masters.iter().map(master_message).collect();
            peers.broadcast(epoch, &Body::Masters(v1::Masters { masters: named }));
            told = masters;
        }
    }
}

/// Hands leadership over when the backend says that another master would be a better leader: before this one has to
/// stop, and without leaving anybody in doubt. How often that may happen is the backend's to bound.
pub(super) async fn leave_when_unfit(handle: MasterHandle, over: CancellationToken) {
    let mut ticks = interval(FITNESS_INTERVAL);
    while over.run_until_cancelled(ticks.tick()).await.is_some() {
        let Some(reason) = handle.admin().unfit() else {
            continue;
        };
        tracing::warn!(reason, "this master should not lead: handing over");
        let handed = handle.transfer_leader(None);
        match over.run_until_cancelled(handed).await {
            Some(Ok(to)) => tracing::info!(to, "another master leads"),
            Some(Err(error)) => tracing::warn!(%error, "nobody has taken over: leading on"),
            None => return,
        }
    }
}
