//! Pages: what they show, what they refuse, and who makes them.

use futures::StreamExt;
use interrex_control_plane::options::UiOptions;
use interrex_persistence::memory::MemoryCluster;
use interrex_proto::v1::{self, peer_frame::Body};
use tokio::time::timeout;

use crate::{
    support::{self, PATIENCE, Peer, leads, register, sees},
    web_support::{alone, get, http, leader, pair, submit},
};

const EVIL: &str = r#"<script>alert("x")</script><img src=x onerror=alert(1)>'&"#;

/// Every page that needs nothing to exist.
const PAGES: [&str; 7] = [
    "/",
    "/drivers",
    "/apps",
    "/workers",
    "/queue",
    "/events",
    "/internals",
];

#[tokio::test]
async fn every_page_of_an_empty_cluster_says_so_and_loads_nothing_from_elsewhere() {
    let master = alone().await;
    for path in PAGES {
        let page = get(&master, path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
        assert_eq!(page.header("cache-control"), "no-store");
        assert_eq!(page.header("x-content-type-options"), "nosniff");
        let policy = page.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        for forbidden in ["style=\"", "onclick", "javascript:", "https://", "<script>"] {
            assert_eq!(page.count(forbidden), 0, "{path}: {forbidden}");
        }
        assert_eq!(page.count("<h1"), 1, "{path} has one heading");
        assert_eq!(page.count("class=\"skip\""), 1, "{path}");
        assert_eq!(page.count("aria-current=\"page\""), 1, "{path}");
        assert!(
            page.text.contains("<strong>m1</strong>"),
            "{path} says who leads"
        );
    }
}

#[tokio::test]
async fn what_users_write_is_shown_and_never_run() {
    let master = alone().await;
    let id = submit(&master, "evil", EVIL, EVIL).await;
    for path in [
        "/",
        "/drivers",
        "/queue",
        "/events",
        &format!("/drivers/{id}"),
        "/drivers/evil",
    ] {
        let page = get(&master, path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        assert!(
            !page.text.contains("<script>alert") && !page.text.contains("<img"),
            "{path}: {}",
            page.text
        );
    }
    let list = get(&master, "/drivers").await;
    assert!(
        list.text.contains("&#60;script&#62;alert"),
        "it is shown, escaped: {}",
        list.text
    );
    for path in [
        "/drivers/%3Cscript%3E",
        "/%3Cscript%3Ealert(1)",
        "/drivers?sort=%3Cscript%3E",
    ] {
        let page = get(&master, path).await;
        assert!(
            page.status == 404 || page.status == 400,
            "{path}: {}",
            page.status
        );
        assert!(!page.text.contains("<script>"), "{path}: {}", page.text);
    }
}

#[tokio::test]
async fn a_list_is_sorted_filtered_and_shown_page_by_page() {
    let master = alone().await;
    for n in 0..7 {
        let user = if n % 2 == 0 { "ann" } else { "bob" };
        submit(&master, &format!("r{n}"), &format!("job number {n}"), user).await;
    }
    let rows = |text: &str| -> Vec<String> {
        let rows = text.split("job number ").skip(1).step_by(2);
        rows.map(|row| row.chars().take(1).collect()).collect()
    };
    let page = get(&master, "/drivers?sort=name&dir=asc&size=3&page=2").await;
    assert_eq!(rows(&page.text), ["3", "4", "5"]);
    assert!(
        page.text.contains("4–6 of 7") && page.text.contains("Page 2 of 3"),
        "{}",
        page.text
    );
    assert!(
        page.text.contains(r#"aria-sort="ascending""#),
        "{}",
        page.text
    );
    let newest = get(&master, "/drivers?size=2").await;
    assert_eq!(rows(&newest.text), ["6", "5"], "the newest come first");
    let found = get(&master, "/drivers?q=BOB&sort=name&dir=desc").await;
    assert_eq!(rows(&found.text), ["5", "3", "1"]);
    let none = get(&master, "/drivers?state=RUNNING").await;
    assert!(
        none.text.contains("No driver is like this"),
        "{}",
        none.text
    );
}

#[tokio::test]
async fn a_question_that_cannot_be_is_refused_with_the_field_and_the_fix() {
    let master = alone().await;
    for (path, words) in [
        ("/drivers?page=0", "page: `0`; give a number from 1"),
        ("/drivers?size=9999", "give a number from 1 to 200"),
        (
            "/drivers?state=odd",
            "state: `odd`; give one of SUBMITTED, LAUNCHING",
        ),
        ("/apps?colour=red", "unknown field `colour`"),
        (
            "/workers?sort=colour",
            "sort: `colour`; give one of id, state, host",
        ),
        ("/queue?page=x", "page: `x`; give a number"),
        ("/events?before=x", "before: `x`; give a number"),
        (
            "/events?id=a%20b",
            "has a space, slash or unprintable character",
        ),
        (
            "/logs/driver/x?output=stdin",
            "output: `stdin`; give one of stdout, stderr",
        ),
        ("/logs/driver/x?offset=-1", "offset: `-1`; give a number"),
    ] {
        let page = get(&master, path).await;
        assert_eq!(page.status, 400, "{path}: {}", page.text);
        let text = page.text.replace("&#96;", "`");
        assert!(text.contains(words), "{path}: {text}");
    }
    for path in [
        "/drivers/none",
        "/apps/none",
        "/workers/none",
        "/logs/driver/none",
        "/nothing",
    ] {
        assert_eq!(get(&master, path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn a_worker_and_what_runs_there_are_shown_with_their_resources() {
    let master = alone().await;
    let (_agent, _) = Peer::agent(&master, "w1").await;
    let id = submit(&master, "job", "nightly", "ann").await;
    sees(&master.handle, "the driver placed", |view| {
        view.load(&"w1".into()).drivers.len() == 1
    })
    .await;
    let list = get(&master, "/workers").await;
    assert!(
        list.text.contains(">w1</a>") && list.text.contains("1 of "),
        "{}",
        list.text
    );
    let worker = get(&master, "/workers/w1").await;
    assert!(
        worker.text.contains(&id) && worker.text.contains("nightly"),
        "{}",
        worker.text
    );
    assert!(worker.text.contains("/workers/w1/drain"), "{}", worker.text);
    let driver = get(&master, &format!("/drivers/{id}")).await;
    assert!(
        driver.text.contains(r#"<a href="/workers/w1">w1</a>"#),
        "{}",
        driver.text
    );
    assert!(
        driver.text.contains(r#"data-key="a1""#),
        "its attempt: {}",
        driver.text
    );
    let overview = get(&master, "/").await;
    assert!(overview.text.contains("1 of "), "{}", overview.text);
}

#[tokio::test]
async fn the_queue_says_why_something_waits() {
    let master = alone().await;
    submit(&master, "job", "nightly", "ann").await;
    let queue = get(&master, "/queue").await;
    assert!(queue.text.contains("Why drivers wait"), "{}", queue.text);
    assert!(
        queue.text.contains("waiting for an agent: none is alive"),
        "{}",
        queue.text
    );
}

#[tokio::test]
async fn a_standby_shows_the_leaders_pages_and_its_own_internals() {
    let (_cluster, first, standby) = pair().await;
    let id = submit(&first, "job", "nightly", "ann").await;
    for path in [
        "/",
        "/drivers",
        &format!("/drivers/{id}"),
        "/queue",
        "/events",
    ] {
        let page = get(&standby, path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        assert!(page.text.contains("Shown by m2"), "{path}: {}", page.text);
        assert!(
            page.header("content-security-policy")
                .contains(&first.web_addr.to_string()),
            "{path}"
        );
    }
    assert_eq!(
        get(&standby, "/drivers?page=0").await.status,
        400,
        "refusals are handed on"
    );
    let own = get(&standby, "/internals").await;
    assert!(own.text.contains("Internals of m2"), "{}", own.text);
}

#[tokio::test]
async fn without_a_leader_the_page_says_so_and_comes_back_by_itself() {
    let (cluster, first, standby) = pair().await;
    cluster.crash("m1");
    let gone = first.handle.watch();
    drop(gone);
    let led = timeout(PATIENCE, async {
        let mut views = first.handle.watch();
        views
            .wait_for(|view| view.is_empty())
            .await
            .expect("a master")
            .is_empty()
    });
    assert!(led.await.expect("in time"));
    let page = get(&first, "/drivers").await;
    // Either nobody leads yet, or the other one does already and has made the page.
    if page.status == 503 {
        assert!(
            page.text.contains("No leader answers at the moment"),
            "{}",
            page.text
        );
        assert_eq!(page.header("retry-after"), "1");
        assert!(page.text.contains(r#"data-live="on""#), "{}", page.text);
    } else {
        assert_eq!(page.status, 200, "{}", page.text);
    }
    leads(&standby).await;
    assert_eq!(get(&standby, "/drivers").await.status, 200);
}

#[tokio::test]
async fn an_open_page_is_told_who_leads_and_that_something_has_changed() {
    let master = alone().await;
    let url = format!("http://{}/live", master.web_addr);
    let answer = http().get(url).send().await.expect("a stream");
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let mut chunks = answer.bytes_stream();
    let mut changes = Vec::new();
    submit(&master, "job", "nightly", "ann").await;
    while changes.len() < 2 {
        let chunk = timeout(PATIENCE, chunks.next()).await.expect("in time");
        let text =
            String::from_utf8(chunk.expect("open").expect("a chunk").to_vec()).expect("text");
        for line in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let beat: serde_json::Value = serde_json::from_str(line).expect("JSON");
            if beat["leader"] == "m1" {
                changes.push(beat["change"].as_u64().expect("a number"));
            }
        }
        changes.dedup();
    }
}

#[tokio::test]
async fn a_driver_without_a_place_has_no_log_yet() {
    let master = alone().await;
    submit(&master, "job", "nightly", "ann").await;
    let page = get(&master, "/logs/driver/job").await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.text.contains("It has no place yet"), "{}", page.text);
    assert_eq!(get(&master, "/logs/driver/job/stream").await.status, 409);
    let place = get(&master, "/logs/driver/job/place").await;
    assert!(
        place.text.contains(r#""state":"SUBMITTED","over":false"#),
        "{}",
        place.text
    );
}

#[tokio::test]
async fn embedded_files_are_kept_by_browsers_and_named_after_their_content() {
    let master = alone().await;
    let page = get(&master, "/").await;
    for (end, kind) in [
        (".css", "text/css"),
        (".js", "text/javascript"),
        (".svg", "image/svg+xml"),
    ] {
        let name = page
            .text
            .split('"')
            .find(|part| part.starts_with("/assets/") && part.ends_with(end));
        let file = get(&master, name.expect("a file")).await;
        assert_eq!(file.status, 200);
        assert!(file.header("content-type").starts_with(kind), "{kind}");
        assert!(file.header("cache-control").contains("immutable"));
    }
    assert_eq!(get(&master, "/assets/app.00000000.css").await.status, 404);
}

#[tokio::test]
async fn pages_can_be_switched_off_and_health_stays() {
    let off = UiOptions {
        enabled: false,
        ..UiOptions::default()
    };
    let master = leader(&MemoryCluster::default(), "m1", off).await;
    assert_eq!(get(&master, "/").await.status, 404);
    assert_eq!(get(&master, "/livez").await.status, 200);
}

#[tokio::test]
async fn an_application_is_shown_with_its_executors() {
    let master = alone().await;
    let (_agent, _) = Peer::agent(&master, "w1").await;
    let spec = v1::ApplicationSpec {
        name: "counting".into(),
        user: "ann".into(),
        command: support::driver("x").command,
        memory_mib_per_executor: 64,
        cores_per_executor: Some(1),
        cores_max: Some(1),
        ..Default::default()
    };
    let registration = v1::RegisterApplication {
        request_id: "count".into(),
        spec: Some(spec),
        ..Default::default()
    };
    let _app = Peer::attach(&master, Body::RegisterApplication(registration)).await;
    let view = sees(&master.handle, "an executor", |view| {
        !view.counts().executors.is_empty()
    })
    .await;
    let id = view.apps().next().expect("an application").id.to_string();
    let list = get(&master, "/apps").await;
    assert!(
        list.text.contains(&id) && list.text.contains("counting"),
        "{}",
        list.text
    );
    let page = get(&master, &format!("/apps/{id}")).await;
    assert!(
        page.text.contains(&format!("/logs/app/{id}/0")),
        "{}",
        page.text
    );
    let _unused = register("w1", vec![]);
}
