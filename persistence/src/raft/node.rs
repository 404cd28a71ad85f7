//! One master of a Raft cluster: everything that its parts share, and how it ends.
//!
//! Nothing outside `src/raft/` sees openraft: this handle is not generic, and the traits of the crate are implemented
//! on top of it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use interrex_proto::v1::{HelloRequest, HelloResponse};
use openraft::{RaftMetrics, ServerState, async_runtime::WatchReceiver};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    greeting::Greetings,
    identity::{DataDir, Identity},
    leadership::Guard,
    log_store::LogStore,
    network::Peers,
    options::RaftOptions,
    roster::Local,
    state_machine::Applied,
    status::{Problem, Status},
    types::{NodeInfo, RaftHandle, Types},
};
use crate::{
    election::{LeaderView, MasterInfo},
    epoch::Epoch,
};

/// What one master is made of.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) options: RaftOptions,
    number: u64,
    // `None` once closed: dropping it releases the directory.
    pub(super) dir: Mutex<Option<DataDir>>,
    pub(super) identity: Mutex<Identity>,
    pub(super) log: LogStore,
    applied: Arc<Applied>,
    raft: RaftHandle,
    pub(super) peers: Arc<Peers>,
    pub(super) status: Arc<Status>,
    pub(super) greetings: Greetings,
    pub(super) guard: Guard,
    pub(super) view: watch::Sender<LeaderView>,
    me: Mutex<MasterInfo>,
    /// Whether openraft had a membership when it was opened; its metrics say so only a little later.
    was_initialized: AtomicBool,
    stopped: AtomicBool,
    pub(super) closing: CancellationToken,
    pub(super) tasks: TaskTracker,
}

/// What [`Node::new`] is given.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) options: RaftOptions,
    pub(super) dir: DataDir,
    pub(super) identity: Identity,
    pub(super) log: LogStore,
    pub(super) applied: Arc<Applied>,
    pub(super) raft: RaftHandle,
    pub(super) peers: Arc<Peers>,
    pub(super) status: Arc<Status>,
    pub(super) closing: CancellationToken,
    pub(super) initialized: bool,
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
    pub(super) fn new(parts: Parts) -> Self {
        let me = parts.options.me.clone();
        Self {
            number: parts.identity.node,
            guard: Guard::new(parts.closing.clone()),
            options: parts.options,
            dir: Mutex::new(Some(parts.dir)),
            identity: Mutex::new(parts.identity),
            log: parts.log,
            applied: parts.applied,
            raft: parts.raft,
            peers: parts.peers,
            status: parts.status,
            greetings: Greetings::default(),
            view: watch::Sender::new(LeaderView::default()),
            me: Mutex::new(me),
            was_initialized: AtomicBool::new(parts.initialized),
            stopped: AtomicBool::new(false),
            closing: parts.closing,
            tasks: TaskTracker::new(),
        }
    }

    /// This incarnation's number.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn raft(&self) -> &RaftHandle {
        &self.raft
    }

    pub(super) fn applied(&self) -> &Arc<Applied> {
        &self.applied
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
        self.raft.metrics().borrow_watched().clone()
    }

    /// The current term, whoever leads in it.
    pub(super) fn term(&self) -> u64 {
        self.raft.metrics().borrow_watched().current_term
    }

    /// The epoch of the current term, as far as it is known here.
    pub(super) fn epoch(&self) -> Epoch {
        self.applied.epochs().of(self.term())
    }

    /// The term that this node leads in, as far as it knows without asking anybody.
    pub(super) fn leading_term(&self) -> Option<u64> {
        let receiver = self.raft.metrics();
        let metrics = receiver.borrow_watched();
        (metrics.state == ServerState::Leader && !self.has_stopped())
            .then_some(metrics.current_term)
    }

    /// Whether openraft has ended, whatever its last metrics say; for good.
    pub(super) fn has_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// openraft has ended, because of `reason`.
    pub(super) fn stopped(&self, reason: &str) {
        self.stopped.store(true, Ordering::Relaxed);
        self.guard.end();
        if !self.closing.is_cancelled() {
            let text = format!(
                "raft has stopped: {reason}; this master takes no part until it is restarted"
            );
            self.status.set(Problem::Stopped, text);
        }
    }

    /// The membership, ordered by id; empty before the cluster is formed.
    pub(super) fn members(&self) -> Vec<Member> {
        let receiver = self.raft.metrics();
        let metrics = receiver.borrow_watched();
        members_of(&metrics)
    }

    /// Whether this node has a membership.
    pub(super) fn is_initialized(&self) -> bool {
        if self.was_initialized.load(Ordering::Relaxed) {
            return true;
        }
        let initialized = !self.members().is_empty();
        if initialized {
            self.was_initialized.store(true, Ordering::Relaxed);
        }
        initialized
    }

    /// The cluster's name as this directory knows it; empty before there is one.
    pub(super) fn cluster_id(&self) -> String {
        let applied = self.applied.cluster_id();
        if applied.is_empty() {
            let identity = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
            return identity.cluster_id.clone();
        }
        applied
    }

    /// What this master knows about itself when it greets.
    pub(super) fn local(&self) -> Local {
        let me = self.me();
        Local {
            rest: me.rest,
            web: me.web,
            id: self.options.id.clone(),
            node: self.number,
            peers: self.options.peers.clone(),
            cluster_id: self.cluster_id(),
            initialized: self.is_initialized(),
            members: self
                .members()
                .into_iter()
                .map(|m| (m.info.id, m.node))
                .collect(),
        }
    }

    /// Answers a greeting.
    pub(super) fn greeted(&self, request: HelloRequest) -> HelloResponse {
        let local = self.local();
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
        }
    }

    /// All masters that this one knows, with what they say of themselves, ordered by id.
    pub(super) fn masters(&self) -> Vec<MasterInfo> {
        let mut all: BTreeMap<String, MasterInfo> = BTreeMap::new();
        for Member { info, .. } in self.members() {
            let mut master = MasterInfo {
                rpc: self.peers.address(&info).to_owned(),
                id: info.id,
                rest: info.rest,
                web: info.web,
            };
            self.greetings.update(&mut master);
            all.insert(master.id.clone(), master);
        }
        if all.is_empty() {
            for (id, rpc) in &self.options.peers {
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
        if let Some(mine) = all.get_mut(&self.options.id) {
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
        self.closing.cancel();
        self.tasks.close();
        let ended = async {
            if let Err(error) = self.raft.shutdown().await {
                tracing::warn!(%error, "raft did not end in order");
            }
            self.tasks.wait().await;
        };
        if tokio::time::timeout(self.options.timing.shutdown_deadline, ended)
            .await
            .is_err()
        {
            tracing::warn!(
                "raft did not end within {:?}",
                self.options.timing.shutdown_deadline
            );
        }
        let log = self.log.clone();
        if let Err(error) = tokio::task::spawn_blocking(move || log.close()).await {
            tracing::warn!(%error, "the log was not closed in order");
        }
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
