//! The life of a driver.

use std::sync::Arc;

use interrex_core::{
    command::{Command, ProcessChange},
    config::ClusterConfig,
    effect::{Effect, WorkerOrder},
    ids::{Attempt, DriverId, Fingerprint, QueuePosition, RequestId},
    resources::Addresses,
    state::{
        driver::{Driver, DriverState, Exit},
        meta::{Created, Meta, Request},
    },
    time::Timestamp,
    transition::{Mutation, Rejection, Reply, Transition},
};

use crate::{
    specs::{app, driver, register_app, submit, supervised, worker},
    support::{Cluster, START, exited, killed, orders, secs, told},
};

const D0: &str = "driver-20261129143200-0000";

fn one_worker() -> Cluster {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(4, 4096));
    cluster
}

fn running(spec: interrex_core::spec::DriverSpec) -> (Cluster, DriverId) {
    let mut cluster = one_worker();
    let id = cluster.submit("s1", spec);
    cluster.report_driver("w1", &id, 1, ProcessChange::Running);
    (cluster, id)
}

#[test]
fn a_submission_is_recorded_placed_and_ordered_in_one_transition() {
    let mut cluster = one_worker();
    let spec = Arc::new(driver(1, 512));
    let mut transition = cluster.apply(submit("s1", driver(1, 512)));
    let stored = Arc::new(Driver {
        state: DriverState::Launching,
        attempt: Attempt(1),
        worker: Some("w1".into()),
        ..Driver::accepted(
            D0.into(),
            "s1".into(),
            spec.clone(),
            QueuePosition(0),
            Timestamp(START),
        )
    });
    let want = Transition {
        events: vec![],
        mutations: vec![
            Mutation::PutMeta(Meta {
                next_driver: 1,
                next_queue: QueuePosition(1),
                ..Meta::default()
            }),
            Mutation::PutRequest(Arc::new(Request {
                id: "s1".into(),
                fingerprint: Fingerprint([1; 32]),
                created: Created::Driver(D0.into()),
                at: Timestamp(START),
            })),
            Mutation::PutDriver(stored.clone()),
        ],
        effects: vec![Effect::Worker {
            worker: "w1".into(),
            order: WorkerOrder::LaunchDriver {
                driver: D0.into(),
                attempt: Attempt(1),
                spec,
                resources: Addresses::new(),
            },
        }],
        reply: Reply::DriverSubmitted {
            driver: stored,
            replayed: false,
        },
    };
    let accepted = ["DRIVER_SUBMITTED", "DRIVER_LAUNCHING"].map(|kind| format!("{kind} {D0}"));
    assert_eq!(told(&transition), accepted);
    transition.events.clear();
    assert_eq!(transition, want);
}

#[test]
fn a_repeated_submission_gets_the_same_driver() {
    let mut cluster = one_worker();
    let id = cluster.submit("s1", driver(1, 512));
    let again = cluster.apply(submit("s1", driver(1, 512)));
    let want = Reply::DriverSubmitted {
        driver: cluster.driver(&id),
        replayed: true,
    };
    assert_eq!(again.reply, want);
    assert!(again.mutations.is_empty() && again.effects.is_empty());
}

#[test]
fn another_body_under_the_same_id_is_a_conflict() {
    let mut cluster = one_worker();
    cluster.submit("s1", driver(1, 512));
    let application = cluster.register_app("a1", app(1, None, None));
    let other = Command::SubmitDriver {
        request: "s1".into(),
        fingerprint: Fingerprint([2; 32]),
        spec: Arc::new(driver(2, 512)),
    };
    let conflict = |id: &str, created: &str| {
        Reply::Rejected(Rejection::Conflict {
            id: RequestId::from(id),
            created: created.to_owned(),
        })
    };
    assert_eq!(cluster.apply(other).reply, conflict("s1", D0));
    let reply = cluster.apply(submit("a1", driver(1, 1))).reply;
    assert_eq!(reply, conflict("a1", application.as_str()));
    let reply = cluster.apply(register_app("s1", app(1, None, None))).reply;
    assert_eq!(reply, conflict("s1", D0));
}

