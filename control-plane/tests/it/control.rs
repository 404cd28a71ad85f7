//! The control API over gRPC.

use std::time::Duration;

use interrex_control_plane::app::RunningMaster;
use interrex_proto::{
    channel::{ChannelOptions, dial},
    credentials::MasterChannel,
    leader_hint::LeaderHint,
    v1::{self, control_client::ControlClient},
};
use tonic::{Code, Status};

use crate::rest_support::{Cluster, impatient};

fn client(master: &RunningMaster) -> ControlClient<MasterChannel> {
    ControlClient::new(
        dial(&master.rpc_addr.to_string(), &ChannelOptions::default()).expect("an address"),
    )
}

fn spec() -> v1::DriverSpec {
    v1::DriverSpec {
        name: "hello".into(),
        command: Some(v1::CommandLine {
            program: "true".into(),
            ..Default::default()
        }),
        cores: 1,
        memory_mib: 64,
        ..Default::default()
    }
}

async fn submit(
    master: &RunningMaster,
    id: &str,
    spec: v1::DriverSpec,
) -> Result<v1::SubmitResponse, Status> {
    let request = v1::SubmitRequest {
        request_id: id.into(),
        spec: Some(spec),
    };
    client(master)
        .submit(request)
        .await
        .map(tonic::Response::into_inner)
}

async fn explain(master: &RunningMaster, id: &str) -> Result<v1::ExplainResponse, Status> {
    let request = v1::ExplainRequest { id: id.into() };
    client(master)
        .explain(request)
        .await
        .map(tonic::Response::into_inner)
}

#[tokio::test]
async fn a_submission_is_accepted_once_and_its_waiting_explained() {
    let cluster = Cluster::default();
    let master = cluster.start_leader("m1").await;
    let first = submit(&master, "one", spec()).await.expect("accepted");
    let driver = first.driver.expect("a driver");
    assert_eq!(
        (driver.state.as_str(), first.replayed),
        ("SUBMITTED", false)
    );

    let second = submit(&master, "one", spec()).await.expect("accepted");
    assert_eq!(
        (second.driver.map(|d| d.id), second.replayed),
        (Some(driver.id.clone()), true)
    );

    let other = v1::DriverSpec { cores: 2, ..spec() };
    let conflict = submit(&master, "one", other)
        .await
        .expect_err("must be refused");
    assert_eq!(conflict.code(), Code::AlreadyExists);

    for id in [driver.id.as_str(), "one"] {
        let request = v1::StatusRequest {
            id: id.into(),
            stale_ok: false,
        };
        let status = client(&master)
            .get_status(request)
            .await
            .expect("found")
            .into_inner();
        assert!(!status.over && !status.stale);
        assert_eq!(
            status.driver.expect("a driver").message,
            "waiting for an agent: none is alive"
        );
        let explained = explain(&master, id).await.expect("found");
        assert_eq!(
            (explained.id.as_str(), explained.kind.as_str()),
            (driver.id.as_str(), "driver")
        );
        assert_eq!(explained.summary, "waiting for an agent: none is alive");
        assert!(explained.waits[0].hopeless);
    }
    let nothing = explain(&master, "nobody").await.expect_err("nothing there");
    assert_eq!(nothing.code(), Code::NotFound);
    let request = v1::StatusRequest {
        id: "nobody".into(),
        stale_ok: true,
    };
    let missing = client(&master)
        .get_status(request)
        .await
        .expect_err("must be refused");
    assert_eq!(missing.code(), Code::NotFound);
}

#[tokio::test]
async fn bad_fields_are_refused_by_name() {
    let cluster = Cluster::default();
    let master = cluster.start_leader("m1").await;
    for (id, spec, text) in [
        ("a b", spec(), "request_id: `a b`"),
        (
            "one",
            v1::DriverSpec { cores: 0, ..spec() },
            "cores: `0` cores; 1 to 1048576",
        ),
        (
            "one",
            v1::DriverSpec {
                command: None,
                ..spec()
            },
            "command: is missing",
        ),
        (
            "one",
            v1::DriverSpec {
                name: "n".repeat(1 << 20),
                ..spec()
            },
            "spec: is ",
        ),
        (
            "one",
            v1::DriverSpec {
                name: "n".repeat(1000),
                ..spec()
            },
            "at most 256 are allowed",
        ),
    ] {
        let refused = submit(&master, id, spec)
            .await
            .expect_err("must be refused");
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
        assert!(refused.message().contains(text), "{refused:?}");
    }
}

#[tokio::test]
async fn ten_megabytes_of_arguments_are_refused_with_the_limit_and_disturb_nothing() {
    let cluster = Cluster::default();
    let master = cluster.start_leader("m1").await;
    for (bytes, limit) in [(2 << 20, "1048576"), (10 << 20, "4194304")] {
        let command = v1::CommandLine {
            program: "true".into(),
            args: vec!["x".repeat(bytes)],
            ..Default::default()
        };
        let large = v1::DriverSpec {
            command: Some(command),
            ..spec()
        };
        let refused = submit(&master, "large", large)
            .await
            .expect_err("must be refused");
        assert!(
            matches!(refused.code(), Code::InvalidArgument | Code::OutOfRange),
            "{refused:?}"
        );
        assert!(refused.message().contains(limit), "{refused:?}");
    }
    submit(&master, "small", spec()).await.expect("accepted");
}

