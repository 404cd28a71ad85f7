//! What goes from a master to drivers, submission clients and Spark's own workers.

use crate::{
    dictionary::Dictionary,
    message::{
        description::EndpointRef,
        states::{DriverState, ExecutorState},
        to_worker::ToWorker,
    },
    value::Value,
    writer::{WriteError, write},
};

/// A message, laid out by the dictionary of whom it goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outbound {
    /// Answers many requests. The same bytes for every version.
    Boolean(bool),
    /// To a driver: you are in.
    RegisteredApplication {
        /// Any string.
        app_id: String,
        /// Where the leader listens.
        master: EndpointRef,
    },
    /// To a driver: an executor is ordered. The driver only logs it; the executor calls the driver by itself.
    ExecutorAdded {
        /// Its number.
        id: i32,
        /// Where.
        worker_id: String,
        /// Where.
        host_port: String,
        /// How many.
        cores: i32,
        /// In MiB.
        memory_mib: i32,
    },
    /// To a driver: an executor is in another state.
    ExecutorUpdated(ExecutorChange),
    /// To a driver: a worker is gone with its files.
    WorkerRemoved {
        /// Which.
        id: String,
        /// Where.
        host: String,
        /// Why.
        message: String,
    },
    /// To a driver: stop.
    ApplicationRemoved {
        /// Why.
        message: String,
    },
    /// To a driver: another master leads. Wants a `MasterChangeAcknowledged`.
    MasterChanged {
        /// Where the leader listens.
        master: EndpointRef,
        /// Of the leader; may be empty.
        web_url: String,
    },
    /// To a submission client.
    SubmitDriverResponse {
        /// Where this master listens.
        master: EndpointRef,
        /// Whether it was taken.
        success: bool,
        /// Ours.
        driver_id: Option<String>,
        /// For a human.
        message: String,
    },
    /// To a submission client.
    KillDriverResponse {
        /// Where this master listens.
        master: EndpointRef,
        /// As asked.
        driver_id: String,
        /// Whether it will end.
        success: bool,
        /// For a human.
        message: String,
    },
    /// To a submission client.
    DriverStatusResponse(DriverStatus),
    /// To one of Spark's own workers.
    ToWorker(ToWorker),
}

/// `ExecutorUpdated`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutorChange {
    /// Its number.
    pub id: i32,
    /// Finished ones make the driver forget it.
    pub state: ExecutorState,
    /// For a human.
    pub message: Option<String>,
    /// Where its process has ended.
    pub exit_status: Option<i32>,
    /// Set where the whole worker is gone with its shuffle files, so that the driver drops them at once.
    pub worker_host: Option<String>,
}

/// `DriverStatusResponse`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DriverStatus {
    /// Whether there is such a driver.
    pub found: bool,
    /// How it is.
    pub state: Option<DriverState>,
    /// Where it runs.
    pub worker_id: Option<String>,
    /// Where it runs.
    pub worker_host_port: Option<String>,
    /// What went wrong.
    pub exception: Option<String>,
}

// === impl Outbound ===

impl Outbound {
    /// The Java stream of this message.
    ///
    /// # Errors
    /// The dictionary lacks a class, or a string is too long.
    pub fn write(&self, dictionary: &Dictionary) -> Result<Vec<u8>, WriteError> {
        write(&self.value(), dictionary)
    }

