//! What the event log says about what commands did: every transition once, in order, with who and why.

use interrex_core::{
    command::{Command, ExecutorTarget, FullReport, ProcessChange},
    config::ClusterConfig,
    event::{EventKind, Fact, Who},
    state::driver::DriverState,
};

use crate::{
    specs::{app, driver, request, submit, supervised, worker},
    support::{Cluster, exited, secs, told},
};

fn cluster() -> Cluster {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(4, 4_096));
    cluster
}

fn only(events: &[Fact]) -> &Fact {
    assert_eq!(events.len(), 1, "{events:?}");
    &events[0]
}

#[test]
fn a_driver_is_told_from_its_submission_to_its_end() {
    let mut cluster = cluster();
    let submitted = cluster.apply(submit("nightly", driver(1, 64)));
    let [accepted, placed] = submitted.events.as_slice() else {
        panic!("{submitted:?}")
    };
    assert_eq!(accepted.who, Who::Client(Some("nightly".into())));
    assert_eq!((accepted.attempt, &accepted.worker), (None, &None));
    assert_eq!(placed.who, Who::Leader, "the scheduler's decision");
    let id = cluster
        .state
        .drivers()
        .next()
        .expect("it is there")
        .id
        .clone();
    let runs = cluster.report_driver("w1", &id, 1, ProcessChange::Running);
    assert_eq!(told(&runs), [format!("DRIVER_RUNNING {id}")]);
    let over = cluster.report_driver("w1", &id, 1, exited(3));
    let over = only(&over.events);
    assert_eq!(over.kind, EventKind::Driver(DriverState::Failed));
    assert_eq!(over.who, Who::Agent("w1".into()));
    assert_eq!(over.worker, Some("w1".into()));
    assert_eq!(
        (over.attempt.map(|a| a.0), over.why.as_str()),
        (Some(1), "exit code 3")
    );
}

#[test]
fn a_repeat_is_no_transition() {
    let mut cluster = cluster();
    let id = cluster.submit("s1", driver(1, 64));
    cluster.report_driver("w1", &id, 1, ProcessChange::Running);
    let again = cluster.report_driver("w1", &id, 1, ProcessChange::Running);
    assert_eq!(told(&again), [""; 0]);
    let report = cluster.honest_report("w1");
    let again = cluster.register_with("w1", worker(4, 4_096), report);
    assert_eq!(told(&again), [""; 0]);
}

#[test]
fn an_attempt_that_is_lost_and_replaced_at_once_is_told_as_both() {
    let mut cluster = cluster();
    let id = cluster.submit("s1", supervised(1, 64));
    cluster.report_driver("w1", &id, 1, ProcessChange::Running);
    cluster.register("w2", worker(4, 4_096));
    let lost = cluster.apply(Command::ExpireWorker {
        worker: "w1".into(),
    });
    let want = [
        "WORKER_DEAD w1".to_owned(),
        format!("DRIVER_RELAUNCHING {id}"),
        format!("DRIVER_LAUNCHING {id}"),
    ];
    assert_eq!(told(&lost), want);
    assert!(lost.events[1].why.contains("not heard of"), "{lost:?}");
    assert_eq!(lost.events[2].worker, Some("w2".into()));
}

#[test]
fn a_kill_is_told_when_it_is_asked_for_and_when_it_is_done() {
    let mut cluster = cluster();
    let id = cluster.submit("s1", driver(1, 64));
    let kill = |cluster: &mut Cluster| {
        let id = id.to_string();
        cluster.apply(Command::Kill { request: None, id })
    };
    let asked = kill(&mut cluster);
    assert_eq!(told(&asked), [format!("DRIVER_KILL_REQUESTED {id}")]);
    assert_eq!(
        told(&kill(&mut cluster)),
        [""; 0],
        "it was asked for already"
    );
    let done = cluster.report_driver("w1", &id, 1, crate::support::killed());
    assert_eq!(told(&done), [format!("DRIVER_KILLED {id}")]);
}

#[test]
fn an_application_and_its_executors_are_told() {
    let mut cluster = cluster();
    let id = cluster.register_app("a1", app(64, Some(1), Some(2)));
    let want = [
        format!("APP_WAITING {id}"),
        format!("EXECUTOR_LAUNCHING {id}/0"),
        format!("APP_RUNNING {id}"),
        format!("EXECUTOR_LAUNCHING {id}/1"),
    ];
    let mut registered = told(&cluster.last);
    registered.sort();
    let mut sorted = want;
    sorted.sort();
    assert_eq!(registered, sorted);
    let lowered = cluster.apply(request(&id, &[ExecutorTarget::of_default(1)]));
    assert_eq!(only(&lowered.events).why, "1; was no limit");
    let again = cluster.apply(request(&id, &[ExecutorTarget::of_default(1)]));
    assert_eq!(told(&again), [""; 0]);
}

#[test]
fn what_changes_nothing_is_noted_with_its_reason() {
    let mut cluster = cluster();
    let id = cluster.submit("s1", driver(1, 64));
    let replayed = cluster.apply(submit("s1", driver(1, 64)));
    assert_eq!(told(&replayed), ["REQUEST_REPLAYED s1"]);
    assert!(only(&replayed.events).why.contains(id.as_str()));
    assert!(replayed.mutations.is_empty());
    let refused = cluster.apply(submit("s2", driver(0, 64)));
    assert_eq!(told(&refused), ["REQUEST_REFUSED s2"]);
    assert!(only(&refused.events).why.contains("cores"));
    let stale = cluster.report_driver("w1", &id, 7, exited(0));
    assert_eq!(told(&stale), [format!("REPORT_STALE {id}")]);
    let unknown = cluster.report_driver("w1", &"driver-x".into(), 1, exited(0));
    assert_eq!(told(&unknown), ["REPORT_UNKNOWN driver-x"]);
    let mut twin = worker(4, 4_096);
    twin.work_dir_id = "2".to_owned();
    let twin = cluster.register_with("w1", twin, FullReport::default());
    assert_eq!(told(&twin), ["WORKER_REFUSED w1"]);
    let other = Command::SubmitDriver {
        request: "s1".into(),
        fingerprint: interrex_core::ids::Fingerprint([9; 32]),
        spec: driver(1, 64).into(),
    };
    assert_eq!(told(&cluster.apply(other)), ["REQUEST_CONFLICT s1"]);
}

