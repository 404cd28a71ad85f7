use interrex_core::{
    resources::{Cores, MemoryMib},
    spec::{CommandLine, DriverPayload},
};
use serde_json::json;

use super::*;

fn parse(body: &Value, key: Option<&str>) -> Result<Create, RestError> {
    Create::parse(body.to_string().as_bytes(), key, || "fresh".to_owned())
}

fn refused(body: &Value) -> (u16, String) {
    let error = parse(body, None).expect_err("must be refused");
    (error.status.as_u16(), error.message)
}

/// What Spark 4.3's client sends.
fn spark_body() -> Value {
    json!({
        "action": "CreateSubmissionRequest",
        "appArgs": ["10"],
        "appResource": "file:/examples.jar",
        "clientSparkVersion": "4.3.0",
        "environmentVariables": {"SPARK_USER": "ann", "SPARK_LOCAL_IP": "127.0.0.1"},
        "mainClass": "org.apache.spark.examples.SparkPi",
        "sparkProperties": {
            "spark.app.name": "pi",
            "spark.driver.cores": 2,
            "spark.driver.memory": "2g",
            "spark.driver.supervise": true,
            "spark.secret": "{{HOME}}",
        },
    })
}

fn with(mut body: Value, name: &str, value: Value) -> Value {
    body[name] = value;
    body
}

fn command_body() -> Value {
    json!({
        "action": "CreateSubmissionRequest",
        "command": ["/bin/sh", "-c", "echo hello"],
        "environmentVariables": {"GREETING": "hello"},
        "sparkProperties": {"spark.driver.cores": "3", "spark.driver.memory": "256m"},
    })
}

#[test]
fn a_spark_submission_is_kept_as_it_came() {
    let create = parse(&spark_body(), None).expect("valid");
    assert_eq!(create.request.as_str(), "fresh");
    assert_eq!(
        (create.spec.name.as_str(), create.spec.user.as_str()),
        ("pi", "ann")
    );
    assert_eq!(
        (create.spec.cores, create.spec.memory),
        (Cores(2), MemoryMib(2048))
    );
    assert!(create.spec.supervise);
    let DriverPayload::Spark(spark) = &create.spec.payload else {
        panic!("a Spark payload")
    };
    assert_eq!(spark.main_class, "org.apache.spark.examples.SparkPi");
    assert_eq!(spark.app_args, ["10"]);
    assert_eq!(spark.properties["spark.driver.cores"], "2");
    assert_eq!(
        spark.properties["spark.secret"], "{{HOME}}",
        "the master's environment stays here"
    );
    assert_eq!(spark.environment.keys().collect::<Vec<_>>(), ["SPARK_USER"]);
}

#[test]
fn a_command_is_a_plain_program() {
    let create = parse(&command_body(), None).expect("valid");
    assert_eq!(create.spec.name, "sh");
    assert_eq!(
        (create.spec.cores, create.spec.memory),
        (Cores(3), MemoryMib(256))
    );
    let expected = CommandLine {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), "echo hello".into()],
        env: [("GREETING".to_owned(), "hello".to_owned())].into(),
    };
    assert_eq!(create.spec.payload, DriverPayload::Command(expected));
}

#[test]
fn the_submission_id_comes_from_header_or_property() {
    let id = |key: Option<&str>, property: Option<&str>| {
        let mut body = command_body();
        if let Some(property) = property {
            body["sparkProperties"][SUBMISSION_ID_PROPERTY] = json!(property);
        }
        parse(&body, key).map(|create| create.request.to_string())
    };
    assert_eq!(id(Some("a"), None), Ok("a".into()));
    assert_eq!(id(Some("\"a\""), Some("a")), Ok("a".into()));
    assert_eq!(id(None, Some("b")), Ok("b".into()));
    let differ = id(Some("a"), Some("b")).expect_err("must be refused");
    assert_eq!(differ.status.as_u16(), 400);
    assert!(differ.message.contains("`a` differs from"), "{differ}");
    assert!(id(Some("a b"), None).is_err());
}

#[test]
fn unknown_fields_are_named_and_harmless() {
    let body = with(with(spark_body(), "zone", json!(1)), "appName", json!("x"));
    let create = parse(&body, None).expect("valid");
    assert_eq!(create.unknown_fields, ["appName", "zone"]);
}

