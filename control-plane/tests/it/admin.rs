//! Health and leadership over HTTP.

use interrex_control_plane::app::RunningMaster;
use reqwest::redirect::Policy;

use crate::rest_support::{Cluster, impatient};

#[tokio::test]
async fn a_leader_and_a_standby_are_live_and_ready_and_say_who_leads() {
    let cluster = Cluster::default();
    let leader = cluster.start_leader("m1").await;
    let standby = cluster.start("m2", impatient());
    for master in [&leader, &standby] {
        for path in ["/livez", "/readyz"] {
            let (status, text, _) = get(master, path).await;
            assert_eq!(status, 200, "{path}: {text}");
        }
    }
    let (_, text, _) = get(&standby, "/readyz?verbose").await;
    assert!(
        text.contains("[+] leader: m1 leads in epoch") && text.contains("[+] store: "),
        "{text}"
    );

    let (status, text, _) = get(&leader, "/leader").await;
    assert_eq!(status, 200);
    assert!(text.contains(r#""leader":"m1""#), "{text}");
    let (status, _, location) = get(&standby, "/leader").await;
    assert_eq!(
        (status, location),
        (307, format!("http://{}/leader", leader.web_addr))
    );
}

#[tokio::test]
async fn without_a_leader_a_master_is_live_but_not_ready() {
    let cluster = Cluster::default();
    let master = cluster.start_leader("m1").await;
    cluster.store.crash("m1");
    let view = master.handle.watch();
    let mut view = view;
    let gone = view.wait_for(|view| view.is_empty());
    tokio::time::timeout(std::time::Duration::from_secs(20), gone)
        .await
        .expect("in time")
        .expect("a running master");
    assert_eq!(
        get(&master, "/livez").await.0,
        200,
        "the cluster's trouble is not this process's"
    );
    let (status, text, _) = get(&master, "/readyz").await;
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("[-] leader: no leader is known"), "{text}");
    assert_eq!(get(&master, "/leader").await.0, 503);
}

#[tokio::test]
async fn metrics_are_off_without_a_recorder_and_the_version_is_told() {
    let cluster = Cluster::default();
    let master = cluster.start_leader("m1").await;
    assert_eq!(get(&master, "/metrics").await.0, 404);
    let (status, text, _) = get(&master, "/version").await;
    assert_eq!(status, 200);
    assert!(text.contains(env!("CARGO_PKG_VERSION")), "{text}");
}

async fn get(master: &RunningMaster, path: &str) -> (u16, String, String) {
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .build()
        .expect("a client");
    let response = client
        .get(format!("http://{}{path}", master.web_addr))
        .send()
        .await
        .expect("an answer");
    let status = response.status().as_u16();
    let location = response
        .headers()
        .get("location")
        .and_then(|value| value.to_str().ok());
    let location = location.unwrap_or_default().to_owned();
    (status, response.text().await.expect("a body"), location)
}
