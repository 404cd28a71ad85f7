//! Drivers in cluster mode: submitting them, and asking about them, with Spark's own programs.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{PATIENCE, Spark, script, wait_long};
use crate::support::{Cluster, expect_code, start, text};

/// How Spark itself runs Python: `spark-submit` refuses Python in cluster mode, but takes any class.
const PYTHON_RUNNER: &str = "org.apache.spark.deploy.PythonRunner";
/// Spark's client of its RPC.
const CLIENT: &str = "org.apache.spark.deploy.Client";

/// How a driver reaches the masters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// HTTP, the default since 4.0.
    Rest,
    /// Spark's RPC, the default of 3.5.
    Rpc,
}

/// A driver that was submitted.
pub(super) struct Submitted<'a> {
    spark: &'a Spark,
    cluster: &'a Cluster,
    /// What it was submitted to.
    masters: Vec<String>,
    name: String,
    /// Its id.
    pub(super) id: String,
}

// === impl Way ===

impl Way {
    /// As `spark-submit` of this line does it when nothing else is said.
    pub(super) fn of(spark: &Spark) -> Self {
        if spark.prefers_rest() {
            Self::Rest
        } else {
            Self::Rpc
        }
    }

    /// Where `spark-submit` finds the masters in this way.
    pub(super) fn addresses(self, cluster: &Cluster) -> Vec<String> {
        cluster.addresses(match self {
            Self::Rest => "rest",
            Self::Rpc => "rpc",
        })
    }
}

/// `spark-submit --deploy-mode cluster` to these masters; what is run is to be added.
pub(super) fn command(
    spark: &Spark,
    cluster: &Cluster,
    (way, masters): (Way, &[String]),
    log: &Path,
) -> Command {
    let mut command = spark.submit(cluster, log, &["spark.cores.max=2"]);
    let rest = format!("spark.master.rest.enabled={}", way == Way::Rest);
    let python = format!("spark.pyspark.python={}", spark.python.display());
    command
        .args(["--master", &format!("spark://{}", masters.join(","))])
        .args(["--deploy-mode", "cluster", "--driver-memory", "512m"])
        .args(["--conf", &rest, "--conf", &python]);
    command
}

/// Some jar, and as small a one as there is: the program is a script.
fn some_jar(spark: &Spark) -> PathBuf {
    let jars = fs::read_dir(spark.home.join("jars")).expect("jars");
    let mut jars = jars.flatten().map(|entry| entry.path());
    let found = jars.find(|jar| jar.to_string_lossy().contains("/py4j-"));
    found.expect("the jar of the bridge to Python")
}

// === impl Submitted ===

impl<'a> Submitted<'a> {
    /// Submits `job.py` as a driver called `name`.
    pub(super) fn new(
        spark: &'a Spark,
        cluster: &'a Cluster,
        (way, masters): (Way, &[String]),
        name: &str,
        (options, steps): (&[&str], u32),
    ) -> Self {
        let log = cluster.dir().join(format!("{name}.submit.log"));
        let submitted = command(spark, cluster, (way, masters), &log)
            .args(options)
            .args(["--name", name, "--class", PYTHON_RUNNER])
            .arg(some_jar(spark))
            .arg(script("job.py"))
            // Further Python files: none.
            .arg("")
            .arg(cluster.dir())
            .arg(name)
            .arg(steps.to_string())
            .status();
        let said = fs::read_to_string(&log).unwrap_or_default();
        assert!(submitted.expect("spark-submit runs").success(), "{said}");
        // Over RPC, Spark's client says nothing on success.
        let listed = cluster.json(&["list", "drivers"]);
        let drivers = listed["drivers"].as_array().cloned().unwrap_or_default();
        let driver = drivers.iter().find(|driver| driver["name"] == name);
        let driver = driver.unwrap_or_else(|| panic!("no {name} in {listed}:\n{said}"));
        let id = driver["id"].as_str().expect("an id").to_owned();
        Self {
            spark,
            cluster,
            masters: masters.to_vec(),
            name: name.to_owned(),
            id,
        }
    }

    /// What it has told under this name.
    pub(super) fn told(&self, what: &str) -> String {
        let path = self.cluster.dir().join(format!("{}.{what}", self.name));
        wait_long(&format!("{}: {what}", self.name), || {
            fs::read_to_string(&path).ok()
        })
    }

    /// Forgets what it has told, so that it can be told anew.
    pub(super) fn forget(&self, all: &[&str]) {
        for what in all {
            let path = self.cluster.dir().join(format!("{}.{what}", self.name));
            fs::remove_file(path).expect("it was told");
        }
    }

    /// What the cluster says of it.
    pub(super) fn status(&self) -> serde_json::Value {
        self.cluster.json(&["status", &self.id])["driver"].clone()
    }

    pub(super) fn wait_state(&self, state: &str) {
        wait_long(&format!("{} is {state}", self.name), || {
            (self.status()["state"] == state).then_some(())
        });
    }

    /// What `spark-submit --status` or `--kill` says. Both go over REST in every line; the one port of a master does.
    pub(super) fn asked_with_spark_submit(&self, what: &str) -> String {
        let masters = self.cluster.addresses("rpc").join(",");
        let mut command = self.spark.program("spark-submit");
        command
            .args(["--master", &format!("spark://{masters}")])
            .args([what, &self.id]);
        said_by(&mut command)
    }

    /// Kills it over Spark's RPC, to which it was submitted; returns what Spark's client says.
    pub(super) fn kill_over_rpc(&self) -> String {
        let masters = self.masters.join(",");
        let mut command = self.spark.program("spark-class");
        command
            .args([CLIENT, "--verbose", "kill"])
            .args([&format!("spark://{masters}"), &self.id]);
        said_by(&mut command)
    }
}

/// What a program of Spark says, which by itself is nothing.
fn said_by(command: &mut Command) -> String {
    let log = script("log4j2.properties");
    let option = format!("-Dlog4j2.configurationFile=file:{}", log.display());
    command.env("JAVA_TOOL_OPTIONS", option);
    let output = start(command).finish_within(PATIENCE);
    expect_code(&output, 0);
    text(&output)
}
