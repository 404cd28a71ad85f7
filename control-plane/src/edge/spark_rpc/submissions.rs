//! Cluster mode over Spark's RPC: submit, kill, and status of drivers, as `spark-submit` of 3.5 asks by default.
//!
//! The client asks every master that it was given, and takes the one that accepts; a standby's answer begins as Spark's
//! does, so that the client passes over it. Of the submitter's environment, which comes whole, only Spark's own
//! variables are kept.

use std::{collections::BTreeMap, sync::Arc};

use interrex_core::{command::Command, state::driver::DriverState, transition::Reply};
use interrex_proto::v1;
use interrex_spark_wire::{
    Dictionary, Envelope, Frame, Outbound, Purpose,
    message::{self, DriverDescription, DriverStatus},
};
use tracing::Instrument;

use crate::{
    edge::{
        convert,
        spark_rpc::{
            REQUEST_DEADLINE,
            connection::{Connection, KnownPeer, Step},
            probing::Held,
        },
        validate::FieldError,
    },
    runtime::{error::RequestError, handle::MasterHandle, traces, view::ClusterView},
};

/// How the words of a master that does not lead begin, so that a client asks on.
const STANDBY: &str = "Current state is not alive: STANDBY. Only the leader answers this.";
/// What starts a driver's class at Spark's own workers; its arguments are placeholders and the real class.
const WRAPPER: &str = "org.apache.spark.deploy.worker.DriverWrapper";
/// What a client of cluster mode calls its endpoint.
const CLIENT_ENDPOINT: &str = "client";
/// Variables that are kept begin so.
const VARIABLES: &str = "SPARK_";

// === impl Connection ===

impl Connection {
    /// `RequestSubmitDriver`
    pub(super) fn submits(
        &mut self,
        id: i64,
        driver: &DriverDescription,
        envelope: &Envelope,
    ) -> Step {
        let Some(dictionary) = self.agreed_dictionary() else {
            return self.find_out_client(id, envelope);
        };
        let master = self.rpc.reference();
        let response =
            move |driver_id: Option<String>, message: String| Outbound::SubmitDriverResponse {
                master: master.clone(),
                success: driver_id.is_some(),
                driver_id,
                message,
            };
        let spec = match specification(driver, &dictionary.line) {
            Ok(spec) => spec,
            Err(error) => {
                return Step::send(answer(id, &dictionary, &response(None, error.to_string())));
            }
        };
        let request = format!("spark-submit-{}", uuid::Uuid::new_v4().simple());
        let span = traces::submission("RequestSubmitDriver", None);
        let command = Command::SubmitDriver {
            request: request.into(),
            fingerprint: convert::driver_fingerprint(&spec),
            spec: Arc::new(spec),
        };
        let handle: MasterHandle = self.rpc.handle.clone();
        self.answer_later(
            id,
            async move {
                let message = match handle.submit(command, REQUEST_DEADLINE).await {
                    Ok(Reply::DriverSubmitted { driver, .. }) => {
                        let words = format!("Driver successfully submitted as {}", driver.id);
                        response(Some(driver.id.to_string()), words)
                    }
                    Ok(_other) => response(None, "the master answered something else".to_owned()),
                    Err(error) => response(None, refusal(&error)),
                };
                answer(id, &dictionary, &message)
            }
            .instrument(span),
        )
    }

    /// `RequestKillDriver`
    pub(super) fn kills(&mut self, id: i64, driver_id: String, envelope: &Envelope) -> Step {
        let Some(dictionary) = self.agreed_dictionary() else {
            return self.find_out_client(id, envelope);
        };
        let master = self.rpc.reference();
        let command = Command::Kill {
            request: None,
            id: driver_id.clone(),
        };
        let handle: MasterHandle = self.rpc.handle.clone();
        self.answer_later(id, async move {
            let (success, message) = match handle.submit(command, REQUEST_DEADLINE).await {
                Ok(
                    Reply::DriverKilled {
                        already_over: false,
                        ..
                    }
                    | Reply::AppKilled {
                        already_over: false,
                        ..
                    },
                ) => (true, format!("Kill request for {driver_id} submitted")),
                Ok(_over) => (false, format!("Driver {driver_id} has already finished")),
                Err(error) => (false, refusal(&error)),
            };
            let response = Outbound::KillDriverResponse {
                master,
                driver_id,
                success,
                message,
            };
            answer(id, &dictionary, &response)
        })
    }

