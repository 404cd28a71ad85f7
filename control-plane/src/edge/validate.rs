//! Every bound of a description, checked before anything reaches the log.
//!
//! Owned by the edges and called by [`convert`](super::convert): what passes here is safe to store, to hand to
//! an agent and to put on a command line. A refusal names the field, its value (shortened) and the limit.
//! Nothing here may depend on the state of the cluster: that is the core's to judge.

use std::collections::BTreeSet;

use interrex_proto::{
    limits::{EXECUTORS_WANTED_MAX, LIST_ENTRIES_MAX, PROFILES_PER_APP_MAX, SPEC_BYTES_MAX},
    v1,
};
use prost::Message;

pub use super::field::{FieldError, cores, cut, cut_message, id, memory, name, request_id, shown};
use super::field::{count, has_nul, text, twice, within};

/// Most capabilities that one worker can offer.
pub const CAPABILITIES_MAX: usize = 64;
/// Most kinds of custom resources in one description.
pub const RESOURCE_KINDS_MAX: usize = 64;
/// Most addresses or units of one custom resource.
pub const RESOURCE_AMOUNT_MAX: u32 = 65_536;
/// A driver's description. Exactly one payload must be set.
///
/// # Errors
/// [`FieldError`] with the first thing that is wrong.
pub fn driver_spec(spec: &v1::DriverSpec) -> Result<(), FieldError> {
    total_size(spec)?;
    name("name", &spec.name)?;
    name("user", &spec.user)?;
    cores("cores", spec.cores)?;
    memory("memory_mib", spec.memory_mib)?;
    amounts("resources", &spec.resources)?;
    match (&spec.command, &spec.spark) {
        (Some(command), None) => command_line(command),
        (None, Some(spark)) => spark_submission(spark),
        (None, None) => Err(FieldError::new(
            "command",
            "is missing; set `command` or `spark`",
        )),
        (Some(_), Some(_)) => Err(FieldError::new(
            "command",
            "and `spark` are both set; set only one of them",
        )),
    }
}

/// An application's description.
///
/// # Errors
/// [`FieldError`] with the first thing that is wrong.
pub fn application_spec(spec: &v1::ApplicationSpec) -> Result<(), FieldError> {
    total_size(spec)?;
    name("name", &spec.name)?;
    name("user", &spec.user)?;
    text("ui_url", &spec.ui_url)?;
    match &spec.command {
        Some(command) => command_line(command)?,
        None => return Err(FieldError::new("command", "is missing")),
    }
    if let Some(max) = spec.cores_max {
        cores("cores_max", max)?;
    }
    if let Some(each) = spec.cores_per_executor {
        cores("cores_per_executor", each)?;
    }
    memory("memory_mib_per_executor", spec.memory_mib_per_executor)?;
    if spec.spark.is_some() {
        return Err(FieldError::new(
            "spark",
            "is set by masters alone; leave it out",
        ));
    }
    amounts("resources_per_executor", &spec.resources_per_executor)
}

/// Totals of executors by profile. Whether a profile is known is the core's to say.
///
/// # Errors
/// [`FieldError`] with the first thing that is wrong.
pub fn request_executors(request: &v1::RequestExecutors) -> Result<(), FieldError> {
    total_size(request)?;
    if request.targets.is_empty() {
        return executors_wanted("total", request.total);
    }
    count("targets", request.targets.len(), PROFILES_PER_APP_MAX + 1)?;
    let mut named = BTreeSet::new();
    for target in &request.targets {
        let id = target.profile_id;
        if !named.insert(id) {
            let reason = format!("profile {id} is listed twice");
            return Err(FieldError::new("targets", reason));
        }
        executors_wanted(format!("targets.{id}.total"), target.total)?;
        match &target.profile {
            Some(_) if id == 0 => {
                let reason = "is set; profile 0 is the application's own description";
                return Err(FieldError::new("targets.0.profile", reason));
            }
            Some(profile) => resource_profile(id, profile)?,
            None => {}
        }
    }
    Ok(())
}

/// Executors to end.
///
/// # Errors
/// [`FieldError`] if there are too many.
pub fn kill_executors(kill: &v1::KillExecutors) -> Result<(), FieldError> {
    count("executor_ids", kill.executor_ids.len(), LIST_ENTRIES_MAX)
}

