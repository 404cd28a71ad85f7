//! One frame from a peer → a command, or an answer at once.

use std::{sync::Arc, time::Duration};

use interrex_core::{
    command::Command,
    ids::{AppId, Epoch, WorkerId},
    leader::Heartbeat,
    transition::Reply,
};
use interrex_proto::v1::{self, PeerFrame, master_frame, peer_frame::Body};
use tokio::time::{Instant, timeout};
use tonic::Status;

use crate::{
    edge::{
        grpc::{
            reports,
            session::{registrations, requests},
        },
        status::executor_info,
        validate,
    },
    messages::master_message,
    metrics::{self, Queue},
    runtime::{
        error::RequestError,
        handle::MasterHandle,
        heartbeat_acks::Heard,
        peers::{Peer, Peers, SessionId},
        port::Outcome,
    },
};

/// How long a registration or request of a peer may wait for its commit.
const REQUEST_DEADLINE: Duration = Duration::from_secs(5);
/// How long a new cluster may take to mint its id, before a registration goes on without.
const CLUSTER_ID_DEADLINE: Duration = Duration::from_secs(2);

/// The reading side of one session.
#[derive(Debug, Clone)]
pub(super) struct Inbound {
    pub(super) handle: MasterHandle,
    pub(super) peers: Arc<Peers>,
    pub(super) id: SessionId,
    pub(super) heartbeat_interval: Duration,
    /// Told to agents.
    pub(super) at_most_once_lease: Duration,
}

// === impl Inbound ===

impl Inbound {
    /// Deals with one frame. Never fails: the peer is answered, or the frame is counted and dropped.
    pub(super) async fn handle(&self, frame: PeerFrame) {
        let Ok(port) = self.handle.port() else {
            return self.on_standby(frame);
        };
        let epoch = port.epoch;
        if frame.seen_epoch > epoch.0 {
            // Somebody led after us, or leads now. The store knows.
            tracing::debug!(
                epoch = epoch.0,
                seen = frame.seen_epoch,
                "a peer has seen more"
            );
            self.handle.verify();
        }
        let Some(body) = frame.body else {
            return self.drop_frame("empty");
        };
        match body {
            Body::RegisterWorker(register) => self.register_worker(epoch, register).await,
            Body::RegisterApplication(register) => self.register_app(epoch, register).await,
            Body::StaleEpoch(stale) => {
                ::metrics::counter!("interrex_stale_epoch_answers_total").increment(1);
                tracing::warn!(
                    epoch = epoch.0,
                    seen = stale.seen,
                    refused = stale.refused,
                    "a peer refused a frame: verifying leadership"
                );
                self.handle.verify();
            }
            registered @ (Body::Heartbeat(_)
            | Body::Report(_)
            | Body::UnregisterApplication(_)
            | Body::RequestExecutors(_)
            | Body::KillExecutors(_)) => match self.peers.peer_of(self.id) {
                Some(Peer::Worker(worker)) => self.on_worker_frame(epoch, worker, registered),
                Some(Peer::App(app)) => self.on_app_frame(epoch, &app, registered),
                None => {
                    let reason = "this session has not registered in this epoch".to_owned();
                    self.send(
                        epoch,
                        master_frame::Body::Reregister(v1::Reregister { reason }),
                    );
                }
            },
        }
    }

    fn on_standby(&self, frame: PeerFrame) {
        match frame.body {
            // Nothing to answer: the peer knows, or will be told when this master leads.
            Some(Body::Heartbeat(_) | Body::StaleEpoch(_)) | None => {}
            Some(
                Body::RegisterWorker(_)
                | Body::RegisterApplication(_)
                | Body::Report(_)
                | Body::UnregisterApplication(_)
                | Body::RequestExecutors(_)
                | Body::KillExecutors(_),
            ) => self.say_standby(),
        }
    }

    async fn register_worker(&self, epoch: Epoch, register: v1::RegisterWorker) {
        if register.seen_epoch.is_some_and(|seen| seen < epoch.0) {
            // It was made before the agent knew of this epoch, and may miss what an older leader has started since.
            metrics::registration("worker", "outdated");
            let reason = "this registration is older than this leadership".to_owned();
            return self.send(
                epoch,
                master_frame::Body::Reregister(v1::Reregister { reason }),
            );
        }
        if let Err(reason) = self.check_cluster(epoch, &register.cluster_id).await {
            metrics::registration("worker", "refused");
            return self.refuse(&reason, true);
        }
        let (command, worker, senseless) = match registrations::worker_command(register) {
            Ok(checked) => checked,
            Err(error) => {
                metrics::registration("worker", "refused");
                return self.refuse(&error.to_string(), true);
            }
        };
        self.acknowledge(epoch, senseless);
        let peer = Peer::Worker(worker.clone());
        self.submit_registration("worker", epoch, command, move |session, _reply| {
            if session.peers.bind(epoch, &peer, session.id) {
                // If an older session ended while this was being committed, the worker counts as gone again. A sign of
                // life shows that at the next tick, and it is asked to register once more.
                session.handle.heartbeat(&worker);
                session.registered(epoch, String::new(), Vec::new());
            }
        });
    }

