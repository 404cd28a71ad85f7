//! A frame of a peer, or a notice of the leader → what is to be sent.

use interrex_core::{
    command::Command,
    ids::{AppId, Epoch, ExecutorId},
    state::meta::Created,
};
use interrex_proto::v1::{MasterFrame, master_frame::Body as Notice};
use interrex_spark_wire::{
    Body, Envelope, Frame, Inbound, Outbound,
    dictionary::built_in,
    java::{self, Limits},
};

use crate::{
    edge::spark_rpc::{
        FRAME_BYTES_MAX, MASTER_ENDPOINT, REQUEST_DEADLINE, SparkRpc, application,
        connection::{Connection, Step, is_master},
        notices,
        probes::NotAsked,
        probing,
    },
    runtime::{error::RequestError, handle::MasterHandle},
};

/// Where peers ask whether an endpoint exists.
const VERIFIER: &str = "endpoint-verifier";
/// How many classes a refusal names.
const CLASSES_SHOWN: usize = 3;

// === impl Connection ===

impl Connection {
    /// Deals with one frame. Never fails: the peer is answered, or what came is counted and dropped.
    pub(super) fn receive(&mut self, frame: Frame) -> Step {
        if let Some((id, text)) = probing::answer(&frame)
            && let Some(step) = self.peer_answered(id, text)
        {
            return step;
        }
        let (id, body) = match frame {
            Frame::Request { id, body } => (Some(id), body),
            Frame::OneWay { body } => (None, body),
            // Only workers are asked, and only whether they are there.
            Frame::Response { .. } => return self.worker_answered(),
            // What became of a one-way message, in a peer's words.
            Frame::Failure { text, .. } => {
                self.refused("answer", &text.lines().next().unwrap_or_default());
                return Step::default();
            }
        };
        if !self.rpc.handle.access().admits_spark() {
            return self.fail(
                id,
                "token",
                "this master wants tokens, and Spark's RPC has no place for one; its operator can admit Spark with \
                 --spark-without-token",
            );
        }
        let envelope = match Body::decode(body) {
            Ok(Body::Message(envelope)) => envelope,
            Ok(Body::Sasl | Body::AuthEngine) => {
                return self.fail(
                    id,
                    "authentication",
                    "this master does not speak Spark's authentication; unset spark.authenticate and \
                     spark.network.crypto.enabled",
                );
            }
            Err(error) => return self.fail(id, "envelope", &error.to_string()),
        };
        self.message(id, &envelope)
    }

    pub(super) fn message(&mut self, id: Option<i64>, envelope: &Envelope) -> Step {
        let limits = Limits {
            bytes: FRAME_BYTES_MAX,
            ..Limits::default()
        };
        let graph = match java::read(&envelope.payload, &limits) {
            Ok(graph) => graph,
            Err(error) => return self.fail(id, "stream", &error.to_string()),
        };
        self.recogniser.observe(&graph);
        let message = match Inbound::read(&graph) {
            Ok(message) => message,
            Err(error) => return self.fail(id, "message", &error.to_string()),
        };
        tracing::debug!(
            from = self.from,
            endpoint = envelope.endpoint,
            "a message of Spark"
        );
        match (message, id) {
            (Inbound::CheckExistence { name }, Some(id)) if envelope.endpoint == VERIFIER => {
                self.check_existence(id, &name, envelope)
            }
            (message, id) if is_master(&envelope.endpoint) => {
                self.for_master(id, message, envelope)
            }
            (_, id) => self.fail(
                id,
                "endpoint",
                &format!("there is no endpoint {}", envelope.endpoint),
            ),
        }
    }

    fn check_existence(&self, id: i64, name: &str, envelope: &Envelope) -> Step {
        if name == MASTER_ENDPOINT && self.dictionary().is_none() {
            let vain = envelope.sender.as_ref();
            if let Some(why) = vain.and_then(|peer| self.rpc.probes.in_vain(peer)) {
                return self.fail(Some(id), "build", &NotAsked::Vain(why).to_string());
            }
            // What it says next can be asked about, if there is something to run it on.
            if !self.rpc.probes.is_on() || self.rpc.builds.named().is_empty() {
                return self.unknown_build(Some(id));
            }
        }
        Step::send(boolean(id, name == MASTER_ENDPOINT))
    }

