//! What comes to a master, or to the endpoint that an executor watches.

use crate::{
    java::Graph,
    message::{
        MessageError,
        description::{AppDescription, DriverDescription, EndpointRef, ResourceProfile, texts},
        states::DriverState,
        worker::{self, ExecutorReport, WorkerDescription, WorkerExecutor},
    },
    view::{View, ViewError},
};

/// A message from a driver, a submission client, an executor or a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inbound {
    /// "Is there an endpoint of this name?" Wants a boolean.
    CheckExistence {
        /// Such as `Master` or `Worker`.
        name: String,
    },
    /// Comes one-way, and again every 20 seconds until it is answered.
    RegisterApplication {
        /// What it wants.
        app: Box<AppDescription>,
        /// Where the driver listens.
        driver: EndpointRef,
    },
    /// One-way: it is over.
    UnregisterApplication {
        /// Ours.
        app_id: String,
    },
    /// One-way: the new leader is accepted.
    MasterChangeAcknowledged {
        /// Ours; nothing: no leader has told the driver that it is registered.
        app_id: Option<String>,
    },
    /// How many executors are wanted in all. Wants a boolean.
    RequestExecutors {
        /// Ours.
        app_id: String,
        /// For each profile.
        totals: Vec<(ResourceProfile, i32)>,
    },
    /// Executors that are not needed any more. Wants a boolean.
    KillExecutors {
        /// Ours.
        app_id: String,
        /// Numbers, as text.
        executor_ids: Vec<String>,
    },
    /// Wants a `SubmitDriverResponse`.
    RequestSubmitDriver {
        /// What it is.
        driver: Box<DriverDescription>,
    },
    /// Wants a `KillDriverResponse`.
    RequestKillDriver {
        /// Ours.
        driver_id: String,
    },
    /// Wants a `DriverStatusResponse`.
    RequestDriverStatus {
        /// Ours.
        driver_id: String,
    },
    /// One-way, from one of Spark's own workers: it would like to work for this master.
    RegisterWorker {
        /// What it offers.
        worker: Box<WorkerDescription>,
    },
    /// One-way: it is there.
    Heartbeat {
        /// Its own.
        worker_id: String,
        /// Where it is to be spoken to.
        worker: EndpointRef,
    },
    /// An executor is in another state. Wants a boolean, and comes again until it gets one.
    ExecutorStateChanged {
        /// What has changed.
        report: ExecutorReport,
    },
    /// One-way: a driver has ended. Comes once.
    DriverStateChanged {
        /// As it was launched.
        driver_id: String,
        /// How it ended.
        state: DriverState,
        /// Why it could not be started, or what went wrong.
        exception: Option<String>,
    },
    /// One-way, `WorkerLatestState` or `WorkerSchedulerStateResponse`: all that a worker runs.
    WorkerState {
        /// Its own.
        worker_id: String,
        /// Its executors.
        executors: Vec<WorkerExecutor>,
        /// Its drivers, as they were launched.
        driver_ids: Vec<String>,
    },
    /// It is about to leave: no new work, please.
    WorkerDecommissioning {
        /// Its own.
        worker_id: String,
    },
}

const MESSAGES: &str = "org.apache.spark.deploy.DeployMessages$";
const CHECK: &str = "org.apache.spark.rpc.netty.RpcEndpointVerifier$CheckExistence";

// === impl Inbound ===

impl Inbound {
    /// Reads a message.
    ///
    /// # Errors
    /// It is none that is understood here, or not in a form that is known.
    pub fn read(graph: &Graph) -> Result<Self, MessageError> {
        let view = View::root(graph);
        let class = view
            .singleton()
            .or_else(|| view.class())
            .unwrap_or("a value without a class");
        if class == CHECK {
            return parse("CheckExistence", || {
                let name = view.field("name")?.text()?.to_owned();
                Ok(Self::CheckExistence { name })
            });
        }
        match class.strip_prefix(MESSAGES) {
            Some(name) => Self::deploy_message(name, view),
            None => None,
        }
        .unwrap_or_else(|| {
            Err(MessageError::Unknown {
                class: class.to_owned(),
            })
        })
    }

    fn deploy_message(name: &str, view: View<'_>) -> Option<Result<Self, MessageError>> {
        let app_id = || view.field("appId")?.text().map(str::to_owned);
        let driver_id = || view.field("driverId")?.text().map(str::to_owned);
        Some(match name {
            "RegisterApplication" => parse("RegisterApplication", || {
                Ok(Self::RegisterApplication {
                    app: Box::new(AppDescription::read(view.field("appDescription")?)?),
                    driver: EndpointRef::read(view.field("driver")?)?,
                })
            }),
            "UnregisterApplication" => parse("UnregisterApplication", || {
                Ok(Self::UnregisterApplication { app_id: app_id()? })
            }),
            "MasterChangeAcknowledged" => parse("MasterChangeAcknowledged", || {
                let app_id = match view.field("appId")? {
                    null if null.is_null() => None,
                    _ => Some(app_id()?),
                };
                Ok(Self::MasterChangeAcknowledged { app_id })
            }),
            "RequestExecutors" => parse("RequestExecutors", || {
                let mut totals = Vec::new();
                for (profile, total) in view.field("resourceProfileToTotalExecs")?.map()? {
                    totals.push((ResourceProfile::read(profile)?, total.int()?));
                }
                let app_id = app_id()?;
                Ok(Self::RequestExecutors { app_id, totals })
            }),
            "KillExecutors" => parse("KillExecutors", || {
                Ok(Self::KillExecutors {
                    app_id: app_id()?,
                    executor_ids: texts(view.field("executorIds")?)?,
                })
            }),
            "RequestSubmitDriver" => parse("RequestSubmitDriver", || {
                let driver = DriverDescription::read(view.field("driverDescription")?)?;
                let driver = Box::new(driver);
                Ok(Self::RequestSubmitDriver { driver })
            }),
            "RequestKillDriver" => parse("RequestKillDriver", || {
                Ok(Self::RequestKillDriver {
                    driver_id: driver_id()?,
                })
            }),
            "RequestDriverStatus" => parse("RequestDriverStatus", || {
                Ok(Self::RequestDriverStatus {
                    driver_id: driver_id()?,
                })
            }),
            _ => return worker::read(name, view),
        })
    }
}

pub(super) fn parse(
    message: &'static str,
    read: impl FnOnce() -> Result<Inbound, ViewError>,
) -> Result<Inbound, MessageError> {
    read().map_err(|source| MessageError::View { message, source })
}