    async fn register_app(&self, epoch: Epoch, register: v1::RegisterApplication) {
        if let Err(reason) = self.check_cluster(epoch, &register.cluster_id).await {
            metrics::registration("app", "refused");
            return self.refuse(&reason, true);
        }
        let command = match registrations::app_command(register) {
            Ok(command) => command,
            Err(error) => {
                metrics::registration("app", "refused");
                return self.refuse(&error.to_string(), true);
            }
        };
        self.submit_registration("app", epoch, command, move |session, reply| {
            let Reply::AppRegistered { app, executors } = reply else {
                return;
            };
            if session
                .peers
                .bind(epoch, &Peer::App(app.id.clone()), session.id)
            {
                let view = session.handle.view();
                let executors = executors.iter().map(|e| executor_info(&view, e)).collect();
                session.registered(epoch, app.id.to_string(), executors);
            }
        });
    }

    /// Submits a registration. `done` runs within the leader's loop when it is durable.
    fn submit_registration(
        &self,
        kind: &'static str,
        epoch: Epoch,
        command: Command,
        done: impl FnOnce(&Self, Reply) + Send + 'static,
    ) {
        let session = self.clone();
        let answer = move |outcome: Outcome| match outcome {
            Ok(reply) => {
                metrics::registration(kind, "accepted");
                done(&session, reply);
            }
            Err(error) => {
                metrics::registration(kind, result_name(&error));
                tracing::info!(epoch = epoch.0, kind, %error, "registration refused");
                session.say_why(&error);
            }
        };
        if let Err(error) = self
            .handle
            .enqueue_for_session(command, REQUEST_DEADLINE, answer)
        {
            metrics::registration(kind, result_name(&error));
            self.say_why(&error);
        }
    }

    fn on_worker_frame(&self, epoch: Epoch, worker: WorkerId, body: Body) {
        // Before anything is acknowledged, so that whoever lives by that is not given up meanwhile.
        self.handle.heartbeat(&worker);
        match body {
            Body::Heartbeat(heartbeat) => self.heard(epoch, &worker, heartbeat),
            Body::Report(message) => {
                let sequence = message.sequence;
                match reports::report(message) {
                    Ok(report) => self.submit_report(Command::Report { worker, report }),
                    Err(error) => {
                        tracing::warn!(%worker, sequence, %error, "a report makes no sense");
                        self.acknowledge(epoch, vec![sequence]);
                    }
                }
            }
            Body::RegisterWorker(_) | Body::RegisterApplication(_) | Body::StaleEpoch(_) => {}
            Body::UnregisterApplication(_) | Body::RequestExecutors(_) | Body::KillExecutors(_) => {
                self.drop_frame("of an application, from a worker")
            }
        }
    }

    /// The heartbeat will be acknowledged if this master still leads.
    fn heard(&self, epoch: Epoch, worker: &WorkerId, heartbeat: v1::Heartbeat) {
        let (session, sequence) = (self.id, heartbeat.sequence);
        let said = Heartbeat {
            digest: heartbeat.digest,
            not_accepting: validate::cut_message(heartbeat.not_accepting),
        };
        self.handle.heard(worker, said);
        if let Ok(port) = self.handle.port()
            && port.epoch == epoch
            && port.heard.try_send(Heard { session, sequence }).is_err()
        {
            metrics::refused(Queue::Heartbeats);
        }
    }

    fn on_app_frame(&self, epoch: Epoch, app: &AppId, body: Body) {
        let (named, command) = match body {
            Body::UnregisterApplication(message) => (
                message.app_id.clone(),
                Ok(requests::unregister(app, message)),
            ),
            Body::RequestExecutors(message) => {
                (message.app_id.clone(), requests::executors(app, message))
            }
            Body::KillExecutors(message) => (message.app_id.clone(), requests::kill(app, message)),
            Body::Heartbeat(_)
            | Body::RegisterWorker(_)
            | Body::RegisterApplication(_)
            | Body::StaleEpoch(_) => return,
            Body::Report(_) => return self.drop_frame("of a worker, from an application"),
        };
        if named != app.as_str() {
            let reason = format!("app_id: `{named}`, but this session is of {app}");
            return self.refuse(&reason, false);
        }
        let command = match command {
            Ok(command) => command,
            Err(error) => return self.refuse(&error.to_string(), true),
        };
        let session = self.clone();
        let answer = move |outcome: Outcome| {
            if let Err(error) = outcome {
                tracing::info!(epoch = epoch.0, %error, "a request of an application was refused");
                session.say_why(&error);
            }
        };
        if let Err(error) = self
            .handle
            .enqueue_for_session(command, REQUEST_DEADLINE, answer)
        {
            self.say_why(&error);
        }
    }

