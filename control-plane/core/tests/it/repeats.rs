//! A kill or a clear that is said twice: one effect, one answer.

use interrex_core::{
    command::{Command, ProcessChange, RequestKey},
    config::ClusterConfig,
    ids::{Fingerprint, RequestId},
    state::{app::ApplicationState, driver::DriverState},
    transition::{Mutation, Rejection, Reply},
};

use crate::{
    specs::{app, driver, register_app, submit, worker},
    support::{Cluster, exited, secs},
};

fn key(id: &str, fingerprint: u8) -> Option<RequestKey> {
    Some(RequestKey {
        id: id.into(),
        fingerprint: Fingerprint([fingerprint; 32]),
    })
}

fn kill(request: &str, id: &str) -> Command {
    Command::Kill {
        request: key(request, 2),
        id: id.to_owned(),
    }
}

fn kill_all(request: &str) -> Command {
    Command::KillAllDrivers {
        request: key(request, 3),
    }
}

fn clear(request: &str) -> Command {
    Command::ClearCompleted {
        request: key(request, 4),
    }
}

fn conflict(id: &str, created: &str) -> Reply {
    Reply::Rejected(Rejection::Conflict {
        id: RequestId::from(id),
        created: created.to_owned(),
    })
}

#[test]
fn a_repeated_kill_all_does_not_touch_what_was_submitted_in_between() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    let before = cluster.submit("s1", driver(1, 1));
    assert_eq!(cluster.apply(kill_all("k1")).reply, Reply::Count(1));
    let between = cluster.submit("s2", driver(1, 1));
    // Whoever leads.
    cluster.fail_over();
    let again = cluster.apply(kill_all("k1"));
    assert_eq!(again.reply, Reply::Count(1));
    assert!(again.mutations.is_empty(), "{again:?}");
    assert_eq!(cluster.driver(&before).state, DriverState::Killed);
    assert_eq!(cluster.driver(&between).state, DriverState::Submitted);
    assert_eq!(cluster.apply(kill_all("k2")).reply, Reply::Count(1));
    assert_eq!(cluster.driver(&between).state, DriverState::Killed);
}

#[test]
fn a_kill_all_that_found_nothing_is_remembered_too() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    assert_eq!(cluster.apply(kill_all("k1")).reply, Reply::Count(0));
    let id = cluster.submit("s1", driver(1, 1));
    assert_eq!(cluster.apply(kill_all("k1")).reply, Reply::Count(0));
    assert_eq!(cluster.driver(&id).state, DriverState::Submitted);
}

#[test]
fn a_repeated_kill_gets_the_first_answer() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    let id = cluster.submit("s1", driver(1, 1));
    let waiting = cluster.register_app("a1", app(1, None, None));
    // By the submission's id and by the request's.
    let (driver_kill, app_kill) = (kill("k1", "s1"), kill("k2", "a1"));
    for _ in 0..2 {
        let want = |cluster: &Cluster| Reply::DriverKilled {
            driver: cluster.driver(&id),
            already_over: false,
        };
        let reply = cluster.apply(driver_kill.clone()).reply;
        assert_eq!(reply, want(&cluster));
        let reply = cluster.apply(app_kill.clone()).reply;
        let app = cluster.app(&waiting);
        assert_eq!(app.state, ApplicationState::Killed);
        let already_over = false;
        assert_eq!(reply, Reply::AppKilled { app, already_over });
        cluster.fail_over();
    }
    // Another request is told how it is, and there is nothing to remember.
    let late = cluster.apply(kill("k3", "s1"));
    assert!(
        matches!(
            late.reply,
            Reply::DriverKilled {
                already_over: true,
                ..
            }
        ),
        "{late:?}"
    );
    assert!(late.mutations.is_empty(), "{late:?}");
}

#[test]
fn a_repeated_clear_forgets_nothing_more() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(4, 4096));
    let ended = |cluster: &mut Cluster, request: &str| {
        let id = cluster.submit(request, driver(1, 1));
        cluster.report_driver("w1", &id, 1, ProcessChange::Running);
        cluster.report_driver("w1", &id, 1, exited(0));
        id
    };
    let first = ended(&mut cluster, "s1");
    assert_eq!(cluster.apply(clear("c1")).reply, Reply::Count(1));
    let second = ended(&mut cluster, "s2");
    assert_eq!(cluster.apply(clear("c1")).reply, Reply::Count(1));
    assert!(cluster.state.driver(&first).is_none());
    assert!(cluster.state.driver(&second).is_some());
}

#[test]
fn one_request_id_is_good_for_one_request() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    let id = cluster.submit("s1", driver(1, 1));
    let other = cluster.submit("s2", driver(1, 1));
    // Used by a submission, whatever the fingerprint.
    for command in [kill("s1", "s2"), kill_all("s1"), clear("s1")] {
        assert_eq!(cluster.apply(command).reply, conflict("s1", id.as_str()));
    }
    let key_of_submission = Command::KillAllDrivers {
        request: key("s1", 1),
    };
    let reply = cluster.apply(key_of_submission).reply;
    assert_eq!(reply, conflict("s1", id.as_str()));
    // Used by a kill, by a kill of all.
    cluster.apply(kill("k1", "s2"));
    cluster.apply(clear("c1"));
    let killed = format!("a kill of {other}");
    for command in [
        kill_all("k1"),
        submit("k1", driver(1, 1)),
        register_app("k1", app(1, None, None)),
    ] {
        assert_eq!(cluster.apply(command).reply, conflict("k1", &killed));
    }
    let reply = cluster.apply(kill_all("c1")).reply;
    assert_eq!(reply, conflict("c1", "a kill, clear or drain of 1 at once"));
    assert_eq!(cluster.driver(&id).state, DriverState::Submitted);
}

#[test]
fn a_kill_is_remembered_for_the_retention_and_not_longer() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.submit("s1", driver(1, 1));
    cluster.apply(kill_all("k1"));
    cluster.tick_after(secs(1_800));
    cluster.fail_over();
    cluster.tick_after(secs(1_799));
    assert!(cluster.state.request(&"k1".into()).is_some());
    cluster.tick_after(secs(1));
    assert!(cluster.state.request(&"k1".into()).is_none());
    // That of the driver lives as long as the driver.
    assert!(cluster.state.request(&"s1".into()).is_some());
}

#[test]
fn a_kill_of_all_is_recorded_behind_what_it_did() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    for n in 0..3 {
        cluster.submit(&format!("s{n}"), driver(1, 1));
    }
    let stored = cluster.apply(kill_all("k1")).mutations;
    // Cut anywhere by a crash, it is not remembered as done.
    assert_eq!(stored.len(), 4);
    assert!(
        matches!(stored.last(), Some(Mutation::PutRequest(_))),
        "{stored:?}"
    );
}
