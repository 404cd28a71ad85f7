//! The installation of Spark that everything of the bench runs from, and the script of its jobs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tokio::process::Command;

use crate::{bench::own::Scratch, exit::Failure};

/// What a job runs; Python reads it from a file.
const SCRIPT: &str = include_str!("job.py");
const SCRIPT_NAME: &str = "job.py";

/// See the module.
#[derive(Debug)]
pub(super) struct Program {
    home: PathBuf,
    python: PathBuf,
    dir: Scratch,
}

// === impl Program ===

impl Program {
    /// # Errors
    /// No installation of Spark is there.
    pub(super) fn new(home: &Path, python: &Path) -> Result<Self, Failure> {
        if !home.join("bin/spark-submit").is_file() {
            let home = home.display();
            return Err(Failure::usage(format!(
                "--spark-home {home} has no bin/spark-submit; name the folder that has `bin` and `jars`"
            )));
        }
        let program = Self {
            home: home.to_owned(),
            python: python.to_owned(),
            dir: Scratch::new()?,
        };
        let script = program.script();
        fs::write(&script, SCRIPT).map_err(|e| Failure::io(&script.display().to_string(), &e))?;
        Ok(program)
    }

    /// `spark-submit`.
    pub(super) fn submit(&self) -> Command {
        let mut command = Command::new(self.home.join("bin/spark-submit"));
        without_spark(&mut command, &self.home);
        command
            .env("PYSPARK_PYTHON", &self.python)
            .kill_on_drop(true);
        command
    }

    /// Where the installation is.
    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// Where the script is.
    pub(super) fn script(&self) -> PathBuf {
        self.dir().join(SCRIPT_NAME)
    }

    /// A folder that is removed at the end.
    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// What the caller's environment says about Spark is about other installations and clusters.
pub(super) fn without_spark(command: &mut Command, home: &Path) {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("SPARK_") || name.starts_with("PYSPARK_") {
            command.env_remove(&*name);
        }
    }
    command
        .env("SPARK_HOME", home)
        .env("SPARK_LOCAL_IP", "127.0.0.1");
}
