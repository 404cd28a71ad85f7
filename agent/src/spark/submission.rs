//! A submission in Spark's words → the command that runs its driver here. Pure.
//!
//! Spark's own `spark-submit` runs it in client mode, with **all** masters: it knows jars by URL, packages and Python,
//! and the driver is not tied to the master that it was submitted to.

use interrex_proto::v1::{CommandLine, SparkSubmission};

/// Properties that were about the submission, and would be wrong or worse for the driver.
const NOT_PASSED: [&str; 7] = [
    "spark.master",
    "spark.submit.deployMode",
    "spark.driver.supervise",
    "spark.driver.memory",
    "spark.driver.host",
    "spark.driver.bindAddress",
    "spark.master.rest.enabled",
];
/// Variables of the submitter's machine that mean nothing here.
const NOT_INHERITED: [&str; 5] = [
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "SPARK_ENV_LOADED",
    "SPARK_LOCAL_IP",
    "SPARK_LOCAL_HOSTNAME",
];
const LINE_PREFIX: &str = "spark-";

/// The command, for an agent that offers `capabilities`.
///
/// # Errors
/// In words: this agent does not have its line of Spark.
pub(crate) fn command(
    spark: &SparkSubmission,
    capabilities: &[String],
) -> Result<CommandLine, String> {
    let line = line(&spark.client_spark_version, capabilities)?;
    let home = format!("{{{{SPARK_HOME:{line}}}}}");
    let mut args: Vec<String> = [
        "--master",
        "spark://{{MASTERS}}",
        "--deploy-mode",
        "client",
        "--driver-memory",
        "{{MEMORY_MIB}}m",
    ]
    .map(str::to_owned)
    .to_vec();
    for (name, value) in &spark.spark_properties {
        if !NOT_PASSED.contains(&name.as_str()) {
            args.extend(["--conf".to_owned(), format!("{name}={value}")]);
        }
    }
    if !spark.main_class.is_empty() {
        args.extend(["--class".to_owned(), spark.main_class.clone()]);
    }
    args.push(spark.app_resource.clone());
    args.extend(spark.app_args.iter().cloned());
    let mut env = spark.environment.clone();
    env.retain(|name, _| !NOT_INHERITED.contains(&name.as_str()));
    env.insert("SPARK_HOME".to_owned(), home.clone());
    Ok(CommandLine {
        program: format!("{home}/bin/spark-submit"),
        args,
        env,
    })
}

/// The line of the client; the first that is offered where it does not say a version.
fn line<'a>(version: &str, capabilities: &'a [String]) -> Result<&'a str, String> {
    let mut offered = capabilities
        .iter()
        .filter_map(|c| c.strip_prefix(LINE_PREFIX));
    let found = offered.find(|line| {
        let rest = version.strip_prefix(line);
        version.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    });
    found.ok_or_else(|| {
        format!("this agent has no Spark {version}: give it one with --spark-home, or submit a plain command")
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn submission(version: &str) -> SparkSubmission {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect()
        };
        SparkSubmission {
            app_resource: "file:/pi.jar".to_owned(),
            main_class: "org.example.Pi".to_owned(),
            app_args: vec!["10".to_owned()],
            spark_properties: map(&[
                ("spark.app.name", "pi"),
                ("spark.master", "spark://m1:7077"),
                ("spark.submit.deployMode", "cluster"),
            ]),
            environment: map(&[("SPARK_USER", "ann"), ("SPARK_HOME", "/theirs")]),
            client_spark_version: version.to_owned(),
        }
    }

    fn offered() -> Vec<String> {
        ["gpu-box", "spark", "spark-3.5", "spark-4.1"]
            .map(str::to_owned)
            .to_vec()
    }

    #[test]
    fn a_driver_runs_in_client_mode_with_all_masters() {
        let command = command(&submission("4.1.4"), &offered()).expect("offered");
        assert_eq!(command.program, "{{SPARK_HOME:4.1}}/bin/spark-submit");
        assert_eq!(
            command.args,
            [
                "--master",
                "spark://{{MASTERS}}",
                "--deploy-mode",
                "client",
                "--driver-memory",
                "{{MEMORY_MIB}}m",
                "--conf",
                "spark.app.name=pi",
                "--class",
                "org.example.Pi",
                "file:/pi.jar",
                "10",
            ]
        );
        assert_eq!(command.env["SPARK_HOME"], "{{SPARK_HOME:4.1}}");
        assert_eq!(command.env["SPARK_USER"], "ann");
    }

    #[test]
    fn its_line_is_the_clients_and_nothing_like_it() {
        let program = |version: &str| command(&submission(version), &offered()).map(|c| c.program);
        assert_eq!(
            program("3.5.9").as_deref(),
            Ok("{{SPARK_HOME:3.5}}/bin/spark-submit")
        );
        assert_eq!(
            program("").as_deref(),
            Ok("{{SPARK_HOME:3.5}}/bin/spark-submit")
        );
        let refused = program("4.10.0").expect_err("4.1 is another line");
        assert!(
            refused.contains("4.10.0") && refused.contains("--spark-home"),
            "{refused}"
        );
        assert!(command(&submission("4.1.4"), &[]).is_err());
    }
}
