//! Health and leadership over HTTP.

use interrex_control_plane::app::RunningMaster;
use metrics_exporter_prometheus::PrometheusBuilder;
use reqwest::redirect::Policy;

use crate::rest_support::{Cluster, command_body, create, impatient, leads, patient, post};

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
    let mut view = master.handle.watch();
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
    let (status, text, _) = get(&master, "/readyz?verbose&exclude=leader,store").await;
    assert_eq!(status, 200, "what is excluded does not count: {text}");
    assert!(
        text.contains("[+] loop") && !text.contains("leader"),
        "{text}"
    );
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

#[tokio::test]
async fn a_scrape_shows_the_cluster_and_what_was_asked_of_it() {
    let recorder = PrometheusBuilder::new()
        .install_recorder()
        .expect("the only recorder");
    let cluster = Cluster::default();
    let master = cluster.start_measured("m1", patient(), Some(recorder));
    leads(&master.handle).await;
    assert_eq!(create(&master, "one", &command_body()).await.status, 200);
    assert_eq!(create(&master, "one", &command_body()).await.status, 200);
    assert_eq!(post(&master, "create", "{").await.status, 400);
    let (status, text, _) = get(&master, "/metrics").await;
    assert_eq!(status, 200);
    for line in [
        "interrex_is_leader 1",
        "interrex_has_leader 1",
        "interrex_server_role{role=\"leader\"} 1",
        "interrex_server_role{role=\"standby\"} 0",
        "interrex_drivers{state=\"SUBMITTED\"} 1",
        "interrex_drivers{state=\"RUNNING\"} 0",
        "interrex_workers{state=\"ALIVE\"} 0",
        "interrex_submissions_total{source=\"rest\",result=\"accepted\"} 1",
        "interrex_submissions_total{source=\"rest\",result=\"replayed\"} 1",
        "interrex_submissions_total{source=\"rest\",result=\"invalid\"} 1",
        "interrex_submission_replays_total 1",
        "interrex_http_handled_total{endpoint=\"create\",status=\"200\"} 2",
        "# HELP interrex_epoch ",
    ] {
        assert!(
            text.lines().any(|l| l.starts_with(line)),
            "{line} in\n{text}"
        );
    }
    assert!(text.contains("process_resident_memory_bytes"), "{text}");
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
