//! Unmodified Spark, as pip installs it, on a cluster: jobs of two lines at once, over the death of masters.
//!
//! Needs `INTERREX_SPARK_TESTS=1` and what `make test-spark` fetches; says so and passes where that is not set.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use crate::support::{Cluster, expect_code, run, wait_for};

/// Set: run these tests.
const SWITCH: &str = "INTERREX_SPARK_TESTS";
/// Where installations are, one folder a version; default `~/.cache/interrex/spark`.
const CACHE: &str = "INTERREX_SPARK_CACHE";
/// A JVM on a busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long the masters are away.
const OUTAGE: Duration = Duration::from_secs(10);

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

fn installations() -> Option<Vec<Spark>> {
    if std::env::var_os(SWITCH).is_none() {
        eprintln!("skipped: {SWITCH} is not set (make test-spark fetches Spark and sets it)");
        return None;
    }
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let cache =
        std::env::var_os(CACHE).map_or_else(|| home.join(".cache/interrex/spark"), PathBuf::from);
    let mut found = Vec::new();
    for entry in fs::read_dir(&cache)
        .unwrap_or_else(|e| panic!("{}: {e}", cache.display()))
        .flatten()
    {
        let lib = fs::read_dir(entry.path().join("lib"))
            .into_iter()
            .flatten()
            .flatten();
        let homes = lib.map(|python| python.path().join("site-packages/pyspark"));
        for home in homes.filter(|h| h.join("jars").is_dir()) {
            found.push(Spark {
                version: entry.file_name().to_string_lossy().into_owned(),
                python: entry.path().join("bin/python"),
                home,
            });
        }
    }
    assert!(
        !found.is_empty(),
        "{} has no installation of Spark",
        cache.display()
    );
    found.sort_by(|a, b| a.version.cmp(&b.version));
    Some(found)
}

fn cluster(sparks: &[Spark]) -> Cluster {
    let homes: Vec<&str> = sparks
        .iter()
        .map(|s| s.home.to_str().expect("UTF-8"))
        .collect();
    let mut options = vec!["--respawn"];
    for home in homes {
        options.extend(["--spark-home", home]);
    }
    Cluster::start(&options)
}

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

impl Spark {
    fn submit(&self, cluster: &Cluster, log: &Path) -> Command {
        let mut command = Command::new(self.home.join("bin/spark-submit"));
        let out = fs::File::create(log).expect("a log file");
        command
            .env("SPARK_HOME", &self.home)
            .env("PYSPARK_PYTHON", &self.python)
            .env("SPARK_LOCAL_IP", "127.0.0.1")
            .args([
                "--master",
                &format!("spark://{}", cluster.addresses("rpc").join(",")),
            ])
            .args([
                "--conf",
                "spark.executor.memory=512m",
                "--conf",
                "spark.cores.max=2",
            ])
            .args(["--conf", "spark.ui.enabled=false"])
            .stdin(Stdio::null())
            .stderr(out.try_clone().expect("a log file"))
            .stdout(out);
        command
    }

