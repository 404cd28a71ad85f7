//! What applications and drivers say about themselves.

use std::collections::BTreeMap;

use crate::{
    envelope::Address,
    value::Value,
    view::{View, ViewError},
};

/// An endpoint that somebody listens at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointRef {
    /// Its name there, such as `AppClient`.
    pub name: String,
    /// Absent: it can be reached over the connection alone on which it was named.
    pub address: Option<Address>,
}

/// A command line of a JVM.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    /// With a `main`.
    pub main_class: String,
    /// May be placeholders such as `{{EXECUTOR_ID}}`.
    pub arguments: Vec<String>,
    /// Of the submitter, as far as Spark passes it on. May hold secrets.
    pub environment: BTreeMap<String, String>,
    /// Behind Spark's own jars.
    pub class_path: Vec<String>,
    /// Folders of native libraries.
    pub library_path: Vec<String>,
    /// Options of the JVM.
    pub java_opts: Vec<String>,
}

/// What each executor (and task) of an application needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceProfile {
    /// 0 is the application's own.
    pub id: i32,
    /// Such as `memory` (in MiB), `cores`, `offHeap`, `gpu`.
    pub executor: BTreeMap<String, i64>,
}

/// `ApplicationDescription`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppDescription {
    /// `spark.app.name`
    pub name: String,
    /// Who started it.
    pub user: String,
    /// `spark.cores.max`
    pub cores_max: Option<i32>,
    /// How an executor is started.
    pub command: Command,
    /// Of the driver.
    pub ui_url: String,
    /// With dynamic allocation: how many executors it wants at first.
    pub executor_limit: Option<i32>,
    /// Memory and cores of an executor.
    pub profile: ResourceProfile,
}

/// `DriverDescription`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverDescription {
    /// The application's jar or script.
    pub jar_url: String,
    /// In MiB.
    pub memory_mib: i32,
    /// How many.
    pub cores: i32,
    /// Start it again when it fails.
    pub supervise: bool,
    /// How it is started.
    pub command: Command,
}

// === impl EndpointRef ===

impl EndpointRef {
    /// A reference to an endpoint.
    #[must_use]
    pub fn new(name: impl Into<String>, address: Address) -> Self {
        Self {
            name: name.into(),
            address: Some(address),
        }
    }

    pub(crate) fn read(view: View<'_>) -> Result<Self, ViewError> {
        let endpoint = view.field("endpointAddress")?;
        let name = endpoint.field("name")?.text()?.to_owned();
        let address = endpoint.field("rpcAddress")?;
        if address.is_null() {
            return Ok(Self {
                name,
                address: None,
            });
        }
        let host = address.field("host")?.text()?;
        let port = address.field("port")?;
        let number = u16::try_from(port.int()?).map_err(|_ignored| ViewError::Kind {
            wanted: "a port",
            found: "another number".to_owned(),
        })?;
        Ok(Self {
            name,
            address: Some(Address::new(host, number)),
        })
    }

    /// As Spark's classes have it. The timeout must be there: a driver asks with it.
    pub(crate) fn value(&self) -> Value<'static> {
        let timeout = Value::Object(
            "org.apache.spark.rpc.RpcTimeout",
            vec![
                (
                    "duration",
                    Value::Object(
                        "scala.concurrent.duration.FiniteDuration",
                        vec![
                            ("length", Value::Long(120)),
                            (
                                "unit",
                                Value::Constant("java.util.concurrent.TimeUnit", "SECONDS"),
                            ),
                        ],
                    ),
                ),
                ("timeoutProp", Value::text("spark.rpc.askTimeout")),
            ],
        );
        let (address, text) = match &self.address {
            None => (Value::Null, format!("spark-client://{}", self.name)),
            Some(address) => (
                address_value(address),
                format!("spark://{}@{address}", self.name),
            ),
        };
        let endpoint = Value::Object(
            "org.apache.spark.rpc.RpcEndpointAddress",
            vec![
                ("name", Value::text(&self.name)),
                ("rpcAddress", address),
                ("toString", Value::Text(text)),
            ],
        );
        Value::Object(
            "org.apache.spark.rpc.netty.NettyRpcEndpointRef",
            vec![
                ("defaultAskTimeout", timeout),
                ("endpointAddress", endpoint),
            ],
        )
    }
}

pub(crate) fn address_value(address: &Address) -> Value<'static> {
    Value::Object(
        "org.apache.spark.rpc.RpcAddress",
        vec![
            ("port", Value::Int(i32::from(address.port))),
            ("host", Value::text(&address.host)),
        ],
    )
}

// === impl Command ===

impl Command {
    pub(crate) fn read(view: View<'_>) -> Result<Self, ViewError> {
        let mut environment = BTreeMap::new();
        for (name, value) in view.field("environment")?.map()? {
            environment.insert(name.text()?.to_owned(), value.text()?.to_owned());
        }
        Ok(Self {
            main_class: view.field("mainClass")?.text()?.to_owned(),
            arguments: texts(view.field("arguments")?)?,
            environment,
            class_path: texts(view.field("classPathEntries")?)?,
            library_path: texts(view.field("libraryPathEntries")?)?,
            java_opts: texts(view.field("javaOpts")?)?,
        })
    }
}

pub(crate) fn texts(view: View<'_>) -> Result<Vec<String>, ViewError> {
    view.seq()?
        .into_iter()
        .map(|v| v.text().map(str::to_owned))
        .collect()
}

// === impl ResourceProfile ===

impl ResourceProfile {
    pub(crate) fn read(view: View<'_>) -> Result<Self, ViewError> {
        let mut executor = BTreeMap::new();
        for (name, request) in view.field("executorResources")?.map()? {
            executor.insert(name.text()?.to_owned(), request.field("amount")?.long()?);
        }
        let id = view.field("_id")?.int()?;
        Ok(Self { id, executor })
    }

    /// Memory of an executor in MiB.
    #[must_use]
    pub fn memory_mib(&self) -> Option<i64> {
        self.executor.get("memory").copied()
    }

    /// Cores of an executor; nothing: all that a worker has for it.
    #[must_use]
    pub fn cores(&self) -> Option<i64> {
        self.executor.get("cores").copied()
    }
}

// === impl AppDescription ===

impl AppDescription {
    pub(crate) fn read(view: View<'_>) -> Result<Self, ViewError> {
        let number = |name| -> Result<Option<i32>, ViewError> {
            let option = view.field(name)?.option()?;
            option.map(View::int).transpose()
        };
        let ui_url = view.field("appUiUrl")?;
        let user = view.field("user")?;
        Ok(Self {
            name: view.field("name")?.text()?.to_owned(),
            user: if user.is_null() {
                String::new()
            } else {
                user.text()?.to_owned()
            },
            cores_max: number("maxCores")?,
            command: Command::read(view.field("command")?)?,
            ui_url: if ui_url.is_null() {
                String::new()
            } else {
                ui_url.text()?.to_owned()
            },
            executor_limit: number("initialExecutorLimit")?,
            profile: ResourceProfile::read(view.field("defaultProfile")?)?,
        })
    }
}

// === impl DriverDescription ===

impl DriverDescription {
    pub(crate) fn read(view: View<'_>) -> Result<Self, ViewError> {
        Ok(Self {
            jar_url: view.field("jarUrl")?.text()?.to_owned(),
            memory_mib: view.field("mem")?.int()?,
            cores: view.field("cores")?.int()?,
            supervise: view.field("supervise")?.boolean()?,
            command: Command::read(view.field("command")?)?,
        })
    }
}
