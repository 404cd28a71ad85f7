//! What Spark's own workers say to a master.

use std::collections::BTreeMap;

use crate::{
    envelope::Address,
    message::{
        Inbound, MessageError,
        description::EndpointRef,
        inbound::parse,
        states::{DriverState, ExecutorState},
    },
    view::{View, ViewError},
};

/// `RegisterWorker`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerDescription {
    /// New for each start of its process.
    pub id: String,
    /// As it calls its machine.
    pub host: String,
    /// Where its RPC environment listens.
    pub port: u16,
    /// How many it offers.
    pub cores: i32,
    /// How much it offers, in MiB.
    pub memory_mib: i32,
    /// Where it is to be spoken to.
    pub endpoint: EndpointRef,
    /// Its pages.
    pub web_url: String,
    /// The master as the worker calls it; has to be given back.
    pub master: Option<Address>,
    /// Addresses of custom resources by name.
    pub resources: BTreeMap<String, Vec<String>>,
}

/// An executor that a worker has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerExecutor {
    /// Of which application.
    pub app_id: String,
    /// Its number.
    pub id: i32,
    /// How many.
    pub cores: i32,
    /// In MiB.
    pub memory_mib: i32,
    /// How it is.
    pub state: ExecutorState,
}

/// `ExecutorStateChanged`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutorReport {
    /// Of which application.
    pub app_id: String,
    /// Its number.
    pub id: i32,
    /// How it is now.
    pub state: ExecutorState,
    /// For people.
    pub message: Option<String>,
    /// Where its process has ended.
    pub exit_status: Option<i32>,
}

/// Whether a message of this name comes from workers; what it says.
pub(super) fn read(name: &str, view: View<'_>) -> Option<Result<Inbound, MessageError>> {
    Some(match name {
        "RegisterWorker" => parse("RegisterWorker", || {
            let worker = Box::new(WorkerDescription::read(view)?);
            Ok(Inbound::RegisterWorker { worker })
        }),
        "Heartbeat" => parse("Heartbeat", || {
            Ok(Inbound::Heartbeat {
                worker_id: text(view, "workerId")?,
                worker: EndpointRef::read(view.field("worker")?)?,
            })
        }),
        "ExecutorStateChanged" => parse("ExecutorStateChanged", || {
            let report = ExecutorReport::read(view)?;
            Ok(Inbound::ExecutorStateChanged { report })
        }),
        "DriverStateChanged" => parse("DriverStateChanged", || {
            Ok(Inbound::DriverStateChanged {
                driver_id: text(view, "driverId")?,
                state: driver_state(view)?,
                exception: exception(view)?,
            })
        }),
        "WorkerLatestState" => parse("WorkerLatestState", || {
            let executors = view.field("executors")?.seq()?;
            let drivers = view.field("driverIds")?.seq()?.into_iter();
            Ok(Inbound::WorkerState {
                worker_id: text(view, "id")?,
                executors: executors
                    .into_iter()
                    .map(WorkerExecutor::read)
                    .collect::<Result<_, _>>()?,
                driver_ids: drivers
                    .map(|d| d.text().map(str::to_owned))
                    .collect::<Result<_, _>>()?,
            })
        }),
        "WorkerSchedulerStateResponse" => parse("WorkerSchedulerStateResponse", || {
            let executors = view.field("execResponses")?.seq()?.into_iter();
            let drivers = view.field("driverResponses")?.seq()?.into_iter();
            Ok(Inbound::WorkerState {
                worker_id: text(view, "id")?,
                executors: executors
                    .map(|e| WorkerExecutor::read(e.field("desc")?))
                    .collect::<Result<_, _>>()?,
                driver_ids: drivers
                    .map(|d| text(d, "driverId"))
                    .collect::<Result<_, _>>()?,
            })
        }),
        "WorkerDecommissioning" => parse("WorkerDecommissioning", || {
            let worker_id = text(view, "id")?;
            Ok(Inbound::WorkerDecommissioning { worker_id })
        }),
        _ => return None,
    })
}

fn text(view: View<'_>, field: &'static str) -> Result<String, ViewError> {
    view.field(field)?.text().map(str::to_owned)
}

fn unknown_state(number: i32) -> ViewError {
    ViewError::Kind {
        wanted: "a state",
        found: format!("number {number}"),
    }
}

fn executor_state(view: View<'_>) -> Result<ExecutorState, ViewError> {
    let number = view.field("state")?.enumeration()?;
    ExecutorState::from_number(number).ok_or_else(|| unknown_state(number))
}

fn driver_state(view: View<'_>) -> Result<DriverState, ViewError> {
    let number = view.field("state")?.enumeration()?;
    DriverState::from_number(number).ok_or_else(|| unknown_state(number))
}

/// What an exception says; its class where it says nothing.
fn exception(view: View<'_>) -> Result<Option<String>, ViewError> {
    let Some(exception) = view.field("exception")?.option()? else {
        return Ok(None);
    };
    let class = exception.class().unwrap_or("an exception");
    let words = exception.field("detailMessage").and_then(View::text);
    Ok(Some(words.unwrap_or(class).to_owned()))
}

// === impl WorkerDescription ===

impl WorkerDescription {
    fn read(view: View<'_>) -> Result<Self, ViewError> {
        let mut resources = BTreeMap::new();
        for (name, information) in view.field("resources")?.map()? {
            let addresses = information.field("addresses")?.array()?.into_iter();
            let addresses = addresses.map(|a| a.text().map(str::to_owned));
            resources.insert(
                name.text()?.to_owned(),
                addresses.collect::<Result<_, _>>()?,
            );
        }
        let port = view.field("port")?.int()?;
        let master = view.field("masterAddress")?;
        Ok(Self {
            id: text(view, "id")?,
            host: text(view, "host")?,
            port: u16::try_from(port).map_err(|_ignored| ViewError::Kind {
                wanted: "a port",
                found: format!("number {port}"),
            })?,
            cores: view.field("cores")?.int()?,
            memory_mib: view.field("memory")?.int()?,
            endpoint: EndpointRef::read(view.field("worker")?)?,
            web_url: text(view, "workerWebUiUrl")?,
            master: if master.is_null() {
                None
            } else {
                let port = u16::try_from(master.field("port")?.int()?);
                let host = text(master, "host")?;
                port.ok().map(|port| Address::new(host, port))
            },
            resources,
        })
    }
}

// === impl WorkerExecutor ===

impl WorkerExecutor {
    fn read(view: View<'_>) -> Result<Self, ViewError> {
        Ok(Self {
            app_id: text(view, "appId")?,
            id: view.field("execId")?.int()?,
            cores: view.field("cores")?.int()?,
            memory_mib: view.field("memoryMb")?.int()?,
            state: executor_state(view)?,
        })
    }
}

// === impl ExecutorReport ===

impl ExecutorReport {
    fn read(view: View<'_>) -> Result<Self, ViewError> {
        let message = view.field("message")?.option()?;
        let message = message.map(View::text).transpose()?;
        let exit_status = view.field("exitStatus")?.option()?;
        Ok(Self {
            app_id: text(view, "appId")?,
            id: view.field("execId")?.int()?,
            state: executor_state(view)?,
            message: message.map(str::to_owned),
            exit_status: exit_status.map(View::int).transpose()?,
        })
    }
}
