//! The agent's pages.

use interrex_proto::v1::ProcessState;

use crate::{agent::Running, master::Master, support::sh};

#[tokio::test]
async fn the_page_of_an_agent_shows_what_runs_and_whom_it_obeys() {
    let directory = tempfile::tempdir().unwrap();
    let mut master = Master::start(5).await;
    let agent = Running::start(directory.path(), &[&master.address]).await;
    let registration = master.registration().await;
    let id = registration.spec.unwrap().id;
    let (status, empty) = agent.get("/").await;
    assert_eq!(status, 200, "{empty}");
    assert!(
        empty.contains("Nothing at the moment.") && empty.contains(&id),
        "{empty}"
    );
    let program = "printf '<b>one</b>\\033[31m\\n'; while ! [ -e go ]; do sleep 0.02; done";
    master.launch(1, sh(program)).await;
    master.driver(ProcessState::Running).await;
    let (_, page) = agent.get("/").await;
    for words in [
        "d1 (attempt 1)",
        "1 of 2 cores",
        master.address.as_str(),
        r#"title="RUNNING""#,
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(
        page.contains(r#"data-live="poll""#) && !page.contains("style=\""),
        "{page}"
    );

    crate::support::eventually("the output", || {
        std::fs::read(directory.path().join("d1/stdout"))
            .ok()
            .filter(|text| text.ends_with(b"\n"))
    })
    .await;
    let (status, log) = agent.get("/pages/driver/d1/stdout").await;
    assert_eq!(status, 200, "{log}");
    assert!(
        log.contains("&#60;b&#62;one&#60;/b&#62;\n</pre>"),
        "escaped, and without colours: {log}"
    );
    assert!(
        log.contains(r#"data-follow="/logs/driver/d1/stdout?follow=true""#),
        "{log}"
    );
    assert_eq!(
        agent.get("/pages/driver/d1/place").await,
        (200, r#"{"over":false,"state":"running"}"#.to_owned())
    );
    std::fs::write(directory.path().join("d1/go"), "").unwrap();
    master.driver(ProcessState::Exited).await;
    let (_, page) = agent.get("/").await;
    assert!(
        page.contains(r#"data-key="kd1""#),
        "its output is kept: {page}"
    );
    agent.stop().await;
}

#[tokio::test]
async fn a_page_of_a_log_that_cannot_be_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let master = Master::start(5).await;
    let agent = Running::start(directory.path(), &[&master.address]).await;
    for (path, expected) in [
        ("/pages/driver/d9/stdout", 404),
        ("/pages/driver/..%2f..%2fetc/stdout", 400),
        ("/pages/driver/d9/stdout?offset=x", 400),
        ("/pages/driver/d9/passwd", 404),
        ("/pages/app/a1/x/stdout", 400),
    ] {
        let (status, text) = agent.get(path).await;
        assert_eq!(status, expected, "{path}: {text}");
    }
    agent.stop().await;
}
