//! Which executors an application has: asked for by its driver's own timers, lost, drained, killed, spread.

use nix::sys::signal::Signal;
use serde_json::Value;

use super::{
    Job, Lane, cluster, executor_processes, go_on, installations, newest, processes,
    wait_leader_after, wait_long,
};
use crate::support::{Cluster, expect_code, signal};

/// Executors of this application in this state, as `list apps` shows them.
pub(super) fn executors(cluster: &Cluster, app: &str, state: &str) -> Vec<Value> {
    let listed = cluster.json(&["list", "apps"]);
    let apps = listed["applications"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let app = apps.into_iter().find(|known| known["id"] == app);
    let all = app.and_then(|app| app["executors"].as_array().cloned());
    let in_state = |executor: &Value| executor["state"] == state;
    all.unwrap_or_default()
        .into_iter()
        .filter(in_state)
        .collect()
}

/// Waits until so many run.
fn wait_running(cluster: &Cluster, app: &str, what: &str, wanted: impl Fn(usize) -> bool) {
    wait_long(what, || {
        wanted(executors(cluster, app, "RUNNING").len()).then_some(())
    });
}

#[test]
fn dynamic_allocation_grows_and_shrinks_by_its_own_timers_over_a_failover() {
    let Some(sparks) = installations(Lane::Full) else {
        return;
    };
    let cluster = cluster(&sparks, &["--respawn"]);
    let settings = [
        "spark.dynamicAllocation.enabled=true",
        "spark.dynamicAllocation.shuffleTracking.enabled=true",
        "spark.dynamicAllocation.schedulerBacklogTimeout=1s",
        "spark.dynamicAllocation.executorIdleTimeout=4s",
        "spark.dynamicAllocation.minExecutors=0",
        "spark.executor.cores=1",
        "spark.cores.max=3",
    ];
    let mut jobs: Vec<Job> = sparks
        .iter()
        .map(|spark| {
            let job = ("job.py", &["3", "--pause", "6"][..]);
            spark.start(&cluster, &spark.version, &settings, job)
        })
        .collect();
    for step in 0..3 {
        if step == 2 {
            let (leader, epoch) = cluster.leader();
            cluster.signal(&leader, Signal::SIGKILL);
            wait_leader_after(&cluster, epoch);
        }
        if step > 0 {
            go_on(&cluster, step);
        }
        for job in &mut jobs {
            let app = job.told("id");
            wait_running(&cluster, &app, "it grows", |running| running >= 2);
        }
        for job in &mut jobs {
            job.expect_sum(step);
            let app = job.told("id");
            if step < 2 {
                wait_running(&cluster, &app, "it shrinks", |running| running == 0);
            }
        }
    }
    for job in &mut jobs {
        job.expect_success();
        let app = job.told("id");
        assert_eq!(executors(&cluster, &app, "FAILED").len(), 0);
        assert_eq!(
            cluster.json(&["status", &app])["application"]["state"],
            "FINISHED"
        );
    }
}

#[test]
fn executors_that_die_or_are_drained_are_replaced_and_the_result_is_right() {
    let Some(sparks) = installations(Lane::Full) else {
        return;
    };
    let cluster = cluster(&sparks, &[]);
    let settings = [
        "spark.executor.cores=1",
        "spark.cores.max=1",
        "spark.decommission.enabled=true",
    ];
    for spark in &sparks {
        let job = ("job.py", &["3", "--pause", "3"][..]);
        let mut job = spark.start(&cluster, &spark.version, &settings, job);
        let app = job.told("id");
        job.expect_sum(0);
        go_on(&cluster, 1);
        for pid in executor_processes(&app) {
            signal(pid, Signal::SIGKILL);
        }
        job.expect_sum(1);
        let died = executors(&cluster, &app, "EXITED");
        assert_eq!(died[0]["exit"]["signal"], 9, "{died:?}");
        let running = executors(&cluster, &app, "RUNNING");
        let worker = running[0]["worker_id"]
            .as_str()
            .expect("a worker")
            .to_owned();
        let id = running[0]["executor_id"].as_u64().expect("a number");
        let drain = ["worker", "drain", &worker, "--reason", "new disk"];
        expect_code(&cluster.run(&drain), 0);
        job.expect_said(&[
            &format!(
                "{app}/{id} is now DECOMMISSIONED (worker {worker} is being drained: new disk)"
            ),
            &format!("Decommission executors: {id}"),
        ]);
        go_on(&cluster, 2);
        job.expect_sum(2);
        job.expect_success();
        expect_code(&cluster.run(&["worker", "undrain", &worker]), 0);
        for step in [1, 2] {
            let go = cluster.dir().join(format!("go.{step}"));
            std::fs::remove_file(go).expect("it was written");
        }
    }
}

#[test]
fn a_driver_whose_application_is_killed_stops_and_says_so() {
    let Some(sparks) = installations(Lane::Full) else {
        return;
    };
    let cluster = cluster(&sparks, &[]);
    for spark in &sparks {
        let settings = ["spark.cores.max=1"];
        let mut job = spark.start(&cluster, &spark.version, &settings, ("job.py", &["2"]));
        let app = job.told("id");
        job.expect_sum(0);
        expect_code(&cluster.run(&["kill", &app]), 0);
        job.expect_said(&["Master removed our application"]);
        go_on(&cluster, 1);
        assert!(!job.wait_end().success(), "{}", job.log());
        wait_long("its executors have ended", || {
            executor_processes(&app).is_empty().then_some(())
        });
        let status = cluster.json(&["status", &app]);
        assert_eq!(status["application"]["state"], "KILLED", "{status}");
        let go = cluster.dir().join("go.1");
        std::fs::remove_file(go).expect("it was written");
    }
}

#[test]
fn executors_are_spread_over_agents_as_large_as_they_were_asked_for() {
    let Some(spark) = newest(Lane::Full) else {
        return;
    };
    // Two executors of 600 MiB fit on an agent, a third does not.
    let small = ["--cores", "4", "--memory", "1500MiB"];
    let cluster = cluster(std::slice::from_ref(&spark), &small);
    let settings = [
        "spark.executor.cores=1",
        "spark.executor.memory=600m",
        "spark.cores.max=8",
    ];
    let mut job = spark.start(&cluster, "spread", &settings, ("job.py", &["2"]));
    let app = job.told("id");
    job.expect_sum(0);
    wait_running(&cluster, &app, "four executors run", |running| running == 4);
    for worker in ["w1", "w2"] {
        let running = executors(&cluster, &app, "RUNNING");
        let there = running.iter().filter(|e| e["worker_id"] == worker);
        let there: Vec<_> = there.collect();
        assert_eq!(there.len(), 2, "{running:?}");
        for executor in there {
            assert_eq!(executor["cores"], 1, "{executor}");
            assert_eq!(executor["memory_mib"], 600, "{executor}");
        }
    }
    let backends = ["CoarseGrainedExecutorBackend", "-Xmx600M", &app];
    assert_eq!(processes(&backends).len(), 4);
    go_on(&cluster, 1);
    job.expect_sum(1);
    job.expect_success();
}
