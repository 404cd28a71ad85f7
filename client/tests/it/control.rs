//! Control calls against scripted masters.

use std::time::Duration;

use interrex_client::control::{ClientError, ClientOptions, ControlClient};
use interrex_proto::v1::{self, DriverSpec, DriverStatus, ListKind, StatusResponse};
use tokio::time::Instant;
use tonic::Status;

use crate::support::{Call, FakeMaster, black_hole, dead_address, not_leader, within};

fn client_to(masters: Vec<String>) -> ControlClient {
    let mut options = ClientOptions::new(masters);
    options.call_timeout = Duration::from_secs(2);
    options.total_deadline = Duration::from_secs(10);
    options.hedge_after = Duration::from_millis(100);
    options.backoff_min = Duration::from_millis(2);
    options.backoff_max = Duration::from_millis(10);
    options.seed = 1;
    ControlClient::new(options).unwrap()
}

pub(crate) fn client(masters: &[&FakeMaster]) -> ControlClient {
    client_to(
        masters
            .iter()
            .map(|master| master.address.clone())
            .collect(),
    )
}

fn accepted() -> v1::SubmitResponse {
    let driver = DriverStatus {
        id: "driver-1".into(),
        ..DriverStatus::default()
    };
    v1::SubmitResponse {
        driver: Some(driver),
        replayed: false,
    }
}

fn over() -> StatusResponse {
    StatusResponse {
        over: true,
        ..StatusResponse::default()
    }
}

#[tokio::test]
async fn a_hint_is_followed_and_the_leader_remembered() {
    let (standby, leader) = (FakeMaster::start(), FakeMaster::start());
    // The leader is not even in the list.
    let client = client(&[&standby]);
    let serve = async {
        let (_, answer) = standby.submit().await;
        answer.send(Err(not_leader(Some(&leader)))).unwrap();
        for _ in 0..2 {
            let (_, answer) = leader.submit().await;
            answer.send(Ok(accepted())).unwrap();
        }
    };
    let calls = async {
        assert_eq!(
            client.submit("r1", DriverSpec::default()).await,
            Ok(accepted())
        );
        assert_eq!(
            client.submit("r2", DriverSpec::default()).await,
            Ok(accepted())
        );
    };
    within("the calls", async { tokio::join!(serve, calls) }).await;
}

#[tokio::test]
async fn a_deadline_beyond_all_clocks_is_taken() {
    let leader = FakeMaster::start();
    let mut options = ClientOptions::new(vec![leader.address.clone()]);
    options.total_deadline = Duration::MAX;
    let client = ControlClient::new(options).unwrap();
    let serve = async {
        let (_, answer) = leader.submit().await;
        answer.send(Ok(accepted())).unwrap();
    };
    let call = client.submit("r1", DriverSpec::default());
    let (_, answer) = within("the call", async { tokio::join!(serve, call) }).await;
    assert_eq!(answer, Ok(accepted()));
}

#[tokio::test]
async fn a_submission_whose_answer_is_lost_is_repeated_under_its_request_id() {
    let (m1, m2) = (FakeMaster::start(), FakeMaster::start());
    let client = client(&[&m1, &m2]);
    let spec = DriverSpec {
        name: "job".into(),
        ..DriverSpec::default()
    };
    let m2_leads = async {
        let (request, answer) = m2.submit().await;
        answer
            .send(Ok(v1::SubmitResponse {
                replayed: true,
                ..accepted()
            }))
            .unwrap();
        request
    };
    let m1_dies = async {
        let (request, answer) = m1.submit().await;
        drop(m1); // accepted, perhaps; the connection breaks before the answer
        (request, answer)
    };
    let ((lost, _answer), repeated, result) = within("the submission", async {
        tokio::join!(m1_dies, m2_leads, client.submit("job-2024", spec.clone()))
    })
    .await;
    assert!(result.unwrap().replayed);
    assert_eq!(lost, repeated);
    assert_eq!(
        repeated,
        v1::SubmitRequest {
            request_id: "job-2024".into(),
            spec: Some(spec)
        }
    );
}

#[tokio::test]
async fn a_silent_and_a_dead_master_cost_the_first_call_little_and_the_next_nothing() {
    let leader = FakeMaster::start();
    let (silent, _kept) = black_hole();
    let client = client_to(vec![silent, dead_address(), leader.address.clone()]);
    let serve = async {
        for _ in 0..50 {
            match leader.call().await {
                Call::Status(request, answer) => {
                    assert_eq!((request.id.as_str(), request.stale_ok), ("driver-1", false));
                    answer.send(Ok(over())).unwrap();
                }
                _ => panic!("another call"),
            }
        }
    };
    let calls = async {
        let began = Instant::now();
        client.status("driver-1", false).await.unwrap();
        let first = began.elapsed();
        let began = Instant::now();
        for _ in 1..50 {
            client.status("driver-1", false).await.unwrap();
        }
        (first, began.elapsed())
    };
    let ((), (first, rest)) = within("the calls", async { tokio::join!(serve, calls) }).await;
    // Less than the deadline of one attempt; and had the silent master been asked again, then by every call.
    assert!(first < Duration::from_secs(2), "{first:?}");
    assert!(
        rest < Duration::from_millis(100) * 49,
        "49 calls took {rest:?}"
    );
}

