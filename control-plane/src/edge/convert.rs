//! Messages ⇄ core: the checked way in, and the way out.
//!
//! Used by the gRPC and REST edges alike, so that the same description has the same specification and the same
//! fingerprint whichever way it came. The functions named after a specification check it first
//! ([`validate`]); those ending in `_message` go out and cannot fail.

use interrex_core::{
    command::RequestKey,
    ids::{Fingerprint, RequestId, WorkerId},
    resources::{Addresses, Amounts, Cores, MemoryMib},
    spec::{ApplicationSpec, CommandLine, DriverPayload, DriverSpec, SparkSubmission, WorkerSpec},
    state::driver::Exit,
};
use interrex_persistence::election::MasterInfo;
use interrex_proto::v1;
use prost::Message;
use sha2::{Digest, Sha256};

use super::validate::{self, FieldError};

/// The Spark property that carries a submission's id.
pub const SUBMISSION_ID_PROPERTY: &str = "spark.interrex.submissionId";

/// Properties that a retry of the same submission may change: Spark's client stamps each try with the time, and
/// the submission's id can come as a header in one try and as a property in the next.
const NOT_FINGERPRINTED: [&str; 2] = ["spark.app.submitTime", SUBMISSION_ID_PROPERTY];

/// A driver's description, checked.
///
/// # Errors
/// [`FieldError`] with the first thing that is wrong.
pub fn driver_spec(message: v1::DriverSpec) -> Result<DriverSpec, FieldError> {
    validate::driver_spec(&message)?;
    let payload = match (message.command, message.spark) {
        (_, Some(spark)) => DriverPayload::Spark(spark_submission(spark)),
        (command, None) => DriverPayload::Command(command_line(command.unwrap_or_default())),
    };
    Ok(DriverSpec {
        name: message.name,
        user: message.user,
        payload,
        cores: Cores(message.cores),
        memory: MemoryMib(message.memory_mib),
        resources: amounts(message.resources),
        supervise: message.supervise,
    })
}

/// An application's description, checked.
///
/// # Errors
/// [`FieldError`] with the first thing that is wrong.
pub fn application_spec(message: v1::ApplicationSpec) -> Result<ApplicationSpec, FieldError> {
    validate::application_spec(&message)?;
    Ok(ApplicationSpec {
        name: message.name,
        user: message.user,
        command: command_line(message.command.unwrap_or_default()),
        cores_max: message.cores_max.map(Cores),
        cores_per_executor: message.cores_per_executor.map(Cores),
        memory_per_executor: MemoryMib(message.memory_mib_per_executor),
        resources_per_executor: amounts(message.resources_per_executor),
        executor_limit: message.executor_limit,
        completes: message.completes,
        ui_url: message.ui_url,
    })
}

/// A worker's id and description, checked.
///
/// # Errors
/// [`FieldError`] with the first thing that is wrong.
pub fn worker_spec(message: v1::WorkerSpec) -> Result<(WorkerId, WorkerSpec), FieldError> {
    validate::worker_spec(&message)?;
    let spec = WorkerSpec {
        host: message.host,
        web: message.web,
        cores: Cores(message.cores),
        memory: MemoryMib(message.memory_mib),
        resources: addresses(message.resources),
        capabilities: message.capabilities,
        incarnation: message.incarnation,
        work_dir_id: message.work_dir_id,
    };
    Ok((WorkerId::from(message.id), spec))
}

/// A command line; part of a checked description.
#[must_use]
pub fn command_line(message: v1::CommandLine) -> CommandLine {
    CommandLine {
        program: message.program,
        args: message.args,
        env: message.env,
    }
}

/// Offered or assigned resources; addresses come out in string order, as the core keeps them.
#[must_use]
pub fn addresses(message: Vec<v1::ResourceAddresses>) -> Addresses {
    let sorted = |mut addresses: Vec<String>| {
        addresses.sort_unstable();
        addresses
    };
    message
        .into_iter()
        .map(|r| (r.name, sorted(r.addresses)))
        .collect()
}

/// Needed resources.
#[must_use]
pub fn amounts(message: Vec<v1::ResourceAmount>) -> Amounts {
    message.into_iter().map(|r| (r.name, r.amount)).collect()
}

/// How a process ended.
#[must_use]
pub fn exit(message: v1::Exit) -> Exit {
    Exit {
        code: message.code,
        signal: message.signal,
    }
}

