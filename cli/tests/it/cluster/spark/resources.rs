//! Custom resources, such as GPUs: their addresses reach tasks, also those of a profile of one stage.

use std::fs;

use super::{Lane, cluster, go_on, newest, processes};

/// What each agent has; nobody looks whether it is there.
const GPUS: &str = "\
[agent]
resource = [\"gpu=0,1,2\"]
";

#[test]
fn tasks_get_the_addresses_of_their_executors_also_in_a_profile_of_one_stage() {
    let Some(spark) = newest(Lane::Full) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("gpus.toml");
    fs::write(&config, GPUS).expect("written");
    let config = config.to_str().expect("UTF-8");
    let options = ["--agents", "1", "--config", config];
    let cluster = cluster(std::slice::from_ref(&spark), &options);
    let settings = [
        "spark.dynamicAllocation.enabled=true",
        "spark.dynamicAllocation.shuffleTracking.enabled=true",
        "spark.dynamicAllocation.initialExecutors=1",
        "spark.dynamicAllocation.minExecutors=1",
        "spark.dynamicAllocation.maxExecutors=1",
        "spark.executor.cores=1",
        "spark.executor.resource.gpu.amount=1",
        "spark.task.resource.gpu.amount=1",
    ];
    let mut job = spark.start(&cluster, "gpus", &settings, ("resources.py", &[]));
    let app = job.told("id");
    assert_eq!(job.told("default"), "0");
    assert_eq!(job.told("stage"), "1,2");
    let status = cluster.json(&["list", "apps"]);
    let executors = status["applications"][0]["executors"].as_array().cloned();
    let executors = executors.expect("a list");
    assert_eq!(executors[0]["memory_mib"], 512, "{executors:?}");
    assert_eq!(executors[1]["memory_mib"], 600, "{executors:?}");
    assert_eq!(
        processes(&["CoarseGrainedExecutorBackend", "-Xmx600M", &app]).len(),
        1
    );
    go_on(&cluster, 1);
    job.expect_success();
}
