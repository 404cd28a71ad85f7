//! `--spark-defaults FILE`: what a `spark-defaults.conf` says about a standalone cluster, below everything else that
//! sets an option. What is not taken over is said, each by its name.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::Command;

use super::{
    COMMAND_SECTIONS, FILE_BYTES_MAX, option_in,
    properties::{self, PropertiesError},
    spark_keys::{self, Taken},
    with_default,
};

/// The option, and the variable that stands for it: `INTERREX_MASTER_SPARK_DEFAULTS`.
const OPTION: &str = "--spark-defaults";

/// Why a file of Spark's settings was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SparkDefaultsError {
    /// It could not be read.
    #[error("--spark-defaults {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is too large to be a configuration.
    #[error("--spark-defaults {}: {bytes} bytes, more than the limit of {FILE_BYTES_MAX}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// It is not what Java reads.
    #[error("--spark-defaults {}: {source}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where.
        source: PropertiesError,
    },
    /// A value that is none, or a setting whose loss would be dangerous.
    #[error("--spark-defaults {}: {reason}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Which setting, and why.
        reason: String,
    },
}

/// Makes the settings that a raw command line names the defaults of `command`. What is not taken over comes back in
/// words.
///
/// # Errors
/// [`SparkDefaultsError`].
pub(crate) fn apply(
    command: Command,
    args: &[OsString],
) -> Result<(Command, Vec<String>), SparkDefaultsError> {
    let section = args.iter().skip(1).find_map(|arg| {
        let arg = arg.to_str()?;
        COMMAND_SECTIONS.into_iter().find(|section| *section == arg)
    });
    let Some(section) = section else {
        return Ok((command, Vec::new()));
    };
    let variable = format!("INTERREX_{}_SPARK_DEFAULTS", section.to_uppercase());
    match option_in(OPTION, args, std::env::var_os(variable)) {
        Some(path) => apply_file(command, section, &path),
        None => Ok((command, Vec::new())),
    }
}

fn apply_file(
    mut command: Command,
    section: &str,
    path: &Path,
) -> Result<(Command, Vec<String>), SparkDefaultsError> {
    let text = read(path)?;
    let pairs = properties::parse(&text).map_err(|source| SparkDefaultsError::Syntax {
        path: path.to_owned(),
        source,
    })?;
    let mut remarks = Vec::new();
    for (key, value) in pairs {
        let taken = spark_keys::take(section, &key, value.trim()).map_err(|reason| {
            SparkDefaultsError::Refused {
                path: path.to_owned(),
                reason,
            }
        })?;
        match taken {
            Taken::Option(option, value) => {
                command =
                    command.mut_subcommand(section, |sub| with_default(sub, option, vec![value]));
            }
            Taken::Ignored(words) => remarks.push(words),
            Taken::Default | Taken::Foreign => {}
        }
    }
    Ok((command, remarks))
}

fn read(path: &Path) -> Result<String, SparkDefaultsError> {
    let failed = |source| SparkDefaultsError::Read {
        path: path.to_owned(),
        source,
    };
    let bytes = std::fs::metadata(path).map_err(failed)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(SparkDefaultsError::TooLarge {
            path: path.to_owned(),
            bytes,
        });
    }
    std::fs::read_to_string(path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use clap::{ArgMatches, CommandFactory};

    use super::*;
    use crate::args::Cli;

    fn parsed(
        section: &str,
        text: &str,
        more: &[&str],
    ) -> Result<(ArgMatches, Vec<String>), String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("spark-defaults.conf");
        std::fs::write(&path, text).expect("a file");
        let mut args: Vec<OsString> = ["interrex", section, OPTION].map(OsString::from).to_vec();
        args.push(path.into());
        args.extend(more.iter().map(OsString::from));
        let (command, remarks) = apply(Cli::command(), &args).map_err(|e| e.to_string())?;
        let matches = command
            .try_get_matches_from(&args)
            .map_err(|e| e.to_string())?;
        let inner = matches.subcommand_matches(section).expect("the command");
        Ok((inner.clone(), remarks))
    }

    fn raw(matches: &ArgMatches, id: &str) -> String {
        let values = matches.get_raw(id).expect("a value");
        let words: Vec<_> = values.map(|v| v.to_string_lossy().into_owned()).collect();
        words.join(",")
    }

    #[test]
    fn settings_of_spark_become_defaults_of_a_master() {
        let text = "spark.worker.timeout 60\nspark.deploy.spreadOutApps=false\nspark.master.rest.port 6067\n\
                    spark.deploy.zookeeper.url a:2181\nspark.executor.memory 1g\nspark.worker.ui.port 9\n";
        let (master, remarks) = parsed("master", text, &["--id", "m1"]).expect("valid");
        assert_eq!(raw(&master, "worker_timeout"), "60000ms");
        assert_eq!(raw(&master, "spread_out_apps"), "false");
        assert_eq!(raw(&master, "rest"), "127.0.0.1:6067");
        assert_eq!(remarks.len(), 1, "{remarks:?}");
        assert!(
            remarks[0].contains("spark.deploy.zookeeper.url"),
            "{remarks:?}"
        );
    }

    #[test]
    fn an_option_wins_over_a_setting_of_spark() {
        let text = "spark.master.ui.port 9090\n";
        let given = ["--id", "m1", "--web", "127.0.0.1:7"];
        let (master, _) = parsed("master", text, &given).expect("valid");
        assert_eq!(raw(&master, "web"), "127.0.0.1:7");
        let (master, _) = parsed("master", text, &["--id", "m1"]).expect("valid");
        assert_eq!(raw(&master, "web"), "127.0.0.1:9090");
    }

    #[test]
    fn an_agent_finds_its_masters_in_it() {
        let text = "spark.master spark://a:1,b:2\nspark.worker.cleanup.appDataTtl 3600\n";
        let (agent, remarks) = parsed("agent", text, &["--work-dir", "w"]).expect("valid");
        assert_eq!(raw(&agent, "masters"), "spark://a:1,b:2");
        assert_eq!(raw(&agent, "work_retention"), "3600000ms");
        assert!(remarks.is_empty(), "{remarks:?}");
    }

    #[test]
    fn what_would_lose_its_protection_is_refused() {
        let refused = |text: &str| parsed("master", text, &["--id", "m1"]).expect_err("dangerous");
        assert!(refused("spark.authenticate true").contains("spark.authenticate"));
        assert!(refused("spark.worker.timeout soon").contains("`soon` is no time"));
        assert!(parsed("master", "spark.authenticate false", &["--id", "m1"]).is_ok());
    }
}
