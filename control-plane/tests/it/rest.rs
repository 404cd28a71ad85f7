//! The submission API of a leader, over HTTP.

use reqwest::Method;
use serde_json::{Value, json};

use crate::rest_support::{Cluster, command_body, create, get, post, send, spark_body};

#[tokio::test]
async fn a_driver_is_created_shown_killed_and_cleared() {
    let cluster = Cluster::default();
    let master = cluster.start_leader("m1").await;
    let created = create(&master, "nightly", &command_body()).await;
    assert_eq!(
        (created.status, &created.json["success"]),
        (200, &json!(true)),
        "{created:?}"
    );
    assert_eq!(
        created.header("content-type"),
        "application/json;charset=utf-8"
    );
    assert_eq!(created.header("interrex-leader"), "m1");
    let driver = created.text_of("submissionId").to_owned();
    assert!(driver.starts_with("driver-"), "{created:?}");
    assert_eq!(
        created.text_of("message"),
        format!("Driver successfully submitted as {driver}")
    );

    for id in [driver.as_str(), "nightly"] {
        let status = get(&master, &format!("status/{id}")).await;
        assert_eq!(status.text_of("action"), "SubmissionStatusResponse");
        assert_eq!(
            (
                status.text_of("driverState"),
                status.text_of("submissionId")
            ),
            ("SUBMITTED", id)
        );
    }

    let killed = post(&master, &format!("kill/{driver}"), "").await;
    assert_eq!(
        (killed.text_of("action"), &killed.json["success"]),
        ("KillSubmissionResponse", &json!(true))
    );
    let again = post(&master, &format!("kill/{driver}"), "").await;
    assert_eq!(
        (again.status, &again.json["success"]),
        (200, &json!(false)),
        "{again:?}"
    );
    assert_eq!(
        again.text_of("message"),
        format!("Driver {driver} has already finished or does not exist")
    );

    let cleared = post(&master, "clear", "").await;
    assert_eq!(
        (cleared.text_of("action"), &cleared.json["success"]),
        ("ClearResponse", &json!(true))
    );
    let gone = get(&master, &format!("status/{driver}")).await;
    assert_eq!(
        (gone.status, &gone.json["success"]),
        (200, &json!(false)),
        "{gone:?}"
    );
}

#[tokio::test]
async fn a_spark_submission_is_queued_until_an_agent_can_run_it() {
    let cluster = Cluster::default();
    let master = cluster.start_leader("m1").await;
    let created = post(&master, "create", with(spark_body(), "zone", json!(1))).await;
    assert_eq!(created.json["success"], json!(true), "{created:?}");
    assert_eq!(created.json["unknownFields"], json!(["zone"]));
    let status = get(
        &master,
        &format!("status/{}", created.text_of("submissionId")),
    )
    .await;
    assert_eq!(status.text_of("driverState"), "SUBMITTED");
    assert_eq!(
        status.json.get("workerId"),
        None,
        "nulls are left out: {status:?}"
    );
}

#[tokio::test]
async fn the_same_submission_twice_is_one_driver_and_another_body_a_conflict() {
    let cluster = Cluster::default();
    let master = cluster.start_leader("m1").await;
    let first = create(&master, "one", &spark_body()).await;
    let mut retry = spark_body();
    retry["sparkProperties"]["spark.app.submitTime"] = json!("2");
    let second = create(&master, "one", &retry).await;
    assert_eq!(
        second.text_of("submissionId"),
        first.text_of("submissionId")
    );
    assert_eq!(
        (
            first.header("idempotent-replayed"),
            second.header("idempotent-replayed")
        ),
        ("", "true")
    );

    let mut by_property = retry;
    by_property["sparkProperties"]["spark.interrex.submissionId"] = json!("one");
    let third = post(&master, "create", &by_property).await;
    assert_eq!(third.text_of("submissionId"), first.text_of("submissionId"));

    let other = create(
        &master,
        "one",
        &with(spark_body(), "appArgs", json!(["11"])),
    )
    .await;
    let message = other.refused(409);
    assert!(
        message.contains("`one`") && message.contains(first.text_of("submissionId")),
        "{message}"
    );

    let unnamed = post(&master, "create", spark_body()).await;
    assert_ne!(
        unnamed.text_of("submissionId"),
        first.text_of("submissionId")
    );
}

