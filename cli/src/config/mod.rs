//! The configuration file: TOML, below flags and environment, above the built-in defaults.
//!
//! The command line is the schema. A section is a command (`[master]`, `[agent]`), a key is one of its
//! options without the dashes, and its value becomes that option's default. So precedence (flag > env >
//! file > default), validation and help exist once. `[client]` holds the options that all client commands
//! share; keys before the first section are the global options. A key that no option has is an error that
//! names the file and the nearest option.

pub(crate) mod command;
mod properties;
pub(crate) mod spark_defaults;
mod spark_keys;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::Command;
use toml::{Table, Value};

/// Sections that are commands of the same name.
pub(crate) const COMMAND_SECTIONS: [&str; 2] = ["master", "agent"];
/// The section for what client commands share.
pub(crate) const CLIENT_SECTION: &str = "client";
/// Tables inside `[master]`, as the faults of a configuration name them, and what their keys are prefixed with.
const MASTER_GROUPS: [(&str, &str); 5] = [
    ("cluster", ""),
    ("raft", ""),
    ("etcd", "etcd-"),
    ("rest", "rest-"),
    ("ui", "ui-"),
];
/// The options that `[client]` may set.
pub(crate) const CLIENT_KEYS: [&str; 3] = ["masters", "output", "deadline"];
/// The options that may stand before the first section.
pub(crate) const GLOBAL_KEYS: [&str; 3] = ["log-format", "log-filter", "otlp-endpoint"];
/// Options that make no sense in a file.
const NEVER_IN_A_FILE: [&str; 6] = [
    "spark-defaults",
    "help",
    "version",
    "config",
    "exit-with-parent",
    "dump-config",
];
/// How alike a name must be to be suggested (Jaro-Winkler).
const SUGGESTION_SIMILARITY: f64 = 0.75;
/// Largest configuration file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A configuration file that was read.
#[derive(Debug, Clone)]
pub(crate) struct File {
    /// Where it came from, for messages.
    pub(crate) path: PathBuf,
    /// What it says.
    pub(crate) table: Table,
}

/// Why a configuration file was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// It could not be read.
    #[error("config file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is too large to be a configuration.
    #[error("config file {} has {bytes} bytes, more than the limit of {FILE_BYTES_MAX}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// It is not TOML.
    #[error("config file {}: {source}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// A key or section that nothing reads.
    #[error("config file {}: unknown {what} `{key}`{hint}", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// `key` or `section`.
        what: &'static str,
        /// Its full name.
        key: String,
        /// `; did you mean ...?`, or nothing.
        hint: String,
    },
    /// A value of a kind that no option takes.
    #[error("config file {}: `{key}` is {found}; write {wanted}", path.display())]
    Kind {
        /// The file.
        path: PathBuf,
        /// Its full name.
        key: String,
        /// What was found.
        found: &'static str,
        /// What can stand there.
        wanted: &'static str,
    },
}

/// The `--config` of a raw command line, or of the environment. Looked for before clap runs, because the
/// file decides what clap takes as defaults.
pub(crate) fn path_in(args: &[OsString], env: Option<OsString>) -> Option<PathBuf> {
    option_in("--config", args, env)
}

