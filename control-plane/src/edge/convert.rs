//! The checked way in, and the fingerprints of what comes.
//!
//! Used by the gRPC and REST edges alike, so that the same description has the same specification and the same
//! fingerprint whichever way it came. The functions named after a specification check it first ([`validate`]); how
//! messages and the core correspond is said in [`messages`].

use interrex_core::{
    command::RequestKey,
    ids::{Fingerprint, RequestId, WorkerId},
    spec::{ApplicationSpec, DriverPayload, DriverSpec, WorkerSpec},
};
use interrex_proto::v1;
use prost::Message;
use sha2::{Digest, Sha256};

use super::validate::{self, FieldError};
use crate::messages::{self, application_spec_message, driver_spec_message};

/// The Spark property that carries a submission's id.
pub const SUBMISSION_ID_PROPERTY: &str = "spark.interrex.submissionId";

/// Properties that a retry of the same submission may change: Spark's client stamps each try with the time, and
/// the submission's id can come as a header in one try and as a property in the next.
const NOT_FINGERPRINTED: [&str; 2] = ["spark.app.submitTime", SUBMISSION_ID_PROPERTY];

/// A driver's description, checked. One of Spark's will ask for executors, whether it says so or not.
///
/// # Errors
/// [`FieldError`] with the first thing that is wrong.
pub fn driver_spec(message: v1::DriverSpec) -> Result<DriverSpec, FieldError> {
    validate::driver_spec(&message)?;
    let mut spec = messages::driver_spec(message);
    spec.needs_executors |= match spec.payload {
        DriverPayload::Spark(_) => true,
        DriverPayload::Command(_) => false,
    };
    Ok(spec)
}

/// An application's description, checked.
///
/// # Errors
/// [`FieldError`] with the first thing that is wrong.
pub fn application_spec(message: v1::ApplicationSpec) -> Result<ApplicationSpec, FieldError> {
    validate::application_spec(&message)?;
    Ok(messages::application_spec(message))
}

/// A worker's id and description, checked.
///
/// # Errors
/// [`FieldError`] with the first thing that is wrong.
pub fn worker_spec(message: v1::WorkerSpec) -> Result<(WorkerId, WorkerSpec), FieldError> {
    validate::worker_spec(&message)?;
    Ok(messages::worker_spec(message))
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
    use interrex_core::{
        resources::{Amounts, Cores, MemoryMib},
        spec::CommandLine,
    };

    use super::*;

    #[test]
    fn a_driver_of_spark_needs_executors_whether_it_says_so_or_not() {
        assert!(spark(&[]).needs_executors);
        let plain = v1::DriverSpec {
            name: "x".into(),
            cores: 1,
            memory_mib: 1,
            command: Some(v1::CommandLine {
                program: "true".into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let needy = v1::DriverSpec {
            needs_executors: true,
            ..plain.clone()
        };
        let needs = |message| driver_spec(message).expect("valid").needs_executors;
        assert_eq!((needs(plain), needs(needy)), (false, true));
    }

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
