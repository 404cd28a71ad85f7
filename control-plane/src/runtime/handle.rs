//! What the edges hold of the master: a cheap clone through which they submit, read and watch.
//!
//! No decision is made here. A handle outlives every leadership of its master: on a standby each request is
//! answered `NotLeader` with the leader's address, at once.

mod sessions;

use std::{sync::Arc, time::Duration};

use interrex_core::{command::Command, ids::Epoch, time::Timestamp, transition::Reply};
use interrex_persistence::{backend::BackendAdmin, error::AdminError};
use tokio::{
    sync::{Semaphore, mpsc::error::TrySendError, oneshot, watch},
    time::{Instant, timeout, timeout_at},
};

use crate::{
    access::{Access, audit},
    metrics::{self, Queue},
    runtime::{
        error::RequestError,
        hand_over::HandOver,
        places,
        port::{Input, LeaderPort, MAILBOX_MAX, Outcome, READS_MAX, Waiter},
        restore::{RESTORES_MAX, RestoreError, RestoreOrder, Restored},
        shared::Shared,
        view::ClusterView,
    },
    snapshot::Source,
};

pub use super::status::{MasterStatus, Role};

/// How long news of a leader may take to come here.
const HEARSAY_MAX: Duration = Duration::from_millis(500);

/// The master, as its edges see it. Cloning costs a reference count.
#[derive(Debug, Clone)]
pub struct MasterHandle {
    shared: Arc<Shared>,
}

// === impl MasterHandle ===

impl MasterHandle {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Who may change something here.
    #[must_use]
    pub fn access(&self) -> &Access {
        &self.shared.access
    }

    /// Has the leader apply `command` and waits until its outcome is durable.
    ///
    /// # Errors
    /// See [`RequestError`]; a [`Reply::Rejected`] comes back as [`RequestError::Rejected`].
    ///
    /// # Cancel safety
    /// Dropping the future gives up the answer, not the command.
    pub async fn submit(
        &self,
        command: Command,
        deadline: Duration,
    ) -> Result<Reply, RequestError> {
        let about = audit::about(&command);
        let outcome = self.decide(command, Instant::now() + deadline).await;
        audit::command(about, &outcome);
        outcome
    }

    async fn decide(&self, command: Command, deadline: Instant) -> Result<Reply, RequestError> {
        let (tx, rx) = oneshot::channel();
        self.enqueue(command, deadline, Some(Waiter::Caller(tx)))?;
        match timeout_at(deadline, rx).await {
            Ok(Ok(outcome)) => outcome,
            // The loop answers everybody when it ends in order; it can only have been torn down.
            Ok(Err(_dropped)) => Err(RequestError::OutcomeUnknown),
            Err(_elapsed) => Err(RequestError::DeadlineExceeded {
                outcome_unknown: true,
            }),
        }
    }

