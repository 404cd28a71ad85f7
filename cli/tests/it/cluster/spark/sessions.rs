//! Sessions at a prompt: idle for longer than every timeout, then used again.

use std::{
    fs,
    io::Write,
    process::{ChildStdin, Stdio},
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use super::{Job, Lane, cluster, installations, wait_leader_after, write_to};
use crate::support::{Cluster, wait_for};

/// Timeouts of the masters, so that a session can be idle for longer.
const SHORT: &str = "\
[master]
worker-timeout = \"4s\"
app-timeout = \"2s\"
recovery-timeout = \"4s\"
";
/// Longer than any of them, twice.
const IDLE: Duration = Duration::from_secs(12);

/// A shell of Spark, and where it is typed into.
struct Shell {
    job: Job,
    input: ChildStdin,
}

impl Shell {
    fn open(spark: &super::Spark, cluster: &Cluster) -> Self {
        let folder = cluster.dir().to_owned();
        let name = format!("shell-{}", spark.version);
        let mut command = spark.program("pyspark");
        write_to(&mut command, &folder.join(format!("{name}.log")));
        let masters = cluster.addresses("rpc").join(",");
        let mut child = command
            .args(["--master", &format!("spark://{masters}")])
            .args(["--conf", "spark.executor.memory=512m"])
            .args(["--conf", "spark.cores.max=1"])
            // A prompt, though nobody sits there.
            .env("PYSPARK_DRIVER_PYTHON_OPTS", "-i")
            .env("PYSPARK_DRIVER_PYTHON", &spark.python)
            .stdin(Stdio::piped())
            .spawn()
            .expect("pyspark starts");
        let input = child.stdin.take().expect("a pipe");
        let job = Job {
            name,
            child,
            folder,
        };
        Self { job, input }
    }

    fn type_in(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the shell reads");
    }

    /// Adds up some numbers on the cluster.
    fn expect_sum(&mut self, up_to: u32, sum: &str) {
        let path = self.job.folder.join(format!("{}.{up_to}", self.job.name));
        let part = path.with_extension("part");
        self.type_in(&format!(
            "_ = open({part:?}, 'w').write(str(sc.parallelize(range({up_to}), 2).sum()))"
        ));
        self.type_in(&format!("import os; os.rename({part:?}, {path:?})"));
        assert_eq!(self.job.told(&up_to.to_string()), sum);
    }
}

fn idle() {
    let over = Instant::now() + IDLE;
    wait_for("nobody does anything", || {
        (Instant::now() > over).then_some(())
    });
}

#[test]
fn shells_that_were_idle_for_longer_than_every_timeout_go_on_over_a_failover() {
    let Some(sparks) = installations(Lane::Full) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("short.toml");
    fs::write(&config, SHORT).expect("written");
    let config = config.to_str().expect("UTF-8");
    let cluster = cluster(&sparks, &["--respawn", "--config", config]);
    let mut shells: Vec<Shell> = sparks.iter().map(|s| Shell::open(s, &cluster)).collect();
    for shell in &mut shells {
        shell.expect_sum(10, "45");
    }
    idle();
    let (leader, epoch) = cluster.leader();
    cluster.signal(&leader, Signal::SIGKILL);
    wait_leader_after(&cluster, epoch);
    idle();
    for shell in &mut shells {
        shell.expect_sum(100, "4950");
        shell.type_in("exit()");
    }
    for shell in &mut shells {
        shell.job.expect_success();
    }
    let listed = cluster.json(&["list", "apps"]);
    let apps = listed["applications"].as_array().expect("a list");
    assert_eq!(apps.len(), sparks.len());
    for app in apps {
        assert_eq!(app["state"], "FINISHED", "{app}");
    }
}
