//! Orders of the leader → Spark's `LaunchExecutor` and `LaunchDriver`. Pure.
//!
//! A driver is known to a worker by its id and its attempt, `driver-1.2`: what an older attempt says later is told from
//! what the newest one says.

use std::collections::BTreeMap;

use interrex_core::{
    command::Subject,
    ids::{Attempt, DriverId},
    spec::ApplicationSpec,
};
use interrex_proto::v1;
use interrex_spark_wire::message::{Command, DriverDescription, ExecutorLaunch, ToWorker};

use crate::edge::spark_rpc::command;

/// What starts a driver's class at Spark's workers, and watches the worker beside it.
const WRAPPER: &str = "org.apache.spark.deploy.worker.DriverWrapper";
/// Properties that were about the submission, or that the worker's end of it has to say.
const NOT_PASSED: [&str; 6] = [
    "spark.master",
    "spark.driver.supervise",
    "spark.driver.host",
    "spark.driver.bindAddress",
    "spark.master.rest.enabled",
    "spark.driver.extraJavaOptions",
];
/// What Spark needs of a JVM since Java 17, as `spark-submit` passes it.
const JAVA_MODULES: [&str; 16] = [
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.invoke=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.cs=ALL-UNNAMED",
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
    "--add-opens=java.base/sun.util.calendar=ALL-UNNAMED",
    "-Djdk.reflect.useDirectMethodHandle=false",
];

/// An executor of `app`.
///
/// # Errors
/// In words: why it cannot be started by a worker of Spark.
pub(super) fn executor(
    launch: &v1::LaunchExecutor,
    app: &ApplicationSpec,
    master_url: &str,
) -> Result<ToWorker, String> {
    Ok(ToWorker::LaunchExecutor(Box::new(ExecutorLaunch {
        master_url: master_url.to_owned(),
        app_id: launch.app_id.clone(),
        id: number("executor_id", u64::from(launch.executor_id))?,
        profile: number("resource_profile", u64::from(launch.resource_profile))?,
        app: command::description(app)?,
        cores: number("cores", u64::from(launch.cores))?,
        memory_mib: number("memory_mib", launch.memory_mib)?,
        resources: resources(&launch.resources),
    })))
}

/// A driver, for which all `masters` are to be named: `a:7077,b:7077`.
///
/// # Errors
/// In words: why it cannot be started by a worker of Spark.
pub(super) fn driver(launch: &v1::LaunchDriver, masters: &str) -> Result<ToWorker, String> {
    let spec = launch.spec.as_ref().ok_or("the order has no description")?;
    if spec.at_most_once {
        return Err("Spark's workers keep no lease: it could run twice".to_owned());
    }
    let spark = spec.spark.as_ref();
    let spark = spark.ok_or("Spark's workers start no plain programs")?;
    let mut arguments = vec![
        "{{WORKER_URL}}".to_owned(),
        "{{USER_JAR}}".to_owned(),
        spark.main_class.clone(),
    ];
    arguments.extend(spark.app_args.iter().cloned());
    let property = |name: &str| spark.spark_properties.get(name).map_or("", String::as_str);
    let mut java_opts: Vec<String> = JAVA_MODULES.map(str::to_owned).to_vec();
    for (name, value) in &spark.spark_properties {
        if !NOT_PASSED.contains(&name.as_str()) {
            java_opts.push(format!("-D{name}={value}"));
        }
    }
    java_opts.push(format!("-Dspark.master=spark://{masters}"));
    let more = property("spark.driver.extraJavaOptions").split_whitespace();
    java_opts.extend(more.map(str::to_owned));
    let description = DriverDescription {
        jar_url: spark.app_resource.clone(),
        memory_mib: number("memory_mib", spec.memory_mib)?,
        cores: number("cores", u64::from(spec.cores))?,
        // The leader starts it again, with a higher attempt.
        supervise: false,
        command: Command {
            main_class: WRAPPER.to_owned(),
            arguments,
            environment: spark.environment.clone(),
            class_path: entries(property("spark.driver.extraClassPath")),
            library_path: entries(property("spark.driver.extraLibraryPath")),
            java_opts,
        },
    };
    Ok(ToWorker::LaunchDriver {
        id: driver_name(&launch.driver_id, launch.attempt),
        driver: Box::new(description),
        resources: resources(&launch.resources),
    })
}