    /// A report that does not fit into the mailbox comes again: it stays in the agent's outbox.
    fn submit_report(&self, command: Command) {
        let deadline = Instant::now() + REQUEST_DEADLINE;
        if let Err(error) = self.handle.enqueue(command, deadline, None) {
            tracing::debug!(%error, "a report has to come again");
        }
    }

    /// Refuses a peer of another cluster, by both names.
    async fn check_cluster(&self, epoch: Epoch, theirs: &str) -> Result<(), String> {
        if theirs.is_empty() {
            return Ok(());
        }
        let mut views = self.handle.watch();
        // A new cluster mints its id in its first commit; a peer that has one is not of this cluster then.
        let known = views.wait_for(|view| view.epoch() == epoch && !view.cluster_id().is_empty());
        let (ours, former) = match timeout(CLUSTER_ID_DEADLINE, known).await {
            Ok(Ok(view)) => (
                view.cluster_id().to_owned(),
                view.formerly().iter().any(|id| id == theirs),
            ),
            // Leadership has ended, or is about to: the registration will not be accepted anyway.
            Ok(Err(_)) | Err(_) => return Ok(()),
        };
        if ours == theirs || former {
            return Ok(());
        }
        Err(format!(
            "cluster_id: you belong to cluster `{}`, this master leads cluster `{ours}`; check the masters' \
             addresses, or start with an empty work directory",
            validate::cut(theirs)
        ))
    }

    fn registered(&self, epoch: Epoch, app_id: String, executors: Vec<v1::ExecutorInfo>) {
        let (status, view) = (self.handle.status(), self.handle.view());
        let interval = self.heartbeat_interval.as_millis();
        let lease = self.at_most_once_lease;
        let body = v1::Registered {
            cluster_id: view.cluster_id().to_owned(),
            formerly: view.formerly().to_vec(),
            master_id: status.me.id,
            masters: status.masters.iter().map(master_message).collect(),
            heartbeat_interval_ms: u64::try_from(interval).unwrap_or(u64::MAX),
            app_id,
            executors,
            at_most_once_lease_ms: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
        };
        self.send(epoch, master_frame::Body::Registered(body));
    }

    fn acknowledge(&self, epoch: Epoch, sequences: Vec<u64>) {
        if !sequences.is_empty() {
            self.send(
                epoch,
                master_frame::Body::ReportAck(v1::ReportAck { sequences }),
            );
        }
    }

    /// Tells the peer what became of its request.
    fn say_why(&self, error: &RequestError) {
        match error {
            RequestError::NotLeader { .. }
            | RequestError::OutcomeUnknown
            | RequestError::Restoring { .. }
            | RequestError::ShuttingDown => self.say_standby(),
            RequestError::Busy { .. } | RequestError::DeadlineExceeded { .. } => {
                self.refuse(&error.to_string(), false);
            }
            RequestError::Rejected(rejection) => self.refuse(&rejection.to_string(), true),
        }
    }

    fn say_standby(&self) {
        self.send(
            Epoch::default(),
            master_frame::Body::Standby(self.handle.standby()),
        );
    }

    /// `permanent`: no retry will help.
    pub(super) fn refuse(&self, reason: &str, permanent: bool) {
        let epoch = self
            .handle
            .port()
            .map(|port| port.epoch)
            .unwrap_or_default();
        let refused = v1::Refused {
            reason: reason.to_owned(),
            permanent,
        };
        self.send(epoch, master_frame::Body::Refused(refused));
    }

    /// The stream broke: a message that is too large or is no message, or the peer has gone.
    pub(super) fn gone(&self, status: &Status) {
        tracing::debug!(%status, "session ended");
    }

    fn drop_frame(&self, what: &'static str) {
        ::metrics::counter!("interrex_frames_dropped_total").increment(1);
        tracing::warn!(what, session = ?self.id, "frame dropped");
    }

    fn send(&self, epoch: Epoch, body: master_frame::Body) {
        self.peers.send(self.id, epoch, body);
    }
}

/// The result of a registration, for metrics.
fn result_name(error: &RequestError) -> &'static str {
    match error {
        RequestError::NotLeader { .. }
        | RequestError::OutcomeUnknown
        | RequestError::Restoring { .. }
        | RequestError::ShuttingDown => "not_leader",
        RequestError::Busy { .. }
        | RequestError::DeadlineExceeded { .. }
        | RequestError::Rejected(_) => "refused",
    }
}
