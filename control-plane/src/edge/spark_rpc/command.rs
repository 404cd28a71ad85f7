//! The command line of an application's executors: as our agents run it, and as Spark's own workers want it. Pure.
//!
//! What a driver says is kept in one form, with placeholders that agents fill in. Spark's workers make a command line of
//! their own out of the parts, so these are taken out of that form again.

use std::collections::BTreeMap;

use interrex_core::spec::{ApplicationSpec, CommandLine};
use interrex_proto::v1;
use interrex_spark_wire::message::{AppDescription, Command, ResourceProfile};

/// The placeholder that an executor's `--worker-url` has.
const WORKER_URL: &str = "{{WORKER_URL}}";
const WORKER_URL_OPTION: &str = "--worker-url";
/// What tells an executor the addresses of its custom resources; Spark's workers add it themselves.
const RESOURCES_OPTION: [&str; 2] = ["--resourcesFile", "{{RESOURCES_FILE}}"];
/// Where the options of the JVM begin: behind the class path and the size of the heap.
const OPTIONS_AT: usize = 3;
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
/// Variables that say where an agent has what; Spark's workers set their own.
const OF_AGENT: [&str; 4] = [
    "SPARK_HOME",
    "SPARK_LAUNCH_WITH_SCALA",
    "SPARK_EXECUTOR_DIRS",
    LIBRARY_PATH,
];

/// As Spark's worker starts an executor, but for `--worker-url`: with it an executor would end when its agent's port
/// closes. Here its supervisor ends it when its agent is gone, and that needs no port.
pub(super) fn line(app: &AppDescription, line: &str) -> v1::CommandLine {
    let home = home(line);
    let mut class_path = own_class_path(line);
    for entry in &app.command.class_path {
        class_path.push(':');
        class_path.push_str(entry);
    }
    let mut args = vec![
        "-cp".to_owned(),
        class_path,
        "-Xmx{{MEMORY_MIB}}M".to_owned(),
    ];
    args.extend(app.command.java_opts.iter().cloned());
    args.push(app.command.main_class.clone());
    let mut arguments = app.command.arguments.iter().peekable();
    while let Some(argument) = arguments.next() {
        if argument == WORKER_URL_OPTION && arguments.next_if(|next| *next == WORKER_URL).is_some()
        {
            continue;
        }
        args.push(argument.clone());
    }
    // An agent leaves this out where the executor has no resources of its own.
    args.extend(RESOURCES_OPTION.map(str::to_owned));
    let mut env = app.command.environment.clone();
    env.insert("SPARK_HOME".to_owned(), home);
    env.insert("SPARK_LAUNCH_WITH_SCALA".to_owned(), "0".to_owned());
    env.insert("SPARK_EXECUTOR_DIRS".to_owned(), "{{WORK_DIR}}".to_owned());
    if !app.command.library_path.is_empty() {
        let path = app.command.library_path.join(":");
        env.insert(LIBRARY_PATH.to_owned(), path);
    }
    v1::CommandLine {
        program: "{{JAVA}}".to_owned(),
        args,
        env,
    }
}

/// What one of Spark's own workers needs to know of an application to start its executors.
///
/// # Errors
/// In words: the application is none of Spark's, or its record does not tell.
pub(super) fn description(app: &ApplicationSpec) -> Result<AppDescription, String> {
    let spark = app.spark.as_ref();
    let spark = spark.ok_or("its application is none of Spark's")?;
    let amounts = &app.resources_per_executor;
    let custom = amounts.iter().map(|(n, a)| (n.clone(), i64::from(*a)));
    let mut executor: BTreeMap<String, i64> = custom.collect();
    let memory = i64::try_from(app.memory_per_executor.0).unwrap_or(i64::MAX);
    executor.insert("memory".to_owned(), memory);
    if let Some(cores) = app.cores_per_executor {
        executor.insert("cores".to_owned(), i64::from(cores.0));
    }
    Ok(AppDescription {
        name: app.name.clone(),
        user: app.user.clone(),
        cores_max: None,
        command: parts(&app.command, &spark.line, &spark.main_class)
            .ok_or("its record does not tell options of the JVM from arguments")?,
        ui_url: app.ui_url.clone(),
        executor_limit: None,
        profile: ResourceProfile { id: 0, executor },
    })
}

