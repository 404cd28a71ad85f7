//! One master of a Raft cluster: everything that its parts share, and how it ends.
//!
//! Nothing outside `src/raft/` sees openraft: this handle is not generic, and the traits of the crate are implemented
//! on top of it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use interrex_proto::v1::{HelloRequest, HelloResponse};
use openraft::{RaftMetrics, ServerState, async_runtime::WatchReceiver};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    disk::StoodAside,
    greeting::Greetings,
    hearing::Hearing,
    identity::{DataDir, Identity},
    leadership::Guard,
    network::Peers,
    options::RaftOptions,
    roster::{self, Local},
    running::{Ground, Running},
    state_machine::Applied,
    status::{Problem, Status},
    types::{NodeInfo, RaftHandle, Types},
};
use crate::{
    election::{LeaderView, MasterInfo},
    epoch::Epoch,
    error::OpenError,
};

/// What one master is made of.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) ground: Ground,
    number: u64,
    // `None` once closed: dropping it releases the directory.
    pub(super) dir: Mutex<Option<DataDir>>,
    pub(super) identity: Mutex<Identity>,
    /// The run of openraft that is on; replaced when the disk has failed and works again.
    running: watch::Sender<Arc<Running>>,
    pub(super) peers: Arc<Peers>,
    pub(super) status: Arc<Status>,
    pub(super) greetings: Greetings,
    pub(super) hearing: Hearing,
    pub(super) guard: Guard,
    pub(super) view: watch::Sender<LeaderView>,
    pub(super) stood_aside: Mutex<StoodAside>,
    me: Mutex<MasterInfo>,
    pub(super) tasks: TaskTracker,
}

/// A member as the membership knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) node: u64,
    pub(super) info: NodeInfo,
    pub(super) voter: bool,
}

// === impl Node ===

impl Node {
    pub(super) fn new(ground: Ground, dir: DataDir, identity: Identity, running: Running) -> Self {
        Self {
            number: identity.node,
            guard: Guard::new(ground.closing.clone()),
            dir: Mutex::new(Some(dir)),
            identity: Mutex::new(identity),
            running: watch::Sender::new(Arc::new(running)),
            peers: Arc::clone(&ground.peers),
            status: Arc::clone(&ground.status),
            greetings: Greetings::default(),
            hearing: Hearing::start(),
            view: watch::Sender::new(LeaderView::default()),
            stood_aside: Mutex::default(),
            me: Mutex::new(ground.options.me.clone()),
            tasks: TaskTracker::new(),
            ground,
        }
    }

    pub(super) fn options(&self) -> &RaftOptions {
        &self.ground.options
    }

    /// Cancelled when this node closes.
    pub(super) fn closing(&self) -> &CancellationToken {
        &self.ground.closing
    }

    /// This incarnation's number.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The run of openraft that is on, or was the last.
    pub(super) fn running(&self) -> Arc<Running> {
        Arc::clone(&self.running.borrow())
    }

    /// Every run, though perhaps not each of them.
    pub(super) fn runs(&self) -> watch::Receiver<Arc<Running>> {
        self.running.subscribe()
    }

    /// From now on this is the run that is on; the one before has ended.
    pub(super) fn replace(&self, running: Running) {
        self.running.send_replace(Arc::new(running));
    }

    pub(super) fn raft(&self) -> RaftHandle {
        self.running.borrow().raft.clone()
    }

    pub(super) fn applied(&self) -> Arc<Applied> {
        Arc::clone(&self.running.borrow().applied)
    }

