//! Unmodified Spark, as pip installs it, on a cluster.
//!
//! `scripts/fetch-spark.sh` installs the lines that run here. `make test` runs the short lane; `INTERREX_SPARK_TESTS=1`
//! (`make test-spark`) all of it, and then what is missing is a failure; `INTERREX_SPARK_TESTS=0` none. A test that is
//! left out says so.

mod allocation;
mod builds;
mod cluster_mode;
mod goodbye;
mod jobs;
mod resources;
mod sessions;
mod submitting;
mod workers;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::support::{Cluster, wait_for};

/// `0`: none of these tests, `1`: all of them, whatever it takes.
const SWITCH: &str = "INTERREX_SPARK_TESTS";
/// Where installations are, one folder a version; default `~/.cache/interrex/spark`.
const CACHE: &str = "INTERREX_SPARK_CACHE";
/// What the script leaves in an installation that is whole.
const COMPLETE: &str = "complete";
/// A JVM on a busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(300);

/// When a test runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// Wherever Spark is installed.
    Short,
    /// Where it is asked for.
    Full,
}

/// Spark as pip has installed it.
struct Spark {
    version: String,
    python: PathBuf,
    home: PathBuf,
}

/// A job under way.
struct Job {
    name: String,
    child: Child,
    folder: PathBuf,
}

fn switch() -> String {
    std::env::var(SWITCH).unwrap_or_default()
}

/// Says that a test does not run, and why; a failure where it has to.
fn leave_out(why: &str) {
    assert_ne!(switch(), "1", "{why}");
    eprintln!("skipped: {why}");
}

/// Whether all of these can be run; a test that needs them is left out otherwise.
fn has_programs(all: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &&&str| {
        let mut folders = std::env::split_paths(&path);
        folders.any(|folder| folder.join(program).is_file())
    };
    let missing = all.iter().find(|program| !is_there(program));
    if let Some(program) = missing {
        leave_out(&format!(
            "there is no {program} (a JDK has java, javac and jar)"
        ));
    }
    missing.is_none()
}

/// Every line that is installed, where this lane runs.
fn installations(lane: Lane) -> Option<Vec<Spark>> {
    let switch = switch();
    let skipped = |why: &str| {
        leave_out(why);
        None
    };
    if switch == "0" {
        return skipped(&format!("{SWITCH}=0"));
    }
    if lane == Lane::Full && switch != "1" {
        return skipped("it runs with make test-spark");
    }
    if !has_programs(&["java", "python3"]) {
        return None;
    }
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let cache =
        std::env::var_os(CACHE).map_or_else(|| home.join(".cache/interrex/spark"), PathBuf::from);
    let mut found: Vec<Spark> = fs::read_dir(&cache)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Spark::at(&entry.path()))
        .collect();
    if found.is_empty() {
        let cache = cache.display();
        return skipped(&format!(
            "{cache} has no installation of Spark: scripts/fetch-spark.sh makes them"
        ));
    }
    found.sort_by(|a, b| a.version.cmp(&b.version));
    Some(found)
}

/// The newest line that is installed, for what does not differ between lines.
fn newest(lane: Lane) -> Option<Spark> {
    installations(lane)?.pop()
}

fn cluster(sparks: &[Spark], more: &[&str]) -> Cluster {
    let mut options = more.to_vec();
    for spark in sparks {
        options.extend(["--spark-home", spark.home.to_str().expect("UTF-8")]);
    }
    Cluster::start(&options)
}

/// As `wait_for`, with the patience that JVMs need.
fn wait_long<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(
            Instant::now() < deadline,
            "after {PATIENCE:?} still not: {what}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until somebody leads in a later epoch than this.
fn wait_leader_after(cluster: &Cluster, epoch: u64) {
    wait_for("another leads", || {
        Some(cluster.leader().1).filter(|later| *later > epoch)
    });
}

/// Lets jobs take this step.
fn go_on(cluster: &Cluster, step: u32) {
    fs::write(cluster.dir().join(format!("go.{step}")), "").expect("a file");
}

/// What `job.py` sums up in this step.
fn sum_of(step: u32) -> String {
    (499_500 + 1000 * step).to_string()
}

/// What `command` says goes to this file.
fn write_to(command: &mut Command, log: &Path) {
    let out = fs::File::create(log).expect("a log file");
    let both = out.try_clone().expect("a log file");
    command.stdin(Stdio::null()).stderr(both).stdout(out);
}

/// A script beside the tests.
fn script(name: &str) -> PathBuf {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/spark");
    scripts.join(name)
}

/// Processes that have all of these words in their command lines.
fn processes(words: &[&str]) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("a proc file system").flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        let has: Vec<&str> = line.split('\0').collect();
        if words
            .iter()
            .all(|word| has.iter().any(|arg| arg.contains(word)))
        {
            found.push(pid);
        }
    }
    found
}

