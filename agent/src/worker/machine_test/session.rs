//! Registration, clusters, epochs and former lives.

use interrex_proto::{
    limits,
    v1::{MasterAddress, Masters, SparkDictionary},
};
use prost::Message;

use super::*;
use crate::{outbox::REPORTS_MAX, worker::WORK_MAX};

#[test]
fn an_order_of_an_older_epoch_is_refused_and_a_newer_epoch_is_on_disk_first() {
    let mut machine = attached();
    let old = Event::Frame {
        epoch: 4,
        body: Box::new(launch_driver("d1", 1, 1)),
    };
    let frame_name = "launch_driver".to_owned();
    assert_eq!(
        machine.handle(old, at(1)),
        [Action::Stale(StaleEpoch {
            seen: 5,
            refused: 4,
            frame: frame_name
        })]
    );
    let new = Event::Frame {
        epoch: 7,
        body: Box::new(launch_driver("d1", 1, 1)),
    };
    let actions = machine.handle(new, at(1));
    assert!(
        matches!(actions.as_slice(), [Action::PersistEpoch(7), Action::Start(launch)] if launch.epoch == 7),
        "{actions:?}"
    );
}

#[test]
fn a_registration_names_everything_that_runs_and_every_unacknowledged_report() {
    let mut machine = running();
    let _actions = machine.handle(frame(launch_executor("a1", 4, 2)), at(2));
    let _actions = machine.handle(frame(launch_executor("a1", 5, 4)), at(2));
    let _actions = machine.handle(frame(kill("d9", 1)), at(3));
    let outcome = Outcome::killed("nothing of it runs on this worker");
    let expected = RegisterWorker {
        number: FIRST + 2,
        seen_epoch: Some(5),
        dictionaries: Vec::new(),
        cluster_id: "c1".to_owned(),
        spec: Some(spec()),
        drivers: vec![RunningDriver {
            driver_id: "d1".to_owned(),
            attempt: 1,
            started_at_ms: 1_000,
        }],
        executors: vec![RunningExecutor {
            app_id: "a1".to_owned(),
            executor_id: 4,
            cores: 2,
            memory_mib: 512,
            started_at_ms: 0,
        }],
        unacknowledged: vec![report(FIRST + 1, &WorkKey::driver("d9", 1), outcome, 3)],
    };
    let stream = StreamId::new(9);
    assert_eq!(
        machine.handle(Event::RegistrationWanted { stream, seen: 5 }, at(4)),
        [Action::Register {
            stream,
            registration: Box::new(expected)
        }]
    );
}

#[test]
fn registering_again_at_any_time_says_the_same_and_changes_nothing() {
    let mut ended_meanwhile = running();
    let _result = ended_meanwhile.handle(ended(&d(1), EndCause::Itself, 0), at(2));
    let mut ending = running();
    let _kill = ending.handle(frame(kill("d1", 1)), at(2));
    for mut machine in [attached(), running(), ended_meanwhile, ending] {
        let want = |stream| Event::RegistrationWanted {
            stream: StreamId::new(stream),
            seen: 5,
        };
        let first = machine.handle(want(1), at(3));
        let before = machine.clone();
        for stream in 2..5 {
            let again = machine.handle(want(stream), at(3));
            let [
                Action::Register {
                    registration: a, ..
                },
                Action::Register {
                    registration: b, ..
                },
            ] = [&first[0], &again[0]]
            else {
                panic!("{again:?}")
            };
            assert!(
                b.number > a.number,
                "a later one is told from an earlier one"
            );
            let mut b = b.clone();
            b.number = a.number;
            assert_eq!(*a, b);
            let actions = machine.handle(attached_event(5), at(3));
            assert!(
                !actions
                    .iter()
                    .any(|it| matches!(it, Action::Kill { .. } | Action::Start(_))),
                "{actions:?}"
            );
        }
        assert_eq!(machine.view().processes, before.view().processes);
        assert_eq!(machine.usage(), before.usage());
    }
}

#[test]
fn attaching_again_and_again_does_not_multiply_heartbeats() {
    let mut machine = attached();
    for second in 1..4 {
        assert_eq!(machine.handle(attached_event(5), at(second)), []);
    }
    let mut beats = 0;
    for second in 4..24 {
        beats += machine.handle(Event::Tick, at(second)).len();
    }
    // One every 5 s.
    assert_eq!(beats, 4);
}

#[test]
fn another_cluster_is_not_obeyed_and_the_first_one_is_remembered() {
    let mut fresh = WorkerMachine::new(
        MachineOptions {
            cluster_id: String::new(),
            ..options()
        },
        FIRST,
        Vec::new(),
        Vec::new(),
    );
    let actions = fresh.handle(attached_event(5), at(0));
    assert_eq!(actions, [Action::PersistCluster("c1".to_owned())]);

    let mut machine = WorkerMachine::new(
        MachineOptions {
            cluster_id: "c2".to_owned(),
            ..options()
        },
        FIRST,
        Vec::new(),
        Vec::new(),
    );
    assert_eq!(machine.handle(attached_event(5), at(0)), []);
    assert!(!machine.is_attached());
    let refusals = machine.view().refusals;
    assert!(refusals["m:1"].contains("cluster c1"), "{refusals:?}");
}

