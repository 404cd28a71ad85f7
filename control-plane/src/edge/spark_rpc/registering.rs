//! A driver's registration: taken from its message, handed to the leader's loop, answered when it is durable.

use std::sync::Arc;

use interrex_core::{
    command::Command,
    ids::{AppId, Epoch, Fingerprint, RequestId},
    spec::ApplicationSpec,
    transition::{Rejection, Reply},
};
use interrex_proto::v1::{self, master_frame::Body as Notice};
use interrex_spark_wire::{
    Address, Dictionary, Envelope, Outbound, Purpose,
    message::{AppDescription, EndpointRef},
};

use crate::{
    edge::{
        convert,
        spark_rpc::{
            REQUEST_DEADLINE, SparkRpc,
            application::Registration,
            connection::{Connection, KnownPeer, Step},
            notices,
            probing::{Held, is_unnamed},
        },
        status::executor_info,
    },
    metrics,
    runtime::{
        error::RequestError,
        peers::{Peer, SessionId},
        port::Outcome,
    },
};

/// With `spark.executorEnv.` before it: tells builds apart that look alike to a master.
pub(super) const LINE_VARIABLE: &str = "INTERREX_SPARK_LINE";

// === impl Connection ===

impl Connection {
    /// A driver sends this to every master, and again every 20 seconds until one has answered.
    pub(super) fn registers(
        &mut self,
        app: &AppDescription,
        driver: EndpointRef,
        envelope: &Envelope,
    ) -> Step {
        let Some(address) = driver.address else {
            return self.fail(None, "message", "a driver that listens nowhere");
        };
        let known = self.dictionary();
        let Some(dictionary) = known.filter(|d| Purpose::Driver.is_served_by(d)) else {
            let peer = KnownPeer {
                address,
                endpoint: driver.name,
            };
            return self.find_out(Held::new(None, envelope, Purpose::Driver, peer));
        };
        let wanted = app.command.environment.get(LINE_VARIABLE);
        let dictionary = match self.chosen(dictionary, wanted) {
            Ok(dictionary) => dictionary,
            Err(reason) => {
                self.know(address, driver.name);
                return self.remove(&reason);
            }
        };
        if self.registration.is_none() {
            let made = Registration::new(
                app,
                &envelope.payload,
                &dictionary.line,
                address.clone(),
                driver.name.clone(),
            );
            let registration = match made {
                Ok(registration) => registration,
                Err(error) => {
                    self.know(address, driver.name);
                    return self.remove(&format!("its registration is refused: {error}"));
                }
            };
            tracing::info!(
                from = self.from, driver = %address, line = dictionary.line, name = registration.spec.name,
                "a driver of Spark registers"
            );
            self.know(address, driver.name);
            self.registration = Some(registration);
        }
        if std::mem::take(&mut self.probing.follows) {
            return self.leading();
        }
        self.register();
        Step::default()
    }

