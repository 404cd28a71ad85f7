//! What all parts of one master's backend share.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};

use etcd_client::{Compare, CompareOp, DeleteOptions, GetOptions, Txn, TxnOp};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    control::{Control, LeaderKey},
    failure::CallError,
    identity::DataDir,
    keys::Keys,
    limits::{CALL_DEADLINE, RESIGN_DEADLINE},
    link::Link,
    options::EtcdOptions,
    seat::{Lease, Seat},
    status::{Problem, Status},
};
use crate::{election::MasterInfo, epoch::Epoch};

/// One master's backend.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) options: EtcdOptions,
    pub(super) keys: Keys,
    pub(super) link: Link,
    pub(super) dir: Arc<DataDir>,
    pub(super) seat: Arc<Seat>,
    pub(super) status: Status,
    /// The control keys as they were last read.
    pub(super) control: watch::Sender<Arc<Control>>,
    /// The lease in force; `None` while there is none.
    pub(super) lease: watch::Sender<Option<Arc<Lease>>>,
    /// Asks the observer to read the control keys now.
    pub(super) nudge: Notify,
    /// Asks the session to register anew, under the address that the campaign has given.
    pub(super) renamed: Notify,
    /// Campaigns that may have won without having been told: their leader key is nobody's stray.
    attempts: AtomicU32,
    /// The epoch that is open here, with what proves it.
    pub(super) fence: Mutex<Option<(Epoch, Fence)>>,
    pub(super) closing: CancellationToken,
    pub(super) tasks: TaskTracker,
}

/// What a transaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TxnDone {
    /// Whether the compares held, so that it was carried out.
    pub(super) succeeded: bool,
    /// etcd's revision after it.
    pub(super) revision: i64,
}

/// While this lives, a leader key of this master may be one that a campaign has just won.
#[derive(Debug)]
pub(super) struct Attempting(Arc<Node>);

/// Proof that a write belongs to a leadership: every write of records carries it, and etcd carries out the write only
/// while it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fence {
    leader: LeaderKey,
    /// The mod-revision of the opened key, where the epoch has been opened.
    opened: Option<i64>,
}

// === impl Node ===

impl Node {
    pub(super) fn new(options: EtcdOptions, link: Link, dir: DataDir) -> Self {
        Self {
            keys: Keys::new(&options.settings.prefix),
            link,
            dir: Arc::new(dir),
            seat: Arc::new(Seat::new(options.me.clone())),
            status: Status::new(&options.me.id),
            control: watch::Sender::default(),
            lease: watch::Sender::default(),
            nudge: Notify::new(),
            renamed: Notify::new(),
            attempts: AtomicU32::new(0),
            fence: Mutex::default(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
            options,
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.options.me.id
    }

    pub(super) fn me(&self) -> MasterInfo {
        self.seat.me()
    }

    pub(super) fn control(&self) -> Arc<Control> {
        Arc::clone(&self.control.borrow())
    }

    /// Carries out one transaction.
    pub(super) async fn txn(
        &self,
        op: &'static str,
        deadline: Instant,
        txn: Txn,
    ) -> Result<TxnDone, CallError> {
        let done = self
            .link
            .call(
                op,
                deadline,
                |mut client| async move { client.txn(txn).await },
            )
            .await?;
        Ok(TxnDone {
            succeeded: done.succeeded(),
            revision: done
                .header()
                .map_or(0, etcd_client::ResponseHeader::revision),
        })
    }

    /// Reads the control keys, not older than this call.
    pub(super) async fn list(&self) -> Result<Control, CallError> {
        let key = self.keys.control();
        let listed =
            self.link
                .call(
                    "list",
                    Instant::now() + CALL_DEADLINE,
                    |mut client| async move {
                        client.get(key, Some(GetOptions::new().with_prefix())).await
                    },
                )
                .await?;
        let revision = listed
            .header()
            .map_or(0, etcd_client::ResponseHeader::revision);
        let mut control = Control::parse(revision, listed.kvs(), &self.keys);
        control.judge(
            &self.dir.identity(),
            self.keys.prefix(),
            self.options.settings.accept_wiped,
        );
        Ok(control)
    }

    /// Removes a leader key of this master, if it is still that one; `heir` should lead next.
    pub(super) async fn remove_leader(
        &self,
        key: &LeaderKey,
        heir: Option<&str>,
    ) -> Result<bool, CallError> {
        let mut then = vec![TxnOp::delete(self.keys.leader(), None)];
        if let Some(heir) = heir {
            then.push(TxnOp::put(self.keys.heir(), heir, None));
        }
        let fence = Fence::new(key.clone());
        let txn = Txn::new().when(fence.compares(&self.keys)).and_then(then);
        let done = self
            .txn("resign", Instant::now() + RESIGN_DEADLINE, txn)
            .await?;
        self.nudge.notify_one();
        Ok(done.succeeded)
    }

    /// Remembers an epoch, so that none of this cluster's is ever used twice.
    pub(super) async fn heard_of(&self, epoch: Epoch) {
        match self.dir.heard_of(epoch).await {
            Ok(()) => self.status.clear(Problem::Disk),
            Err(error) => self.status.set(Problem::Disk, error.to_string()),
        }
    }

    pub(super) fn attempting(self: &Arc<Self>) -> Attempting {
        self.attempts.fetch_add(1, Ordering::AcqRel);
        Attempting(Arc::clone(self))
    }

    pub(super) fn is_attempting(&self) -> bool {
        self.attempts.load(Ordering::Acquire) > 0
    }

    /// Notes whether etcd takes writes.
    pub(super) fn note_space(&self, error: &CallError) {
        if error.no_space() {
            self.status.set(
                Problem::NoSpace,
                "etcd's database has reached its quota and takes no writes; free space with `etcdctl compact` and \
                 `etcdctl defrag` or raise --quota-backend-bytes, then `etcdctl alarm disarm`",
            );
        }
    }

    /// Waits, unless the backend closes meanwhile.
    pub(super) async fn rest(&self, pause: std::time::Duration) {
        tokio::select! {
            () = self.closing.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

impl Drop for Attempting {
    fn drop(&mut self) {
        self.0.attempts.fetch_sub(1, Ordering::AcqRel);
        // Whatever it has won and nobody holds is to be removed.
        self.0.nudge.notify_one();
    }
}

// === impl Fence ===

impl Fence {
    /// Holds while the leader key is this one.
    pub(super) fn new(leader: LeaderKey) -> Self {
        Self {
            leader,
            opened: None,
        }
    }

    /// Holds while, besides, the epoch has not been opened again: what is still on its way from before is void.
    pub(super) fn opened_at(mut self, revision: i64) -> Self {
        self.opened = Some(revision);
        self
    }

    /// The create-revision of the leader key proves the leadership; its value, that the revision is one of the same
    /// etcd, not of a wiped one that has come to the same number again.
    pub(super) fn compares(&self, keys: &Keys) -> Vec<Compare> {
        let equal = CompareOp::Equal;
        let mut all = vec![
            Compare::create_revision(keys.leader(), equal, self.leader.create_revision),
            Compare::value(keys.leader(), equal, self.leader.bytes.clone()),
        ];
        if let Some(revision) = self.opened {
            all.push(Compare::mod_revision(keys.opened(), equal, revision));
        }
        all
    }
}

/// Deletes everything from `start` up to, but without, `end`.
pub(super) fn delete_range(start: String, end: String) -> TxnOp {
    TxnOp::delete(start, Some(DeleteOptions::new().with_range(end)))
}