/// The inverse of [`line`]; the executor watches its worker again, as Spark means it to.
fn parts(command: &CommandLine, line: &str, main_class: &str) -> Option<Command> {
    let own = own_class_path(line);
    let class_path = command.args.get(1)?.strip_prefix(&own)?;
    let rest = command.args.get(OPTIONS_AT..)?;
    let main = rest.iter().position(|word| word == main_class)?;
    let arguments = rest.get(main + 1..)?;
    let mut arguments = arguments
        .strip_suffix(&RESOURCES_OPTION.map(str::to_owned))
        .unwrap_or(arguments)
        .to_vec();
    arguments.extend([WORKER_URL_OPTION, WORKER_URL].map(str::to_owned));
    let mut environment = command.env.clone();
    environment.retain(|name, _| !OF_AGENT.contains(&name.as_str()));
    Some(Command {
        main_class: main_class.to_owned(),
        arguments,
        environment,
        class_path: entries(class_path),
        library_path: entries(command.env.get(LIBRARY_PATH).map_or("", String::as_str)),
        java_opts: rest.get(..main)?.to_vec(),
    })
}

/// Where an agent has this line.
fn home(line: &str) -> String {
    format!("{{{{SPARK_HOME:{line}}}}}")
}

fn own_class_path(line: &str) -> String {
    let home = home(line);
    format!("{home}/conf:{home}/jars/*")
}

fn entries(path: &str) -> Vec<String> {
    let entries = path.split(':').filter(|entry| !entry.is_empty());
    entries.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use interrex_core::spec::SparkDriver;

    use super::*;
    use crate::messages;

    fn app() -> AppDescription {
        let strings = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        AppDescription {
            name: "sum".to_owned(),
            user: "ann".to_owned(),
            cores_max: Some(4),
            command: Command {
                main_class: "org.example.Backend".to_owned(),
                arguments: strings(&["--id", "{{EXECUTOR_ID}}", WORKER_URL_OPTION, WORKER_URL]),
                environment: BTreeMap::from([("SPARK_USER".to_owned(), "ann".to_owned())]),
                class_path: strings(&["/a.jar", "/b.jar"]),
                library_path: strings(&["/native", "/more"]),
                java_opts: strings(&["-Da=b", "--add-opens", "java.base/x=ALL-UNNAMED"]),
            },
            ui_url: String::new(),
            executor_limit: None,
            profile: ResourceProfile::default(),
        }
    }

    fn spec(app: &AppDescription) -> ApplicationSpec {
        ApplicationSpec {
            command: messages::command_line(line(app, "3.5")),
            spark: Some(SparkDriver {
                line: "3.5".to_owned(),
                main_class: app.command.main_class.clone(),
                ..SparkDriver::default()
            }),
            ..ApplicationSpec::default()
        }
    }

    #[test]
    fn a_worker_of_spark_gets_what_the_driver_has_said() {
        let described = description(&spec(&app())).expect("a driver of Spark");
        assert_eq!(described.command, app().command);
        let mut plain = app();
        plain.command.class_path.clear();
        plain.command.library_path.clear();
        let described = description(&spec(&plain)).expect("a driver of Spark");
        assert_eq!(described.command, plain.command);
    }

    #[test]
    fn what_the_record_does_not_tell_is_no_guess() {
        assert!(description(&ApplicationSpec::default()).is_err());
        let mut old = spec(&app());
        old.spark = Some(SparkDriver {
            line: "3.5".to_owned(),
            ..SparkDriver::default()
        });
        assert!(description(&old).is_err());
    }
}
