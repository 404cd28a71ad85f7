//! What a program gets: its placeholders replaced, and its environment.
//!
//! `{{NAME}}` is replaced in the program, its arguments and the values of its environment; unknown names stay as they
//! are. The same values come as `INTERREX_NAME` in the environment. An argument that is `{{RESOURCES_FILE}}` is left out,
//! together with the option before it, where there is no such file.

use std::{collections::BTreeMap, env, path::Path};

use interrex_proto::{trace::TRACEPARENT_VARIABLE, v1::CommandLine};

use crate::{
    process::{Launch, key::WorkKey, proc::TOKEN_VARIABLE, resources},
    spark::SparkHomes,
};

/// What of the agent's own environment a program inherits.
const INHERITED: [&str; 9] = [
    "PATH", "HOME", "LANG", "LC_ALL", "USER", "LOGNAME", "SHELL", "TZ", "TMPDIR",
];
/// The placeholder that has a value only where something has custom resources.
const RESOURCES_FILE: &str = "RESOURCES_FILE";
/// The search path where the agent itself has none.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What is the same for every program of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The name under which other machines reach this one.
    pub host: String,
    /// Where this agent serves its logs, such as `http://host:8081`.
    pub worker_url: String,
    /// The installations of Spark that it offers.
    pub spark: SparkHomes,
}

/// A command that is ready to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
}

/// Renders a launch that runs in `directory`. `resources_file` lists the addresses of its custom resources, where it has any. `token` marks the
/// processes of the attempt and cannot be overridden.
#[must_use]
pub fn render(
    launch: &Launch,
    site: &Site,
    directory: &Path,
    resources_file: Option<&Path>,
    token: &str,
) -> Rendered {
    let mut values = values(launch, site);
    values.insert("WORK_DIR", directory.to_string_lossy().into_owned());
    if let Some(path) = resources_file {
        values.insert(RESOURCES_FILE, path.to_string_lossy().into_owned());
    }
    let CommandLine {
        program,
        args,
        env: wanted,
    } = &launch.command;
    let mut environment: BTreeMap<String, String> = INHERITED
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), env::var(name).ok()?)))
        .collect();
    environment
        .entry("PATH".to_owned())
        .or_insert_with(|| DEFAULT_PATH.to_owned());
    for (name, value) in &values {
        environment.insert(format!("INTERREX_{name}"), value.clone());
    }
    // Where Spark is, is of interest where it is asked for only.
    let mut values: BTreeMap<String, String> = values
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    values.extend(site.spark.placeholders());
    environment.extend(resources::variables(&launch.resources));
    if let Some(place) = &launch.trace {
        environment.insert(TRACEPARENT_VARIABLE.to_owned(), place.as_str().to_owned());
    }
    for (name, value) in wanted {
        environment.insert(name.clone(), replace(value, &values));
    }
    environment.insert(TOKEN_VARIABLE.to_owned(), token.to_owned());
    Rendered {
        program: replace(program, &values),
        args: arguments(args, &values),
        env: environment,
    }
}

fn values(launch: &Launch, site: &Site) -> BTreeMap<&'static str, String> {
    let mut values = BTreeMap::from([
        ("CORES", launch.cores.to_string()),
        ("EPOCH", launch.epoch.to_string()),
        ("HOSTNAME", site.host.clone()),
        ("MASTERS", launch.masters.join(",")),
        ("MEMORY_MIB", launch.memory_mib.to_string()),
        (
            "RESOURCES",
            serde_json::to_string(&launch.resources).unwrap_or_default(),
        ),
        ("WORKER_URL", site.worker_url.clone()),
    ]);
    match &launch.key {
        WorkKey::Driver { driver_id, attempt } => {
            values.insert("DRIVER_ID", driver_id.clone());
            values.insert("ATTEMPT", attempt.to_string());
        }
        WorkKey::Executor {
            app_id,
            executor_id,
        } => {
            values.insert("APP_ID", app_id.clone());
            values.insert("EXECUTOR_ID", executor_id.to_string());
            values.insert("RESOURCE_PROFILE_ID", launch.resource_profile.to_string());
        }
    }
    values
}

fn arguments(args: &[String], values: &BTreeMap<String, String>) -> Vec<String> {
    let absent = |arg: &String| {
        !values.contains_key(RESOURCES_FILE) && *arg == format!("{{{{{RESOURCES_FILE}}}}}")
    };
    let mut kept = Vec::with_capacity(args.len());
    for arg in args {
        if absent(arg) {
            // The option that it is the value of.
            kept.pop();
        } else {
            kept.push(replace(arg, values));
        }
    }
    kept
}