/// How a worker of Spark calls an attempt of a driver.
pub(crate) fn driver_name(id: &str, attempt: u32) -> String {
    format!("{id}.{attempt}")
}

/// The inverse; nothing for what is none of ours.
pub(super) fn driver_subject(name: &str) -> Option<Subject> {
    let (id, attempt) = name.rsplit_once('.')?;
    Some(Subject::Driver {
        driver: DriverId::from(id.to_owned()),
        attempt: Attempt(attempt.parse().ok()?),
    })
}

fn number(field: &str, value: u64) -> Result<i32, String> {
    i32::try_from(value)
        .map_err(|_ignored| format!("{field}: {value} is more than Spark can count"))
}

fn resources(assigned: &[v1::ResourceAddresses]) -> BTreeMap<String, Vec<String>> {
    let pairs = assigned
        .iter()
        .map(|r| (r.name.clone(), r.addresses.clone()));
    pairs.collect()
}

fn entries(path: &str) -> Vec<String> {
    let entries = path.split(':').filter(|entry| !entry.is_empty());
    entries.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> v1::LaunchDriver {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let owned = pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            owned.collect()
        };
        v1::LaunchDriver {
            driver_id: "driver-7".to_owned(),
            attempt: 3,
            spec: Some(v1::DriverSpec {
                cores: 1,
                memory_mib: 512,
                supervise: true,
                spark: Some(v1::SparkSubmission {
                    app_resource: "file:/pi.jar".to_owned(),
                    main_class: "org.example.Pi".to_owned(),
                    app_args: vec!["10".to_owned()],
                    spark_properties: map(&[
                        ("spark.app.name", "pi"),
                        ("spark.master", "spark://one:7077"),
                        ("spark.driver.extraJavaOptions", "-Da=b -Dc=d"),
                        ("spark.driver.extraClassPath", "/x.jar:/y.jar"),
                    ]),
                    ..v1::SparkSubmission::default()
                }),
                ..v1::DriverSpec::default()
            }),
            ..v1::LaunchDriver::default()
        }
    }

    #[test]
    fn a_driver_gets_all_masters_and_is_called_by_its_attempt() {
        let message = driver(&order(), "a:1,b:2").expect("a jar");
        let ToWorker::LaunchDriver { id, driver, .. } = message else {
            panic!("a launch");
        };
        assert_eq!(id, "driver-7.3");
        let opts = &driver.command.java_opts;
        assert!(
            opts.contains(&"-Dspark.master=spark://a:1,b:2".to_owned()),
            "{opts:?}"
        );
        assert!(
            !opts.contains(&"-Dspark.master=spark://one:7077".to_owned()),
            "{opts:?}"
        );
        assert!(
            opts.ends_with(&["-Da=b".to_owned(), "-Dc=d".to_owned()]),
            "{opts:?}"
        );
        assert!(!driver.supervise, "the leader supervises");
        assert_eq!(driver.command.class_path, ["/x.jar", "/y.jar"]);
        let subject = driver_subject(&id).expect("ours");
        let expected = Subject::Driver {
            driver: "driver-7".into(),
            attempt: Attempt(3),
        };
        assert_eq!(subject, expected);
        assert_eq!(driver_subject("driver-20261130-0001"), None);
    }

    #[test]
    fn what_sparks_workers_cannot_keep_is_refused_here_too() {
        let mut once = order();
        if let Some(spec) = &mut once.spec {
            spec.at_most_once = true;
        }
        assert!(driver(&once, "a:1").is_err());
        let mut plain = order();
        if let Some(spec) = &mut plain.spec {
            spec.spark = None;
        }
        assert!(driver(&plain, "a:1").is_err());
    }
}