/// A driver's description, for an agent.
#[must_use]
pub fn driver_spec_message(spec: &DriverSpec) -> v1::DriverSpec {
    let (command, spark) = match &spec.payload {
        DriverPayload::Command(command) => (Some(command_line_message(command)), None),
        DriverPayload::Spark(spark) => (None, Some(spark_submission_message(spark))),
    };
    v1::DriverSpec {
        name: spec.name.clone(),
        user: spec.user.clone(),
        command,
        spark,
        cores: spec.cores.0,
        memory_mib: spec.memory.0,
        resources: amounts_message(&spec.resources),
        supervise: spec.supervise,
    }
}

/// An application's description.
#[must_use]
pub fn application_spec_message(spec: &ApplicationSpec) -> v1::ApplicationSpec {
    v1::ApplicationSpec {
        name: spec.name.clone(),
        user: spec.user.clone(),
        command: Some(command_line_message(&spec.command)),
        cores_max: spec.cores_max.map(|cores| cores.0),
        cores_per_executor: spec.cores_per_executor.map(|cores| cores.0),
        memory_mib_per_executor: spec.memory_per_executor.0,
        resources_per_executor: amounts_message(&spec.resources_per_executor),
        executor_limit: spec.executor_limit,
        completes: spec.completes,
        ui_url: spec.ui_url.clone(),
    }
}

/// A command line, for an agent.
#[must_use]
pub fn command_line_message(command: &CommandLine) -> v1::CommandLine {
    v1::CommandLine {
        program: command.program.clone(),
        args: command.args.clone(),
        env: command.env.clone(),
    }
}

/// Assigned resources, for an agent; ordered by name.
#[must_use]
pub fn addresses_message(addresses: &Addresses) -> Vec<v1::ResourceAddresses> {
    let one = |(name, addresses): (&String, &Vec<String>)| v1::ResourceAddresses {
        name: name.clone(),
        addresses: addresses.clone(),
    };
    addresses.iter().map(one).collect()
}

/// Needed resources; ordered by name.
#[must_use]
pub fn amounts_message(amounts: &Amounts) -> Vec<v1::ResourceAmount> {
    let one = |(name, amount): (&String, &u32)| v1::ResourceAmount {
        name: name.clone(),
        amount: *amount,
    };
    amounts.iter().map(one).collect()
}

/// How a process ended.
#[must_use]
pub fn exit_message(exit: Exit) -> v1::Exit {
    v1::Exit {
        code: exit.code,
        signal: exit.signal,
    }
}

/// Where a master can be reached.
#[must_use]
pub fn master_message(master: &MasterInfo) -> v1::MasterAddress {
    v1::MasterAddress {
        id: master.id.clone(),
        rpc: master.rpc.clone(),
        rest: master.rest.clone(),
        web: master.web.clone(),
    }
}

/// The fingerprint of a submission: SHA-256 over the canonical encoding of its description (ordered maps,
/// resources by name), without [`NOT_FINGERPRINTED`] properties and Spark's client version.
#[must_use]
pub fn driver_fingerprint(spec: &DriverSpec) -> Fingerprint {
    let mut message = driver_spec_message(spec);
    if let Some(spark) = &mut message.spark {
        spark.client_spark_version.clear();
        for property in NOT_FINGERPRINTED {
            spark.spark_properties.remove(property);
        }
    }
    digest(b"driver", &message)
}

/// The fingerprint of a registration: as [`driver_fingerprint`], without the address of the application's own
/// pages, which another process of the same application may change.
#[must_use]
pub fn application_fingerprint(spec: &ApplicationSpec) -> Fingerprint {
    let mut message = application_spec_message(spec);
    message.ui_url.clear();
    digest(b"application", &message)
}

/// What a kill or a clear is recognized by: the client's id for it, and the fingerprint of `verb` and what it is about
/// (empty: everything).
#[must_use]
pub fn request_key(id: impl Into<RequestId>, verb: &str, target: &str) -> RequestKey {
    RequestKey {
        id: id.into(),
        fingerprint: digest(verb.as_bytes(), &target.to_owned()),
    }
}

/// The kind is part of the digest, so that one id cannot name a driver and an application by accident.
fn digest(kind: &[u8], message: &impl Message) -> Fingerprint {
    let mut sha = Sha256::new();
    sha.update(kind);
    sha.update([0]);
    sha.update(message.encode_to_vec());
    Fingerprint(sha.finalize().into())
}