#[test]
fn a_driver_runs_and_finishes() {
    let (mut cluster, id) = running(driver(1, 512));
    assert_eq!(cluster.driver(&id).state, DriverState::Running);
    assert_eq!(cluster.driver(&id).started_at, Some(Timestamp(START)));
    cluster.now += 5_000;
    let done = cluster.report_driver("w1", &id, 1, exited(0));
    assert_eq!(orders(&done), ["w1: acknowledge 1"]);
    let driver = cluster.driver(&id);
    assert_eq!(driver.state, DriverState::Finished);
    assert_eq!(driver.finished_at, Some(Timestamp(START + 5_000)));
    assert_eq!(cluster.state.usage(&"w1".into()).drivers, 0);
}

#[test]
fn an_unsupervised_driver_fails_with_its_exit_code_or_signal() {
    let (mut cluster, id) = running(driver(1, 512));
    cluster.report_driver("w1", &id, 1, exited(3));
    let driver = cluster.driver(&id);
    assert_eq!(
        (driver.state, driver.message.as_str()),
        (DriverState::Failed, "exit code 3")
    );
    let signal = Exit {
        code: None,
        signal: Some(9),
    };
    let id = cluster.submit("s2", crate::specs::driver(1, 1));
    cluster.report_driver("w1", &id, 1, ProcessChange::Exited(signal));
    let driver = cluster.driver(&id);
    assert_eq!(
        (driver.state, driver.message.as_str()),
        (DriverState::Failed, "ended by signal 9")
    );
}

#[test]
fn a_driver_that_cannot_start_is_an_error_with_the_reason() {
    let mut cluster = one_worker();
    let id = cluster.submit("s1", driver(1, 512));
    let reason = "no such file: /bin/nothing";
    cluster.report_driver("w1", &id, 1, ProcessChange::Failed(reason.to_owned()));
    let driver = cluster.driver(&id);
    assert_eq!(
        (driver.state, driver.message.as_str()),
        (DriverState::Error, reason)
    );
}

#[test]
fn a_supervised_driver_backs_off_doubling_and_keeps_its_id() {
    let (mut cluster, id) = running(supervised(1, 512));
    for (attempt, wait) in [(1, 1), (2, 2), (3, 4), (4, 8)] {
        cluster.report_driver("w1", &id, attempt, exited(1));
        let driver = cluster.driver(&id);
        assert_eq!(driver.state, DriverState::Relaunching);
        assert_eq!(
            driver.not_before,
            Some(Timestamp(cluster.now + wait * 1_000))
        );
        cluster.now += wait * 1_000 - 1;
        assert!(cluster.apply(Command::Tick).effects.is_empty());
        cluster.now += 1;
        let tick = cluster.apply(Command::Tick);
        assert_eq!(orders(&tick), [format!("w1: launch {id}/{}", attempt + 1)]);
    }
    assert_eq!(cluster.driver(&id).failures, 4);
}

#[test]
fn a_run_of_a_minute_starts_the_back_off_anew() {
    let (mut cluster, id) = running(supervised(1, 512));
    cluster.report_driver("w1", &id, 1, exited(1));
    cluster.tick_after(secs(1));
    cluster.report_driver("w1", &id, 2, ProcessChange::Running);
    cluster.now += 60_000;
    cluster.report_driver("w1", &id, 2, exited(1));
    let driver = cluster.driver(&id);
    assert_eq!(
        (driver.failures, driver.not_before),
        (1, Some(Timestamp(cluster.now + 1_000)))
    );
}

#[test]
fn a_waiting_driver_is_killed_at_once() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    let id = cluster.submit("s1", driver(1, 512));
    let reply = cluster
        .apply(Command::Kill {
            request: None,
            id: id.to_string(),
        })
        .reply;
    let want = Reply::DriverKilled {
        driver: cluster.driver(&id),
        already_over: false,
    };
    assert_eq!(reply, want);
    assert_eq!(cluster.driver(&id).state, DriverState::Killed);
    cluster.register("w1", worker(4, 4096));
    assert!(orders(&cluster.last).is_empty());
}

#[test]
fn a_kill_is_repeated_until_the_worker_answers() {
    let (mut cluster, id) = running(driver(1, 512));
    let kill = [format!("w1: kill {id}/1")];
    // By submission id.
    let transition = cluster.apply(Command::Kill {
        request: None,
        id: "s1".to_owned(),
    });
    assert_eq!(orders(&transition), kill);
    assert!(cluster.driver(&id).kill_requested);
    assert!(orders(&cluster.tick_after(secs(0))).is_empty());
    assert_eq!(orders(&cluster.tick_after(secs(1))), kill);
    assert_eq!(orders(&cluster.tick_after(secs(1))), kill);
    cluster.report_driver("w1", &id, 1, killed());
    assert_eq!(cluster.driver(&id).state, DriverState::Killed);
    // Asked for: nobody must read that the worker did it of its own accord.
    assert_eq!(cluster.driver(&id).message, "ended by signal 15");
    assert!(orders(&cluster.tick_after(secs(5))).is_empty());
    let again = cluster.apply(Command::Kill {
        request: None,
        id: id.to_string(),
    });
    assert!(matches!(
        again.reply,
        Reply::DriverKilled {
            already_over: true,
            ..
        }
    ));
    assert!(again.mutations.is_empty());
}

