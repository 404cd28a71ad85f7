//! `interrex config show` and `interrex config check`.

use std::{collections::BTreeMap, ffi::OsString, fmt::Write, path::PathBuf};

use clap::{ArgMatches, Command, CommandFactory, Subcommand, parser::ValueSource};
use serde::Serialize;

use crate::{
    args::Cli,
    config::{CLIENT_KEYS, CLIENT_SECTION, COMMAND_SECTIONS, File, GLOBAL_KEYS, keys_of},
    exit::{Done, Exit, Failure},
    output::{self, Format, OutputArgs},
};

const EXAMPLES: &str = "\
Examples:
  interrex config show
  interrex --config interrex.toml config show -o json
  interrex config check interrex.toml";

/// Options of `interrex config`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
    #[command(flatten)]
    output: OutputArgs,
}

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print every option of masters, agents and clients with its value, and where the value comes from
    #[command(after_help = "Example:\n  interrex --config interrex.toml config show -o json")]
    Show,
    /// Check a configuration file without starting anything
    #[command(after_help = "Example:\n  interrex config check interrex.toml")]
    Check {
        /// The file
        file: PathBuf,
    },
}

/// One option's value.
#[derive(Debug, Serialize)]
struct Setting {
    /// The value; `null` when nothing sets it.
    value: Option<String>,
    /// `env`, `file`, `default` or `unset`.
    origin: &'static str,
}

type Settings = BTreeMap<String, BTreeMap<String, Setting>>;

/// Runs `interrex config`.
pub(crate) fn run(args: &ConfigArgs, file: Option<&File>) -> Done {
    match &args.command {
        ConfigCommand::Show => {
            let settings = settings(file)?;
            match args.output.output {
                Format::Json => output::json(&settings)?,
                Format::Table => output::data(&as_toml(&settings))?,
            }
        }
        ConfigCommand::Check { file } => {
            let file = File::read(file).map_err(|e| Failure::usage(e.to_string()))?;
            let count: usize = settings(Some(&file))?
                .values()
                .flat_map(BTreeMap::values)
                .filter(|s| s.origin == "file")
                .count();
            output::say(&format!("{}: ok, {count} settings", file.path.display()));
        }
    }
    Ok(Exit::Ok)
}

fn settings(file: Option<&File>) -> Result<Settings, Failure> {
    let mut command = Cli::command();
    if let Some(file) = file {
        command = file
            .apply(command)
            .map_err(|e| Failure::usage(e.to_string()))?;
    }
    // Nothing is required here: an option without a value is shown as unset.
    let command = command.mut_subcommands(|sub| sub.mut_args(|arg| arg.required(false)));
    let mut all = Settings::new();
    for section in COMMAND_SECTIONS {
        let matches = parse(&command, section, file)?;
        let keys = command
            .find_subcommand(section)
            .map(keys_of)
            .unwrap_or_default();
        all.insert(
            section.to_owned(),
            pick(&command, section, &matches, &keys, file),
        );
    }
    // Any client command shows what they share.
    let matches = parse(&command, "list", file)?;
    let keys: Vec<String> = CLIENT_KEYS.map(str::to_owned).to_vec();
    let mut shared = pick(&command, "list", &matches, &keys, None);
    for (key, setting) in &mut shared {
        if file.is_some_and(|f| f.sets(CLIENT_SECTION, key)) && setting.origin == "default" {
            setting.origin = "file";
        }
    }
    all.insert(CLIENT_SECTION.to_owned(), shared);
    Ok(all)
}

fn parse(command: &Command, section: &str, file: Option<&File>) -> Result<ArgMatches, Failure> {
    let args = [OsString::from("interrex"), OsString::from(section)];
    let matches = command.clone().try_get_matches_from(args).map_err(|e| {
        let place = file.map_or_else(String::new, |f| {
            format!("config file {}: ", f.path.display())
        });
        Failure::usage(format!(
            "{place}{}",
            e.to_string().trim().trim_start_matches("error: ")
        ))
    })?;
    let inner = matches.subcommand().map(|(_, m)| m.clone());
    inner.ok_or_else(|| Failure::failed(format!("no command `{section}`")))
}

fn pick(
    command: &Command,
    section: &str,
    matches: &ArgMatches,
    keys: &[String],
    file: Option<&File>,
) -> BTreeMap<String, Setting> {
    let arguments = command
        .find_subcommand(section)
        .into_iter()
        .flat_map(Command::get_arguments);
    arguments
        .filter_map(|arg| arg.get_long().map(|long| (long, arg.get_id().as_str())))
        .filter(|(long, _)| keys.iter().any(|k| k == long) && !GLOBAL_KEYS.contains(long))
        .map(|(long, id)| {
            let values = matches.try_get_raw(id).ok().flatten();
            let value = values.map(|v| {
                v.map(|s| s.to_string_lossy().into_owned())
                    .collect::<Vec<_>>()
                    .join(",")
            });
            let origin = match matches.value_source(id) {
                Some(ValueSource::EnvVariable) => "env",
                Some(_) if file.is_some_and(|f| f.sets(section, long)) => "file",
                Some(_) => "default",
                None => "unset",
            };
            (long.to_owned(), Setting { value, origin })
        })
        .collect()
}

fn as_toml(settings: &Settings) -> String {
    let mut text = String::new();
    for (section, keys) in settings {
        // Writing to a String cannot fail.
        let _written = writeln!(text, "[{section}]");
        for (key, setting) in keys {
            let _written = match &setting.value {
                Some(value) => writeln!(text, "{key} = {value:?}  # {}", setting.origin),
                None => writeln!(text, "# {key} is not set"),
            };
        }
        text.push('\n');
    }
    text
}