#[tokio::test]
async fn an_election_is_waited_out() {
    let (m1, m2) = (FakeMaster::start(), FakeMaster::start());
    let client = client(&[&m1, &m2]);
    let serve = async {
        for _ in 0..3 {
            let (_, answer) = m1.submit().await;
            answer.send(Err(not_leader(None))).unwrap();
            let (_, answer) = m2.submit().await;
            answer.send(Err(not_leader(None))).unwrap();
        }
        let (request, answer) = m1.submit().await;
        answer.send(Ok(accepted())).unwrap();
        request.request_id
    };
    let (id, result) = within("the submission", async {
        tokio::join!(serve, client.submit("r1", DriverSpec::default()))
    })
    .await;
    assert_eq!((id.as_str(), result), ("r1", Ok(accepted())));
}

#[tokio::test]
async fn every_refusal_has_its_error_and_is_final() {
    let master = FakeMaster::start();
    let client = client(&[&master]);
    let message = || "because".to_owned();
    for (status, expected) in [
        (
            Status::invalid_argument("because"),
            ClientError::Invalid { message: message() },
        ),
        (
            Status::not_found("because"),
            ClientError::NotFound { message: message() },
        ),
        (
            Status::already_exists("because"),
            ClientError::Conflict { message: message() },
        ),
        (
            Status::failed_precondition("because"),
            ClientError::Conflict { message: message() },
        ),
        (
            Status::permission_denied("because"),
            ClientError::Refused { message: message() },
        ),
    ] {
        let serve = async {
            let (_, answer) = master.submit().await;
            answer.send(Err(status)).unwrap();
        };
        let call = client.submit("r1", DriverSpec::default());
        let ((), result) = within("the refusal", async { tokio::join!(serve, call) }).await;
        assert_eq!(result, Err(expected));
    }
}

#[tokio::test]
async fn a_request_beyond_the_bound_is_refused_before_anybody_is_asked() {
    let spec = DriverSpec {
        name: "x".repeat(10 << 20),
        ..DriverSpec::default()
    };
    let client = client_to(vec![dead_address()]);
    let message = match within("the refusal", client.submit("r1", spec)).await {
        Err(ClientError::Invalid { message }) => message,
        other => panic!("{other:?}"),
    };
    assert!(message.contains("at most 4194304"), "{message}");
}

#[tokio::test]
async fn without_a_leader_the_error_says_what_every_master_said() {
    let standby = FakeMaster::start();
    let dead = dead_address();
    let mut options = ClientOptions::new(vec![standby.address.clone(), dead.clone()]);
    // Long enough that the margin before the deadline outlasts a pause of a busy machine.
    options.total_deadline = Duration::from_secs(2);
    let client = ControlClient::new(options).unwrap();
    let serve = async {
        loop {
            let (_, answer) = standby.submit().await;
            answer.send(Err(not_leader(None))).unwrap_or_default();
        }
    };
    let result = tokio::select! {
        result = client.submit("r1", DriverSpec::default()) => result,
        () = serve => unreachable!("it never ends"),
    };
    let Err(ClientError::NoLeader { tried }) = result else {
        panic!("{result:?}")
    };
    let said = |master: &str| {
        tried
            .iter()
            .find(|tried| tried.master == master)
            .map(|tried| tried.said.clone())
    };
    assert_eq!(said(&standby.address).as_deref(), Some("not the leader"));
    let refused = said(&dead).expect("the dead master was tried");
    assert!(refused.to_lowercase().contains("refused"), "{refused}");
}