    /// What this master says of itself.
    pub(super) fn me(&self) -> MasterInfo {
        self.me
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Advertises other addresses from now on.
    pub(super) fn set_me(&self, me: &MasterInfo) {
        me.clone_into(&mut self.me.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// openraft's latest word about itself.
    pub(super) fn metrics(&self) -> RaftMetrics<Types> {
        self.raft().metrics().borrow_watched().clone()
    }

    /// The current term, whoever leads in it.
    pub(super) fn term(&self) -> u64 {
        self.raft().metrics().borrow_watched().current_term
    }

    /// The epoch of the current term, as far as it is known here.
    pub(super) fn epoch(&self) -> Epoch {
        self.applied().epochs().of(self.term())
    }

    /// The term that this node leads in, as far as it knows without asking anybody.
    pub(super) fn leading_term(&self) -> Option<u64> {
        let receiver = self.raft().metrics();
        let metrics = receiver.borrow_watched();
        (metrics.state == ServerState::Leader && !self.has_stopped())
            .then_some(metrics.current_term)
    }

    /// Whether openraft has ended, whatever its last metrics say, and has not been opened again.
    pub(super) fn has_stopped(&self) -> bool {
        self.running.borrow().has_ended()
    }

    /// openraft has ended, because of `reason`; it is opened again when the disk works.
    pub(super) fn stopped(&self, reason: &str) {
        let running = self.running();
        if running.has_ended() {
            return;
        }
        // Whatever becomes of the words.
        self.guard.end();
        running.ended.cancel();
        if !self.closing().is_cancelled() {
            let text = format!(
                "raft has stopped: {reason}; it is opened again as soon as the disk works, until then this master \
                 takes no part"
            );
            self.status.set(Problem::Stopped, text);
        }
    }

    /// Whether this node was left behind when its cluster was recovered.
    pub(super) fn is_left_behind(&self) -> bool {
        let identity = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        identity.left_behind
    }

    /// The cluster was recovered without this node: it takes no part any more, now or after a restart. Blocks.
    pub(super) fn leave_behind(&self) {
        let changed = self.change_identity(|identity| identity.left_behind = true);
        if let Err(error) = changed {
            tracing::error!(%error, "this node was left behind, which could not be written down");
        }
        let text = roster::left_behind(&self.options().id, self.number);
        self.status.set(Problem::LeftBehind, text);
        self.guard.end();
        self.running().ended.cancel();
    }

    /// Changes the identity, durably. Blocks.
    ///
    /// # Errors
    /// What the system says; then it is changed only in memory.
    pub(super) fn change_identity(
        &self,
        change: impl FnOnce(&mut Identity),
    ) -> Result<(), OpenError> {
        let mut identity = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut identity);
        let dir = self.dir.lock().unwrap_or_else(PoisonError::into_inner);
        match dir.as_ref() {
            Some(dir) => dir.store(&identity),
            // Closed: nothing more is written.
            None => Ok(()),
        }
    }

    /// The membership, ordered by id; empty before the cluster is formed.
    pub(super) fn members(&self) -> Vec<Member> {
        let receiver = self.raft().metrics();
        let metrics = receiver.borrow_watched();
        members_of(&metrics)
    }

    /// Whether this node has a membership.
    pub(super) fn is_initialized(&self) -> bool {
        self.running.borrow().is_initialized()
    }

    /// The cluster's name as this directory knows it; empty before there is one.
    pub(super) fn cluster_id(&self) -> String {
        let applied = self.applied().cluster_id();
        if applied.is_empty() {
            let identity = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
            return identity.cluster_id.clone();
        }
        applied
    }

    /// What this master knows about itself when it greets.
    pub(super) fn local(&self) -> Local {
        let me = self.me();
        let members = self.members();
        Local {
            rest: me.rest,
            web: me.web,
            id: self.options().id.clone(),
            node: self.number,
            peers: self.options().peers.clone(),
            cluster_id: self.cluster_id(),
            initialized: self.is_initialized(),
            addresses: members
                .iter()
                .map(|m| (m.info.id.clone(), self.peers.address(m.node, &m.info)))
                .collect(),
            members: members.into_iter().map(|m| (m.info.id, m.node)).collect(),
            expelled: self.applied().expelled(),
            joins: !self.options().join.is_empty(),
            entry_format: self.ground.formats.own(),
        }
    }

    /// Answers a greeting.
    pub(super) fn greeted(&self, request: HelloRequest) -> HelloResponse {
        let local = self.local();
        let caller = request.node;
        self.heard_format(&local, caller, request.entry_format);
        let refused = self
            .greetings
            .called(&self.status, &local, &request)
            .unwrap_or_default();
        HelloResponse {
            id: local.id,
            node: local.node,
            peers: local.peers,
            cluster_id: local.cluster_id,
            initialized: local.initialized,
            refused,
            rest: local.rest,
            web: local.web,
            entry_format: local.entry_format,
            expelled: local.expelled.contains(&caller),
            trouble: self
                .status
                .trouble()
                .map(|(_, text)| text)
                .unwrap_or_default(),
        }
    }

    /// A master has said which formats it applies; kept of members only.
    pub(super) fn heard_format(&self, local: &Local, number: u64, format: u32) {
        if local.members.iter().any(|(_, member)| *member == number) {
            self.ground.formats.note(number, format);
        }
    }

    /// All masters that this one knows, with what they say of themselves, ordered by id.
    pub(super) fn masters(&self) -> Vec<MasterInfo> {
        let mut all: BTreeMap<String, MasterInfo> = BTreeMap::new();
        for Member { info, node, .. } in self.members() {
            let mut master = MasterInfo {
                rpc: self.peers.address(node, &info),
                id: info.id,
                rest: info.rest,
                web: info.web,
            };
            self.greetings.update(&mut master);
            all.insert(master.id.clone(), master);
        }
        if all.is_empty() {
            for (id, rpc) in &self.options().peers {
                let (id, rpc) = (id.clone(), rpc.clone());
                let mut master = MasterInfo {
                    id,
                    rpc,
                    ..MasterInfo::default()
                };
                self.greetings.update(&mut master);
                all.insert(master.id.clone(), master);
            }
        }
        if let Some(mine) = all.get_mut(&self.options().id) {
            let rpc = std::mem::take(&mut mine.rpc);
            *mine = self.me();
            if mine.rpc.is_empty() {
                mine.rpc = rpc;
            }
        }
        all.into_values().collect()
    }

    /// Ends everything: no more elections, files flushed and closed, the directory released. Bounded.
    pub(super) async fn close(&self) {
        let deadline = self.options().timing.shutdown_deadline;
        self.closing().cancel();
        self.tasks.close();
        // First, so that no run is begun behind the one that is ended here.
        if tokio::time::timeout(deadline, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("some tasks of raft did not end within {deadline:?}");
        }
        self.running().end(deadline).await;
        self.dir
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }
}

/// The membership in `metrics`, ordered by id and node.
pub(super) fn members_of(metrics: &RaftMetrics<Types>) -> Vec<Member> {
    let membership = &metrics.membership_config;
    let voters: Vec<u64> = membership.voter_ids().collect();
    let mut members: Vec<Member> = membership
        .nodes()
        .map(|(node, info)| Member {
            node: *node,
            info: info.clone(),
            voter: voters.contains(node),
        })
        .collect();
    members.sort_by(|a, b| (&a.info.id, a.node).cmp(&(&b.info.id, b.node)));
    members
}
