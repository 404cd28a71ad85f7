//! Spark's own workers, as `start-worker.sh` runs them, at Interrex's masters.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Child,
};

use nix::sys::signal::Signal;

use super::{
    Job, Lane, Spark,
    allocation::executors,
    cluster, go_on, installations, processes,
    submitting::{Submitted, Way},
    sum_of, wait_leader_after, wait_long, write_to,
};
use crate::support::{Cluster, expect_code, expect_refusal, signal};

/// A worker that stands still is given up soon.
const IMPATIENT: &str = "\
[master.cluster]
worker_timeout = \"12s\"
";
/// What each worker has; nobody looks whether it is there.
const GPUS: &str = "\
#!/bin/sh
echo '{\"name\": \"gpu\", \"addresses\": [\"0\", \"1\"]}'
";

/// One of them; ends with the test, and its executors with it.
struct Worker(Child);

impl Worker {
    fn start(spark: &Spark, cluster: &Cluster, name: &str) -> Self {
        let folder = cluster.dir().join(format!("{}-{name}", spark.version));
        fs::create_dir(&folder).expect("a folder");
        let settings = Self::settings(&folder);
        let mut command = spark.program("spark-class");
        write_to(&mut command, &folder.join("worker.log"));
        let masters = format!("spark://{}", cluster.addresses("rpc").join(","));
        command
            .arg("org.apache.spark.deploy.worker.Worker")
            .args(["--host", "127.0.0.1", "--cores", "4", "--memory", "3g"])
            .args(["--webui-port", "0", "--properties-file"])
            .arg(settings)
            .arg("--work-dir")
            .arg(folder.join("work"))
            .arg(masters);
        // The script becomes the JVM.
        Self(command.spawn().expect("a worker starts"))
    }