#[test]
fn a_kill_ends_a_supervised_driver_however_it_exits() {
    for (change, want) in [
        (exited(1), DriverState::Killed),
        (exited(0), DriverState::Finished),
        (ProcessChange::Failed("x".to_owned()), DriverState::Killed),
    ] {
        let (mut cluster, id) = running(supervised(1, 512));
        cluster.apply(Command::Kill {
            request: None,
            id: id.to_string(),
        });
        cluster.report_driver("w1", &id, 1, change);
        assert_eq!(cluster.driver(&id).state, want);
    }
}

#[test]
fn killing_what_does_not_exist_says_so() {
    let mut cluster = one_worker();
    let kill = Command::Kill {
        request: None,
        id: "nobody".to_owned(),
    };
    let want = Rejection::NotFound {
        id: "nobody".to_owned(),
    };
    assert_eq!(cluster.apply(kill).reply, Reply::Rejected(want));
}

#[test]
fn all_drivers_are_killed_together() {
    let mut cluster = one_worker();
    let ids: Vec<_> = (0..6)
        .map(|n| cluster.submit(&format!("s{n}"), driver(1, 1)))
        .collect();
    let transition = cluster.apply(Command::KillAllDrivers { request: None });
    assert_eq!(transition.reply, Reply::Count(6));
    assert_eq!(orders(&transition).len(), 4);
    assert_eq!(cluster.driver(&ids[5]).state, DriverState::Killed);
}

#[test]
fn history_is_bounded_and_requests_outlive_it() {
    let mut cluster = Cluster::new(ClusterConfig {
        retained_drivers: 2,
        ..ClusterConfig::default()
    });
    cluster.register("w1", worker(4, 4096));
    let ids: Vec<_> = (0..4)
        .map(|n| {
            cluster.now += 1;
            let id = cluster.submit(&format!("s{n}"), driver(1, 1));
            cluster.report_driver("w1", &id, 1, exited(0));
            id
        })
        .collect();
    cluster.tick_after(secs(1));
    assert_eq!(
        cluster.state.drivers().map(|d| &d.id).collect::<Vec<_>>(),
        [&ids[2], &ids[3]]
    );
    // Gone, and yet not run again.
    let reply = cluster.apply(submit("s0", driver(1, 1))).reply;
    let gone = Rejection::NotFound {
        id: ids[0].to_string(),
    };
    assert_eq!(reply, Reply::Rejected(gone));
    assert_eq!(cluster.state.requests().count(), 4);
    cluster.tick_after(secs(3_600));
    assert_eq!(cluster.state.requests().count(), 2);
}

#[test]
fn clearing_forgets_what_is_over_and_nothing_else() {
    let mut cluster = one_worker();
    let over = cluster.submit("s1", driver(1, 1));
    let kept = cluster.submit("s2", driver(1, 1));
    cluster.report_driver("w1", &over, 1, exited(0));
    assert_eq!(
        cluster
            .apply(Command::ClearCompleted { request: None })
            .reply,
        Reply::Count(1)
    );
    assert!(cluster.state.driver(&over).is_none());
    assert!(cluster.state.driver(&kept).is_some());
    assert!(cluster.state.request(&"s1".into()).is_some());
}

#[test]
fn more_workers_than_are_looked_at_one_by_one_get_drivers_in_turn() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    for n in 0..70 {
        cluster.register(&format!("w{n:02}"), worker(3, 4096));
    }
    cluster.register("w05", worker(3, 1));
    for n in 0..140 {
        let id = cluster.submit(&format!("s{n}"), driver(1, 2));
        // All but the one that is too small.
        let turn = n % 69;
        let turn = if turn < 5 { turn } else { turn + 1 };
        let want = format!("w{turn:02}");
        assert_eq!(
            cluster.driver(&id).worker,
            Some(want.as_str().into()),
            "{n}"
        );
    }
}