    /// The committed state, proven to be the newest: nothing that anybody acknowledged before this call is
    /// missing. Costs one confirmation by the quorum, shared by all reads that wait for it.
    ///
    /// # Errors
    /// `NotLeader`, `Busy`, `DeadlineExceeded` or `ShuttingDown`; all may be retried.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn read(&self, deadline: Duration) -> Result<Arc<ClusterView>, RequestError> {
        let port = self.port()?;
        let deadline = Instant::now() + deadline;
        let (tx, rx) = oneshot::channel();
        port.reads.try_send(tx).map_err(|error| match error {
            TrySendError::Full(_) => {
                metrics::refused(Queue::Reads);
                RequestError::Busy {
                    queue: "reads",
                    max: READS_MAX,
                }
            }
            TrySendError::Closed(_) => self.not_leader(),
        })?;
        match timeout_at(deadline, rx).await {
            Ok(Ok(confirmed)) => confirmed?,
            Ok(Err(_dropped)) => return Err(self.not_leader()),
            Err(_elapsed) => {
                return Err(RequestError::DeadlineExceeded {
                    outcome_unknown: false,
                });
            }
        }
        let view = self.view();
        // A view of another leadership may lack what that one has not published yet.
        if view.epoch() == port.epoch {
            Ok(view)
        } else {
            Err(self.not_leader())
        }
    }

    /// The newest published state: stale on a leader that has been deposed and does not know it yet, and
    /// [empty](ClusterView::is_empty) on a standby.
    #[must_use]
    pub fn view(&self) -> Arc<ClusterView> {
        Arc::clone(&self.shared.view.borrow())
    }

    /// Every published state, though perhaps not each of them. An empty one means that this master has stopped
    /// leading: answer `NotLeader`.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Arc<ClusterView>> {
        self.shared.view.subscribe()
    }

    /// What this master knows about itself and the others.
    #[must_use]
    pub fn status(&self) -> MasterStatus {
        let role = *self.shared.role.borrow();
        let leaders = self.shared.leaders.borrow().clone();
        let port = self.shared.port.borrow().clone();
        let restoring = self.restoring();
        let view = self.view();
        let me = self.shared.me.clone();
        let known = Epoch(leaders.epoch.0);
        let (epoch, leader) = match port {
            Some(port) => (port.epoch, Some(me.clone())),
            // It serves nobody, but it is the one to ask about the restore.
            None if restoring.is_some() => (known, Some(me.clone())),
            // A leader that has not opened its epoch, or has just lost it, is no leader to anybody.
            None => (known, leaders.leader.filter(|leader| leader.id != me.id)),
        };
        let mut masters = leaders.masters;
        if !masters.iter().any(|master| master.id == me.id) {
            masters.push(me.clone());
            masters.sort();
        }
        let recovery = if restoring.is_some() {
            "RESTORING"
        } else if view.is_empty() {
            "STANDBY"
        } else {
            view.recovery().name()
        };
        let cluster_id = match view.cluster_id() {
            "" => self.shared.admin.cluster_id().unwrap_or_default(),
            known => known.to_owned(),
        };
        MasterStatus {
            me,
            role,
            epoch,
            leader,
            masters,
            cluster_id,
            recovery,
        }
    }

    /// Membership and health of the backend.
    #[must_use]
    pub fn admin(&self) -> Arc<dyn BackendAdmin> {
        Arc::clone(&self.shared.admin)
    }

    /// Hands leadership to `to`, or to the most up-to-date standby; returns the new leader's id. What is under way
    /// is finished first, so nobody is left in doubt about a commit; what comes meanwhile waits, and goes to the
    /// new leader, or is served here if nobody takes over.
    ///
    /// # Errors
    /// See [`AdminError`].
    ///
    /// # Cancel safety
    /// Dropping the future gives up the answer, not the transfer.
    pub async fn transfer_leader(&self, to: Option<String>) -> Result<String, AdminError> {
        let outcome = self.hand_over(to).await;
        audit::change(
            "transfer leadership",
            outcome.as_deref().unwrap_or("nobody"),
            &outcome,
        );
        outcome
    }

    async fn hand_over(&self, to: Option<String>) -> Result<String, AdminError> {
        let port = self.port().map_err(|_stands_by| AdminError::NotLeader)?;
        let (done, answered) = oneshot::channel();
        let refused = match port.hand_overs.try_send(HandOver { to, done }) {
            // Dropped unanswered: the leadership has ended otherwise.
            Ok(()) => return answered.await.unwrap_or(Err(AdminError::NotLeader)),
            Err(refused) => refused,
        };
        Err(match refused {
            TrySendError::Full(_) => {
                metrics::refused(Queue::HandOvers);
                AdminError::Refused("leadership is being handed over already".to_owned())
            }
            TrySendError::Closed(_) => AdminError::NotLeader,
        })
    }

    /// Replaces all records by those of `source`, if the cluster has never had work; then this master leads no longer.
    /// Repeating it with the same snapshot is safe.
    ///
    /// # Errors
    /// See [`RestoreError`].
    ///
    /// # Cancel safety
    /// Dropping the future gives up the answer, not the restore.
    pub(crate) async fn restore(&self, source: Source) -> Result<Restored, RestoreError> {
        let port = self.shared.restores.borrow().clone();
        let port = port.ok_or(RestoreError::NotLeader)?;
        let snapshot = source.name();
        let (done, answered) = oneshot::channel();
        match port.orders.try_send(RestoreOrder { source, done }) {
            // Dropped unanswered: the leadership has ended, perhaps in the middle.
            Ok(()) => answered.await.unwrap_or_else(|_dropped| {
                let reason = "leadership has ended".to_owned();
                Err(RestoreError::Incomplete { snapshot, reason })
            }),
            Err(TrySendError::Full(_)) => {
                metrics::refused(Queue::Restores);
                tracing::debug!(max = RESTORES_MAX, "too many restores at once");
                Err(RestoreError::Busy("a snapshot is being restored"))
            }
            Err(TrySendError::Closed(_)) => Err(RestoreError::NotLeader),
        }
    }

    /// Whether this master leads, serving or waiting for a restore to go on.
    pub(crate) fn can_restore(&self) -> bool {
        self.shared.restores.borrow().is_some()
    }

    /// The snapshot whose restore has begun and not ended, on the master that leads.
    fn restoring(&self) -> Option<String> {
        let port = self.shared.restores.borrow();
        port.as_ref().and_then(|port| port.restoring.clone())
    }

    /// The epoch that `leader`, to whom leadership was just handed over, leads in. Waits a little until this master
    /// has heard of it; the newest known epoch where it does not.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn epoch_of(&self, leader: &str) -> Epoch {
        let mut leaders = self.shared.leaders.clone();
        let heard = leaders.wait_for(|view| view.leader.as_ref().is_some_and(|l| l.id == leader));
        match timeout(HEARSAY_MAX, heard).await {
            Ok(Ok(view)) => Epoch(view.epoch.0),
            Ok(Err(_)) | Err(_) => self.status().epoch,
        }
    }

    /// How long ago the master's loop last turned; `/livez` fails when this is many seconds.
    #[must_use]
    pub fn since_last_turn(&self) -> Duration {
        self.shared.pulse.since_last()
    }

    /// The time, by the clock that the leader decides by.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Changes whenever this master starts or stops serving as the leader.
    #[must_use]
    pub fn watch_role(&self) -> watch::Receiver<Role> {
        self.shared.role.subscribe()
    }

    /// The error for a request that only the leader can answer.
    #[must_use]
    pub fn not_leader(&self) -> RequestError {
        if *self.shared.stopping.borrow() {
            return RequestError::ShuttingDown;
        }
        if let Some(snapshot) = self.restoring() {
            return RequestError::Restoring { snapshot };
        }
        let status = self.status();
        let leader = status.leader.filter(|leader| leader.id != status.me.id);
        RequestError::NotLeader {
            leader,
            epoch: status.epoch,
        }
    }

    /// Like [`submit`](Self::submit), but the outcome goes to a session, or to nobody.
    ///
    /// # Errors
    /// Only what is known at once: `NotLeader`, `Busy`, `ShuttingDown`; then the waiter is not called.
    pub(crate) fn enqueue(
        &self,
        command: Command,
        deadline: Instant,
        waiter: Option<Waiter>,
    ) -> Result<(), RequestError> {
        let port = self.port()?;
        port.mailbox
            .try_send(Input::new(command, deadline, waiter))
            .map_err(|error| self.refused(&error))
    }

    /// The same, for a session: `answer` is called within the leader's loop and must not block.
    ///
    /// # Errors
    /// As for [`enqueue`](Self::enqueue).
    pub(crate) fn enqueue_for_session(
        &self,
        command: Command,
        deadline: Duration,
        answer: impl FnOnce(Outcome) + Send + 'static,
    ) -> Result<(), RequestError> {
        let waiter = Waiter::Session(Box::new(answer));
        self.enqueue(command, Instant::now() + deadline, Some(waiter))
    }

    /// Has the leader prove its leadership to the store; it steps down if it cannot. Returns at once.
    pub(crate) fn verify(&self) {
        if let Ok(port) = self.port() {
            let (tx, _rx) = oneshot::channel();
            if port.reads.try_send(tx).is_err() {
                tracing::debug!(epoch = port.epoch.0, "verification is under way already");
            }
        }
    }

    /// The current leadership of this master.
    ///
    /// # Errors
    /// `NotLeader` or `ShuttingDown`.
    pub(crate) fn port(&self) -> Result<LeaderPort, RequestError> {
        if *self.shared.stopping.borrow() {
            return Err(RequestError::ShuttingDown);
        }
        self.shared
            .port
            .borrow()
            .clone()
            .ok_or_else(|| self.not_leader())
    }

    /// Has `places`, of which there are `max`, watched as `queue` for as long as they are there.
    pub(crate) fn watch_places(&self, queue: Queue, places: &Arc<Semaphore>, max: usize) {
        self.shared.places.watch(queue, places, max);
    }

    /// Tells `each` how full every queue and every set of places is, and how full it may be.
    pub(crate) fn each_queue(&self, each: impl Fn(Queue, usize, usize)) {
        places::each_queue(&self.shared, &each);
    }

    fn refused(&self, error: &TrySendError<Input>) -> RequestError {
        match error {
            TrySendError::Full(_) => {
                metrics::refused(Queue::Mailbox);
                RequestError::Busy {
                    queue: "the leader's mailbox",
                    max: MAILBOX_MAX,
                }
            }
            TrySendError::Closed(_) => self.not_leader(),
        }
    }
}