#[tokio::test]
async fn a_mutation_without_an_answer_has_an_unknown_outcome() {
    let (silent, _kept) = black_hole();
    let mut options = ClientOptions::new(vec![silent]);
    options.total_deadline = Duration::from_millis(200);
    let client = ControlClient::new(options).unwrap();
    let error = client
        .submit("r1", DriverSpec::default())
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            ClientError::Timeout {
                outcome_unknown: true,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(error.exit_code(), 6);
    let error = client.status("driver-1", false).await.unwrap_err();
    assert!(
        matches!(error, ClientError::NoLeader { .. }),
        "a read changes nothing: {error:?}"
    );
}

#[tokio::test]
async fn a_call_without_a_request_id_is_never_sent_twice() {
    let (m1, m2) = (FakeMaster::start(), FakeMaster::start());
    let client = client(&[&m1, &m2]);
    let m1_dies = async {
        match m1.call().await {
            Call::Transfer(answer) => {
                drop(m1);
                answer
            }
            _ => panic!("another call"),
        }
    };
    let transfer = client.transfer_leader(None);
    let (_answer, result) = within("the transfer", async { tokio::join!(m1_dies, transfer) }).await;
    let error = result.unwrap_err();
    assert!(
        matches!(
            error,
            ClientError::Timeout {
                outcome_unknown: true,
                ..
            }
        ),
        "{error:?}"
    );
    // The other master is asked for something else next: it never saw the transfer.
    let serve = async {
        match m2.call().await {
            Call::Status(_, answer) => answer.send(Ok(over())).unwrap(),
            _ => panic!("the transfer was sent twice"),
        }
    };
    let status = client.status("driver-1", false);
    let ((), status) = within("the status", async { tokio::join!(serve, status) }).await;
    assert_eq!(status, Ok(over()));
}

#[tokio::test]
async fn waiting_asks_again_until_it_is_over_and_survives_a_failover() {
    let (m1, m2) = (FakeMaster::start(), FakeMaster::start());
    let client = client(&[&m1, &m2]);
    let serve = async {
        match m1.call().await {
            Call::Wait(_, answer) => answer.send(Ok(StatusResponse::default())).unwrap(),
            _ => panic!("another call"),
        }
        let asked_again = m1.call().await;
        drop(m1);
        match m2.call().await {
            Call::Wait(request, answer) => {
                answer.send(Ok(over())).unwrap();
                assert_eq!(request.id, "driver-1");
            }
            _ => panic!("another call"),
        }
        drop(asked_again);
    };
    let wait = client.wait("driver-1", None);
    let ((), result) = within("the end", async { tokio::join!(serve, wait) }).await;
    assert_eq!(result, Ok(over()));
}

#[tokio::test]
async fn waiting_where_no_master_is_ends_at_the_calls_deadline() {
    let mut options = ClientOptions::new(vec![dead_address()]);
    options.total_deadline = Duration::from_millis(500);
    let client = ControlClient::new(options).unwrap();
    let result = within("the error", client.wait("driver-1", None)).await;
    assert!(
        matches!(result, Err(ClientError::NoLeader { .. })),
        "{result:?}"
    );
}

#[tokio::test]
async fn waiting_ends_at_its_deadline() {
    let master = FakeMaster::start();
    let client = client(&[&master]);
    let serve = async {
        loop {
            match master.call().await {
                Call::Wait(request, answer) => {
                    assert!(request.timeout_ms <= 150, "{}", request.timeout_ms);
                    answer
                        .send(Ok(StatusResponse::default()))
                        .unwrap_or_default();
                }
                _ => panic!("another call"),
            }
        }
    };
    let deadline = Some(Duration::from_millis(150));
    let result = tokio::select! {
        result = client.wait("driver-1", deadline) => result,
        () = serve => unreachable!("it never ends"),
    };
    let error = result.unwrap_err();
    assert!(
        matches!(
            error,
            ClientError::Timeout {
                outcome_unknown: false,
                ..
            }
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_list_is_read_page_by_page() {
    let master = FakeMaster::start();
    let client = client(&[&master]);
    let serve = async {
        for (token, next) in [("", "d-1"), ("d-1", "d-2"), ("d-2", "")] {
            match master.call().await {
                Call::List(request, answer) => {
                    assert_eq!(
                        (request.page_token.as_str(), request.state.as_str()),
                        (token, "RUNNING")
                    );
                    let driver = DriverStatus {
                        id: format!("after {token}"),
                        ..DriverStatus::default()
                    };
                    let page = v1::ListResponse {
                        drivers: vec![driver],
                        next_page_token: next.into(),
                        ..v1::ListResponse::default()
                    };
                    answer.send(Ok(page)).unwrap();
                }
                _ => panic!("another call"),
            }
        }
    };
    let list = client.list(ListKind::Drivers, Some("RUNNING"));
    let ((), all) = within("the list", async { tokio::join!(serve, list) }).await;
    let ids: Vec<_> = all
        .unwrap()
        .drivers
        .into_iter()
        .map(|driver| driver.id)
        .collect();
    assert_eq!(ids, ["after ", "after d-1", "after d-2"]);
}

#[tokio::test]
async fn the_cluster_is_shown_without_a_leader_and_by_the_leader_where_there_is_one() {
    let (m1, m2) = (FakeMaster::start(), FakeMaster::start());
    let client = client_to(vec![dead_address(), m1.address.clone()]);
    let leaderless = v1::ClusterResponse {
        answered_by: "m1".into(),
        ..Default::default()
    };
    let rpc = m2.address.clone();
    let status = v1::MasterStatus {
        id: "m2".into(),
        rpc,
        ..Default::default()
    };
    let second_hand = v1::ClusterResponse {
        leader: "m2".into(),
        masters: vec![status],
        ..leaderless.clone()
    };
    let first_hand = v1::ClusterResponse {
        answered_by: "m2".into(),
        ..second_hand.clone()
    };
    let serve = async {
        // Whoever knows no leader is asked once more, with all the others: one of them may.
        for (master, picture) in [
            (&m1, &leaderless),
            (&m1, &leaderless),
            (&m1, &second_hand),
            (&m2, &first_hand),
        ] {
            match master.call().await {
                Call::Cluster(answer) => answer.send(Ok(picture.clone())).unwrap(),
                _ => panic!("another call"),
            }
        }
    };
    let calls = async { (client.cluster().await, client.cluster().await) };
    let ((), (first, second)) = within("the cluster", async { tokio::join!(serve, calls) }).await;
    assert_eq!((first, second), (Ok(leaderless), Ok(first_hand)));
}