fn executors_wanted(
    field: impl Into<std::borrow::Cow<'static, str>>,
    total: u32,
) -> Result<(), FieldError> {
    if total <= EXECUTORS_WANTED_MAX {
        return Ok(());
    }
    let reason = format!("`{total}` executors; at most {EXECUTORS_WANTED_MAX} can be asked for");
    Err(FieldError::new(field, reason))
}

fn resource_profile(id: u32, profile: &v1::ResourceProfile) -> Result<(), FieldError> {
    if let Some(each) = profile.cores {
        cores(format!("targets.{id}.profile.cores"), each)?;
    }
    if let Some(mib) = profile.memory_mib {
        memory(format!("targets.{id}.profile.memory_mib"), mib)?;
    }
    amounts("targets.profile.resources", &profile.resources)
}

/// A worker's description, its id included.
///
/// # Errors
/// [`FieldError`] with the first thing that is wrong.
pub fn worker_spec(spec: &v1::WorkerSpec) -> Result<(), FieldError> {
    total_size(spec)?;
    id("id", &spec.id)?;
    name("host", &spec.host)?;
    name("web", &spec.web)?;
    name("incarnation", &spec.incarnation)?;
    name("work_dir_id", &spec.work_dir_id)?;
    cores("cores", spec.cores)?;
    memory("memory_mib", spec.memory_mib)?;
    count("capabilities", spec.capabilities.len(), CAPABILITIES_MAX)?;
    for capability in &spec.capabilities {
        id("capabilities", capability)?;
    }
    addresses("resources", &spec.resources)
}

fn command_line(command: &v1::CommandLine) -> Result<(), FieldError> {
    if command.program.is_empty() {
        return Err(FieldError::new(
            "command.program",
            "is empty; name a program",
        ));
    }
    text("command.program", &command.program)?;
    list("command.args", &command.args)?;
    environment("command.env", &command.env)
}

fn spark_submission(spark: &v1::SparkSubmission) -> Result<(), FieldError> {
    text("spark.app_resource", &spark.app_resource)?;
    text("spark.main_class", &spark.main_class)?;
    name("spark.client_spark_version", &spark.client_spark_version)?;
    list("spark.app_args", &spark.app_args)?;
    environment("spark.environment", &spark.environment)?;
    count(
        "spark.spark_properties",
        spark.spark_properties.len(),
        LIST_ENTRIES_MAX,
    )?;
    for (key, value) in &spark.spark_properties {
        if key.is_empty() || key.contains('=') || has_nul(key) {
            let reason = format!("{} is no property's name (empty, `=` or NUL)", shown(key));
            return Err(FieldError::new("spark.spark_properties", reason));
        }
        text(format!("spark.spark_properties.{}", cut(key)), value)?;
    }
    Ok(())
}

fn environment(
    field: &'static str,
    entries: &std::collections::BTreeMap<String, String>,
) -> Result<(), FieldError> {
    count(field, entries.len(), LIST_ENTRIES_MAX)?;
    for (key, value) in entries {
        if key.is_empty() || key.contains('=') || has_nul(key) {
            let reason = format!("{} is no variable's name (empty, `=` or NUL)", shown(key));
            return Err(FieldError::new(field, reason));
        }
        text(format!("{field}.{}", cut(key)), value)?;
    }
    Ok(())
}

fn list(field: &'static str, values: &[String]) -> Result<(), FieldError> {
    count(field, values.len(), LIST_ENTRIES_MAX)?;
    match values.iter().position(|value| has_nul(value)) {
        Some(at) => text(format!("{field}[{at}]"), &values[at]),
        None => Ok(()),
    }
}

fn amounts(field: &'static str, resources: &[v1::ResourceAmount]) -> Result<(), FieldError> {
    count(field, resources.len(), RESOURCE_KINDS_MAX)?;
    let mut names = BTreeSet::new();
    for resource in resources {
        id(field, &resource.name)?;
        if !names.insert(&resource.name) {
            return Err(twice(field, &resource.name));
        }
        within(
            format!("{field}.{}", cut(&resource.name)),
            u64::from(resource.amount),
            u64::from(RESOURCE_AMOUNT_MAX),
            "units",
        )?;
    }
    Ok(())
}

