//! Tells agents that their heartbeats were heard by a master that leads.
//!
//! An agent lets what may run at most once live on for that, and the masters start it elsewhere only later than a worker
//! timeout after the heartbeat. What must never happen: that a master acknowledges a heartbeat when another one leads
//! already, whose timeout began earlier. So each acknowledgement waits for the quorum's word that this master leads,
//! asked after the heartbeat came in. One question answers all that came in before it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use interrex_core::ids::Epoch;
use interrex_persistence::{engine::PersistenceEngine, epoch};
use interrex_proto::v1::{HeartbeatAck, master_frame::Body};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::runtime::{
    peers::{Peers, SessionId},
    read_gate::CONFIRM_DEADLINE,
};

/// Heartbeats that may wait for their acknowledgement; further ones go without, and the next one is as good.
pub(crate) const HEARD_MAX: usize = 16_384;
/// The shortest time between two questions to the quorum.
const PAUSE: Duration = Duration::from_millis(50);

/// A heartbeat that was heard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heard {
    pub(crate) session: SessionId,
    pub(crate) sequence: u64,
}

/// The acknowledgements of one leadership; ends with it.
#[derive(Debug)]
pub(crate) struct HeartbeatAcks {
    pub(crate) epoch: Epoch,
    pub(crate) engine: Arc<dyn PersistenceEngine>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) heard: mpsc::Receiver<Heard>,
    pub(crate) over: CancellationToken,
}

// === impl HeartbeatAcks ===

impl HeartbeatAcks {
    pub(crate) async fn run(mut self) {
        let over = self.over.clone();
        while over.run_until_cancelled(self.round()).await == Some(true) {}
    }

    /// False when nobody will be heard any more.
    async fn round(&mut self) -> bool {
        let mut heard = Vec::new();
        if self.heard.recv_many(&mut heard, HEARD_MAX).await == 0 {
            return false;
        }
        let newest: BTreeMap<SessionId, u64> = heard
            .into_iter()
            .map(|heard| (heard.session, heard.sequence))
            .collect();
        let asked = self.engine.confirm(epoch::Epoch(self.epoch.0));
        match timeout(CONFIRM_DEADLINE, asked).await {
            Ok(Ok(())) => {
                for (session, sequence) in newest {
                    let body = Body::HeartbeatAck(HeartbeatAck { sequence });
                    self.peers.send(session, self.epoch, body);
                }
            }
            // Whoever leads will be heartbeated; if it is still this one, by the next heartbeat.
            Ok(Err(error)) => {
                tracing::debug!(epoch = self.epoch.0, %error, "heartbeats stay unacknowledged");
            }
            Err(_elapsed) => {
                tracing::debug!(epoch = self.epoch.0, "heartbeats stay unacknowledged");
            }
        }
        sleep(PAUSE).await;
        true
    }
}
