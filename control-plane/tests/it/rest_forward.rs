//! The submission API of a master that does not lead.

use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
};

use crate::rest_support::{Cluster, command_body, create, get, impatient, leads, patient, post};

#[tokio::test]
async fn a_standby_forwards_to_the_leader() {
    let cluster = Cluster::default();
    let leader = cluster.start_leader("m1").await;
    let standby = cluster.start("m2", patient());
    let created = create(&standby, "one", &command_body()).await;
    assert_eq!(
        (created.status, created.header("interrex-leader")),
        (200, "m1"),
        "{created:?}"
    );
    let driver = created.text_of("submissionId").to_owned();

    let replayed = create(&leader, "one", &command_body()).await;
    assert_eq!(replayed.text_of("submissionId"), driver);
    let replayed = create(&standby, "one", &command_body()).await;
    assert_eq!(
        (
            replayed.text_of("submissionId"),
            replayed.header("idempotent-replayed")
        ),
        (driver.as_str(), "true")
    );

    let status = get(&standby, &format!("status/{driver}")).await;
    assert_eq!(status.text_of("driverState"), "SUBMITTED");
    let conflict = create(
        &standby,
        "one",
        &json!({"action": "CreateSubmissionRequest", "command": ["x"]}),
    )
    .await;
    conflict.refused(409);
    let killed = post(&standby, &format!("kill/{driver}"), "").await;
    assert_eq!(killed.json["success"], json!(true));
    let cleared = post(&standby, "clear", "").await;
    assert_eq!(cleared.json["success"], json!(true));
    assert_eq!(
        get(&leader, &format!("status/{driver}")).await.json["success"],
        json!(false)
    );
    assert_eq!(
        get(&standby, "readyz").await.text_of("action"),
        "ReadyzResponse"
    );
}

#[tokio::test]
async fn bad_input_is_refused_by_a_standby_itself() {
    let cluster = Cluster::default();
    cluster.phantom_leader("").await;
    let standby = cluster.start("m2", impatient());
    let answer = post(&standby, "create", "{").await;
    assert!(answer.refused(400).contains("not JSON"));
}

#[tokio::test]
async fn without_a_leader_that_answers_there_is_a_bounded_wait_and_a_503() {
    let cluster = Cluster::default();
    cluster.phantom_leader("").await;
    let standby = cluster.start("m2", impatient());
    for answer in [
        create(&standby, "one", &command_body()).await,
        post(&standby, "kill/one", "").await,
        post(&standby, "killall", "").await,
        post(&standby, "clear", "").await,
        get(&standby, "status/one").await,
    ] {
        assert!(
            answer.refused(503).starts_with("No leader can answer: "),
            "{answer:?}"
        );
        assert_eq!(answer.header("retry-after"), "1");
    }
    let ready = get(&standby, "readyz").await;
    assert!(
        ready.refused(503).starts_with("Master is not ready."),
        "{ready:?}"
    );
    assert_eq!(ready.header("retry-after"), "1");
}

#[tokio::test]
async fn an_unreachable_leader_is_named() {
    let cluster = Cluster::default();
    // A port that was free a moment ago: nobody listens there.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address");
    cluster.phantom_leader(&free.to_string()).await;
    let standby = cluster.start("m2", impatient());
    let answer = create(&standby, "one", &command_body()).await;
    let message = answer.refused(503);
    assert!(
        message.contains(&format!("leader phantom at {free} cannot be reached")),
        "{message}"
    );
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_under_the_same_id() {
    let cluster = Cluster::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    cluster
        .phantom_leader(&listener.local_addr().expect("an address").to_string())
        .await;
    let standby = cluster.start("m2", patient());
    for path in ["create", "kill/one", "killall", "clear"] {
        let leader = async {
            // The first answer is lost with its connection.
            let first = receive(&listener, None).await;
            (
                first,
                receive(&listener, Some("{\"action\":\"Done\"}")).await,
            )
        };
        let (answer, (first, second)) = tokio::join!(post(&standby, path, command_body()), leader);
        assert_eq!((answer.status, answer.text_of("action")), (200, "Done"));
        assert_eq!(first[0], format!("POST /v1/submissions/{path} HTTP/1.1"));
        said_twice_under_one_id(&first, &second);
    }
}

fn said_twice_under_one_id(first: &[String], second: &[String]) {
    let key = |head: &[String]| {
        head.iter()
            .find(|line| line.starts_with("idempotency-key: "))
            .cloned()
    };
    assert!(
        key(first).is_some(),
        "an id is made before the first try: {first:?}"
    );
    assert_eq!(key(first), key(second));
    assert!(
        first.contains(&"interrex-forwarded-by: m2".to_owned()),
        "{first:?}"
    );
}

#[tokio::test]
async fn a_forwarded_request_is_answered_and_not_forwarded_again() {
    let cluster = Cluster::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    cluster
        .phantom_leader(&listener.local_addr().expect("an address").to_string())
        .await;
    let standby = cluster.start("m2", patient());
    let address = standby.rest_addr.expect("the submission API is on");
    let client = reqwest::Client::builder()
        .no_proxy()
        .build()
        .expect("a client");
    for path in ["killall", "clear"] {
        let request = client
            .post(format!("http://{address}/v1/submissions/{path}"))
            .header("Interrex-Forwarded-By", "m1");
        assert_eq!(
            request.send().await.expect("an answer").status().as_u16(),
            503
        );
    }
    let listener = listener.into_std().expect("a listener");
    assert!(
        listener.accept().is_err(),
        "nobody has connected to the supposed leader"
    );
}

#[tokio::test]
async fn two_masters_that_take_each_other_for_the_leader_do_not_loop() {
    let cluster = Cluster::default();
    let other = Cluster::default();
    let first = cluster.start("m1", impatient());
    let second = other.start("m2", impatient());
    // Each believes that a leader lives at the other's address.
    for (believer, at) in [(&cluster, &second), (&other, &first)] {
        let address = at.rest_addr.expect("the submission API is on").to_string();
        believer.phantom_leader(&address).await;
    }
    let answer = create(&first, "one", &command_body()).await;
    assert!(
        answer
            .refused(503)
            .contains("phantom cannot answer at this moment"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_submission_during_a_failover_is_acknowledged_after_it() {
    let cluster = Cluster::default();
    let first = cluster.start_leader("m1").await;
    let second = cluster.start("m2", patient());
    let before = create(&second, "before", &command_body()).await;
    assert_eq!(before.status, 200);

    cluster.store.crash("m1");
    drop(first);
    let created = create(&second, "during", &command_body()).await;
    assert_eq!(
        (created.status, created.header("interrex-leader")),
        (200, "m2"),
        "{created:?}"
    );
    leads(&second.handle).await;
    let replayed = create(&second, "before", &command_body()).await;
    assert_eq!(
        replayed.text_of("submissionId"),
        before.text_of("submissionId")
    );
}

/// Takes one request: its head, line by line. Answers with `body`, or breaks the connection off.
async fn receive(listener: &TcpListener, body: Option<&str>) -> Vec<String> {
    let (stream, _) = listener.accept().await.expect("a connection");
    let mut stream = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.expect("a line");
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    if let Some(body) = body {
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream
            .get_mut()
            .write_all(answer.as_bytes())
            .await
            .expect("sent");
    }
    head
}
