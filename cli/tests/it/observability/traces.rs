//! One trace from a submission to its process, over all programs on the way, and none of them in need of a collector.

use std::{process::Command, time::Instant};

use super::collector::{Collector, Seen};
use crate::support::{Cluster, expect_code, run, text, wait_for};

/// How a submission goes, from the outside in: each below the one before, but for `schedule`, which follows the commit
/// below the same call.
const WAY: [(&str, &str, &str); 7] = [
    ("interrex", "interrex submit", ""),
    ("interrex", "attempt", "interrex submit"),
    ("interrex-master", "interrex.v1.Control/Submit", "attempt"),
    ("interrex-master", "commit", "interrex.v1.Control/Submit"),
    ("interrex-master", "schedule", "interrex.v1.Control/Submit"),
    ("interrex-agent", "launch", "schedule"),
    ("interrex-agent", "start process", "launch"),
];

/// The spans of `WAY` for the submission `id`, once all of them have come.
fn way(collector: &Collector, id: &str) -> Vec<Seen> {
    wait_for("every span of the submission", || {
        let all = collector.seen();
        let root = all
            .iter()
            .find(|span| span.name == WAY[0].1 && span.attribute("interrex.submission_id") == id)?;
        let of_trace: Vec<&Seen> = all.iter().filter(|s| s.trace == root.trace).collect();
        let mut found: Vec<Seen> = Vec::new();
        for (service, name, parent) in WAY {
            // A client that has asked a standby first has made more than one attempt: the one that was obeyed counts.
            let above: Vec<&str> = of_trace
                .iter()
                .filter(|s| s.name == parent)
                .map(|s| s.id.as_str())
                .collect();
            let here = of_trace.iter().find(|s| {
                let fits = above.contains(&s.parent.as_str())
                    || (parent.is_empty() && s.parent.is_empty());
                let obeyed = s.name != WAY[2].1 || s.attribute("interrex.outcome") == "accepted";
                s.service == service && s.name == name && fits && obeyed
            });
            found.push((*here?).clone());
        }
        Some(found)
    })
}

#[test]
fn a_submission_is_one_trace_from_the_client_to_the_process() {
    let collector = Collector::start();
    let url = collector.url();
    let cluster = Cluster::start(&["--agents", "1", "--otlp-endpoint", &url]);
    let mut submit = cluster.command(&["submit", "--submission-id", "traced", "--wait"]);
    submit.args([
        "--otlp-endpoint",
        &url,
        "--",
        "sh",
        "-c",
        "echo $TRACEPARENT",
    ]);
    expect_code(&run(&mut submit), 0);

    let spans = way(&collector, "traced");
    let of = |name: &str| {
        spans
            .iter()
            .find(|span| span.name == name)
            .expect("it is there")
    };
    let (leader, _) = cluster.leader();
    assert_eq!(of("commit").instance, leader);
    assert_eq!(of("commit").attribute("interrex.outcome"), "accepted");
    assert_eq!(of("schedule").attribute("interrex.worker_id"), "w1");
    assert_eq!(of("launch").attribute("interrex.outcome"), "running");
    let driver = of("commit").attribute("interrex.driver_id");
    assert!(of("launch").attribute("interrex.work").contains(&driver));
    for span in &spans {
        assert!(span.began > 0 && span.began <= span.ended, "{span:?}");
    }
    // One clock: they are all on this machine.
    for pair in [["commit", "schedule"], ["schedule", "launch"]] {
        let [before, after] = pair.map(of);
        assert!(before.began <= after.began, "{before:?} {after:?}");
    }
    assert!(of("commit").ended <= of("schedule").ended);

    // The process is told where it is, so that it can go on with the trace.
    let said = cluster.run(&["logs", "traced"]);
    let start = of("start process");
    let place = format!("00-{}-{}-01", start.trace, start.id);
    assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), place);

    goes_on_with_the_callers_trace(&collector, &cluster);
    is_not_needed(&cluster);
}

/// Whoever calls `interrex submit`, or the REST API, in a trace of their own sees all this in there.
fn goes_on_with_the_callers_trace(collector: &Collector, cluster: &Cluster) {
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let place = format!("00-{trace}-b7ad6b7169203331-01");
    let mut submit = cluster.command(&["submit", "--wait", "--otlp-endpoint", &collector.url()]);
    expect_code(
        &run(submit.env("TRACEPARENT", &place).args(["--", "true"])),
        0,
    );
    let rest = cluster.addresses("rest");
    for address in &rest {
        let created = Command::new("curl")
            .args(["-sf", "-H", &format!("traceparent: {place}"), "-d"])
            .arg(
                r#"{"action": "CreateSubmissionRequest", "clientSparkVersion": "4.0.0", "command": ["true"],
                    "sparkProperties": {"spark.app.name": "traced"}, "environmentVariables": {}}"#,
            )
            .arg(format!("http://{address}/v1/submissions/create"))
            .output();
        let created = created.expect("curl");
        assert!(created.status.success(), "{}", text(&created));
    }
    wait_for("the spans of all of them", || {
        let all = collector.seen();
        let count = |name: &str| {
            let ours = all.iter().filter(|s| s.trace == trace && s.name == name);
            ours.count()
        };
        let came = count("POST /v1/submissions/create") == rest.len()
            && count("start process") == rest.len() + 1
            && count("interrex submit") == 1;
        came.then_some(())
    });
}

/// A collector that is gone, or takes connections and says nothing, costs a client a moment at most.
fn is_not_needed(cluster: &Cluster) {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = format!("http://{}", silent.local_addr().expect("an address"));
    for (endpoint, shown) in [("http://127.0.0.1:9", true), (silent.as_str(), false)] {
        let began = Instant::now();
        let mut submit = cluster.command(&["submit", "--otlp-endpoint", endpoint]);
        submit.args(["--log-filter", "warn", "--", "true"]);
        let output = run(&mut submit);
        expect_code(&output, 0);
        assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
        let said = String::from_utf8_lossy(&output.stderr);
        let times = said.matches("traces cannot be sent").count();
        assert!(times <= 1 && (times == 1 || !shown), "{}", text(&output));
    }
    let output =
        run(&mut cluster.command(&["submit", "--otlp-endpoint", "https://x:1", "--", "true"]));
    expect_code(&output, 2);
}