    pub(super) fn unknown_build(&self, id: Option<i64>) -> Step {
        let lines = self.rpc.builds.lines();
        let text = format!(
            "this build of Spark is not known to Interrex, which speaks with Spark {}; an agent that is given it with \
             --spark-home teaches it to the masters{}; its classes: {}",
            lines.join(", "),
            if self.rpc.probes.is_on() {
                ", and one that has it with --spark-home NAME=DIR lets them ask its drivers (--spark-probe)"
            } else {
                ""
            },
            self.recogniser.describe(CLASSES_SHOWN)
        );
        self.fail(id, "build", &text)
    }

    fn for_master(&mut self, id: Option<i64>, message: Inbound, envelope: &Envelope) -> Step {
        match (message, id) {
            (Inbound::RegisterApplication { app, driver }, None) => {
                self.registers(&app, driver, envelope)
            }
            (Inbound::UnregisterApplication { app_id }, None) => self.unregisters(&app_id.into()),
            (Inbound::MasterChangeAcknowledged { app_id }, None) => {
                self.acknowledged(app_id.map(AppId::from))
            }
            (Inbound::RequestExecutors { app_id, totals }, Some(id)) => {
                let command =
                    application::targets(&totals).map(|targets| Command::RequestExecutors {
                        app: app_id.into(),
                        targets,
                    });
                match command {
                    Ok(command) => self.ask(id, command),
                    Err(error) => self.fail(Some(id), "message", &error.to_string()),
                }
            }
            (
                Inbound::KillExecutors {
                    app_id,
                    executor_ids,
                },
                Some(id),
            ) => {
                let ids: Result<Vec<_>, _> = executor_ids
                    .iter()
                    .map(|e| e.parse().map(ExecutorId))
                    .collect();
                match ids {
                    Ok(executors) => {
                        let app = app_id.into();
                        self.ask(id, Command::KillExecutors { app, executors })
                    }
                    Err(_not_numbers) => Step::send(boolean(id, false)),
                }
            }
            (Inbound::RequestSubmitDriver { driver }, Some(id)) => {
                self.submits(id, &driver, envelope)
            }
            (Inbound::RequestKillDriver { driver_id }, Some(id)) => {
                self.kills(id, driver_id, envelope)
            }
            (Inbound::RequestDriverStatus { driver_id }, Some(id)) => {
                self.status_of(id, driver_id, envelope)
            }
            (message, id) => self.of_worker(id, message),
        }
    }

    fn of_worker(&mut self, id: Option<i64>, message: Inbound) -> Step {
        match (message, id) {
            (Inbound::RegisterWorker { worker }, None) => self.worker_registers(&worker),
            (Inbound::Heartbeat { worker_id, worker }, None) => {
                self.worker_beats(&worker_id, worker)
            }
            (Inbound::ExecutorStateChanged { report }, id) => self.executor_changed(id, report),
            (
                Inbound::DriverStateChanged {
                    driver_id,
                    state,
                    exception,
                },
                None,
            ) => self.driver_changed(&driver_id, state, exception),
            (
                Inbound::WorkerState {
                    worker_id,
                    executors,
                    driver_ids,
                },
                None,
            ) => self.worker_says(&worker_id, &executors, &driver_ids),
            (Inbound::WorkerDecommissioning { worker_id }, None) => self.worker_leaves(worker_id),
            (_, id) => self.fail(
                id,
                "message",
                "it comes as a request where it should not, or the other way round",
            ),
        }
    }

    /// A refusal in words: a peer that waits prints them.
    pub(super) fn fail(&self, id: Option<i64>, what: &'static str, text: &str) -> Step {
        self.refused(what, &text);
        match id {
            Some(id) => Step::send(Frame::Failure {
                id,
                text: text.to_owned(),
            }),
            None => Step {
                frames: Vec::new(),
                close: matches!(what, "envelope" | "stream" | "authentication" | "token"),
                ..Step::default()
            },
        }
    }

