//! What goes from a master to Spark's own workers: the only messages with collections of Scala in them.

use std::collections::BTreeMap;

use crate::{
    envelope::Address,
    message::description::{
        AppDescription, Command, DriverDescription, EndpointRef, ResourceProfile, address_value,
    },
    value::Value,
};

/// A message to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToWorker {
    /// Is there an endpoint of this name? Is answered with a boolean by the worker's RPC environment.
    CheckExistence {
        /// Such as `Worker`.
        name: String,
    },
    /// It is in. Answered with what it runs.
    RegisteredWorker {
        /// Where the leader listens.
        master: EndpointRef,
        /// Of the leader.
        web_url: String,
        /// As the worker has called the leader.
        master_address: Address,
        /// It was known already.
        duplicate: bool,
    },
    /// It is not let in; its process ends with these words unless it was in before.
    RegisterWorkerFailed {
        /// Why.
        message: String,
    },
    /// This master does not lead.
    MasterInStandby,
    /// It has to register again.
    ReconnectWorker {
        /// `spark://host:port`
        master_url: String,
    },
    /// Start an executor. Ignored where the worker follows another master than it names.
    LaunchExecutor(Box<ExecutorLaunch>),
    /// End an executor. Ignored as above.
    KillExecutor {
        /// `spark://host:port`
        master_url: String,
        /// Of which application.
        app_id: String,
        /// Its number.
        id: i32,
    },
    /// Start a driver. Names no master: whoever sends it is obeyed.
    LaunchDriver {
        /// Any text without a slash: a folder is called so.
        id: String,
        /// What to start.
        driver: Box<DriverDescription>,
        /// Addresses that are its own.
        resources: BTreeMap<String, Vec<String>>,
    },
    /// End a driver. Names no master either.
    KillDriver {
        /// As it was launched.
        id: String,
    },
    /// Its files can go when its executors are gone.
    ApplicationFinished {
        /// Which.
        app_id: String,
    },
}

/// `LaunchExecutor`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutorLaunch {
    /// `spark://host:port`
    pub master_url: String,
    /// Of which application.
    pub app_id: String,
    /// Its number.
    pub id: i32,
    /// Of which resource profile.
    pub profile: i32,
    /// Its application.
    pub app: AppDescription,
    /// How many.
    pub cores: i32,
    /// In MiB.
    pub memory_mib: i32,
    /// Addresses that are its own.
    pub resources: BTreeMap<String, Vec<String>>,
}

const MASTER_IN_STANDBY: &str = "org.apache.spark.deploy.DeployMessages$MasterInStandby$";

// === impl ToWorker ===

impl ToWorker {
    /// The name of the message, for logs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::CheckExistence { .. } => "CheckExistence",
            Self::RegisteredWorker { .. } => "RegisteredWorker",
            Self::RegisterWorkerFailed { .. } => "RegisterWorkerFailed",
            Self::MasterInStandby => "MasterInStandby",
            Self::ReconnectWorker { .. } => "ReconnectWorker",
            Self::LaunchExecutor(_) => "LaunchExecutor",
            Self::KillExecutor { .. } => "KillExecutor",
            Self::LaunchDriver { .. } => "LaunchDriver",
            Self::KillDriver { .. } => "KillDriver",
            Self::ApplicationFinished { .. } => "ApplicationFinished",
        }
    }

    pub(super) fn value(&self) -> Value<'static> {
        match self {
            Self::CheckExistence { name } => Value::Object(
                "org.apache.spark.rpc.netty.RpcEndpointVerifier$CheckExistence",
                vec![("name", Value::text(name))],
            ),
            Self::RegisteredWorker {
                master,
                web_url,
                master_address,
                duplicate,
            } => Value::Object(
                "org.apache.spark.deploy.DeployMessages$RegisteredWorker",
                vec![
                    ("master", master.value()),
                    ("masterWebUiUrl", Value::text(web_url)),
                    ("masterAddress", address_value(master_address)),
                    ("duplicate", Value::Bool(*duplicate)),
                ],
            ),
            Self::RegisterWorkerFailed { message } => Value::Object(
                "org.apache.spark.deploy.DeployMessages$RegisterWorkerFailed",
                vec![("message", Value::text(message))],
            ),
            Self::MasterInStandby => Value::Singleton(MASTER_IN_STANDBY),
            Self::ReconnectWorker { master_url } => Value::Object(
                "org.apache.spark.deploy.DeployMessages$ReconnectWorker",
                vec![("masterUrl", Value::text(master_url))],
            ),
            Self::LaunchExecutor(launch) => launch.value(),
            Self::KillExecutor {
                master_url,
                app_id,
                id,
            } => Value::Object(
                "org.apache.spark.deploy.DeployMessages$KillExecutor",
                vec![
                    ("masterUrl", Value::text(master_url)),
                    ("appId", Value::text(app_id)),
                    ("execId", Value::Int(*id)),
                ],
            ),
            Self::LaunchDriver {
                id,
                driver,
                resources,
            } => Value::Object(
                "org.apache.spark.deploy.DeployMessages$LaunchDriver",
                vec![
                    ("driverId", Value::text(id)),
                    ("driverDesc", driver.value()),
                    ("resources", resources_value(resources)),
                ],
            ),
            Self::KillDriver { id } => Value::Object(
                "org.apache.spark.deploy.DeployMessages$KillDriver",
                vec![("driverId", Value::text(id))],
            ),
            Self::ApplicationFinished { app_id } => Value::Object(
                "org.apache.spark.deploy.DeployMessages$ApplicationFinished",
                vec![("id", Value::text(app_id))],
            ),
        }
    }
}

