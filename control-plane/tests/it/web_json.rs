//! Spark's `/json/`: the names and the order of its fields.

use serde_json::Value;

use crate::{
    support::{Peer, sees},
    web_support::{Page, alone, get, pair, submit},
};

fn parsed(page: &Page) -> Value {
    serde_json::from_str(&page.text).unwrap_or_else(|e| panic!("{e}: {}", page.text))
}

/// The keys of the outermost object, or of the first one behind `"name":[`, in their order.
fn keys(text: &str, behind: &str) -> Vec<String> {
    let text = text.split_once(behind).expect("there").1;
    let (mut keys, mut depth, mut in_text, mut word) = (Vec::new(), 0, false, String::new());
    for c in text.chars() {
        match c {
            '"' if in_text => in_text = false,
            '"' => {
                in_text = true;
                word.clear();
            }
            _ if in_text => word.push(c),
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ':' if depth == 1 => keys.push(word.clone()),
            _ => {}
        }
        if depth == 0 && !keys.is_empty() {
            break;
        }
    }
    keys
}

//= spark JsonProtocol.writeMasterState
#[tokio::test]
async fn the_state_of_a_master_has_sparks_fields_in_sparks_order() {
    let master = alone().await;
    let (_agent, _) = Peer::agent(&master, "w1").await;
    let id = submit(&master, "job", "nightly", "ann").await;
    sees(&master.handle, "the driver placed", |view| {
        view.load(&"w1".into()).drivers.len() == 1
    })
    .await;
    let page = get(&master, "/json/").await;
    assert_eq!(page.header("content-type"), "application/json");
    assert_eq!(
        keys(&page.text, ""),
        [
            "url",
            "workers",
            "aliveworkers",
            "cores",
            "coresused",
            "memory",
            "memoryused",
            "resources",
            "resourcesused",
            "activeapps",
            "completedapps",
            "activedrivers",
            "completeddrivers",
            "status"
        ]
    );
    assert_eq!(
        keys(&page.text, "\"activedrivers\":["),
        [
            "id",
            "starttime",
            "state",
            "cores",
            "memory",
            "resources",
            "submitdate",
            "worker",
            "mainclass"
        ]
    );
    let json = parsed(&page);
    assert_eq!(json["status"], "ALIVE");
    assert_eq!(json["url"], format!("spark://{}", master.rpc_addr));
    assert_eq!(json["aliveworkers"], 1);
    let driver = &json["activedrivers"][0];
    assert_eq!(
        (driver["id"].as_str(), driver["worker"].as_str()),
        (Some(id.as_str()), Some("w1"))
    );
    assert!(
        driver["starttime"].is_string() && driver["mainclass"] == "true",
        "{driver}"
    );
    let worker = &json["workers"][0];
    for field in [
        "id",
        "host",
        "port",
        "webuiaddress",
        "cores",
        "coresused",
        "coresfree",
        "memory",
        "memoryused",
        "memoryfree",
        "resources",
        "resourcesused",
        "resourcesfree",
        "state",
        "lastheartbeat",
    ] {
        assert!(!worker[field].is_null(), "{field}: {worker}");
    }
    assert_eq!(worker["coresused"], 1);
}

//= spark ApplicationPage.renderJson
#[tokio::test]
async fn one_application_is_shown_as_in_the_list() {
    let master = alone().await;
    let (_peer, id) = Peer::application(&master, "training").await;
    let page = get(&master, &format!("/app/json?appId={id}")).await;
    assert_eq!(
        keys(&page.text, ""),
        [
            "id",
            "starttime",
            "name",
            "cores",
            "user",
            "memoryperexecutor",
            "memoryperslave",
            "resourcesperexecutor",
            "resourcesperslave",
            "submitdate",
            "state",
            "duration"
        ]
    );
    let app = parsed(&page);
    assert_eq!(
        (&app["id"], &app["name"]),
        (&Value::from(id), &Value::from("training"))
    );
    assert!(app["starttime"].is_number(), "{app}");
    for (path, status) in [("/app/json/?appId=app-none", 404), ("/app/json", 400)] {
        assert_eq!(get(&master, path).await.status, status, "{path}");
    }
}

//= spark MasterPage.renderJson
#[tokio::test]
async fn one_field_can_be_asked_for_and_an_unknown_one_is_empty() {
    let master = alone().await;
    assert_eq!(
        get(&master, "/json/status").await.text,
        r#"{"status":"ALIVE"}"#
    );
    assert_eq!(
        get(&master, "/json/aliveworkers/").await.text,
        r#"{"aliveworkers":0}"#
    );
    assert_eq!(get(&master, "/json/master").await.text, r#"{"master":""}"#);
    let all = parsed(&get(&master, "/json").await);
    assert_eq!(all["status"], "ALIVE");
    let used = get(&master, "/json/clusterutilization").await;
    assert_eq!(
        keys(&used.text, ""),
        [
            "waitingDrivers",
            "cores",
            "coresused",
            "coresutilization",
            "memory",
            "memoryused",
            "memoryutilization"
        ]
    );
    assert_eq!(
        parsed(&used)["coresutilization"],
        100,
        "as Spark says of nothing"
    );
}

#[tokio::test]
async fn a_standby_answers_for_itself_as_in_spark() {
    let (_cluster, first, standby) = pair().await;
    submit(&first, "job", "nightly", "ann").await;
    let json = parsed(&get(&standby, "/json/").await);
    assert_eq!(json["status"], "STANDBY");
    assert_eq!(json["activedrivers"].as_array().map(Vec::len), Some(0));
}
