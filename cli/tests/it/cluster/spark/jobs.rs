//! Client mode: jobs of all lines at once, over the ends of masters.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::{Job, Lane, Spark, cluster, go_on, installations, wait_leader_after};
use crate::support::{Cluster, wait_for};

/// How long the masters are away.
const OUTAGE: Duration = Duration::from_secs(10);

fn start_all(cluster: &Cluster, sparks: &[Spark], more: &[&str]) -> Vec<Job> {
    let jobs = sparks.iter().map(|spark| {
        let settings = ["spark.cores.max=2"];
        spark.start(cluster, &spark.version, &settings, ("job.py", more))
    });
    jobs.collect()
}

fn expect_sums(jobs: &mut [Job], step: u32) {
    for job in jobs {
        job.expect_sum(step);
    }
}

fn expect_ends(cluster: &Cluster, jobs: &mut [Job]) {
    for job in jobs {
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

#[test]
fn jobs_of_all_lines_run_at_once_and_outlive_the_leader() {
    let Some(sparks) = installations(Lane::Short) else {
        return;
    };
    let cluster = cluster(&sparks, &["--respawn"]);
    let mut jobs = start_all(&cluster, &sparks, &["2"]);
    expect_sums(&mut jobs, 0);
    let (killed, epoch) = cluster.leader();
    cluster.signal(&killed, Signal::SIGKILL);
    wait_leader_after(&cluster, epoch);
    go_on(&cluster, 1);
    expect_sums(&mut jobs, 1);
    expect_ends(&cluster, &mut jobs);
}

#[test]
fn jobs_survive_every_way_in_which_masters_go() {
    let Some(sparks) = installations(Lane::Full) else {
        return;
    };
    let cluster = cluster(&sparks, &["--respawn"]);
    let mut jobs = start_all(&cluster, &sparks, &["4", "--ask"]);
    expect_sums(&mut jobs, 0);
    let (killed, epoch) = cluster.leader();
    cluster.signal(&killed, Signal::SIGKILL);
    wait_leader_after(&cluster, epoch);
    go_on(&cluster, 1);
    expect_sums(&mut jobs, 1);
    // One that does not die but stands still, past every time-out, and goes on later.
    let (stopped, epoch) = cluster.leader();
    cluster.signal(&stopped, Signal::SIGSTOP);
    wait_leader_after(&cluster, epoch);
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
    wait_leader_after(&cluster, epoch);
    wait_for("the outage is over", || {
        (Instant::now() > back).then_some(())
    });
    go_on(&cluster, 3);
    expect_sums(&mut jobs, 3);
    for job in &mut jobs {
        assert_eq!(job.told("asked"), "True", "{}", job.name);
        assert_eq!(job.told("killed"), "True", "{}", job.name);
    }
    expect_ends(&cluster, &mut jobs);
}