fn resources_value(resources: &BTreeMap<String, Vec<String>>) -> Value<'static> {
    let one = |(name, addresses): (&String, &Vec<String>)| {
        let information = Value::Object(
            "org.apache.spark.resource.ResourceInformation",
            vec![
                ("name", Value::text(name)),
                ("addresses", Value::Strings(addresses.clone())),
            ],
        );
        (Value::text(name), information)
    };
    Value::Map(resources.iter().map(one).collect())
}

// === impl ExecutorLaunch ===

impl ExecutorLaunch {
    fn value(&self) -> Value<'static> {
        Value::Object(
            "org.apache.spark.deploy.DeployMessages$LaunchExecutor",
            vec![
                ("masterUrl", Value::text(&self.master_url)),
                ("appId", Value::text(&self.app_id)),
                ("execId", Value::Int(self.id)),
                ("rpId", Value::Int(self.profile)),
                ("appDesc", self.app.value()),
                ("cores", Value::Int(self.cores)),
                ("memory", Value::Int(self.memory_mib)),
                ("resources", resources_value(&self.resources)),
            ],
        )
    }
}

// === impl AppDescription ===

impl AppDescription {
    fn value(&self) -> Value<'static> {
        let number = |n: Option<i32>| Value::option(n.map(Value::boxed_int));
        Value::Object(
            "org.apache.spark.deploy.ApplicationDescription",
            vec![
                ("name", Value::text(&self.name)),
                ("maxCores", number(self.cores_max)),
                ("command", self.command.value()),
                ("appUiUrl", Value::text(&self.ui_url)),
                ("defaultProfile", self.profile.value()),
                ("eventLogDir", Value::option(None)),
                ("eventLogCodec", Value::option(None)),
                ("initialExecutorLimit", number(self.executor_limit)),
                ("user", Value::text(&self.user)),
            ],
        )
    }
}

// === impl Command ===

impl Command {
    fn value(&self) -> Value<'static> {
        let environment = self.environment.iter();
        let environment = environment.map(|(n, v)| (Value::text(n), Value::text(v)));
        Value::Object(
            "org.apache.spark.deploy.Command",
            vec![
                ("mainClass", Value::text(&self.main_class)),
                ("arguments", Value::texts(&self.arguments)),
                ("environment", Value::Map(environment.collect())),
                ("classPathEntries", Value::texts(&self.class_path)),
                ("libraryPathEntries", Value::texts(&self.library_path)),
                ("javaOpts", Value::texts(&self.java_opts)),
            ],
        )
    }
}

// === impl ResourceProfile ===

impl ResourceProfile {
    fn value(&self) -> Value<'static> {
        let executor = self.executor.iter().map(|(name, amount)| {
            let request = Value::Object(
                "org.apache.spark.resource.ExecutorResourceRequest",
                vec![
                    ("resourceName", Value::text(name)),
                    ("amount", Value::Long(*amount)),
                    ("discoveryScript", Value::text("")),
                    ("vendor", Value::text("")),
                ],
            );
            (Value::text(name), request)
        });
        // What a task needs is between the driver and its executors.
        let task = Value::Object(
            "org.apache.spark.resource.TaskResourceRequest",
            vec![
                ("resourceName", Value::text("cpus")),
                ("amount", Value::Double(1.0)),
            ],
        );
        Value::Object(
            "org.apache.spark.resource.ResourceProfile",
            vec![
                ("_id", Value::Int(self.id)),
                ("executorResources", Value::Map(executor.collect())),
                (
                    "taskResources",
                    Value::Map(vec![(Value::text("cpus"), task)]),
                ),
                ("_executorResourceSlotsPerAddr", Value::option(None)),
                ("_limitingResource", Value::option(None)),
                ("_maxTasksPerExecutor", Value::option(None)),
            ],
        )
    }
}

// === impl DriverDescription ===

impl DriverDescription {
    fn value(&self) -> Value<'static> {
        Value::Object(
            "org.apache.spark.deploy.DriverDescription",
            vec![
                ("jarUrl", Value::text(&self.jar_url)),
                ("mem", Value::Int(self.memory_mib)),
                ("cores", Value::Int(self.cores)),
                ("supervise", Value::Bool(self.supervise)),
                ("command", self.command.value()),
                ("resourceReqs", Value::Seq(Vec::new())),
            ],
        )
    }
}