    fn settings(folder: &Path) -> std::path::PathBuf {
        let gpus = folder.join("gpus.sh");
        fs::write(&gpus, GPUS).expect("written");
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&gpus, executable).expect("ours");
        let settings = folder.join("worker.conf");
        let words = format!(
            "spark.decommission.enabled true\nspark.worker.resource.gpu.amount 2\n\
             spark.worker.resource.gpu.discoveryScript {}\n",
            gpus.display()
        );
        fs::write(&settings, words).expect("written");
        settings
    }

    fn signal(&self, what: Signal) {
        signal(self.0.id(), what);
    }

    fn kill(&mut self) {
        self.0.kill().expect("a child of ours");
        self.0.wait().expect("a child of ours");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Waits until so many workers are in this state.
fn wait_workers(cluster: &Cluster, state: &str, count: usize) {
    wait_long(&format!("{count} workers are {state}"), || {
        let list = cluster.json(&["list", "workers"]);
        let workers = list["workers"].as_array().cloned().unwrap_or_default();
        let found = workers.iter().filter(|w| w["state"] == state).count();
        (found == count).then_some(())
    });
}

/// The executors of an application that run, by number.
fn running(cluster: &Cluster, app: &str) -> Vec<u64> {
    let executors = executors(cluster, app, "RUNNING");
    let ids = executors.iter().filter_map(|e| e["executor_id"].as_u64());
    ids.collect()
}

/// That the logs of something are where `interrex logs` says that they are.
fn expect_logs_elsewhere(cluster: &Cluster, id: &str) {
    let output = cluster.run(&["logs", id, "--stderr"]);
    expect_refusal(&output, 5, &[id, "Spark's own workers", "&logType=stderr"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let url = said.split("http://").nth(1).expect("an address").trim();
    let (web, path) = url.split_once('/').expect("a page");
    let mut page = String::new();
    let mut socket = TcpStream::connect(web).expect("its worker's page");
    write!(
        socket,
        "GET /{path} HTTP/1.1\r\nHost: {web}\r\nConnection: close\r\n\r\n"
    )
    .expect("room");
    socket.read_to_string(&mut page).expect("a page of text");
    assert!(page.starts_with("HTTP/1.1 200"), "{url}: {page}");
    assert!(page.contains("stderr log page"), "{url}: {page}");
}

/// A driver in cluster mode runs on the worker, and is killed there.
fn kills_a_driver(spark: &Spark, cluster: &Cluster) {
    let way = Way::of(spark);
    let masters = way.addresses(cluster);
    let name = format!("held-{}", spark.version);
    let driver = Submitted::new(spark, cluster, (way, &masters), &name, (&[], 9));
    assert_eq!(driver.told("sum.0"), sum_of(0));
    expect_logs_elsewhere(cluster, &driver.id);
    let alive = || processes(&["org.apache.spark.deploy.worker.DriverWrapper", &name]);
    assert!(!alive().is_empty(), "{name} runs there");
    expect_code(&cluster.run(&["kill", &driver.id]), 0);
    driver.wait_state("KILLED");
    wait_long("its process has ended", || alive().is_empty().then_some(()));
}

/// The leader dies again and again.
fn keeps_executors_over_leaders(cluster: &Cluster, job: &mut Job, app: &str, kills: u32) {
    let before = running(cluster, app);
    assert_eq!(before.len(), 1, "{}", job.name);
    for step in 1..=kills {
        let (leader, epoch) = cluster.leader();
        cluster.signal(&leader, Signal::SIGKILL);
        wait_leader_after(cluster, epoch);
        wait_workers(cluster, "ALIVE", 1);
        go_on(cluster, step);
        job.expect_sum(step);
        assert_eq!(running(cluster, app), before, "{}", job.name);
    }
}

/// A leader stands still, so that the worker looks for no other; the other masters were started anew, and have no
/// connection to it: the next leader has to call it.
fn is_called_by_the_next_leader(cluster: &Cluster, job: &mut Job, app: &str, step: u32) {
    let before = running(cluster, app);
    let (leader, epoch) = cluster.leader();
    let places = ["m1", "m2", "m3"].into_iter().zip(cluster.addresses("rpc"));
    for (id, address) in places.filter(|(id, _)| *id != leader) {
        let old = cluster.pid(id);
        cluster.signal(id, Signal::SIGKILL);
        wait_long(&format!("{id} is back"), || {
            let is_new = cluster.pid(id).is_some_and(|pid| Some(pid) != old);
            (is_new && TcpStream::connect(&address).is_ok()).then_some(())
        });
    }
    cluster.signal(&leader, Signal::SIGSTOP);
    wait_leader_after(cluster, epoch);
    let logs = cluster.dir().join("data/logs");
    wait_long("the worker is called", || {
        let logs = fs::read_dir(&logs).expect("logs").flatten();
        let mut logs = logs.filter_map(|log| fs::read_to_string(log.path()).ok());
        let is_called = logs.any(|log| log.contains("called a worker of Spark"));
        is_called.then_some(())
    });
    wait_workers(cluster, "ALIVE", 1);
    go_on(cluster, step);
    job.expect_sum(step);
    assert_eq!(running(cluster, app), before, "{}", job.name);
    cluster.signal(&leader, Signal::SIGCONT);
}

/// The one worker that is left; it gets executors again when the drain is over.
fn is_drained_and_taken_back(cluster: &Cluster, job: &Job) {
    let list = cluster.json(&["list", "workers", "--state", "ALIVE"]);
    let id = list["workers"][0]["id"].as_str().expect("one is left");
    let drain = ["worker", "drain", id, "--reason", "new disk"];
    expect_code(&cluster.run(&drain), 0);
    wait_workers(cluster, "DECOMMISSIONED", 1);
    job.expect_said(&["is being drained: new disk"]);
    expect_code(&cluster.run(&["worker", "undrain", id]), 0);
    wait_workers(cluster, "ALIVE", 1);
}

#[test]
fn sparks_own_workers_keep_their_executors_over_the_leader_and_are_replaced() {
    let Some(sparks) = installations(Lane::Full) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("impatient.toml");
    fs::write(&config, IMPATIENT).expect("written");
    let config = config.to_str().expect("UTF-8");
    for spark in &sparks {
        let cluster = cluster(&[], &["--agents", "0", "--respawn", "--config", config]);
        let mut first = Worker::start(spark, &cluster, "first");
        wait_workers(&cluster, "ALIVE", 1);
        let settings = [
            "spark.cores.max=2",
            "spark.executor.resource.gpu.amount=1",
            "spark.task.resource.gpu.amount=1",
            "spark.decommission.enabled=true",
        ];
        let what = ("job.py", &["7", "--gpus"][..]);
        let mut job = spark.start(&cluster, &spark.version, &settings, what);
        job.expect_sum(0);
        let app = job.told("id");
        let gpu = job.told("gpus.0");
        assert!(["0", "1"].contains(&gpu.as_str()), "{gpu}");
        expect_logs_elsewhere(&cluster, &format!("{app}/0"));
        kills_a_driver(spark, &cluster);
        keeps_executors_over_leaders(&cluster, &mut job, &app, 2);
        is_called_by_the_next_leader(&cluster, &mut job, &app, 3);
        // It stands still for so long that it is given up, and says then what it runs.
        first.signal(Signal::SIGSTOP);
        wait_workers(&cluster, "DEAD", 1);
        first.signal(Signal::SIGCONT);
        wait_workers(&cluster, "ALIVE", 1);
        go_on(&cluster, 4);
        job.expect_sum(4);
        // It is told to leave: what runs there goes to another one.
        let _second = Worker::start(spark, &cluster, "second");
        wait_workers(&cluster, "ALIVE", 2);
        first.signal(Signal::SIGPWR);
        wait_workers(&cluster, "DECOMMISSIONED", 1);
        job.expect_said(&["is now DECOMMISSIONED (worker "]);
        go_on(&cluster, 5);
        job.expect_sum(5);
        first.kill();
        wait_workers(&cluster, "DEAD", 1);
        is_drained_and_taken_back(&cluster, &job);
        go_on(&cluster, 6);
        job.expect_sum(6);
        job.told("end");
        job.expect_success();
    }
}
