//! What sessions tell and ask without a command: signs of life, and who leads. Nothing here is queued or stored.

use std::time::Duration;

use interrex_core::{
    ids::{AppId, WorkerId},
    leader::Heartbeat,
};
use interrex_proto::v1;

use super::MasterHandle;
use crate::messages::master_message;

// === impl MasterHandle ===

impl MasterHandle {
    /// A sign of life from a worker that has registered; never queued, never stored.
    pub(crate) fn heartbeat(&self, worker: &WorkerId) {
        self.shared
            .view
            .borrow()
            .heartbeats()
            .touch(worker, self.shared.clock.now());
    }

    /// The same, with what the worker says of itself.
    pub(crate) fn heard(&self, worker: &WorkerId, heartbeat: Heartbeat) {
        self.shared
            .view
            .borrow()
            .heartbeats()
            .beat(worker, heartbeat, self.shared.clock.now());
    }

    /// For how long the program behind an application has not come for its events; zero: it has.
    pub(crate) fn app_progress(&self, app: &AppId, none_for: Duration) {
        let since = Some(none_for)
            .filter(|none_for| !none_for.is_zero())
            .map(|none_for| self.shared.clock.now().minus(none_for));
        self.shared.view.borrow().heartbeats().progress(app, since);
    }

    /// What a standby says to a peer.
    pub(crate) fn standby(&self) -> v1::Standby {
        let leaders = self.shared.leaders.borrow();
        let leader = leaders
            .leader
            .as_ref()
            .filter(|leader| leader.id != self.shared.me.id);
        v1::Standby {
            leader: leader.map(master_message),
            leader_epoch: leaders.epoch.0,
            master_id: self.shared.me.id.clone(),
        }
    }
}