#[tokio::test]
async fn a_killall_that_is_repeated_does_not_touch_what_was_submitted_in_between() {
    let cluster = Cluster::default();
    let master = cluster.start_leader("m1").await;
    let say = async |path: &str, key| {
        let path = format!("/v1/submissions/{path}");
        send(&master, Method::POST, &path, Some(key), String::new()).await
    };
    let state = async |id: &str| {
        let status = get(&master, &format!("status/{id}")).await;
        status.text_of("driverState").to_owned()
    };
    create(&master, "before", &command_body()).await;
    let first = say("killall", "k1").await;
    assert_eq!(first.json["success"], json!(true), "{first:?}");
    assert_eq!(state("before").await, "KILLED");

    create(&master, "between", &command_body()).await;
    let again = say("killall", "k1").await;
    assert_eq!((again.status, &again.json), (200, &first.json));
    assert_eq!(state("between").await, "SUBMITTED");
    let conflict = say("kill/between", "k1").await;
    assert!(conflict.refused(409).contains("`k1`"), "{conflict:?}");

    // A repeated kill of one driver gets the first answer as well.
    for _ in 0..2 {
        let killed = say("kill/between", "k2").await;
        assert_eq!(killed.json["success"], json!(true), "{killed:?}");
    }
    let bad = say("killall", "driver-20260101000000-0001").await;
    assert!(bad.refused(400).contains("Idempotency-Key"), "{bad:?}");
}

#[tokio::test]
async fn what_does_not_exist_is_no_http_error() {
    let cluster = Cluster::default();
    let master = cluster.start_leader("m1").await;
    let status = get(&master, "status/driver-20260101000000-0001").await;
    assert_eq!(
        (status.status, &status.json["success"]),
        (200, &json!(false))
    );
    assert_eq!(status.text_of("submissionId"), "driver-20260101000000-0001");
    let killed = post(&master, "kill/nobody/ignored", "").await;
    assert_eq!(
        (killed.status, &killed.json["success"]),
        (200, &json!(false))
    );
    assert_eq!(killed.text_of("submissionId"), "nobody");
}

#[tokio::test]
async fn killall_ends_every_driver() {
    let cluster = Cluster::default();
    let master = cluster.start_leader("m1").await;
    for key in ["a", "b"] {
        assert_eq!(create(&master, key, &command_body()).await.status, 200);
    }
    let killed = post(&master, "killall", "").await;
    assert_eq!(killed.text_of("action"), "KillAllSubmissionResponse");
    for key in ["a", "b"] {
        assert_eq!(
            get(&master, &format!("status/{key}"))
                .await
                .text_of("driverState"),
            "KILLED"
        );
    }
}

/// Bodies that must be refused, with status and a part of the message.
fn bad_bodies() -> Vec<(String, u16, &'static str)> {
    let spark = |field, value| with(spark_body(), field, value).to_string();
    let big = |args: Vec<String>| spark("appArgs", json!(args));
    vec![
        ("{\"action\":".into(), 400, "not JSON"),
        ("<xml/>".into(), 400, "not JSON"),
        (String::new(), 400, "not JSON"),
        ("[]".into(), 400, "an object is expected"),
        (
            spark("action", json!("Evil")),
            400,
            "action: `Evil` is unknown",
        ),
        (
            spark("appArgs", json!(["\u{0}"])),
            400,
            "appArgs[0]: `\\0` has a NUL byte",
        ),
        (
            spark("mainClass", Value::Null),
            400,
            "Main class is missing.",
        ),
        (
            spark("mainClass", json!(["x"])),
            400,
            "mainClass: is an array",
        ),
        (
            spark("environmentVariables", json!({"A=B": ""})),
            400,
            "`A=B` is no variable's name",
        ),
        (
            spark("command", json!(["x"])),
            400,
            "is set beside `command`",
        ),
        (
            with(command_body(), "command", json!([])).to_string(),
            400,
            "command: is empty",
        ),
        (
            property("spark.driver.cores", "1.5"),
            400,
            "spark.driver.cores: `1.5`",
        ),
        (
            property("spark.driver.cores", "0"),
            400,
            "spark.driver.cores: `0`",
        ),
        (
            property("spark.driver.memory", "512"),
            400,
            "less than 1 MiB",
        ),
        (
            property("spark.driver.supervise", "maybe"),
            400,
            "true or false",
        ),
        (
            property("spark.app.name", &"n".repeat(1 << 20)),
            400,
            "at most 256 are allowed",
        ),
        (
            big(vec!["x".repeat(2 << 20)]),
            413,
            "at most 1048576 are allowed",
        ),
        (big(vec!["x".repeat(1000); 10_000]), 413, "4194304 bytes"),
    ]
}