#[tokio::test]
async fn a_wait_ends_with_the_driver_or_with_its_time() {
    let cluster = Cluster::default();
    let master = cluster.start_leader("m1").await;
    submit(&master, "one", spec()).await.expect("accepted");
    let short = v1::WaitRequest {
        id: "one".into(),
        timeout_ms: 20,
    };
    assert!(
        !client(&master)
            .wait(short)
            .await
            .expect("an answer")
            .into_inner()
            .over
    );

    let mut waiting = client(&master);
    let wait = tokio::spawn(async move {
        let long = v1::WaitRequest {
            id: "one".into(),
            timeout_ms: 60_000,
        };
        waiting.wait(long).await
    });
    let kill = v1::KillRequest {
        request_id: String::new(),
        id: "one".into(),
    };
    let killed = client(&master)
        .kill(kill.clone())
        .await
        .expect("accepted")
        .into_inner();
    assert!(!killed.already_over);
    let ended = tokio::time::timeout(Duration::from_secs(20), wait)
        .await
        .expect("in time");
    let ended = ended.expect("no panic").expect("an answer").into_inner();
    assert!(ended.over);
    assert_eq!(ended.driver.expect("a driver").state, "KILLED");
    assert!(
        client(&master)
            .kill(kill)
            .await
            .expect("an answer")
            .into_inner()
            .already_over
    );
}

#[tokio::test]
async fn kills_and_clears_are_remembered_by_their_request_ids() {
    let cluster = Cluster::default();
    let master = cluster.start_leader("m1").await;
    submit(&master, "one", spec()).await.expect("accepted");
    let kill_all = v1::KillAllRequest {
        request_id: "k1".into(),
    };
    for _ in 0..2 {
        let killed = client(&master).kill_all(kill_all.clone()).await;
        assert_eq!(killed.expect("an answer").into_inner().drivers, 1);
        submit(&master, "two", spec()).await.expect("accepted");
    }
    let kill = v1::KillRequest {
        request_id: "k2".into(),
        id: "two".into(),
    };
    for _ in 0..2 {
        let killed = client(&master).kill(kill.clone()).await;
        let killed = killed.expect("an answer").into_inner();
        assert_eq!(
            (killed.state.as_str(), killed.already_over),
            ("KILLED", false)
        );
    }
    let clear = v1::ClearCompletedRequest {
        request_id: "k1".into(),
    };
    let conflict = client(&master).clear_completed(clear).await;
    assert_eq!(
        conflict.expect_err("a conflict").code(),
        Code::AlreadyExists
    );
}

#[tokio::test]
async fn lists_come_in_pages_and_by_state() {
    let cluster = Cluster::default();
    let master = cluster.start_leader("m1").await;
    for id in ["a", "b", "c"] {
        submit(&master, id, spec()).await.expect("accepted");
    }
    let list = |page_token: String, state: &str| v1::ListRequest {
        kind: v1::ListKind::Drivers.into(),
        page_size: 2,
        page_token,
        state: state.into(),
        stale_ok: false,
    };
    let first = client(&master)
        .list(list(String::new(), ""))
        .await
        .expect("a page")
        .into_inner();
    assert_eq!(first.drivers.len(), 2);
    let token = first.next_page_token;
    let second = client(&master)
        .list(list(token, "submitted"))
        .await
        .expect("a page")
        .into_inner();
    assert_eq!(
        (second.drivers.len(), second.next_page_token.as_str()),
        (1, "")
    );
    let none = client(&master)
        .list(list(String::new(), "FAILED"))
        .await
        .expect("a page")
        .into_inner();
    assert_eq!(none.drivers.len(), 0);
    let kindless = client(&master)
        .list(v1::ListRequest::default())
        .await
        .expect_err("must be refused");
    assert_eq!(kindless.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_standby_refuses_with_a_hint_and_still_shows_the_cluster() {
    let cluster = Cluster::default();
    let leader = cluster.start_leader("m1").await;
    let standby = cluster.start("m2", impatient());
    let refused = submit(&standby, "one", spec())
        .await
        .expect_err("must be refused");
    assert_eq!(refused.code(), Code::Unavailable);
    let hint = LeaderHint::read(&refused).expect("a hint");
    assert_eq!(
        (hint.id.as_str(), hint.rpc),
        ("m1", leader.rpc_addr.to_string())
    );

    let request = v1::StatusRequest {
        id: "one".into(),
        stale_ok: true,
    };
    let refused = client(&standby)
        .get_status(request)
        .await
        .expect_err("a standby knows nothing");
    assert_eq!(refused.code(), Code::Unavailable);

    let shown = client(&standby)
        .get_cluster(v1::ClusterRequest {})
        .await
        .expect("an answer")
        .into_inner();
    assert_eq!(
        (shown.leader.as_str(), shown.answered_by.as_str()),
        ("m1", "m2")
    );
    assert_eq!(shown.state, "STANDBY");
    let ids: Vec<_> = shown
        .masters
        .iter()
        .map(|master| master.id.as_str())
        .collect();
    assert_eq!(ids, ["m1", "m2"]);
}
