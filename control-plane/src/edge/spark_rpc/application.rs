//! What a driver of Spark says of its application → a checked specification, and the id of its request.
//!
//! Pure. Executors are started by a command line with placeholders that agents fill in: which installation of Spark
//! runs them is the agent's matter, that it is of the driver's line is the scheduler's.

use std::fmt::Write;

use interrex_core::{
    command::ExecutorTarget,
    ids::{ProfileId, RequestId},
    resources::{Amounts, Cores, MemoryMib},
    spec::{ApplicationSpec, SparkDriver},
};
use interrex_proto::{limits::NAME_BYTES_MAX, v1};
use interrex_spark_wire::{
    Address,
    message::{AppDescription, ResourceProfile},
};
use sha2::{Digest, Sha256};

use super::command;
use crate::edge::{convert, validate::FieldError};

/// What an executor has if its driver does not say (as in Spark).
const DEFAULT_MEMORY_MIB: u64 = 1024;
/// Resources of a profile that a worker does not hand out by addresses.
const NOT_CUSTOM: [&str; 5] = [
    "cores",
    "memory",
    "offHeap",
    "memoryOverhead",
    "pyspark.memory",
];

/// A registration, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Registration {
    /// The same for every repeat of the same registration, over whatever connection, to whatever master.
    pub(super) request: RequestId,
    /// What is asked for.
    pub(super) spec: ApplicationSpec,
}

// === impl Registration ===

impl Registration {
    /// `stream` is the message as it came: a repeat has the same bytes.
    ///
    /// # Errors
    /// [`FieldError`] with the first thing that is wrong.
    pub(super) fn new(
        app: &AppDescription,
        stream: &[u8],
        line: &str,
        driver: Address,
        endpoint: String,
    ) -> Result<Self, FieldError> {
        let mut spec = convert::application_spec(message(app, line)?)?;
        let request = request_id(&driver, stream);
        let Address { host, port } = driver;
        let line = line.to_owned();
        spec.spark = Some(SparkDriver {
            line,
            host,
            port,
            endpoint,
            main_class: app.command.main_class.clone(),
        });
        Ok(Self { request, spec })
    }

    /// Another application of the same driver address with the same description: its process was started anew.
    pub(super) fn renew(&mut self) {
        let fresh = uuid::Uuid::new_v4().simple();
        self.request = RequestId::from(format!("{}-{fresh}", self.request));
    }
}

fn request_id(driver: &Address, stream: &[u8]) -> RequestId {
    let mut sha = Sha256::new();
    sha.update(driver.to_string());
    sha.update([0]);
    sha.update(stream);
    let mut id = "spark-".to_owned();
    for byte in sha.finalize().iter().take(16) {
        // Writing to a string cannot fail.
        write!(id, "{byte:02x}").ok();
    }
    RequestId::from(id)
}

fn message(app: &AppDescription, line: &str) -> Result<v1::ApplicationSpec, FieldError> {
    let number = |field: &'static str, value: Option<i64>| {
        let checked = value.map(u32::try_from).transpose();
        checked.map_err(|_out_of_range| {
            let shown = value.unwrap_or_default();
            FieldError::new(field, format!("`{shown}` is out of range"))
        })
    };
    let profile = &app.profile;
    Ok(v1::ApplicationSpec {
        name: cut(&app.name),
        user: cut(&app.user),
        command: Some(command::line(app, line)),
        cores_max: number("maxCores", app.cores_max.map(i64::from))?,
        cores_per_executor: number("cores of an executor", profile.cores())?,
        memory_mib_per_executor: memory(profile).unwrap_or(DEFAULT_MEMORY_MIB),
        resources_per_executor: custom(profile)
            .map(|(name, amount)| v1::ResourceAmount { name, amount })
            .collect(),
        executor_limit: number("initialExecutorLimit", app.executor_limit.map(i64::from))?,
        ui_url: app.ui_url.clone(),
        ..v1::ApplicationSpec::default()
    })
}

fn memory(profile: &ResourceProfile) -> Option<u64> {
    u64::try_from(profile.memory_mib()?).ok()
}

/// Such as GPUs.
fn custom(profile: &ResourceProfile) -> impl Iterator<Item = (String, u32)> {
    let all = profile.executor.iter();
    let custom = all.filter(|(name, amount)| !NOT_CUSTOM.contains(&name.as_str()) && **amount > 0);
    custom.map(|(name, amount)| (name.clone(), u32::try_from(*amount).unwrap_or(u32::MAX)))
}

/// Totals for each profile, as a driver asks for them.
///
/// # Errors
/// A number that is out of range.
pub(super) fn targets(
    totals: &[(ResourceProfile, i32)],
) -> Result<Vec<ExecutorTarget>, FieldError> {
    totals
        .iter()
        .map(|(profile, total)| target(profile, *total))
        .collect()
}