#[tokio::test]
async fn bad_input_gets_a_json_error_that_names_it_and_disturbs_nothing() {
    let cluster = Cluster::default();
    let master = cluster.start_leader("m1").await;
    for (body, status, text) in bad_bodies() {
        let start: String = body.chars().take(120).collect();
        let answer = post(&master, "create", body).await;
        let message = answer.refused(status);
        assert!(message.contains(text), "{start} → {message}");
        assert!(
            message.len() < 400,
            "values are shortened: {start} → {}",
            message.len()
        );
    }
    assert_eq!(
        master.handle.view().drivers().count(),
        0,
        "nothing was stored"
    );
    assert_eq!(
        post(&master, "create", command_body()).await.status,
        200,
        "the server still serves"
    );
}

#[tokio::test]
async fn unusable_paths_methods_and_versions_are_answered_in_json() {
    let cluster = Cluster::default();
    let master = cluster.start_leader("m1").await;
    for (method, path, status, text) in [
        (Method::GET, "/", 400, "Missing protocol version."),
        (Method::GET, "/v1", 400, "Missing the /submissions prefix."),
        (Method::POST, "/v1/submissions", 400, "Missing an action"),
        (
            Method::POST,
            "/v1/submissions/launch",
            400,
            "Missing an action",
        ),
        (
            Method::POST,
            "/v1/submissions/kill",
            400,
            "Submission ID is missing in kill request.",
        ),
        (Method::GET, "/v1/submissions/create", 405, "use POST"),
        (Method::DELETE, "/v1/submissions/status/x", 405, "use GET"),
        (
            Method::POST,
            "/v9/submissions/create",
            468,
            "Unknown protocol version 'v9'.",
        ),
    ] {
        let answer = send(&master, method, path, None, String::new()).await;
        let message = answer.refused(status);
        assert!(message.contains(text), "{path}: {message}");
        if status == 468 {
            assert_eq!(answer.text_of("highestProtocolVersion"), "v1");
        }
        if status == 405 {
            assert!(!answer.header("allow").is_empty(), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn a_submission_id_must_be_usable_and_unambiguous() {
    let cluster = Cluster::default();
    let master = cluster.start_leader("m1").await;
    let mut body = command_body();
    body["sparkProperties"]["spark.interrex.submissionId"] = json!("other");
    assert!(
        create(&master, "one", &body)
            .await
            .refused(400)
            .contains("`one` differs from")
    );
    let spaced = create(&master, "a b", &command_body()).await;
    assert!(spaced.refused(400).contains("Idempotency-Key: `a b`"));
    let ours = create(&master, "driver-20261129143200-0001", &command_body()).await;
    assert!(
        ours.refused(400)
            .contains("looks like an id that the cluster gives")
    );
    let long = create(&master, &"k".repeat(257), &command_body()).await;
    assert!(long.refused(400).contains("257 bytes; at most 256"));
}

#[tokio::test]
async fn the_masters_environment_stays_its_own() {
    let cluster = Cluster::default();
    let master = cluster.start_leader("m1").await;
    let mut body = command_body();
    body["environmentVariables"] = json!({"STOLEN": "{{PATH}}"});
    let created = create(&master, "thief", &body).await;
    assert_eq!(created.status, 200);
    let view = master.handle.view();
    let driver = view.drivers().next().expect("a driver");
    let interrex_core::spec::DriverPayload::Command(command) = &driver.spec.payload else {
        panic!("a command: {driver:?}");
    };
    assert_eq!(command.env["STOLEN"], "{{PATH}}");
}

fn with(mut body: Value, field: &str, value: Value) -> Value {
    body[field] = value;
    body
}

fn property(key: &str, value: &str) -> String {
    let mut body = spark_body();
    body["sparkProperties"][key] = json!(value);
    body.to_string()
}