    fn unregisters(&mut self, id: &AppId) -> Step {
        let view = self.rpc.handle.view();
        let is_own = self.app.as_ref() == Some(id)
            || view.app(id).is_some_and(|a| self.speaks_for(id, &a.spec));
        if !is_own {
            return self.fail(
                None,
                "message",
                &format!("it ends {id}, which is another driver's"),
            );
        }
        self.is_over = true;
        let command = Command::UnregisterApplication {
            app: id.clone(),
            failed: false,
            message: String::new(),
        };
        let app = id.clone();
        let ended = self.rpc.handle.enqueue_for_session(command, REQUEST_DEADLINE, move |outcome| {
            if let Err(error) = outcome {
                tracing::warn!(%app, %error, "the end of an application of Spark is not recorded");
            }
        });
        if let Err(error) = ended {
            tracing::warn!(app = %id, %error, "the end of an application of Spark is not recorded");
        }
        Step::default()
    }

    /// A request that is answered with a boolean once it is durable.
    fn ask(&mut self, id: i64, command: Command) -> Step {
        let handle: MasterHandle = self.rpc.handle.clone();
        self.answer_later(id, async move {
            match handle.submit(command, REQUEST_DEADLINE).await {
                Ok(_done) => boolean(id, true),
                Err(RequestError::Rejected(rejection)) => {
                    tracing::info!(%rejection, "a request of a driver of Spark is refused");
                    boolean(id, false)
                }
                // The driver asks again.
                Err(error) => Frame::Failure {
                    id,
                    text: error.to_string(),
                },
            }
        })
    }

    /// What the leader has for this session.
    pub(super) fn notice(&mut self, frame: MasterFrame) -> Step {
        let Some(body) = frame.body else {
            return Step::default();
        };
        if self.worker.is_some() {
            return self.worker_notice(Epoch(frame.epoch), body);
        }
        match body {
            Notice::Registered(registered) => self.registered(registered),
            Notice::MasterChanged(_) => self.leading(),
            Notice::ExecutorAdded(added) => match added.executor {
                Some(executor) => self.to_driver(&notices::added(&executor)),
                None => Step::default(),
            },
            Notice::ExecutorUpdated(updated) => {
                let message = updated.executor.as_ref().and_then(notices::updated);
                message.map_or_else(Step::default, |message| self.to_driver(&message))
            }
            Notice::WorkerRemoved(removed) => self.to_driver(&notices::worker_removed(removed)),
            Notice::ApplicationRemoved(removed) => {
                if self.is_over {
                    return Step::default();
                }
                self.is_over = true;
                self.to_driver(&notices::app_removed(removed))
            }
            Notice::Refused(refused) if refused.permanent => self.remove(&refused.reason),
            // What was over once is not taken up again: this is another application.
            Notice::Reregister(_) => {
                if let Some(registration) = &mut self.registration {
                    registration.renew();
                }
                self.register();
                Step::default()
            }
            Notice::Refused(_)
            | Notice::Standby(_)
            | Notice::LaunchDriver(_)
            | Notice::KillDriver(_)
            | Notice::LaunchExecutor(_)
            | Notice::KillExecutor(_)
            | Notice::ReportAck(_)
            | Notice::HeartbeatAck(_)
            | Notice::Masters(_) => Step::default(),
        }
    }

    /// This master has begun to lead: the driver of this connection hears of it, or is registered now.
    pub(super) fn leading(&mut self) -> Step {
        if let Some(step) = self.lead_unknown() {
            return step;
        }
        let view = self.rpc.handle.view();
        let known = self.app.clone().or_else(|| {
            let registration = self.registration.as_ref()?;
            match view.created_by(&registration.request)? {
                Created::App(id) => Some(id.clone()),
                Created::Driver(_) | Created::Killed(_) | Created::Count(_) => None,
            }
        });
        let Some(id) = known else {
            self.register();
            return Step::default();
        };
        if view.app(&id).is_none_or(|app| app.state.is_final()) {
            return Step::default();
        }
        self.app = Some(id);
        self.to_driver(&self.rpc.master_changed())
    }
}

// === impl SparkRpc ===

impl SparkRpc {
    /// Tells a driver that this master leads.
    pub(super) fn master_changed(&self) -> Outbound {
        Outbound::MasterChanged {
            master: self.reference(),
            web_url: self.web_url.clone(),
        }
    }
}

pub(super) fn boolean(id: i64, value: bool) -> Frame {
    // The same bytes for every build.
    let stream = built_in()
        .first()
        .map(|d| Outbound::Boolean(value).write(d));
    match stream {
        Some(Ok(stream)) => Frame::Response {
            id,
            body: stream.into(),
        },
        Some(Err(_)) | None => Frame::Failure {
            id,
            text: value.to_string(),
        },
    }
}
