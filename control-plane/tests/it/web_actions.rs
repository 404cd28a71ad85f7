//! What pages can change, and what keeps others from changing it.

use interrex_control_plane::options::UiOptions;
use interrex_core::state::driver::DriverState;
use interrex_persistence::memory::MemoryCluster;

use crate::{
    support::{Peer, leads, sees},
    web_support::{alone, get, leader, own, pair, post, submit},
};

#[tokio::test]
async fn a_kill_is_asked_about_done_once_and_shown() {
    let master = alone().await;
    let id = submit(&master, "job", "nightly", "ann").await;
    let path = format!("/drivers/{id}/kill");
    let page = get(&master, &path).await;
    assert_eq!(page.status, 200);
    assert!(
        page.text.contains("Kill driver") && page.text.contains(r#"data-live="off""#),
        "{}",
        page.text
    );
    let form = format!("request={}", page.request());
    for _again in 0..2 {
        let done = post(&master, &path, &form, &own(&master)).await;
        assert_eq!(
            (done.status, done.header("location")),
            (303, format!("/drivers/{id}").as_str())
        );
    }
    sees(&master.handle, "killed", |view| {
        view.drivers()
            .all(|driver| driver.state == DriverState::Killed)
    })
    .await;
    let shown = get(&master, &format!("/drivers/{id}")).await;
    assert!(
        shown.text.contains(r#"title="KILLED""#) && !shown.text.contains("/kill\""),
        "{}",
        shown.text
    );
}

#[tokio::test]
async fn another_sites_page_changes_nothing() {
    let master = alone().await;
    let id = submit(&master, "job", "nightly", "ann").await;
    let path = format!("/drivers/{id}/kill");
    for from in ["http://evil.example", "null", "http://127.0.0.1:1"] {
        let refused = post(&master, &path, "request=r1", from).await;
        assert_eq!(refused.status, 403, "{from}: {}", refused.text);
        assert!(
            refused.text.contains("This was not done"),
            "{}",
            refused.text
        );
    }
    let url = format!("{}{path}", own(&master));
    let http = crate::web_support::http();
    let silent = http
        .post(&url)
        .body("request=r1")
        .send()
        .await
        .expect("an answer");
    assert_eq!(silent.status(), 403, "without an origin");
    let rebound = http
        .post(&url)
        .header("host", "evil.example")
        .header("origin", "http://evil.example");
    let rebound = rebound.body("request=r1").send().await.expect("an answer");
    assert_eq!(rebound.status(), 403, "under a false name");
    assert!(rebound.text().await.expect("text").contains("ui.hosts"));
    let handed_on = http.post(&url).header("host", "evil.example");
    let handed_on = handed_on
        .header("interrex-forwarded-by", "m2")
        .body("request=r1");
    let handed_on = handed_on.send().await.expect("an answer");
    assert_eq!(handed_on.status(), 403, "as if a master had handed it on");
    let driver = master
        .handle
        .view()
        .drivers()
        .next()
        .expect("a driver")
        .clone();
    assert_eq!(driver.state, DriverState::Submitted);
    assert!(!driver.kill_requested);
}

#[tokio::test]
async fn on_loopback_only_health_answers_to_a_false_name() {
    let master = alone().await;
    let http = crate::web_support::http();
    let as_evil = async |path: &str| {
        let url = format!("{}{path}", own(&master));
        let asked = http.get(url).header("host", "evil.example:8080");
        asked.send().await.expect("an answer").status().as_u16()
    };
    for path in ["/", "/drivers", "/json/", "/live", "/live/beat", "/nothing"] {
        assert_eq!(as_evil(path).await, 403, "{path}");
    }
    for path in ["/livez", "/readyz", "/leader", "/version"] {
        assert_eq!(as_evil(path).await, 200, "{path}");
    }
}

#[tokio::test]
async fn a_name_that_the_operator_has_listed_may_be_used() {
    let ui = UiOptions {
        hosts: vec!["pages.example".to_owned()],
        ..UiOptions::default()
    };
    let master = leader(&MemoryCluster::default(), "m1", ui).await;
    let id = submit(&master, "job", "nightly", "ann").await;
    let url = format!("{}/drivers/{id}/kill", own(&master));
    let request = crate::web_support::http().post(url);
    let request = request
        .header("host", "pages.example")
        .header("origin", "https://pages.example");
    let done = request.body("request=r1").send().await.expect("an answer");
    assert_eq!(done.status(), 303);
}

#[tokio::test]
async fn pages_that_only_show_have_no_buttons_and_obey_no_form() {
    let ui = UiOptions {
        read_only: true,
        ..UiOptions::default()
    };
    let master = leader(&MemoryCluster::default(), "m1", ui).await;
    let (_agent, _) = Peer::agent(&master, "w1").await;
    let id = submit(&master, "job", "nightly", "ann").await;
    for (page, button) in [
        (format!("/drivers/{id}"), "/kill"),
        ("/workers/w1".to_owned(), "/drain"),
        ("/".to_owned(), "/leadership"),
    ] {
        let shown = get(&master, &page).await;
        assert_eq!((shown.status, shown.count(button)), (200, 0), "{page}");
        assert!(shown.text.contains("These pages only show"), "{page}");
    }
    for path in [
        format!("/drivers/{id}/kill"),
        "/workers/w1/drain".to_owned(),
        "/workers/w1/undrain".to_owned(),
        "/leadership".to_owned(),
    ] {
        assert_eq!(get(&master, &path).await.status, 403, "{path}");
        let sent = post(&master, &path, "request=r1", &own(&master)).await;
        assert_eq!(sent.status, 403, "{path}");
    }
    assert!(
        master
            .handle
            .view()
            .worker(&"w1".into())
            .expect("a worker")
            .drain
            .is_none()
    );
}

#[tokio::test]
async fn a_drain_is_given_with_a_reason_and_taken_back() {
    let master = alone().await;
    let (_agent, _) = Peer::agent(&master, "w1").await;
    let form = "request=d1&minutes=10&reason=new+%3Cb%3Edisk";
    let done = post(&master, "/workers/w1/drain", form, &own(&master)).await;
    assert_eq!(
        (done.status, done.header("location")),
        (303, "/workers/w1"),
        "{}",
        done.text
    );
    let view = master.handle.view();
    let drain = view
        .worker(&"w1".into())
        .and_then(|worker| worker.drain.clone());
    let drain = drain.expect("a drain");
    assert_eq!(drain.reason, "new <b>disk");
    assert!(drain.deadline.is_some());
    let shown = get(&master, "/workers/w1").await;
    assert!(shown.text.contains("/workers/w1/undrain"), "{}", shown.text);
    assert!(shown.text.contains("new &#60;b&#62;disk"), "{}", shown.text);
    let done = post(&master, "/workers/w1/undrain", "request=d2", &own(&master)).await;
    assert_eq!(done.status, 303, "{}", done.text);
    assert!(
        master
            .handle
            .view()
            .worker(&"w1".into())
            .expect("a worker")
            .drain
            .is_none()
    );
}

#[tokio::test]
async fn what_cannot_be_done_is_said_in_words() {
    let master = alone().await;
    let from = own(&master);
    for (path, form, status, words) in [
        (
            "/drivers/none/kill",
            "request=r1",
            404,
            "no driver, submission or application",
        ),
        ("/workers/none/drain", "request=r1", 404, "no worker"),
        (
            "/workers/w1/drain",
            "request=r1&minutes=x",
            400,
            "minutes: `x`",
        ),
        ("/workers/w1/drain", "reason=x", 400, "request: is empty"),
        (
            "/workers/w1/drain",
            "request=r1&colour=red",
            400,
            "unknown field `colour`",
        ),
        (
            "/leadership",
            "request=r1&to=a%20b",
            400,
            "to: `a b` has a space",
        ),
        ("/leadership", "request=r1&to=m9", 409, ""),
    ] {
        let answer = post(&master, path, form, &from).await;
        assert_eq!(answer.status, status, "{path} {form}: {}", answer.text);
        let text = answer.text.replace("&#96;", "`");
        assert!(text.contains(words), "{path} {form}: {text}");
    }
    let large = format!("request=r1&reason={}", "x".repeat(9_000));
    assert_eq!(
        post(&master, "/workers/w1/drain", &large, &from)
            .await
            .status,
        400
    );
}

#[tokio::test]
async fn a_standby_hands_forms_on_and_leadership_moves() {
    let (_cluster, first, standby) = pair().await;
    let id = submit(&first, "job", "nightly", "ann").await;
    let path = format!("/drivers/{id}/kill");
    let foreign = post(&standby, &path, "request=r1", "http://evil.example").await;
    assert_eq!(foreign.status, 403);
    let done = post(&standby, &path, "request=r1", &own(&standby)).await;
    assert_eq!(
        (done.status, done.header("location")),
        (303, format!("/drivers/{id}").as_str()),
        "{}",
        done.text
    );
    let moved = post(&standby, "/leadership", "request=r2&to=m2", &own(&standby)).await;
    assert_eq!(
        (moved.status, moved.header("location")),
        (303, "/"),
        "{}",
        moved.text
    );
    leads(&standby).await;
    let page = get(&first, "/").await;
    assert!(page.text.contains("<strong>m2</strong>"), "{}", page.text);
}