fn target(profile: &ResourceProfile, total: i32) -> Result<ExecutorTarget, FieldError> {
    let out_of_range = |field| move |_ignored| FieldError::new(field, "is out of range");
    let id = u32::try_from(profile.id).map_err(out_of_range("profile"))?;
    let total = u32::try_from(total).map_err(out_of_range("total"))?;
    if id == 0 {
        return Ok(ExecutorTarget::of_default(total));
    }
    let cores = profile.cores().map(u32::try_from).transpose();
    let needs = interrex_core::spec::ResourceProfile {
        cores: cores.map_err(out_of_range("cores"))?.map(Cores),
        memory: memory(profile).map(MemoryMib),
        resources: custom(profile).collect::<Amounts>(),
    };
    Ok(ExecutorTarget {
        profile: ProfileId(id),
        needs: Some(std::sync::Arc::new(needs)),
        total,
    })
}

/// A name that fits; Spark's may be of any length.
fn cut(name: &str) -> String {
    let mut end = name.len().min(NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use interrex_spark_wire::message::Command;

    use super::*;

    fn app() -> AppDescription {
        let strings = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        AppDescription {
            name: "sum".to_owned(),
            user: "ann".to_owned(),
            cores_max: Some(4),
            command: Command {
                main_class: "org.example.Backend".to_owned(),
                arguments: strings(&[
                    "--cores",
                    "{{CORES}}",
                    "--worker-url",
                    "{{WORKER_URL}}",
                    "--id",
                    "{{EXECUTOR_ID}}",
                ]),
                environment: BTreeMap::from([("SPARK_USER".to_owned(), "ann".to_owned())]),
                class_path: strings(&["/extra.jar"]),
                library_path: strings(&["/native"]),
                java_opts: strings(&["-Da=b"]),
            },
            ui_url: "http://d1:4040".to_owned(),
            executor_limit: Some(2),
            profile: ResourceProfile {
                id: 0,
                executor: BTreeMap::from([
                    ("memory".to_owned(), 512),
                    ("cores".to_owned(), 2),
                    ("gpu".to_owned(), 1),
                ]),
            },
        }
    }

    fn registration(app: &AppDescription, stream: &[u8]) -> Result<Registration, FieldError> {
        Registration::new(
            app,
            stream,
            "3.5",
            Address::new("d1", 40_000),
            "AppClient".to_owned(),
        )
    }

    #[test]
    fn an_executor_is_started_as_sparks_worker_would_without_a_worker_url() {
        let spec = registration(&app(), b"x").expect("valid").spec;
        assert_eq!(spec.command.program, "{{JAVA}}");
        assert_eq!(
            spec.command.args,
            [
                "-cp",
                "{{SPARK_HOME:3.5}}/conf:{{SPARK_HOME:3.5}}/jars/*:/extra.jar",
                "-Xmx{{MEMORY_MIB}}M",
                "-Da=b",
                "org.example.Backend",
                "--cores",
                "{{CORES}}",
                "--id",
                "{{EXECUTOR_ID}}",
                "--resourcesFile",
                "{{RESOURCES_FILE}}",
            ]
        );
        assert_eq!(spec.command.env["SPARK_HOME"], "{{SPARK_HOME:3.5}}");
        assert_eq!(spec.command.env["LD_LIBRARY_PATH"], "/native");
        assert_eq!(spec.command.env["SPARK_USER"], "ann");
    }

    #[test]
    fn what_is_asked_for_comes_from_the_description_and_its_profile() {
        let spec = registration(&app(), b"x").expect("valid").spec;
        assert_eq!(
            (spec.cores_max, spec.cores_per_executor),
            (Some(Cores(4)), Some(Cores(2)))
        );
        assert_eq!(spec.memory_per_executor, MemoryMib(512));
        assert_eq!(
            spec.resources_per_executor,
            Amounts::from([("gpu".to_owned(), 1)])
        );
        assert_eq!(spec.executor_limit, Some(2));
        let driver = spec.spark.expect("a driver of Spark");
        assert_eq!(driver.capability(), "spark-3.5");
        assert_eq!((driver.host.as_str(), driver.port), ("d1", 40_000));
    }

    #[test]
    fn a_repeat_has_the_same_request_and_another_driver_another_one() {
        let first = registration(&app(), b"x").expect("valid");
        assert_eq!(registration(&app(), b"x"), Ok(first.clone()));
        let other = registration(&app(), b"y").expect("valid");
        assert_ne!(other.request, first.request);
        let mut renewed = first.clone();
        renewed.renew();
        assert_ne!(renewed.request, first.request);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let mut negative = app();
        negative.cores_max = Some(-1);
        let refused = registration(&negative, b"x").expect_err("negative");
        assert_eq!(refused.to_string(), "maxCores: `-1` is out of range");
        let mut long = app();
        long.name = "ü".repeat(500);
        assert_eq!(
            registration(&long, b"x").expect("cut").spec.name.len(),
            NAME_BYTES_MAX
        );
    }

    #[test]
    fn totals_are_about_the_application_or_a_profile_of_its_own() {
        let own = ResourceProfile {
            id: 3,
            ..app().profile
        };
        let asked = targets(&[(app().profile, 5), (own, 1)]).expect("valid");
        assert_eq!(asked[0], ExecutorTarget::of_default(5));
        assert_eq!((asked[1].profile, asked[1].total), (ProfileId(3), 1));
        assert_eq!(
            asked[1].needs.as_ref().expect("described").cores,
            Some(Cores(2))
        );
        assert!(targets(&[(app().profile, -1)]).is_err());
    }
}