fn option_in(option: &str, args: &[OsString], env: Option<OsString>) -> Option<PathBuf> {
    let mut args = args.iter().skip(1);
    while let Some(arg) = args.next() {
        let Some(text) = arg.to_str() else { continue };
        match text.split_once('=') {
            Some((name, path)) if name == option => return Some(PathBuf::from(path)),
            _ if text == option => return args.next().map(PathBuf::from),
            _ if text == "--" => break,
            _ => {}
        }
    }
    env.filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The options of `command` that a file may set, by their long names.
pub(crate) fn keys_of(command: &Command) -> Vec<String> {
    command
        .get_arguments()
        .filter_map(|a| a.get_long())
        .filter(|long| !NEVER_IN_A_FILE.contains(long) && !GLOBAL_KEYS.contains(long))
        .map(str::to_owned)
        .collect()
}

// === impl File ===

impl File {
    /// Reads `path`.
    ///
    /// # Errors
    /// [`ConfigError`] when it cannot be read or is not TOML.
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
        let read = |source| ConfigError::Read {
            path: path.to_owned(),
            source,
        };
        let bytes = std::fs::metadata(path).map_err(read)?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(ConfigError::TooLarge {
                path: path.to_owned(),
                bytes,
            });
        }
        let text = std::fs::read_to_string(path).map_err(read)?;
        let table = text.parse().map_err(|source| ConfigError::Syntax {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        Ok(Self {
            path: path.to_owned(),
            table,
        })
    }

    /// Makes what this file says the defaults of `command`.
    ///
    /// # Errors
    /// [`ConfigError::Unknown`] for a key that no option has, [`ConfigError::Kind`] for a value that is none.
    pub(crate) fn apply(&self, mut command: Command) -> Result<Command, ConfigError> {
        for (name, value) in &self.table {
            let name = name.replace('_', "-");
            command = match value {
                Value::Table(section) if COMMAND_SECTIONS.contains(&name.as_str()) => {
                    self.apply_section(command, &name, section)?
                }
                Value::Table(section) if name == CLIENT_SECTION => {
                    self.apply_client(command, section)?
                }
                Value::Table(_) => {
                    let known = COMMAND_SECTIONS.iter().copied().chain([CLIENT_SECTION]);
                    return Err(self.unknown("section", &name, &name, known));
                }
                _ if GLOBAL_KEYS.contains(&name.as_str()) => {
                    let values = self.values(&name, value)?;
                    with_default(command, &name, values)
                }
                Value::String(_)
                | Value::Integer(_)
                | Value::Float(_)
                | Value::Boolean(_)
                | Value::Datetime(_)
                | Value::Array(_) => {
                    return Err(self.unknown("key", &name, &name, GLOBAL_KEYS));
                }
            };
        }
        Ok(command)
    }

    /// Whether the file sets `key` in `section`.
    pub(crate) fn sets(&self, section: &str, key: &str) -> bool {
        let table = self.table.get(section).and_then(Value::as_table);
        table.is_some_and(|t| flatten(section, t).iter().any(|(name, _)| name == key))
    }

    fn apply_section(
        &self,
        mut command: Command,
        section: &str,
        table: &Table,
    ) -> Result<Command, ConfigError> {
        let known = command
            .find_subcommand(section)
            .map(keys_of)
            .unwrap_or_default();
        for (key, value) in flatten(section, table) {
            let full = format!("{section}.{key}");
            if !known.contains(&key) {
                return Err(self.unknown("key", &full, &key, known.iter().map(String::as_str)));
            }
            let values = self.values(&full, &value)?;
            command = command.mut_subcommand(section, |sub| with_default(sub, &key, values));
        }
        Ok(command)
    }

    fn apply_client(&self, mut command: Command, table: &Table) -> Result<Command, ConfigError> {
        for (key, value) in table {
            let key = key.replace('_', "-");
            let full = format!("{CLIENT_SECTION}.{key}");
            if !CLIENT_KEYS.contains(&key.as_str()) {
                return Err(self.unknown("key", &full, &key, CLIENT_KEYS));
            }
            let values = self.values(&full, value)?;
            command = command.mut_subcommands(|sub| {
                if COMMAND_SECTIONS.contains(&sub.get_name()) {
                    return sub;
                }
                let values = values.clone();
                let worker = sub.get_name() == "worker";
                let sub = with_default(sub, &key, values.clone());
                if worker {
                    // The deadline of `worker drain` is another one.
                    return sub;
                }
                sub.mut_subcommands(|inner| with_default(inner, &key, values.clone()))
            });
        }
        Ok(command)
    }

    /// The texts that an option takes for `value`.
    fn values(&self, key: &str, value: &Value) -> Result<Vec<String>, ConfigError> {
        let kind = |found, wanted| ConfigError::Kind {
            path: self.path.clone(),
            key: key.to_owned(),
            found,
            wanted,
        };
        match value {
            Value::Array(list) => list
                .iter()
                .map(|item| scalar(item).ok_or_else(|| kind("a nested list", "plain values")))
                .collect(),
            Value::Table(table) => table
                .iter()
                .map(|(name, item)| match scalar(item) {
                    Some(item) => Ok(format!("{name}={item}")),
                    None => Err(kind("a nested table", "NAME = \"VALUE\" pairs")),
                })
                .collect(),
            Value::String(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Datetime(_) => match scalar(value) {
                Some(text) => Ok(vec![text]),
                None => Err(kind("a date", "a text, a number, true or false")),
            },
        }
    }

    fn unknown<'a>(
        &self,
        what: &'static str,
        full: &str,
        key: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> ConfigError {
        let hint = nearest(key, known).map(|near| format!("; did you mean `{near}`?"));
        ConfigError::Unknown {
            path: self.path.clone(),
            what,
            key: full.to_owned(),
            hint: hint.unwrap_or_default(),
        }
    }
}

/// The keys of a section, with those of its groups, as the names of options.
fn flatten(section: &str, table: &Table) -> Vec<(String, Value)> {
    let mut keys = Vec::new();
    for (key, value) in table {
        let group = MASTER_GROUPS
            .iter()
            .find(|(name, _)| section == "master" && name == key);
        match (value, group) {
            (Value::Table(inner), Some((_, prefix))) => keys.extend(
                inner
                    .iter()
                    .map(|(k, v)| (format!("{prefix}{}", k.replace('_', "-")), v.clone())),
            ),
            (plain, _) => keys.push((key.replace('_', "-"), plain.clone())),
        }
    }
    keys
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(flag) => Some(flag.to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

/// Gives the option with the long name `key` a default, if `command` has it.
fn with_default(command: Command, key: &str, values: Vec<String>) -> Command {
    let id = command
        .get_arguments()
        .find(|a| a.get_long() == Some(key))
        .map(|a| a.get_id().as_str().to_owned());
    match id {
        Some(id) => command.mut_arg(id, |arg| arg.required(false).default_values(values)),
        None => command,
    }
}

fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|k| (strsim::jaro_winkler(name, k), k))
        .filter(|(alike, _)| *alike >= SUGGESTION_SIMILARITY)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k)
}

#[cfg(test)]
#[path = "config_test.rs"]
mod tests;
