//! Requests that a cluster must refuse by name, undisturbed.

use std::time::Duration;

use interrex_client::control::{ClientError, ClientOptions, ControlClient};
use interrex_proto::v1::{CommandLine, DriverSpec};

use crate::support::{Cluster, expect_code, expect_refusal};

fn spec(name: &str, args: Vec<String>) -> DriverSpec {
    DriverSpec {
        name: name.to_owned(),
        command: Some(CommandLine {
            program: "true".to_owned(),
            args,
            ..CommandLine::default()
        }),
        cores: 1,
        memory_mib: 64,
        ..DriverSpec::default()
    }
}

fn refused(cluster: &Cluster, id: &str, spec: DriverSpec) -> ClientError {
    let mut options = ClientOptions::new(cluster.addresses("rpc"));
    options.total_deadline = Duration::from_secs(10);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = ControlClient::new(options).expect("good options");
        client.submit(id, spec).await.expect_err("it is refused")
    })
}

#[test]
fn what_breaks_a_limit_is_refused_with_the_limit_and_disturbs_nothing() {
    let cluster = Cluster::start(&["--agents", "1"]);
    let zero = cluster.run(&["submit", "--cores", "0", "--", "true"]);
    expect_refusal(&zero, 4, &["cores"]);
    expect_refusal(&cluster.run(&["status", "no-such-id"]), 5, &["no-such-id"]);
    expect_refusal(&cluster.run(&["kill", "no-such-id"]), 5, &["no-such-id"]);
    expect_refusal(&cluster.run(&["wait", "no-such-id"]), 5, &["no-such-id"]);

    let long_name = refused(&cluster, "long", spec(&"n".repeat(1 << 10), Vec::new()));
    assert!(long_name.to_string().contains("256"), "{long_name}");
    let endless_name = refused(&cluster, "long", spec(&"n".repeat(1 << 20), Vec::new()));
    assert!(
        endless_name.to_string().contains("at most"),
        "{endless_name}"
    );
    let nul = refused(&cluster, "nul", spec("nul", vec!["a\0b".to_owned()]));
    assert!(nul.to_string().contains("NUL"), "{nul}");
    let large = vec!["x".repeat(1 << 20); 3];
    let large = refused(&cluster, "large", spec("large", large));
    assert_eq!(large.exit_code(), 4, "{large}");
    assert!(large.to_string().contains("1048576"), "{large}");
    let huge = refused(
        &cluster,
        "huge",
        spec("huge", vec!["x".repeat(1 << 20); 10]),
    );
    assert_eq!(huge.exit_code(), 4, "{huge}");

    for id in ["long", "nul", "large", "huge"] {
        expect_code(&cluster.run(&["status", id]), 5);
    }
    expect_code(&cluster.run(&["submit", "--wait", "--", "true"]), 0);
}

#[test]
fn the_rest_api_answers_json_to_whatever_comes() {
    let cluster = Cluster::start(&["--agents", "1"]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let http = reqwest::Client::builder()
        .no_proxy()
        .build()
        .expect("a client");
    let post = |address: &str, path: &str, body: String| {
        let request = http.post(format!("http://{address}{path}")).body(body);
        runtime.block_on(async {
            let answer = request.send().await.expect("an answer");
            let status = answer.status().as_u16();
            let text = answer.text().await.expect("a body");
            let json: serde_json::Value = serde_json::from_str(&text)
                .unwrap_or_else(|e| panic!("no JSON ({e}) with {status}: {text}"));
            (status, json)
        })
    };
    let create = "/v1/submissions/create";
    let good = r#"{"action":"CreateSubmissionRequest","clientSparkVersion":"4.0.0","command":["true"],
        "sparkProperties":{"spark.app.name":"rest"},"environmentVariables":{}}"#;
    for address in cluster.addresses("rest") {
        let (status, bad) = post(&address, create, "{not json".to_owned());
        assert_eq!(
            (status, bad["action"].as_str()),
            (400, Some("ErrorResponse")),
            "{bad}"
        );
        let fractional = good.replace(
            "{\"spark.app.name\":\"rest\"}",
            "{\"spark.driver.cores\":\"0.5\"}",
        );
        let (status, bad) = post(&address, create, fractional);
        assert!((400..500).contains(&status), "{status} {bad}");
        let (status, bad) = post(&address, create, "x".repeat(10 << 20));
        assert_eq!(status, 413, "{bad}");
        let (status, made) = post(&address, create, good.to_owned());
        assert_eq!(
            (status, made["success"].as_bool()),
            (200, Some(true)),
            "{made}"
        );
        let id = made["submissionId"].as_str().expect("an id");
        expect_code(&cluster.run(&["wait", id]), 0);
    }
}
