//! Spark's own workers, as `start-worker.sh` runs them, at Interrex's masters.

use std::process::Child;

use nix::sys::signal::Signal;

use super::{
    Lane, Spark, allocation::executors, cluster, go_on, installations, wait_leader_after,
    wait_long, write_to,
};
use crate::support::Cluster;

/// One of them; ends with the test, and its executors with it.
struct Worker(Child);

impl Worker {
    fn start(spark: &Spark, cluster: &Cluster, name: &str) -> Self {
        let folder = cluster.dir().join(format!("{}-{name}", spark.version));
        std::fs::create_dir(&folder).expect("a folder");
        let mut command = spark.program("spark-class");
        write_to(&mut command, &folder.join("worker.log"));
        let masters = format!("spark://{}", cluster.addresses("rpc").join(","));
        command
            .arg("org.apache.spark.deploy.worker.Worker")
            .args(["--host", "127.0.0.1", "--cores", "2", "--memory", "1g"])
            .args(["--webui-port", "0", "--work-dir"])
            .arg(folder.join("work"))
            .arg(masters);
        // The script becomes the JVM.
        Self(command.spawn().expect("a worker starts"))
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

#[test]
fn sparks_own_workers_keep_their_executors_over_the_leader_and_are_replaced() {
    let Some(sparks) = installations(Lane::Full) else {
        return;
    };
    for spark in &sparks {
        let cluster = cluster(&[], &["--agents", "0", "--respawn"]);
        let mut first = Worker::start(spark, &cluster, "first");
        wait_workers(&cluster, "ALIVE", 1);
        let settings = ["spark.cores.max=2"];
        let mut job = spark.start(&cluster, &spark.version, &settings, ("job.py", &["3"]));
        job.expect_sum(0);
        let app = job.told("id");
        let before = running(&cluster, &app);
        assert_eq!(before.len(), 1, "{}", spark.version);
        let (leader, epoch) = cluster.leader();
        cluster.signal(&leader, Signal::SIGKILL);
        wait_leader_after(&cluster, epoch);
        wait_workers(&cluster, "ALIVE", 1);
        go_on(&cluster, 1);
        job.expect_sum(1);
        assert_eq!(running(&cluster, &app), before, "{}", spark.version);
        let _second = Worker::start(spark, &cluster, "second");
        wait_workers(&cluster, "ALIVE", 2);
        first.kill();
        wait_workers(&cluster, "DEAD", 1);
        go_on(&cluster, 2);
        job.expect_sum(2);
        job.told("end");
        job.expect_success();
    }
}
