//! One frame from a peer → a command, or an answer at once.

use std::{sync::Arc, time::Duration};

use interrex_core::{
    command::Command,
    ids::{Epoch, WorkerId},
    leader::Heartbeat,
    transition::Reply,
};
use interrex_proto::v1::{self, PeerFrame, master_frame, peer_frame};
use tokio::time::{Instant, timeout};
use tonic::Status;

use crate::{
    edge::{
        grpc::session::{
            frames::{self, Asked, Taken},
            registrations,
        },
        spark_rpc::builds::Builds,
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
    pub(super) builds: Arc<Builds>,
}

// === impl Inbound ===

impl Inbound {
    /// Deals with one frame. Never fails: the peer is answered, or the frame is counted and dropped.
    pub(super) async fn handle(&self, mut frame: PeerFrame) {
        if let Some(peer_frame::Body::RegisterWorker(register)) = &mut frame.body {
            // By a standby, too: drivers greet all masters.
            self.builds
                .learn(std::mem::take(&mut register.dictionaries));
            if let Some(spec) = &register.spec {
                self.builds.offers(&spec.capabilities);
            }
        }
        let leads = self.handle.port().ok().map(|port| port.epoch);
        let epoch = leads.unwrap_or_default();
        let seen = frame.seen_epoch;
        let Taken {
            seen_more,
            heard_of,
            asked,
        } = frames::take(leads, || self.peers.peer_of(self.id), frame);
        if seen_more {
            // The store knows.
            tracing::debug!(epoch = epoch.0, seen, "a peer has seen more");
            self.handle.verify();
        }
        if let Some(worker) = &heard_of {
            self.handle.heartbeat(worker);
        }
        match asked {
            Asked::Nothing => {}
            Asked::Senseless(what) => self.drop_frame(what),
            Asked::Standby => self.say_standby(),
            Asked::Reregister(reason) => self.ask_to_register(epoch, reason),
            Asked::Outdated(reason) => {
                metrics::registration("worker", "outdated");
                self.ask_to_register(epoch, reason);
            }
            Asked::Verify(stale) => self.refused_by_peer(epoch, &stale),
            Asked::RegisterWorker(register) => self.register_worker(epoch, register).await,
            Asked::RegisterApplication(register) => self.register_app(epoch, register).await,
            Asked::Heartbeat {
                worker,
                sequence,
                said,
            } => self.heard(epoch, &worker, sequence, said),
            Asked::Report {
                worker,
                sequence,
                report,
            } => match report {
                Ok(report) => self.submit_report(Command::Report { worker, report }),
                Err(error) => {
                    tracing::warn!(%worker, sequence, %error, "a report makes no sense");
                    self.acknowledge(epoch, vec![sequence]);
                }
            },
            Asked::Progress { app, none_for } => self.handle.app_progress(&app, none_for),
            Asked::Request(command) => self.submit_request(epoch, command),
            Asked::Refused { reason, permanent } => self.refuse(&reason, permanent),
        }
    }

    fn ask_to_register(&self, epoch: Epoch, reason: &str) {
        let reason = reason.to_owned();
        self.send(
            epoch,
            master_frame::Body::Reregister(v1::Reregister { reason }),
        );
    }

    fn refused_by_peer(&self, epoch: Epoch, stale: &v1::StaleEpoch) {
        ::metrics::counter!("interrex_stale_epoch_answers_total").increment(1);
        tracing::warn!(
            event = "stale_epoch",
            epoch = epoch.0,
            seen = stale.seen,
            refused = stale.refused,
            "a peer refused a frame: verifying leadership"
        );
        self.handle.verify();
    }

    async fn register_worker(&self, epoch: Epoch, register: v1::RegisterWorker) {
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
            // Whatever was said on another session: this one will say it again if it is so.
            session.handle.app_progress(&app.id, Duration::ZERO);
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

    /// The heartbeat will be acknowledged if this master still leads.
    fn heard(&self, epoch: Epoch, worker: &WorkerId, sequence: u64, said: Heartbeat) {
        let session = self.id;
        self.handle.heard(worker, said);
        if let Ok(port) = self.handle.port()
            && port.epoch == epoch
            && port.heard.try_send(Heard { session, sequence }).is_err()
        {
            metrics::refused(Queue::Heartbeats);
        }
    }

    fn submit_request(&self, epoch: Epoch, command: Command) {
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