#[test]
fn the_masters_that_the_leader_names_are_written_down_once_and_given_to_what_is_started() {
    let named = |addresses: &[&str]| {
        let masters = addresses.iter().map(|rpc| MasterAddress {
            rpc: (*rpc).to_owned(),
            ..MasterAddress::default()
        });
        let masters = masters.collect();
        frame(Body::Masters(Masters { masters }))
    };
    let mut machine = attached();
    let new = vec!["m:2".to_owned(), "m:3".to_owned()];
    assert_eq!(
        machine.handle(named(&["m:2", "", "m:3"]), at(1)),
        [Action::PersistMasters(new.clone())]
    );
    assert_eq!(machine.handle(named(&["m:2", "m:3"]), at(2)), []);
    assert_eq!(machine.handle(named(&[]), at(2)), []);
    let actions = machine.handle(frame(launch_driver("d1", 1, 1)), at(3));
    assert!(
        matches!(actions.as_slice(), [Action::Start(launch)] if launch.masters == new),
        "{actions:?}"
    );
}

#[test]
fn attempts_of_a_former_life_hold_their_cores_until_they_are_gone_and_are_then_reported() {
    let former = |key: WorkKey| AttemptRecord {
        key,
        token: "t".to_owned(),
        cores: 2,
        memory_mib: 512,
        started_at_ms: 7,
        resources: BTreeMap::new(),
    };
    let e1 = WorkKey::executor("a1", 1);
    let records = vec![former(d(1)), former(e1.clone())];
    let mut machine = WorkerMachine::new(options(), FIRST, Vec::new(), records);
    let _actions = machine.handle(attached_event(5), at(0));
    // No room, and no second attempt beside the first.
    assert_eq!(machine.handle(frame(launch_driver("d1", 2, 2)), at(1)), []);
    let gone = |key: &WorkKey| {
        Event::Process(ProcessEvent::Ended {
            key: key.clone(),
            exit: None,
            cause: EndCause::AgentGone,
        })
    };
    let words = "the agent was restarted";
    assert_eq!(
        machine.handle(gone(&e1), at(2)),
        [Action::Store(report(FIRST, &e1, Outcome::killed(words), 2))]
    );
    assert_eq!(
        machine.handle(gone(&d(1)), at(2)),
        [
            Action::Store(report(FIRST + 1, &d(1), Outcome::failed(words), 2)),
            start(d(2), 2)
        ]
    );
}

#[test]
fn the_largest_registration_fits_into_a_frame() {
    let id = "x".repeat(limits::NAME_BYTES_MAX);
    let outcome = Outcome {
        exit: Some(Exit {
            code: Some(-1),
            signal: Some(-1),
        }),
        ..Outcome::failed("é".repeat(limits::TEXT_BYTES_MAX))
    };
    let key = WorkKey::driver(&id, u32::MAX);
    let report = WorkReport {
        sequence: u64::MAX,
        body: Some(report::body(&key, outcome, u64::MAX)),
    };
    let running = RunningExecutor {
        app_id: id.clone(),
        executor_id: u32::MAX,
        cores: u32::MAX,
        memory_mib: u64::MAX,
        started_at_ms: u64::MAX,
    };
    // A larger description is refused by every master.
    let spec = WorkerSpec {
        id: "x".repeat(limits::SPEC_BYTES_MAX),
        ..WorkerSpec::default()
    };
    let build = SparkDictionary {
        line: "x".repeat(limits::NAME_BYTES_MAX),
        json: "x".repeat(limits::SPARK_DICTIONARY_BYTES_MAX),
    };
    let largest = RegisterWorker {
        cluster_id: id,
        spec: Some(spec),
        executors: vec![running; WORK_MAX],
        unacknowledged: vec![report; REPORTS_MAX + WORK_MAX],
        dictionaries: vec![build; limits::SPARK_DICTIONARIES_MAX],
        ..RegisterWorker::default()
    };
    let bytes = largest.encoded_len();
    assert!(bytes < limits::SESSION_MESSAGE_BYTES_MAX, "{bytes}");
}

/// What the session has heard of bounds what the registration may miss: from then on no older order counts.
#[test]
fn a_registration_says_which_epochs_orders_it_covers() {
    let mut machine = attached();
    let wanted = Event::RegistrationWanted {
        stream: StreamId::new(3),
        seen: 9,
    };
    let actions = machine.handle(wanted, at(1));
    let [
        Action::PersistEpoch(9),
        Action::Register { registration, .. },
    ] = actions.as_slice()
    else {
        panic!("{actions:?}")
    };
    assert_eq!(registration.seen_epoch, Some(9));
    let late = machine.handle(frame(launch_driver("d1", 1, 1)), at(2));
    assert!(
        matches!(late.as_slice(), [Action::Stale(stale)] if stale.seen == 9),
        "{late:?}"
    );
}