    /// The name of the message, for logs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Boolean(_) => "Boolean",
            Self::RegisteredApplication { .. } => "RegisteredApplication",
            Self::ExecutorAdded { .. } => "ExecutorAdded",
            Self::ExecutorUpdated(_) => "ExecutorUpdated",
            Self::WorkerRemoved { .. } => "WorkerRemoved",
            Self::ApplicationRemoved { .. } => "ApplicationRemoved",
            Self::MasterChanged { .. } => "MasterChanged",
            Self::SubmitDriverResponse { .. } => "SubmitDriverResponse",
            Self::KillDriverResponse { .. } => "KillDriverResponse",
            Self::DriverStatusResponse(_) => "DriverStatusResponse",
            Self::ToWorker(message) => message.name(),
        }
    }

    #[expect(clippy::too_many_lines, reason = "one entry a message")]
    fn value(&self) -> Value<'static> {
        match self {
            Self::Boolean(value) => Value::boxed_bool(*value),
            Self::RegisteredApplication { app_id, master } => Value::Object(
                "org.apache.spark.deploy.DeployMessages$RegisteredApplication",
                vec![("appId", Value::text(app_id)), ("master", master.value())],
            ),
            Self::ExecutorAdded {
                id,
                worker_id,
                host_port,
                cores,
                memory_mib,
            } => Value::Object(
                "org.apache.spark.deploy.DeployMessages$ExecutorAdded",
                vec![
                    ("id", Value::Int(*id)),
                    ("workerId", Value::text(worker_id)),
                    ("hostPort", Value::text(host_port)),
                    ("cores", Value::Int(*cores)),
                    ("memory", Value::Int(*memory_mib)),
                ],
            ),
            Self::ExecutorUpdated(change) => change.value(),
            Self::WorkerRemoved { id, host, message } => Value::Object(
                "org.apache.spark.deploy.DeployMessages$WorkerRemoved",
                vec![
                    ("id", Value::text(id)),
                    ("host", Value::text(host)),
                    ("message", Value::text(message)),
                ],
            ),
            Self::ApplicationRemoved { message } => Value::Object(
                "org.apache.spark.deploy.DeployMessages$ApplicationRemoved",
                vec![("message", Value::text(message))],
            ),
            Self::MasterChanged { master, web_url } => Value::Object(
                "org.apache.spark.deploy.DeployMessages$MasterChanged",
                vec![
                    ("master", master.value()),
                    ("masterWebUiUrl", Value::text(web_url)),
                ],
            ),
            Self::SubmitDriverResponse {
                master,
                success,
                driver_id,
                message,
            } => Value::Object(
                "org.apache.spark.deploy.DeployMessages$SubmitDriverResponse",
                vec![
                    ("master", master.value()),
                    ("success", Value::Bool(*success)),
                    (
                        "driverId",
                        Value::option(driver_id.as_ref().map(Value::text)),
                    ),
                    ("message", Value::text(message)),
                ],
            ),
            Self::KillDriverResponse {
                master,
                driver_id,
                success,
                message,
            } => Value::Object(
                "org.apache.spark.deploy.DeployMessages$KillDriverResponse",
                vec![
                    ("master", master.value()),
                    ("driverId", Value::text(driver_id)),
                    ("success", Value::Bool(*success)),
                    ("message", Value::text(message)),
                ],
            ),
            Self::DriverStatusResponse(status) => status.value(),
            Self::ToWorker(message) => message.value(),
        }
    }
}

// === impl ExecutorChange ===

impl ExecutorChange {
    fn value(&self) -> Value<'static> {
        Value::Object(
            "org.apache.spark.deploy.DeployMessages$ExecutorUpdated",
            vec![
                ("id", Value::Int(self.id)),
                (
                    "state",
                    Value::Enumeration(ExecutorState::OBJECT, self.state.number()),
                ),
                (
                    "message",
                    Value::option(self.message.as_ref().map(Value::text)),
                ),
                (
                    "exitStatus",
                    Value::option(self.exit_status.map(Value::boxed_int)),
                ),
                (
                    "workerHost",
                    Value::option(self.worker_host.as_ref().map(Value::text)),
                ),
            ],
        )
    }
}

// === impl DriverStatus ===

impl DriverStatus {
    fn value(&self) -> Value<'static> {
        let state = self
            .state
            .map(|s| Value::Enumeration(DriverState::OBJECT, s.number()));
        let exception = self.exception.as_ref().map(|text| {
            Value::Object(
                "java.lang.Exception",
                vec![("detailMessage", Value::text(text))],
            )
        });
        Value::Object(
            "org.apache.spark.deploy.DeployMessages$DriverStatusResponse",
            vec![
                ("found", Value::Bool(self.found)),
                ("state", Value::option(state)),
                (
                    "workerId",
                    Value::option(self.worker_id.as_ref().map(Value::text)),
                ),
                (
                    "workerHostPort",
                    Value::option(self.worker_host_port.as_ref().map(Value::text)),
                ),
                ("exception", Value::option(exception)),
            ],
        )
    }
}
