//! Cluster mode: drivers that run on agents, over REST and over Spark's RPC.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use nix::sys::signal::Signal;

use super::{
    Lane, Spark, cluster, go_on, has_programs, installations, newest, processes, script,
    submitting::{Submitted, Way, command},
    sum_of, wait_long,
};
use crate::support::{Cluster, expect_code, run, signal};

#[test]
fn a_driver_in_cluster_mode_runs_on_an_agent_and_knows_all_masters() {
    let Some(spark) = newest(Lane::Short) else {
        return;
    };
    let cluster = cluster(std::slice::from_ref(&spark), &[]);
    let way = Way::of(&spark);
    // It is submitted to one of them.
    let one = [way.addresses(&cluster).pop().expect("an address")];
    let driver = Submitted::new(&spark, &cluster, (way, &one), "one", (&[], 1));
    assert_eq!(driver.told("sum.0"), sum_of(0));
    let all = cluster.addresses("rpc").join(",");
    assert_eq!(driver.told("master"), format!("spark://{all}"));
    driver.wait_state("FINISHED");
    let app = driver.told("id");
    let status = cluster.json(&["status", &app]);
    assert_eq!(status["application"]["state"], "FINISHED", "{status}");
}

/// A jar with one class, compiled against an installation.
fn jar(spark: &Spark, folder: &Path) -> PathBuf {
    let classes = folder.join("classes");
    fs::create_dir(&classes).expect("a folder");
    let mut javac = Command::new("javac");
    javac
        .arg("-cp")
        .arg(spark.home.join("jars/*"))
        .arg("-d")
        .arg(&classes)
        .arg(script("Sum.java"));
    expect_code(&run(&mut javac), 0);
    let jar = folder.join("sum.jar");
    let mut pack = Command::new("jar");
    pack.arg("cf").arg(&jar).arg("-C").arg(&classes).arg(".");
    expect_code(&run(&mut pack), 0);
    jar
}

/// Submits `Sum`, as its line does by default, and checks what it has found.
fn runs_a_jar(cluster: &Cluster, spark: &Spark) {
    let folder = cluster.dir().join(format!("mode-{}", spark.version));
    fs::create_dir(&folder).expect("a folder");
    let result = folder.join("result");
    let log = folder.join("submit.log");
    let way = Way::of(spark);
    let submitted = command(spark, cluster, (way, &way.addresses(cluster)), &log)
        .args(["--class", "Sum"])
        .arg(jar(spark, &folder))
        .arg(&result)
        .status();
    let said = fs::read_to_string(&log).unwrap_or_default();
    assert!(submitted.expect("spark-submit runs").success(), "{said}");
    let told = wait_long(&format!("a result of {}: {said}", spark.version), || {
        fs::read_to_string(&result).ok()
    });
    let all = cluster.addresses("rpc").join(",");
    assert_eq!(told, format!("10 spark://{all}"), "{said}");
}

#[test]
fn drivers_in_jars_run_as_their_lines_submit_them() {
    let Some(sparks) = installations(Lane::Full) else {
        return;
    };
    if !has_programs(&["javac", "jar"]) {
        return;
    }
    let cluster = cluster(&sparks, &[]);
    for spark in &sparks {
        runs_a_jar(&cluster, spark);
    }
    wait_long("drivers and applications are finished", || {
        let all = ["drivers", "apps"].map(|kind| cluster.json(&["list", kind]).to_string());
        let finished = all
            .iter()
            .all(|text| text.matches("FINISHED").count() == sparks.len());
        finished.then_some(())
    });
}

/// The driver's own process dies under supervision: another run, under the same id, with an application of its own.
fn is_started_again(driver: &Submitted<'_>, name: &str) {
    let first = driver.told("id");
    assert_eq!(driver.told("sum.0"), sum_of(0));
    driver.forget(&["id", "sum.0"]);
    for pid in processes(&["org.apache.spark.deploy.SparkSubmit", name]) {
        signal(pid, Signal::SIGKILL);
    }
    let second = driver.told("id");
    assert_ne!(second, first);
    assert_eq!(driver.told("sum.0"), sum_of(0));
    let status = driver.status();
    assert_eq!(status["attempt"], 2, "{status}");
}

#[test]
fn a_supervised_driver_is_started_again_and_killed_with_sparks_own_programs() {
    let Some(sparks) = installations(Lane::Full) else {
        return;
    };
    for spark in &sparks {
        let cluster = cluster(std::slice::from_ref(spark), &[]);
        let way = Way::of(spark);
        // A master that is down, and the first of the list, harms nobody; but Spark's client of its RPC refuses to do
        // anything when one of its list is down, whoever the masters are.
        let (leader, _) = cluster.leader();
        let down = if leader == "m1" { 1 } else { 0 };
        cluster.signal(["m1", "m2"][down], Signal::SIGKILL);
        let mut masters = way.addresses(&cluster);
        masters.swap(0, down);
        if way == Way::Rpc {
            masters.remove(0);
        }
        let options: (&[&str], u32) = (&["--supervise"], 2);
        let driver = Submitted::new(spark, &cluster, (way, &masters), "kept", options);
        is_started_again(&driver, "kept");
        let said = driver.asked_with_spark_submit("--status");
        assert!(said.contains("RUNNING"), "{said}");
        let said = match way {
            Way::Rest => driver.asked_with_spark_submit("--kill"),
            Way::Rpc => driver.kill_over_rpc(),
        };
        let expected = match way {
            Way::Rest => format!("\"submissionId\" : \"{}\"", driver.id),
            Way::Rpc => format!("Kill request for {} submitted", driver.id),
        };
        assert!(said.contains(&expected), "{said}");
        driver.wait_state("KILLED");
        let app = driver.told("id");
        wait_long("its application is over", || {
            let status = cluster.json(&["status", &app]);
            let state = status["application"]["state"].as_str()?;
            matches!(state, "FINISHED" | "FAILED").then_some(())
        });
        let ended = Submitted::new(spark, &cluster, (way, &masters), "short", (&[], 2));
        assert_eq!(ended.told("sum.0"), sum_of(0));
        go_on(&cluster, 1);
        assert_eq!(ended.told("sum.1"), sum_of(1));
        ended.wait_state("FINISHED");
    }
}