/// One pass from left to right: what a value brings in is not looked at again.
fn replace(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        result.push_str(before);
        let known = after
            .split_once("}}")
            .and_then(|(name, tail)| Some((values.get(name)?, tail)));
        if let Some((value, tail)) = known {
            result.push_str(value);
            rest = tail;
        } else {
            result.push_str("{{");
            rest = after;
        }
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use interrex_proto::trace::Traceparent;

    use super::*;

    fn launch(key: WorkKey) -> Launch {
        Launch {
            key,
            name: String::new(),
            command: CommandLine {
                program: "/opt/{{APP_ID}}/run".to_owned(),
                args: vec![
                    "{{EXECUTOR_ID}}/{{CORES}}/{{RESOURCE_PROFILE_ID}}".to_owned(),
                    "{{NOPE}} {{ {{EPOCH}}".to_owned(),
                ],
                env: BTreeMap::from([
                    ("WHERE".to_owned(), "{{HOSTNAME}} {{WORKER_URL}}".to_owned()),
                    ("INTERREX_CORES".to_owned(), "mine".to_owned()),
                    (TOKEN_VARIABLE.to_owned(), "forged".to_owned()),
                ]),
            },
            epoch: 6,
            cores: 2,
            memory_mib: 512,
            resources: BTreeMap::from([("gpu".to_owned(), vec!["0".to_owned()])]),
            masters: vec!["a:1".to_owned(), "b:2".to_owned()],
            resource_profile: 4,
            lease: None,
            trace: None,
        }
    }

    fn site() -> Site {
        Site {
            host: "h1".to_owned(),
            worker_url: "http://h1:8081".to_owned(),
            spark: SparkHomes::default(),
        }
    }

    #[test]
    fn placeholders_are_replaced_everywhere_and_unknown_ones_stay() {
        let rendered = render(
            &launch(WorkKey::executor("app-1", 3)),
            &site(),
            Path::new("/w"),
            None,
            "t",
        );
        assert_eq!(rendered.program, "/opt/app-1/run");
        assert_eq!(rendered.args, ["3/2/4", "{{NOPE}} {{ 6"]);
        assert_eq!(rendered.env["WHERE"], "h1 http://h1:8081");
    }

    #[test]
    fn the_option_for_a_file_of_resources_is_there_only_with_the_file() {
        let mut launch = launch(WorkKey::executor("app-1", 3));
        launch.command.args = [
            "run",
            "--resourcesFile",
            "{{RESOURCES_FILE}}",
            "--x",
            "{{CORES}}",
        ]
        .map(str::to_owned)
        .to_vec();
        let args = |file| render(&launch, &site(), Path::new("/w"), file, "t").args;
        assert_eq!(args(None), ["run", "--x", "2"]);
        let with = ["run", "--resourcesFile", "/w/r.json", "--x", "2"];
        assert_eq!(args(Some(Path::new("/w/r.json"))), with);
    }

    #[test]
    fn the_same_values_come_in_the_environment() {
        let file = Path::new("/w/d1/resources.json");
        let rendered = render(
            &launch(WorkKey::driver("d1", 2)),
            &site(),
            Path::new("/w/d1"),
            Some(file),
            "t",
        );
        assert_eq!(rendered.env["INTERREX_WORK_DIR"], "/w/d1");
        assert_eq!(rendered.env["INTERREX_RESOURCE_GPU"], "0");
        assert_eq!(
            rendered.env["INTERREX_RESOURCES_FILE"],
            "/w/d1/resources.json"
        );
        assert_eq!(rendered.env["INTERREX_DRIVER_ID"], "d1");
        assert_eq!(rendered.env["INTERREX_ATTEMPT"], "2");
        assert_eq!(rendered.env["INTERREX_MASTERS"], "a:1,b:2");
        assert_eq!(rendered.env["INTERREX_RESOURCES"], r#"{"gpu":["0"]}"#);
        assert!(!rendered.env.contains_key("INTERREX_APP_ID"));
        assert!(!rendered.env.contains_key(TRACEPARENT_VARIABLE));
        assert_eq!(rendered.program, "/opt/{{APP_ID}}/run");
    }

    #[test]
    fn a_traced_process_finds_its_place_in_the_trace() {
        let place = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let traced = Launch {
            trace: Traceparent::parse(place),
            ..launch(WorkKey::driver("d1", 1))
        };
        let rendered = render(&traced, &site(), Path::new("/w"), None, "t");
        assert_eq!(rendered.env[TRACEPARENT_VARIABLE], place);
    }

    #[test]
    fn the_command_may_override_values_but_never_the_token() {
        let rendered = render(
            &launch(WorkKey::driver("d1", 2)),
            &site(),
            Path::new("/w"),
            None,
            "t",
        );
        assert_eq!(rendered.env["INTERREX_CORES"], "mine");
        assert_eq!(rendered.env[TOKEN_VARIABLE], "t");
    }
}
