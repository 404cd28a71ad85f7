//! Drivers that need executors leave cores to these, and whoever waits can see why.

use serde_json::Value;

use crate::support::{Cluster, expect_code, expect_refusal, text};

/// What is said about the first thing that `id` waits for.
fn wait_of(cluster: &Cluster, id: &str) -> (String, Value) {
    let explained = cluster.json(&["explain", id]);
    let summary = explained["summary"].as_str().expect("a sentence");
    (summary.to_owned(), explained["waits"][0].clone())
}

#[test]
fn six_drivers_that_need_executors_finish_in_turn_on_four_cores() {
    // Without the share four of them would hold all cores and wait for ever.
    let cluster = Cluster::start(&["--agents", "1", "--cores", "4"]);
    let program = env!("CARGO_BIN_EXE_interrex");
    let needy = [program, "run", "--executors", "1", "--", "sleep", "0.5"];
    let mut said = Vec::new();
    for n in 0..6 {
        let id = format!("needy-{n}");
        let mut args = vec!["submit", "--needs-executors", "--submission-id", &id, "--"];
        args.extend(needy);
        let submitted = cluster.run(&args);
        expect_code(&submitted, 0);
        said.push(text(&submitted));
    }
    let held = "held: driver share (drivers that need executors hold 2 of at most 2 cores)";
    // Those that came while two others were there; how fast these were is not for us to say.
    let told = said.iter().filter(|said| said.contains(held)).count();
    assert!(told > 0, "nobody was told: {said:?}");
    for n in 0..6 {
        let id = format!("needy-{n}");
        expect_code(&cluster.run(&["wait", &id, "--timeout", "60s"]), 0);
    }
    let apps = cluster.json(&["list", "apps"]);
    let apps = apps["applications"].as_array().expect("a list");
    assert_eq!(apps.len(), 6);
    assert!(apps.iter().all(|app| app["state"] == "FINISHED"));
}

#[test]
fn an_explanation_names_what_is_in_the_way() {
    let cluster = Cluster::start(&["--agents", "1", "--cores", "4"]);
    let sleep = ["--", "sleep", "600"];
    let of = |options: &[&str]| cluster.submit(&[options, &sleep[..]].concat());
    let needy = of(&["--needs-executors", "--cores", "2"]);
    let second = of(&["--needs-executors"]);
    let (summary, wait) = wait_of(&cluster, &second);
    let held = "held: driver share (drivers that need executors hold 2 of at most 2 cores)";
    assert_eq!(summary, held);
    assert_eq!(wait["held"][0], held);
    assert_eq!(wait["workers"][0]["words"], "fits");

    let plain = of(&["--cores", "3"]);
    let (summary, wait) = wait_of(&cluster, &plain);
    assert_eq!(
        summary,
        "waiting for a worker with 3 cores and 512 MiB free"
    );
    assert_eq!(
        (&wait["queue_before"], &wait["queue_length"]),
        (&1.into(), &2.into())
    );
    assert_eq!(wait["workers"][0]["words"], "lacks cores (has 2 of 4 free)");
    // Never: said at once, and nothing else changes.
    let mut huge = vec!["submit", "--cores", "99"];
    huge.extend(sleep);
    expect_refusal(
        &cluster.run(&huge),
        0,
        &["it waits: no agent is large enough for 99 cores"],
    );

    cluster.wait_driver(&needy, "RUNNING");
    let worker = cluster.run(&["explain", "w1"]);
    expect_code(&worker, 0);
    let shown = String::from_utf8_lossy(&worker.stdout).into_owned();
    let line = format!("driver {needy}, attempt 1, RUNNING: 2 cores and 512 MiB");
    assert!(
        shown.contains("worker w1 ALIVE") && shown.contains(&line),
        "{shown}"
    );
    let table = cluster.run(&["explain", &plain]);
    let shown = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(shown.contains("queue    number 2 of"), "{shown}");
    expect_refusal(&cluster.run(&["explain", "nobody"]), 5, &["`nobody`"]);

    expect_code(&cluster.run(&["kill", &needy]), 0);
    cluster.wait_driver(&second, "RUNNING");
    cluster.wait_driver(&plain, "RUNNING");
    let over = cluster.wait_driver(&needy, "KILLED");
    assert_eq!(over["over"], true);
    let (summary, _) = wait_of(&cluster, &needy);
    assert!(
        summary.starts_with("was killed on w1 as attempt 1"),
        "{summary}"
    );
}