#[test]
fn a_flood_of_bad_input_is_counted_and_does_not_fill_the_log() {
    let mut cluster = cluster();
    let (mut refused, mut flood) = (0, 0);
    for round in 0..1_000 {
        let report = cluster.report_driver("w1", &"driver-x".into(), 1, exited(0));
        flood += report.events.len();
        if round % 10 == 0 {
            refused += cluster.apply(submit("s2", driver(0, 64))).events.len();
        }
    }
    assert_eq!(
        (flood, refused),
        (20, 20),
        "each kind has an allowance of its own"
    );
    let summary = cluster.tick_after(secs(10));
    assert_eq!(
        told(&summary),
        ["REQUEST_REFUSED cluster", "REPORT_UNKNOWN cluster"]
    );
    assert_eq!(summary.events[1].why, "980 more like those before");
    assert_eq!(told(&cluster.tick_after(secs(10))), [""; 0]);
    let next = cluster.report_driver("w1", &"driver-x".into(), 1, exited(0));
    assert_eq!(only(&next.events).kind, EventKind::ReportUnknown);
}

#[test]
fn a_takeover_names_the_leader_and_what_it_could_not_read() {
    let mut cluster = cluster();
    let taken = cluster.apply(Command::TakeOver {
        master: "m2".to_owned(),
        found: "40 records".to_owned(),
        quarantined: (0..12).map(|n| format!("driver `d{n}`: garbage")).collect(),
    });
    assert_eq!(told(&taken)[0], "LEADER_ELECTED m2");
    assert_eq!(taken.events.len(), 11);
    assert!(taken.events[10].why.ends_with("(and 2 more)"), "{taken:?}");
    assert!(taken.mutations.is_empty());
}

#[test]
fn forgetting_history_is_told_when_somebody_asks_for_it_only() {
    let mut cluster = cluster();
    let id = cluster.submit("s1", driver(1, 64));
    cluster.report_driver("w1", &id, 1, exited(0));
    let cleared = cluster.apply(Command::ClearCompleted { request: None });
    assert_eq!(told(&cleared), ["HISTORY_CLEARED cluster"]);
    let id = cluster.submit("s2", driver(1, 64));
    cluster.report_driver("w1", &id, 1, exited(0));
    let week = ClusterConfig::default().retained_for + secs(1);
    let trimmed = cluster.tick_after(week);
    assert!(cluster.state.driver(&id).is_none());
    assert_eq!(told(&trimmed), [""; 0]);
}

#[test]
fn a_new_leader_tells_nothing_of_what_was_told() {
    let mut cluster = cluster();
    cluster.submit("s1", driver(1, 64));
    cluster.fail_over();
    let report = cluster.honest_report("w1");
    let back = cluster.register_with("w1", worker(4, 4_096), report);
    let want = [
        "WORKER_ALIVE w1",
        "DRIVER_RUNNING ",
        "RECOVERY_ENDED cluster",
    ];
    let said = told(&back);
    assert_eq!(said.len(), want.len(), "{said:?}");
    for (said, want) in said.iter().zip(want) {
        assert!(said.starts_with(want), "{said} is not {want}");
    }
}

#[test]
fn the_end_of_recovery_says_whether_everybody_answered() {
    let mut cluster = cluster();
    cluster.fail_over();
    let answered = cluster.register("w1", worker(4, 4_096));
    let ended = answered.events.last().expect("told");
    assert_eq!(ended.kind, EventKind::RecoveryEnded);
    assert!(ended.why.contains("has answered"), "{ended:?}");
    cluster.fail_over();
    cluster.tick_after(ClusterConfig::default().recovery_timeout);
    let given_up = cluster.tick_after(secs(1));
    let ended = only(&given_up.events);
    assert_eq!(ended.kind, EventKind::RecoveryEnded);
    assert!(ended.why.contains("still silent"), "{ended:?}");
}

#[test]
fn what_could_not_be_told_is_owed_until_it_can() {
    let mut cluster = cluster();
    for _ in 0..25 {
        cluster.report_driver("w1", &"driver-x".into(), 1, exited(0));
    }
    // Too early for one more, and not the end of it.
    assert_eq!(told(&cluster.tick_after(secs(1))), [""; 0]);
    let summary = cluster.tick_after(secs(9));
    assert_eq!(only(&summary.events).why, "5 more like those before");
}

#[test]
fn a_drain_and_its_end_are_told() {
    let mut cluster = cluster();
    let drained = cluster.drain("w1", Some(60));
    assert_eq!(told(&drained), ["WORKER_DRAIN w1"]);
    let why = &only(&drained.events).why;
    assert_eq!(why, "maintenance; what runs ends in 60s");
    let moved = cluster.drain("w1", None);
    assert_eq!(only(&moved.events).why, "maintenance");
    assert_eq!(told(&cluster.drain("w1", None)), [""; 0]);
    assert_eq!(told(&cluster.undrain("w1")), ["WORKER_UNDRAIN w1"]);
}