fn spark_submission(message: v1::SparkSubmission) -> SparkSubmission {
    SparkSubmission {
        app_resource: message.app_resource,
        main_class: message.main_class,
        app_args: message.app_args,
        properties: message.spark_properties,
        environment: message.environment,
        client_version: message.client_spark_version,
    }
}

fn spark_submission_message(spark: &SparkSubmission) -> v1::SparkSubmission {
    v1::SparkSubmission {
        app_resource: spark.app_resource.clone(),
        main_class: spark.main_class.clone(),
        app_args: spark.app_args.clone(),
        spark_properties: spark.properties.clone(),
        environment: spark.environment.clone(),
        client_spark_version: spark.client_version.clone(),
    }
}

/// The environment of a description, for tests of other edges.
#[cfg(test)]
pub(crate) fn env(pairs: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spark(properties: &[(&str, &str)]) -> DriverSpec {
        let message = v1::DriverSpec {
            name: "pi".into(),
            spark: Some(v1::SparkSubmission {
                app_resource: "file:/pi.jar".into(),
                main_class: "org.example.Pi".into(),
                app_args: vec!["10".into()],
                spark_properties: env(properties),
                environment: env(&[("SPARK_USER", "ann")]),
                client_spark_version: "4.3.0".into(),
            }),
            cores: 2,
            memory_mib: 1024,
            resources: vec![v1::ResourceAmount {
                name: "gpu".into(),
                amount: 1,
            }],
            supervise: true,
            ..Default::default()
        };
        driver_spec(message).expect("a valid description")
    }

    #[test]
    fn a_description_survives_the_way_in_and_out() {
        let spec = spark(&[("spark.app.name", "pi")]);
        let again = driver_spec(driver_spec_message(&spec)).expect("what we send we accept");
        assert_eq!(again, spec);

        let app = ApplicationSpec {
            name: "count".into(),
            command: CommandLine {
                program: "count".into(),
                ..CommandLine::default()
            },
            cores_max: Some(Cores(8)),
            memory_per_executor: MemoryMib(256),
            executor_limit: Some(0),
            completes: true,
            ..ApplicationSpec::default()
        };
        assert_eq!(application_spec(application_spec_message(&app)), Ok(app));
    }

    #[test]
    fn a_retry_of_the_same_submission_has_the_same_fingerprint() {
        let first = spark(&[("spark.app.submitTime", "1"), ("spark.app.name", "pi")]);
        let retry = spark(&[
            ("spark.app.submitTime", "2"),
            ("spark.app.name", "pi"),
            (SUBMISSION_ID_PROPERTY, "nightly"),
        ]);
        assert_eq!(driver_fingerprint(&first), driver_fingerprint(&retry));
    }

    #[test]
    fn another_body_has_another_fingerprint() {
        let base = spark(&[]);
        let mut bodies = vec![spark(&[("spark.app.name", "pi")])];
        bodies.push(DriverSpec {
            cores: Cores(3),
            ..base.clone()
        });
        bodies.push(DriverSpec {
            supervise: false,
            ..base.clone()
        });
        bodies.push(DriverSpec {
            resources: Amounts::new(),
            ..base.clone()
        });
        bodies.push(DriverSpec {
            name: "po".into(),
            ..base.clone()
        });
        for body in bodies {
            assert_ne!(
                driver_fingerprint(&base),
                driver_fingerprint(&body),
                "{body:?}"
            );
        }
    }

    #[test]
    fn an_application_may_come_back_with_another_page() {
        let app = ApplicationSpec {
            ui_url: "http://127.0.0.1:4040".into(),
            ..Default::default()
        };
        let moved = ApplicationSpec {
            ui_url: "http://127.0.0.1:4041".into(),
            ..app.clone()
        };
        assert_eq!(
            application_fingerprint(&app),
            application_fingerprint(&moved)
        );
    }

    #[test]
    fn a_workers_addresses_come_out_in_string_order() {
        let (id, spec) = worker_spec(v1::WorkerSpec {
            id: "w1".into(),
            cores: 4,
            memory_mib: 4096,
            resources: vec![v1::ResourceAddresses {
                name: "gpu".into(),
                addresses: vec!["1".into(), "0".into()],
            }],
            ..Default::default()
        })
        .expect("a valid worker");
        assert_eq!(id.as_str(), "w1");
        assert_eq!(spec.resources["gpu"], ["0", "1"]);
    }
}
