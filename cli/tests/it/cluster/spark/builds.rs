//! Builds of Spark that no master has built in: taught by agents, or asked for what their classes look like.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use nix::sys::signal::Signal;

use super::{
    Job, Lane, Spark, cluster, go_on, installations, newest, script,
    submitting::{Submitted, Way},
    sum_of, wait_leader_after,
};
use crate::support::{Cluster, expect_code, run};

/// Masters that ask.
const ASKING: &str = "\
[master]
spark_probe = true
";
/// What a JVM says of a question in its log.
const QUESTION: &str = "java.io.InvalidClassException";
/// Questions that a driver is asked whose registration has come.
const QUESTIONS: usize = 7;

/// A build of a vendor: works as the one that it is made from, but its classes are others.
fn vendor(spark: &Spark, folder: &Path) -> Spark {
    let home = folder.join(&spark.version);
    let mut command = Command::new("python3");
    command.arg(script("vendor.py")).arg(&spark.home).arg(&home);
    expect_code(&run(&mut command), 0);
    Spark {
        version: format!("{}-vendor", spark.version),
        python: spark.python.clone(),
        home,
    }
}

fn asking(folder: &Path) -> PathBuf {
    let config = folder.join("asking.toml");
    fs::write(&config, ASKING).expect("written");
    config
}

/// The leader dies between the actions of these jobs, again and again, so that those that come back lead, too.
fn expect_sums_over_leaders(cluster: &Cluster, jobs: &mut [Job], steps: u32) {
    for step in 0..steps {
        if step > 0 {
            let (leader, epoch) = cluster.leader();
            cluster.signal(&leader, Signal::SIGKILL);
            wait_leader_after(cluster, epoch);
            go_on(cluster, step);
        }
        for job in &mut *jobs {
            job.expect_sum(step);
        }
    }
    for job in jobs {
        job.told("end");
        job.expect_success();
        let id = job.told("id");
        let status = cluster.json(&["status", &id]);
        let state = &status["application"]["state"];
        assert_eq!(state, "FINISHED", "{}: {status}", job.name);
    }
}

#[test]
fn a_driver_of_a_build_that_an_agent_has_taught_outlives_leaders() {
    let Some(spark) = newest(Lane::Full) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let vendor = vendor(&spark, folder.path());
    let cluster = cluster(std::slice::from_ref(&vendor), &["--respawn"]);
    let settings = ["spark.cores.max=2"];
    let mut jobs = [vendor.start(&cluster, "taught", &settings, ("job.py", &["3"]))];
    expect_sums_over_leaders(&cluster, &mut jobs, 3);
}

#[test]
fn drivers_of_builds_that_nobody_knows_are_asked_and_outlive_leaders() {
    let Some(sparks) = installations(Lane::Full) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let config = asking(folder.path());
    let vendors: Vec<Spark> = sparks.iter().map(|s| vendor(s, folder.path())).collect();
    let homes: Vec<String> = vendors
        .iter()
        .map(|v| format!("{}={}", v.version, v.home.display()))
        .collect();
    let mut options = vec!["--respawn", "--config", config.to_str().expect("UTF-8")];
    for home in &homes {
        options.extend(["--spark-home", home]);
    }
    let cluster = cluster(&[], &options);
    let start = |vendor: &Spark| {
        let name = &vendor.version;
        let line = format!("spark.executorEnv.INTERREX_SPARK_LINE={name}");
        let settings = ["spark.cores.max=2", &line];
        vendor.start(&cluster, name, &settings, ("job.py", &["4"]))
    };
    let mut jobs: Vec<Job> = vendors.iter().map(start).collect();
    for job in &mut jobs {
        job.expect_sum(0);
        let asked = job.log().matches(QUESTION).count();
        // More, where the leader has changed meanwhile.
        assert!(asked >= QUESTIONS, "{}", job.log());
    }
    expect_sums_over_leaders(&cluster, &mut jobs, 4);
}

#[test]
fn a_client_of_the_newest_line_submits_over_rpc_where_masters_ask() {
    let Some(spark) = newest(Lane::Full) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let config = asking(folder.path());
    let options = ["--config", config.to_str().expect("UTF-8")];
    let cluster = cluster(std::slice::from_ref(&spark), &options);
    let masters = Way::Rpc.addresses(&cluster);
    let way = (Way::Rpc, masters.as_slice());
    let driver = Submitted::new(&spark, &cluster, way, "rpc", (&[], 1));
    assert_eq!(driver.told("sum.0"), sum_of(0));
    driver.wait_state("FINISHED");
}