/// The processes of an application's executors; their supervisors are others.
fn executor_processes(app: &str) -> Vec<u32> {
    processes(&["CoarseGrainedExecutorBackend", "-cp", app])
}

// === impl Spark ===

impl Spark {
    fn at(place: &Path) -> Option<Self> {
        if !place.join(COMPLETE).exists() {
            return None;
        }
        let lib = fs::read_dir(place.join("lib")).ok()?.flatten();
        let mut homes = lib.map(|python| python.path().join("site-packages/pyspark"));
        Some(Self {
            version: place.file_name()?.to_string_lossy().into_owned(),
            python: place.join("bin/python"),
            home: homes.find(|home| home.join("jars").is_dir())?,
        })
    }

    /// Whether cluster mode goes over REST by default.
    fn prefers_rest(&self) -> bool {
        !self.version.starts_with("3.")
    }

    /// One of its programs.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.home.join("bin").join(name));
        command
            .env("SPARK_HOME", &self.home)
            .env("PYSPARK_PYTHON", &self.python)
            .env("SPARK_LOCAL_IP", "127.0.0.1");
        command
    }

    /// `spark-submit` with all masters, small executors and what else `settings` say; what it says goes to `log`.
    fn submit(&self, cluster: &Cluster, log: &Path, settings: &[&str]) -> Command {
        let mut command = self.program("spark-submit");
        write_to(&mut command, log);
        let masters = format!("spark://{}", cluster.addresses("rpc").join(","));
        command.args(["--master", &masters]);
        let always = ["spark.executor.memory=512m", "spark.ui.enabled=false"];
        for setting in always.iter().chain(settings) {
            command.args(["--conf", setting]);
        }
        command
    }

    /// Starts a script of ours as `name`; it tells what it finds in the cluster's folder.
    fn start(
        &self,
        cluster: &Cluster,
        name: &str,
        settings: &[&str],
        script_and_more: (&str, &[&str]),
    ) -> Job {
        let folder = cluster.dir().to_owned();
        let (file, more) = script_and_more;
        let mut command = self.submit(cluster, &folder.join(format!("{name}.log")), settings);
        command.arg(script(file)).arg(&folder).arg(name).args(more);
        Job {
            name: name.to_owned(),
            child: command.spawn().expect("spark-submit starts"),
            folder,
        }
    }
}

// === impl Job ===

impl Job {
    /// What the job has told under this name.
    fn told(&mut self, what: &str) -> String {
        let path = self.folder.join(format!("{}.{what}", self.name));
        wait_long(&format!("{}: {what}", self.name), || {
            let told = fs::read_to_string(&path).ok();
            let over = told.is_none() && self.child.try_wait().expect("a child of ours").is_some();
            assert!(!over, "{} has ended:\n{}", self.name, self.log());
            told
        })
    }

    fn expect_sum(&mut self, step: u32) {
        let sum = self.told(&format!("sum.{step}"));
        assert_eq!(sum, sum_of(step), "{} step {step}", self.name);
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join(format!("{}.log", self.name))).unwrap_or_default()
    }

    /// Waits until its log has all of these words.
    fn expect_said(&self, words: &[&str]) {
        for word in words {
            wait_long(&format!("{} says `{word}`", self.name), || {
                self.log().contains(word).then_some(())
            });
        }
    }

    fn wait_end(&mut self) -> std::process::ExitStatus {
        wait_long(&format!("{} ends", self.name), || {
            self.child.try_wait().expect("a child of ours")
        })
    }

    fn expect_success(&mut self) {
        let status = self.wait_end();
        assert!(status.success(), "{status}:\n{}", self.log());
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            eprintln!("--- {}\n{}", self.name, self.log());
        }
    }
}