    /// `RequestDriverStatus`
    pub(super) fn status_of(&mut self, id: i64, driver_id: String, envelope: &Envelope) -> Step {
        // The same bytes for 4.0 and 4.1: the first that fits will do.
        let known = self.dictionary();
        let Some(dictionary) = known.filter(|d| Purpose::Client.is_served_by(d)) else {
            return self.find_out_client(id, envelope);
        };
        let handle: MasterHandle = self.rpc.handle.clone();
        self.answer_later(id, async move {
            let status = match handle.read(REQUEST_DEADLINE).await {
                Ok(view) => status(&view, &driver_id),
                Err(error) => DriverStatus {
                    exception: Some(refusal(&error)),
                    ..DriverStatus::default()
                },
            };
            answer(id, &dictionary, &Outbound::DriverStatusResponse(status))
        })
    }

    /// The build of the peer, where all that fit write the same answers: those with a reference differ between 4.0 and
    /// 4.1.
    pub(super) fn agreed_dictionary(&self) -> Option<Arc<Dictionary>> {
        if let Some(line) = &self.line {
            return Some(Arc::clone(line));
        }
        let sample = Outbound::SubmitDriverResponse {
            master: self.rpc.reference(),
            success: true,
            driver_id: None,
            message: String::new(),
        };
        let fitting = self.rpc.builds.fitting(&self.recogniser);
        let first = fitting.first().cloned()?;
        let bytes = sample.write(&first).ok();
        let agree = fitting.iter().all(|d| sample.write(d).ok() == bytes);
        (agree && Purpose::Client.is_served_by(&first)).then_some(first)
    }

    /// A client that cannot be answered before it is known which build it is.
    fn find_out_client(&mut self, id: i64, envelope: &Envelope) -> Step {
        let Some(address) = envelope.sender.clone() else {
            return self.unknown_build(Some(id));
        };
        let peer = KnownPeer {
            address,
            endpoint: CLIENT_ENDPOINT.to_owned(),
        };
        self.find_out(Held::new(Some(id), envelope, Purpose::Client, peer))
    }
}

fn answer(id: i64, dictionary: &Dictionary, message: &Outbound) -> Frame {
    match message.write(dictionary) {
        Ok(stream) => Frame::Response {
            id,
            body: stream.into(),
        },
        Err(error) => Frame::Failure {
            id,
            text: error.to_string(),
        },
    }
}

fn refusal(error: &RequestError) -> String {
    match error {
        RequestError::NotLeader { .. } | RequestError::Restoring { .. } => STANDBY.to_owned(),
        RequestError::Busy { .. }
        | RequestError::DeadlineExceeded { .. }
        | RequestError::OutcomeUnknown
        | RequestError::ShuttingDown
        | RequestError::Rejected(_) => error.to_string(),
    }
}

fn status(view: &ClusterView, id: &str) -> DriverStatus {
    let Some(driver) = view.driver(&id.into()) else {
        return DriverStatus::default();
    };
    let worker = driver.worker.as_ref().and_then(|id| view.worker(id));
    DriverStatus {
        found: true,
        state: Some(match driver.state {
            DriverState::Submitted | DriverState::Launching => message::DriverState::Submitted,
            DriverState::Running => message::DriverState::Running,
            DriverState::Relaunching => message::DriverState::Relaunching,
            DriverState::Finished => message::DriverState::Finished,
            DriverState::Killed => message::DriverState::Killed,
            DriverState::Failed => message::DriverState::Failed,
            DriverState::Error => message::DriverState::Error,
        }),
        worker_id: worker.map(|w| w.id.to_string()),
        worker_host_port: worker.map(|w| w.spec.web.clone()),
        exception: None,
    }
}