#[test]
fn what_is_no_json_object_is_refused_with_its_place() {
    for (body, text) in [
        (&b"{\"action\": "[..], "not JSON"),
        (b"[1]", "an array"),
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
    ] {
        let error = Create::parse(body, None, String::new).expect_err("must be refused");
        assert_eq!(error.status.as_u16(), 400);
        assert!(
            error.message.starts_with("Malformed request: ") && error.message.contains(text),
            "{error}"
        );
    }
    let deep = "[".repeat(100_000);
    assert!(Create::parse(deep.as_bytes(), None, String::new).is_err());
}

#[test]
fn the_action_must_be_this_one() {
    let (status, message) = refused(&with(spark_body(), "action", json!("EvilRequest")));
    assert_eq!(status, 400);
    assert!(
        message.contains("action: `EvilRequest` is unknown; use CreateSubmissionRequest"),
        "{message}"
    );
    let (_, message) = refused(&with(
        spark_body(),
        "action",
        json!("KillSubmissionRequest"),
    ));
    assert_eq!(
        message,
        "Received message of unexpected type KillSubmissionRequest."
    );
    assert!(
        refused(&with(spark_body(), "action", Value::Null))
            .1
            .contains("action: is missing")
    );
}

#[test]
fn required_fields_are_named() {
    for name in ["appResource", "clientSparkVersion", "sparkProperties"] {
        let (status, message) = refused(&with(spark_body(), name, Value::Null));
        assert_eq!(status, 400);
        assert!(
            message.contains(&format!("{name}: is missing")),
            "{message}"
        );
    }
    for class in [Value::Null, json!("")] {
        let (status, message) = refused(&with(spark_body(), "mainClass", class));
        assert_eq!(status, 400);
        assert!(message.starts_with("Main class is missing."), "{message}");
    }
}

#[test]
fn wrong_types_are_named_with_what_was_found() {
    for (name, value, text) in [
        (
            "mainClass",
            json!(5),
            "mainClass: is a number; a text is expected",
        ),
        (
            "appArgs",
            json!("x"),
            "appArgs: is a text; an array of texts is expected",
        ),
        (
            "appArgs",
            json!([1, {}]),
            "appArgs[1]: is an object; a text is expected",
        ),
        (
            "sparkProperties",
            json!([]),
            "sparkProperties: is an array; an object of texts is expected",
        ),
        (
            "sparkProperties",
            json!({"a": [1]}),
            "sparkProperties.a: is an array; a text is expected",
        ),
        (
            "environmentVariables",
            json!(true),
            "environmentVariables: is a flag",
        ),
        ("command", json!("sh"), "command: is a text"),
        ("command", json!([]), "command: is empty"),
        (
            "command",
            json!(["sh"]),
            "appResource: `file:/examples.jar` is set beside `command`",
        ),
    ] {
        let (status, message) = refused(&with(spark_body(), name, value));
        assert_eq!(status, 400);
        assert!(message.contains(text), "{message}");
    }
}

#[test]
fn bounds_are_named_in_the_clients_words() {
    let mut zero = spark_body();
    zero["sparkProperties"]["spark.driver.cores"] = json!(0);
    assert!(
        refused(&zero)
            .1
            .contains("sparkProperties.spark.driver.cores: `0`")
    );

    let mut long = spark_body();
    long["sparkProperties"]["spark.app.name"] = json!("n".repeat(1 << 20));
    let (status, message) = refused(&long);
    assert_eq!(status, 400);
    assert!(
        message.contains("spark.app.name") && message.contains("at most 256"),
        "{message}"
    );
    assert!(message.len() < 300, "{message}");

    let nul = with(spark_body(), "appArgs", json!(["fine", "a\u{0}b"]));
    assert!(
        refused(&nul)
            .1
            .contains("appArgs[1]: `a\\0b` has a NUL byte at offset 1")
    );
    let nul = with(
        command_body(),
        "environmentVariables",
        json!({"A": "\u{0}"}),
    );
    assert!(refused(&nul).1.contains("environmentVariables.A"));

    let (status, message) = refused(&with(spark_body(), "appArgs", json!(["x".repeat(2 << 20)])));
    assert_eq!(status, 413);
    assert!(message.contains("at most 1048576 are allowed"), "{message}");
}