fn addresses(field: &'static str, resources: &[v1::ResourceAddresses]) -> Result<(), FieldError> {
    count(field, resources.len(), RESOURCE_KINDS_MAX)?;
    let mut names = BTreeSet::new();
    for resource in resources {
        id(field, &resource.name)?;
        if !names.insert(&resource.name) {
            return Err(twice(field, &resource.name));
        }
        let path = format!("{field}.{}", cut(&resource.name));
        let offered = u64::try_from(resource.addresses.len()).unwrap_or(u64::MAX);
        within(
            path.clone(),
            offered,
            u64::from(RESOURCE_AMOUNT_MAX),
            "addresses",
        )?;
        let mut seen = BTreeSet::new();
        for address in &resource.addresses {
            id(field, address)?;
            if !seen.insert(address) {
                return Err(twice(path, address));
            }
        }
    }
    Ok(())
}

fn total_size(message: &impl Message) -> Result<(), FieldError> {
    match message.encoded_len() {
        found if found > SPEC_BYTES_MAX => {
            let reason = format!("is {found} bytes; at most {SPEC_BYTES_MAX} are allowed in all");
            Err(FieldError::new("spec", reason))
        }
        _fits => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver() -> v1::DriverSpec {
        v1::DriverSpec {
            name: "wordcount".into(),
            command: Some(v1::CommandLine {
                program: "sh".into(),
                ..Default::default()
            }),
            cores: 1,
            memory_mib: 512,
            ..Default::default()
        }
    }

    fn refusal(change: impl FnOnce(&mut v1::DriverSpec)) -> String {
        let mut spec = driver();
        change(&mut spec);
        driver_spec(&spec).expect_err("must be refused").to_string()
    }

    #[test]
    fn a_plain_driver_passes() {
        assert_eq!(driver_spec(&driver()), Ok(()));
    }

    #[test]
    fn a_refusal_names_the_field_the_value_and_the_limit() {
        assert_eq!(
            refusal(|s| s.cores = 0),
            "cores: `0` cores; 1 to 1048576 are allowed"
        );
        assert_eq!(
            refusal(|s| s.memory_mib = u64::MAX),
            "memory_mib: `18446744073709551615` MiB; 1 to 1099511627776 are allowed"
        );
        let long = refusal(|s| s.name = "n".repeat(1000));
        assert!(
            long.starts_with("name: `nnnn") && long.contains("1000 bytes; at most 256"),
            "{long}"
        );
        assert!(long.len() < 200, "the value is shortened: {long}");
    }

    #[test]
    fn nul_bytes_are_refused_wherever_they_could_reach_a_process() {
        let command = |s: &mut v1::DriverSpec| s.command.take().unwrap_or_default();
        let program = refusal(|s| {
            s.command = Some(v1::CommandLine {
                program: "a\0".into(),
                ..command(s)
            })
        });
        assert!(
            program.starts_with("command.program: `a\\0` has a NUL byte"),
            "{program}"
        );
        let args = refusal(|s| {
            s.command = Some(v1::CommandLine {
                args: vec!["x".into(), "\0".into()],
                ..command(s)
            });
        });
        assert!(args.starts_with("command.args[1]"), "{args}");
        let env = refusal(|s| {
            let env = [("K".to_owned(), "v\0".to_owned())].into();
            s.command = Some(v1::CommandLine { env, ..command(s) });
        });
        assert!(env.starts_with("command.env.K"), "{env}");
        let key = refusal(|s| {
            let env = [("A=B".to_owned(), String::new())].into();
            s.command = Some(v1::CommandLine { env, ..command(s) });
        });
        assert!(key.contains("`A=B` is no variable's name"), "{key}");
    }

    #[test]
    fn a_description_of_more_than_a_mebibyte_is_refused() {
        let big = refusal(|s| {
            let args = vec!["x".repeat(SPEC_BYTES_MAX)];
            s.command = Some(v1::CommandLine {
                program: "sh".into(),
                args,
                ..Default::default()
            });
        });
        assert!(
            big.starts_with("spec: is ") && big.contains("at most 1048576"),
            "{big}"
        );
    }

    #[test]
    fn exactly_one_payload_is_required() {
        assert!(refusal(|s| s.command = None).contains("is missing"));
        assert!(refusal(|s| s.spark = Some(v1::SparkSubmission::default())).contains("both set"));
        assert!(
            refusal(|s| s.command = Some(v1::CommandLine::default()))
                .contains("command.program: is empty")
        );
    }

    #[test]
    fn resources_are_listed_once_and_positive() {
        let gpu = |amount| v1::ResourceAmount {
            name: "gpu".into(),
            amount,
        };
        assert!(refusal(|s| s.resources = vec![gpu(0)]).starts_with("resources.gpu: `0` units"));
        assert!(refusal(|s| s.resources = vec![gpu(1), gpu(1)]).contains("listed twice"));
    }
}