/// # Errors
/// [`FieldError`] with the first thing that is wrong.
fn specification(
    driver: &DriverDescription,
    line: &str,
) -> Result<interrex_core::spec::DriverSpec, FieldError> {
    let number = |field: &'static str, value: i32| {
        u32::try_from(value)
            .map_err(|_negative| FieldError::new(field, format!("`{value}` is out of range")))
    };
    let command = &driver.command;
    let (main_class, app_args) = match command.arguments.as_slice() {
        [_worker, _jar, class, rest @ ..] if command.main_class == WRAPPER => {
            (class.clone(), rest.to_vec())
        }
        all => (command.main_class.clone(), all.to_vec()),
    };
    let mut environment = command.environment.clone();
    environment.retain(|name, _| name.starts_with(VARIABLES));
    let spark_properties = properties(&command.java_opts);
    let name = spark_properties
        .get("spark.app.name")
        .unwrap_or(&main_class)
        .clone();
    convert::driver_spec(v1::DriverSpec {
        name,
        user: environment.get("SPARK_USER").cloned().unwrap_or_default(),
        cores: number("cores", driver.cores)?,
        memory_mib: u64::from(number("mem", driver.memory_mib)?),
        supervise: driver.supervise,
        spark: Some(v1::SparkSubmission {
            app_resource: driver.jar_url.clone(),
            main_class,
            app_args,
            spark_properties,
            environment,
            client_spark_version: line.to_owned(),
        }),
        ..v1::DriverSpec::default()
    })
}

/// Spark's settings come as options of the JVM.
fn properties(java_opts: &[String]) -> BTreeMap<String, String> {
    let settings = java_opts
        .iter()
        .filter_map(|option| option.strip_prefix("-D"));
    let pairs = settings.filter_map(|setting| setting.split_once('='));
    let of_spark = pairs.filter(|(name, _)| name.starts_with("spark."));
    of_spark
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use interrex_core::spec::DriverPayload;
    use interrex_spark_wire::message::Command;

    use super::*;

    #[test]
    fn a_submission_is_what_the_wrapper_would_have_run() {
        let strings = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let driver = DriverDescription {
            jar_url: "file:/pi.jar".to_owned(),
            memory_mib: 512,
            cores: 2,
            supervise: true,
            command: Command {
                main_class: WRAPPER.to_owned(),
                arguments: strings(&["{{WORKER_URL}}", "{{USER_JAR}}", "org.example.Pi", "10"]),
                environment: [("SPARK_USER", "ann"), ("TOKEN", "secret")]
                    .map(|(k, v)| (k.to_owned(), v.to_owned()))
                    .into(),
                java_opts: strings(&[
                    "-Dspark.app.name=pi",
                    "-Dspark.x=a=b",
                    "-Xss1m",
                    "-Dother=1",
                ]),
                ..Command::default()
            },
        };
        let spec = specification(&driver, "3.5").expect("valid");
        assert_eq!(
            (spec.name.as_str(), spec.user.as_str(), spec.supervise),
            ("pi", "ann", true)
        );
        let DriverPayload::Spark(spark) = spec.payload else {
            panic!("a submission in Spark's words");
        };
        assert_eq!(
            (spark.main_class.as_str(), spark.app_args.clone()),
            ("org.example.Pi", strings(&["10"]))
        );
        assert_eq!(spark.properties["spark.x"], "a=b");
        assert_eq!(spark.properties.len(), 2);
        assert!(!spark.environment.contains_key("TOKEN"));
        assert_eq!(spark.capability(), "spark-3.5");
        let none = DriverDescription {
            cores: -1,
            ..driver
        };
        assert!(specification(&none, "3.5").is_err());
    }
}
