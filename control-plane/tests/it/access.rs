//! A master that was given tokens: nobody changes anything without one, over any port.

use std::path::Path;

use interrex_control_plane::{access::Access, app::RunningMaster};
use interrex_persistence::{faulty::Faults, memory::MemoryCluster};
use interrex_proto::{
    channel::{ChannelOptions, dial},
    credentials::{Credentials, MasterChannel},
    v1::{
        self, control_client::ControlClient, session_client::SessionClient,
        snapshots_client::SnapshotsClient,
    },
};
use tonic::{Code, Status};

use crate::{
    support::{client, leads, start_configured, submission},
    web_support,
};

const MASTERS: &str = "masters-0123456789abcdef";
const ANN: &str = "ann-0123456789abcdef";

fn tokens(file: &Path, ann: &str) {
    std::fs::write(file, format!("masters {MASTERS}\nann {ann}\n")).expect("written");
}

/// A leader with tokens from a file that stays.
async fn guarded() -> (RunningMaster, Access, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens");
    tokens(&file, ANN);
    let access = Access::read(&file).expect("valid");
    let shared = access.clone();
    let cluster = MemoryCluster::new();
    let master = start_configured(&cluster, "m1", &Faults::calm(), |options| {
        options.access = shared;
    });
    leads(&master).await;
    (master, access, dir)
}

fn showing(master: &RunningMaster, token: &str) -> ControlClient<MasterChannel> {
    let options = ChannelOptions {
        credentials: Credentials::new(token).expect("a token"),
        ..ChannelOptions::default()
    };
    let channel = dial(&master.rpc_addr.to_string(), &options).expect("an address");
    ControlClient::new(channel)
}

fn is_refused<T>(what: &str, answer: Result<T, Status>) {
    let status = answer.err().unwrap_or_else(|| panic!("{what} is accepted"));
    assert_eq!(status.code(), Code::Unauthenticated, "{what}: {status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_that_changes_something_needs_a_token() {
    let (master, _access, _dir) = guarded().await;
    let mut anybody = client(&master);
    is_refused("submit", anybody.submit(submission("r1")).await);
    is_refused("kill", anybody.kill(v1::KillRequest::default()).await);
    is_refused(
        "kill all",
        anybody.kill_all(v1::KillAllRequest::default()).await,
    );
    let clear = v1::ClearCompletedRequest::default();
    is_refused("clear", anybody.clear_completed(clear).await);
    let drain = v1::DrainWorkersRequest::default();
    is_refused("drain", anybody.drain_workers(drain).await);
    let undrain = v1::UndrainWorkersRequest::default();
    is_refused("undrain", anybody.undrain_workers(undrain).await);
    let transfer = v1::TransferLeaderRequest::default();
    is_refused("transfer", anybody.transfer_leader(transfer).await);
    is_refused(
        "add",
        anybody.add_master(v1::AddMasterRequest::default()).await,
    );
    let remove = v1::RemoveMasterRequest::default();
    is_refused("remove", anybody.remove_master(remove).await);
    let channel = dial(&master.rpc_addr.to_string(), &ChannelOptions::default()).expect("address");
    let attach = SessionClient::new(channel.clone())
        .attach(futures::stream::pending())
        .await;
    is_refused("attach", attach);
    let save = v1::SaveSnapshotRequest::default();
    is_refused("save", SnapshotsClient::new(channel).save(save).await);
    is_refused(
        "a wrong token",
        showing(&master, "wrong-0123456789")
            .submit(submission("r1"))
            .await,
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_shows_something_needs_none_and_a_token_lets_changes_through() {
    let (master, _access, _dir) = guarded().await;
    showing(&master, ANN)
        .submit(submission("r1"))
        .await
        .expect("accepted");
    let mut anybody = client(&master);
    let list = anybody
        .list(v1::ListRequest {
            kind: v1::ListKind::Drivers.into(),
            ..Default::default()
        })
        .await
        .expect("shown");
    assert_eq!(list.into_inner().drivers.len(), 1);
    anybody
        .get_cluster(v1::ClusterRequest::default())
        .await
        .expect("shown");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_file_counts_from_when_it_is_read() {
    let (master, access, dir) = guarded().await;
    let file = dir.path().join("tokens");
    let newer = "ann-fedcba9876543210";
    tokens(&file, newer);
    is_refused(
        "not read yet",
        showing(&master, newer).submit(submission("r1")).await,
    );
    access.read_again(&file).expect("valid");
    is_refused(
        "the former one",
        showing(&master, ANN).submit(submission("r1")).await,
    );
    showing(&master, newer)
        .submit(submission("r1"))
        .await
        .expect("accepted");
    std::fs::write(&file, "nonsense").expect("written");
    access.read_again(&file).expect_err("malformed");
    showing(&master, newer)
        .submit(submission("r2"))
        .await
        .expect("as before");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_submission_api_answers_401_without_a_token() {
    let (master, _access, _dir) = guarded().await;
    let rest = master.rest_addr.expect("served");
    let http = web_support::http();
    let post = |path: &str, token: Option<&str>| {
        let request = http
            .post(format!("http://{rest}/v1/submissions/{path}"))
            .body("{}");
        match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
        .send()
    };
    for path in ["create", "kill/driver-1", "killall", "clear"] {
        let answer = post(path, None).await.expect("an answer");
        assert_eq!(answer.status(), 401, "{path}");
        let text = answer.text().await.expect("text");
        assert!(
            text.contains("ErrorResponse") && text.contains("wants a token"),
            "{text}"
        );
        let answer = post(path, Some("nobody-0123456789"))
            .await
            .expect("an answer");
        assert_eq!(answer.status(), 401, "{path}");
    }
    let killed = post("killall", Some(ANN)).await.expect("an answer");
    assert_eq!(killed.status(), 200);
    let status = http.get(format!("http://{rest}/v1/submissions/status/driver-1"));
    assert_eq!(status.send().await.expect("an answer").status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_asks_for_the_token_and_changes_nothing_without() {
    let (master, _access, _dir) = guarded().await;
    let id = crate::support::submit(&mut showing(&master, ANN), "r1").await;
    let path = format!("/drivers/{id}/kill");
    let page = web_support::get(&master, &path).await;
    assert!(
        page.text.contains(r#"type="password" name="token""#),
        "{}",
        page.text
    );
    let (form, own) = (
        format!("request={}", page.request()),
        web_support::own(&master),
    );
    for token in ["", "&token=", "&token=nobody-0123456789"] {
        let refused = web_support::post(&master, &path, &format!("{form}{token}"), &own).await;
        assert_eq!(refused.status, 403, "{}", refused.text);
    }
    let done = web_support::post(&master, &path, &format!("{form}&token={ANN}"), &own).await;
    assert_eq!(done.status, 303, "{}", done.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_of_spark_are_admitted_only_by_an_explicit_word() {
    let (_master, access, _dir) = guarded().await;
    assert!(!access.admits_spark());
    assert!(access.with_open_spark(true).admits_spark());
    assert!(Access::default().admits_spark());
}
