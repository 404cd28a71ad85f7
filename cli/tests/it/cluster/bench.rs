//! The benches work and print what scripts read. Their figures are nobody's business here.

use serde_json::Value;

use crate::support::{expect_code, interrex, run};

fn lines(args: &[&str]) -> Vec<Value> {
    let output = run(interrex().arg("bench").args(args).args(["-o", "json"]));
    expect_code(&output, 0);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .map(|l| serde_json::from_str(l).expect("one JSON object a line"))
        .collect()
}

#[test]
fn failover_is_measured_in_every_mode() {
    for mode in ["kill", "sigterm", "transfer"] {
        let found = lines(&["failover", "--rounds", "2", "--mode", mode]);
        assert_eq!(found[0]["bench"], "failover");
        assert_eq!(found[0]["params"]["mode"], mode);
        let median = found[0]["metrics"]["median_seconds"]
            .as_f64()
            .expect("a figure");
        assert!(median > 0.0, "{median}");
    }
}

#[test]
fn submission_is_measured_for_each_number_of_clients_and_both_apis() {
    for api in ["grpc", "rest"] {
        let mut args = vec![
            "submit",
            "--clients",
            "1,2",
            "--seconds",
            "1",
            "--queued",
            "20",
        ];
        args.extend((api == "rest").then_some("--rest"));
        let found = lines(&args);
        assert_eq!(found.len(), 2);
        for (line, clients) in found.iter().zip([1, 2]) {
            assert_eq!(line["params"]["clients"], clients);
            assert_eq!(line["params"]["api"], api);
            assert!(line["metrics"]["acknowledged"].as_u64().expect("a count") > 0);
        }
    }
}

#[test]
fn being_looked_at_is_measured_against_not_being() {
    let small = ["--drivers", "50", "--clients", "2", "--seconds", "1"];
    let found = lines(&[&["observe", "--rounds", "2", "--loads", "3"], &small[..]].concat());
    let [overview, cost] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(overview["bench"], "overview");
    assert_eq!(overview["params"]["drivers"], 50);
    let bytes = |name: &str| overview["metrics"][name].as_u64().expect("bytes");
    assert!(bytes("html_bytes") > 1_000 && bytes("total_bytes") > bytes("html_bytes") + 1_000);
    let first = &overview["metrics"]["first_byte_median_seconds"];
    assert!(first.as_f64().expect("a time") > 0.0, "{first}");

    assert_eq!(cost["bench"], "observe");
    let metrics = &cost["metrics"];
    for side in ["alone_per_second", "watched_per_second", "ratio"] {
        assert!(metrics[side].as_f64().expect("a figure") > 0.0, "{cost}");
    }
    // Two parts of a second: every master twice at least, a page at once, and some of the log.
    for (name, least) in [("scrapes", 6), ("pages", 2), ("log_bytes", 100)] {
        assert!(
            metrics[name].as_u64().expect("a count") >= least,
            "{name}: {cost}"
        );
    }
}

#[test]
fn a_join_is_measured_while_submissions_go_on() {
    let found = lines(&[
        "join",
        "--drivers",
        "50",
        "--clients",
        "2",
        "--seconds",
        "1",
    ]);
    let metrics = &found[0]["metrics"];
    assert!(metrics["join_seconds"].as_f64().expect("a time") > 0.0);
    for part in ["before", "during", "after"] {
        let rate = &metrics[format!("{part}_per_second")];
        assert!(rate.as_f64().expect("a rate") > 0.0, "{part}: {rate}");
    }
}

#[test]
fn of_several_sizes_those_that_cannot_be_are_passed_over() {
    let found = lines(&[
        "schedule",
        "--workers",
        "1,40",
        "--apps",
        "20",
        "--events",
        "5",
    ]);
    assert!(found.iter().all(|line| line["params"]["workers"] == 40));
    let alone = ["bench", "schedule", "--workers", "1", "--apps", "20"];
    expect_code(&run(interrex().args(alone)), 2);
}

#[test]
fn scheduling_is_measured_for_each_size_and_event() {
    let args = [
        "schedule",
        "--workers",
        "4,8",
        "--apps",
        "2",
        "--queued",
        "9",
    ];
    let found = lines(&[&args[..], &["--events", "5"]].concat());
    assert_eq!(found.len(), 8, "{found:?}");
    for line in &found {
        assert_eq!(line["params"]["queued"], 9);
        assert_eq!(line["metrics"]["count"], 5, "{line}");
        assert!(line["metrics"]["p99_seconds"].is_number());
    }
    // In a full cluster no driver finds a place.
    let full = lines(&[
        "schedule",
        "--workers",
        "4",
        "--apps",
        "2",
        "--events",
        "5",
        "--hungry",
    ]);
    let events: Vec<_> = full.iter().map(|line| &line["params"]["event"]).collect();
    assert_eq!(
        events,
        ["executor_running", "executor_replaced", "submission_queued"]
    );
}

#[test]
fn recovery_is_measured_with_the_memory_of_the_master() {
    let found = lines(&["recover", "--drivers", "50", "--rounds", "1"]);
    assert_eq!(found[0]["params"]["drivers"], 50);
    assert!(
        found[0]["metrics"]["lead_seconds"]
            .as_f64()
            .expect("a figure")
            > 0.0
    );
    assert!(
        found[0]["metrics"]["resident_bytes_after_start"]
            .as_u64()
            .expect("bytes")
            > 1 << 20
    );
}

#[test]
fn saving_and_restoring_a_snapshot_are_measured() {
    let found = lines(&["snapshot", "--drivers", "50", "--masters", "1"]);
    let metrics = &found[0]["metrics"];
    assert!(metrics["records"].as_u64().expect("a count") >= 100);
    for figure in ["save_seconds", "restore_seconds"] {
        assert!(
            metrics[figure].as_f64().expect("a figure") > 0.0,
            "{figure}"
        );
    }
}

#[test]
fn agents_are_measured_with_their_heartbeats_and_a_failover() {
    // The first heartbeats leave five seconds after the registrations.
    let found = lines(&["agents", "--count", "20", "--seconds", "6", "--failover"]);
    assert_eq!(found[0]["params"]["agents"], 20);
    let metrics = &found[0]["metrics"];
    for counted in ["heartbeats", "acknowledged"] {
        assert!(metrics[counted].as_u64().expect("a count") > 0, "{metrics}");
    }
    assert!(metrics["leader_resident_bytes"].as_u64().expect("bytes") > 1 << 20);
    for figure in [
        "registered_seconds",
        "registered_again_seconds",
        "round_trip_p99_seconds",
    ] {
        assert!(
            metrics[figure].as_f64().expect("a figure") > 0.0,
            "{figure}"
        );
    }
    for figure in ["leader_cpu_cores", "agents_cpu_cores", "late_max_seconds"] {
        assert!(metrics[figure].is_number(), "{figure}");
    }
}