    /// The build of a driver: as it says itself where it fits more than one, else the likeliest.
    fn chosen(
        &mut self,
        likeliest: Arc<Dictionary>,
        wanted: Option<&String>,
    ) -> Result<Arc<Dictionary>, String> {
        if is_unnamed(&likeliest) {
            let wanted = wanted.map(String::as_str);
            let named = self.named(Dictionary::clone(&likeliest), wanted)?;
            self.line = Some(Arc::clone(&named));
            return Ok(named);
        }
        let Some(wanted) = wanted else {
            return Ok(likeliest);
        };
        let is_wanted = |dictionary: &Arc<Dictionary>| {
            let rest = dictionary.line.strip_prefix(wanted.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '+']))
        };
        let fitting = self.rpc.builds.fitting(&self.recogniser);
        let lines: Vec<String> = fitting.iter().map(|d| d.line.clone()).collect();
        let chosen = fitting.iter().find(|d| is_wanted(d)).cloned();
        let chosen = chosen.or_else(|| self.rpc.builds.found_as(&fitting, wanted));
        let chosen = chosen.ok_or_else(|| {
            let lines = lines.join(", ");
            format!("{LINE_VARIABLE}: its driver can be Spark {lines}, but not `{wanted}`")
        })?;
        self.line = Some(Arc::clone(&chosen));
        Ok(chosen)
    }

    fn know(&mut self, address: Address, endpoint: String) {
        if self.driver.is_none() {
            self.rpc.drivers.came(&address);
            self.driver = Some(KnownPeer { address, endpoint });
        }
    }

    /// A driver has no ear for a refusal of its registration, but it stops with these words.
    pub(super) fn remove(&self, reason: &str) -> Step {
        self.refused("registration", &reason);
        self.to_driver(&Outbound::ApplicationRemoved {
            message: reason.to_owned(),
        })
    }

    /// Hands the registration to the leader's loop, if that is here; a standby stays silent, as Spark's does.
    pub(super) fn register(&mut self) {
        let Some(registration) = &self.registration else {
            return;
        };
        let Ok(port) = self.rpc.handle.port() else {
            return;
        };
        self.awaits = true;
        let (request, spec) = (registration.request.clone(), registration.spec.clone());
        submit_registration(
            &self.rpc,
            self.session,
            port.epoch,
            request,
            None,
            Arc::new(spec),
        );
    }

    /// The driver accepts this master as the leader. Without an id it has not heard yet that it is registered: the leader that
    /// had recorded it ended before it said so.
    pub(super) fn acknowledged(&mut self, known: Option<AppId>) -> Step {
        self.awaits |= known.is_none();
        let Some(id) = &known.or_else(|| self.app.clone()) else {
            self.register();
            return Step::default();
        };
        let (Ok(port), Some(app)) = (
            self.rpc.handle.port(),
            self.rpc.handle.view().app(id).cloned(),
        ) else {
            return Step::default();
        };
        if !self.speaks_for(id, &app.spec) {
            return self.fail(
                None,
                "message",
                &format!("it is about {id}, which is another driver's"),
            );
        }
        tracing::info!(app = %id, from = self.from, "a driver of Spark follows to this master");
        self.app = Some(id.clone());
        let (request, spec) = (app.request.clone(), Arc::clone(&app.spec));
        submit_registration(
            &self.rpc,
            self.session,
            port.epoch,
            request,
            Some(id.clone()),
            spec,
        );
        Step::default()
    }

    pub(super) fn speaks_for(&self, id: &AppId, spec: &ApplicationSpec) -> bool {
        let (Some(mine), Some(known)) = (&self.driver, &spec.spark) else {
            return false;
        };
        self.app.as_ref().is_none_or(|app| app == id)
            && mine.address.host == known.host
            && mine.address.port == known.port
    }

    pub(super) fn registered(&mut self, registered: v1::Registered) -> Step {
        let app_id = registered.app_id;
        self.app = Some(AppId::from(app_id.clone()));
        let mut step = Step::default();
        if std::mem::take(&mut self.awaits) {
            let master = self.rpc.reference();
            step = self.to_driver(&Outbound::RegisteredApplication { app_id, master });
        }
        // What came or ended while no connection spoke for the application; that it hears something twice harms nothing.
        for message in registered.executors.iter().flat_map(notices::as_it_is) {
            step.frames.extend(self.to_driver(&message).frames);
        }
        step
    }
}

/// `done` runs within the leader's loop, before anything that follows from the same commit is sent.
fn submit_registration(
    rpc: &Arc<SparkRpc>,
    session: SessionId,
    epoch: Epoch,
    request: RequestId,
    app: Option<AppId>,
    spec: Arc<ApplicationSpec>,
) {
    let fingerprint: Fingerprint = convert::application_fingerprint(&spec);
    let command = Command::RegisterApplication {
        request,
        fingerprint,
        app,
        spec,
    };
    let shared = Arc::clone(rpc);
    let answer = move |outcome: Outcome| {
        let notice = match outcome {
            Ok(Reply::AppRegistered { app, executors }) => {
                metrics::registration("spark_app", "accepted");
                if !shared
                    .peers
                    .bind(epoch, &Peer::App(app.id.clone()), session)
                {
                    return;
                }
                shared.drivers.attached(&app.id, epoch);
                let view = shared.handle.view();
                Notice::Registered(v1::Registered {
                    app_id: app.id.to_string(),
                    executors: executors.iter().map(|e| executor_info(&view, e)).collect(),
                    ..v1::Registered::default()
                })
            }
            Ok(_other) => return,
            Err(RequestError::Rejected(Rejection::AppOver { .. })) => {
                Notice::Reregister(v1::Reregister {
                    reason: "what was registered so is over".to_owned(),
                })
            }
            Err(RequestError::Rejected(rejection)) => {
                metrics::registration("spark_app", "refused");
                Notice::Refused(v1::Refused {
                    reason: rejection.to_string(),
                    permanent: true,
                })
            }
            // It registers again, here or elsewhere.
            Err(error) => {
                metrics::registration("spark_app", "not_leader");
                tracing::info!(%error, "a registration of Spark is not recorded");
                return;
            }
        };
        shared.peers.send(session, epoch, notice);
    };
    if let Err(error) = rpc
        .handle
        .enqueue_for_session(command, REQUEST_DEADLINE, answer)
    {
        tracing::info!(%error, "a registration of Spark is not taken");
    }
}