    fn start(&self, cluster: &Cluster, steps: u32, more: &[&str]) -> Job {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/spark/job.py");
        let folder = cluster.dir().to_owned();
        let mut command = self.submit(cluster, &folder.join(format!("{}.log", self.version)));
        command
            .arg(script)
            .arg(&folder)
            .arg(&self.version)
            .arg(steps.to_string())
            .args(more);
        Job {
            name: self.version.clone(),
            child: command.spawn().expect("spark-submit starts"),
            folder,
        }
    }
}

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

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join(format!("{}.log", self.name))).unwrap_or_default()
    }

    fn expect_success(&mut self) {
        let status = wait_long(&format!("{} ends", self.name), || {
            self.child.try_wait().expect("a child of ours")
        });
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

fn expect_sums(jobs: &mut [Job], step: u32) {
    for job in jobs {
        let sum = 499_500 + 1000 * step;
        assert_eq!(
            job.told(&format!("sum.{step}")),
            sum.to_string(),
            "{} step {step}",
            job.name
        );
    }
}

fn go_on(cluster: &Cluster, step: u32) {
    fs::write(cluster.dir().join(format!("go.{step}")), "").expect("a file");
}

#[test]
fn jobs_of_all_lines_run_at_once_and_survive_their_masters() {
    let Some(sparks) = installations() else {
        return;
    };
    let cluster = cluster(&sparks);
    let mut jobs: Vec<Job> = sparks
        .iter()
        .map(|s| s.start(&cluster, 4, &["dynamic"]))
        .collect();
    expect_sums(&mut jobs, 0);
    let (killed, epoch) = cluster.leader();
    cluster.signal(&killed, Signal::SIGKILL);
    wait_for("another leads", || {
        Some(cluster.leader().1).filter(|later| *later > epoch)
    });
    go_on(&cluster, 1);
    expect_sums(&mut jobs, 1);
    // One that does not die but stands still, past every time-out, and goes on later.
    let (stopped, epoch) = cluster.leader();
    cluster.signal(&stopped, Signal::SIGSTOP);
    wait_for("another leads", || {
        Some(cluster.leader().1).filter(|later| *later > epoch)
    });
    cluster.signal(&stopped, Signal::SIGCONT);
    go_on(&cluster, 2);
    expect_sums(&mut jobs, 2);
    // Nobody has a connection to any driver after this: the new leader dials them.
    let (_, epoch) = cluster.leader();
    for master in ["m1", "m2", "m3"] {
        if cluster.pid(master).is_some() {
            cluster.signal(master, Signal::SIGKILL);
        }
    }
    let back = Instant::now() + OUTAGE;
    wait_for("somebody leads again", || {
        Some(cluster.leader().1).filter(|later| *later > epoch)
    });
    wait_for("the outage is over", || {
        (Instant::now() > back).then_some(())
    });
    go_on(&cluster, 3);
    expect_sums(&mut jobs, 3);
    for job in &mut jobs {
        assert_eq!(job.told("asked"), "True", "{}", job.name);
        assert_eq!(job.told("killed"), "True", "{}", job.name);
        job.told("end");
        job.expect_success();
        let id = job.told("id");
        let status = cluster.json(&["status", &id]);
        assert_eq!(
            status["application"]["state"], "FINISHED",
            "{}: {status}",
            job.name
        );
    }
}

/// A jar with one class, compiled against an installation.
fn jar(spark: &Spark, folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/spark/Sum.java");
    let classes = folder.join("classes");
    fs::create_dir(&classes).expect("a folder");
    let mut javac = Command::new("javac");
    javac
        .arg("-cp")
        .arg(spark.home.join("jars/*"))
        .arg("-d")
        .arg(&classes)
        .arg(source);
    expect_code(&run(&mut javac), 0);
    let jar = folder.join("sum.jar");
    let mut pack = Command::new("jar");
    pack.arg("cf").arg(&jar).arg("-C").arg(&classes).arg(".");
    expect_code(&run(&mut pack), 0);
    jar
}

/// Submits `Sum` in cluster mode to `masters`, and waits for what it has to tell.
fn runs_in_cluster_mode(cluster: &Cluster, spark: &Spark, masters: &[String], rest: bool) {
    let folder = cluster.dir().join(format!("mode-{}", spark.version));
    fs::create_dir(&folder).expect("a folder");
    let result = folder.join("result");
    let log = folder.join("submit.log");
    let submitted = spark
        .submit(cluster, &log)
        .args(["--master", &format!("spark://{}", masters.join(","))])
        .args([
            "--deploy-mode",
            "cluster",
            "--driver-memory",
            "512m",
            "--class",
            "Sum",
        ])
        .args(["--conf", &format!("spark.master.rest.enabled={rest}")])
        .arg(jar(spark, &folder))
        .arg(&result)
        .status();
    let said = fs::read_to_string(&log).unwrap_or_default();
    assert!(submitted.expect("spark-submit runs").success(), "{said}");
    let told = wait_long(&format!("a result of {}: {said}", spark.version), || {
        fs::read_to_string(&result).ok()
    });
    // All masters, whichever it was submitted to.
    let all = cluster.addresses("rpc").join(",");
    assert_eq!(told, format!("10 spark://{all}"), "{said}");
}

#[test]
fn a_driver_in_cluster_mode_runs_on_an_agent_and_knows_all_masters() {
    let Some(sparks) = installations() else {
        return;
    };
    let cluster = cluster(&sparks);
    for spark in &sparks {
        // Each as its line does by default.
        if spark.version.starts_with("3.") {
            runs_in_cluster_mode(&cluster, spark, &cluster.addresses("rpc"), false);
        } else {
            runs_in_cluster_mode(&cluster, spark, &cluster.addresses("rest"), true);
        }
    }
    wait_long("drivers and applications are finished", || {
        let all = ["drivers", "apps"].map(|kind| cluster.json(&["list", kind]).to_string());
        let finished = all
            .iter()
            .all(|text| text.matches("FINISHED").count() == sparks.len());
        finished.then_some(())
    });
}
