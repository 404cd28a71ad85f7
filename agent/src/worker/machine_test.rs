//! One behaviour of the worker machine at a time: the whole list of actions is compared.

use std::{collections::BTreeMap, time::Duration};

use interrex_client::session::StreamId;
use interrex_proto::v1::{
    CommandLine, DriverSpec, Exit, KillDriver, KillExecutor, LaunchDriver, LaunchExecutor,
    ProcessState, RegisterWorker, Registered, ReportAck, ResourceAddresses, RunningDriver,
    RunningExecutor, StaleEpoch, WorkReport, WorkerSpec, master_frame::Body,
};

use super::{
    Action, Event, MachineOptions, Now, WorkerMachine,
    report::{self, Outcome},
};
use crate::process::{EndCause, Launch, ProcessEvent, WorkKey, record::AttemptRecord};

const GRACE: Duration = Duration::from_secs(10);
const FIRST: u64 = 100;

pub(super) fn spec() -> WorkerSpec {
    WorkerSpec {
        id: "w1".to_owned(),
        cores: 4,
        memory_mib: 4096,
        ..WorkerSpec::default()
    }
}

pub(super) fn options() -> MachineOptions {
    MachineOptions {
        spec: spec(),
        masters: vec!["m:1".to_owned()],
        cluster_id: "c1".to_owned(),
        epoch: 5,
        kill_grace: GRACE,
        launch_wait: Duration::from_secs(30),
    }
}

pub(super) fn at(seconds: u64) -> Now {
    Now {
        elapsed: Duration::from_secs(seconds),
        wall_ms: 1_000 * seconds,
    }
}

pub(super) fn attached_event(epoch: u64) -> Event {
    let registered = Registered {
        cluster_id: "c1".to_owned(),
        heartbeat_interval_ms: 5_000,
        ..Registered::default()
    };
    Event::Attached {
        epoch,
        master: "m:1".to_owned(),
        registered: Box::new(registered),
    }
}

/// A machine that a leader of epoch 5 has taken.
fn attached() -> WorkerMachine {
    let mut machine = WorkerMachine::new(options(), FIRST, Vec::new(), Vec::new());
    assert_eq!(machine.handle(attached_event(5), at(0)), []);
    machine
}

pub(super) fn command() -> CommandLine {
    CommandLine {
        program: "run".to_owned(),
        ..CommandLine::default()
    }
}

pub(super) fn launch_driver(id: &str, attempt: u32, cores: u32) -> Body {
    let spec = DriverSpec {
        command: Some(command()),
        cores,
        memory_mib: 512,
        ..DriverSpec::default()
    };
    Body::LaunchDriver(LaunchDriver {
        driver_id: id.to_owned(),
        attempt,
        spec: Some(spec),
        resources: Vec::new(),
    })
}

pub(super) fn launch_executor(app: &str, id: u32, cores: u32) -> Body {
    Body::LaunchExecutor(LaunchExecutor {
        app_id: app.to_owned(),
        executor_id: id,
        command: Some(command()),
        cores,
        memory_mib: 512,
        ..LaunchExecutor::default()
    })
}

fn kill(id: &str, attempt: u32) -> Body {
    Body::KillDriver(KillDriver {
        driver_id: id.to_owned(),
        attempt,
    })
}

fn frame(body: Body) -> Event {
    Event::Frame {
        epoch: 5,
        body: Box::new(body),
    }
}

fn ack(sequence: u64) -> Event {
    frame(Body::ReportAck(ReportAck {
        sequences: vec![sequence],
    }))
}

fn start(key: WorkKey, cores: u32) -> Action {
    Action::Start(Box::new(Launch {
        key,
        command: command(),
        epoch: 5,
        cores,
        memory_mib: 512,
        resources: BTreeMap::new(),
        masters: vec!["m:1".to_owned()],
    }))
}

fn report(sequence: u64, key: &WorkKey, outcome: Outcome, seconds: u64) -> WorkReport {
    WorkReport {
        sequence,
        body: Some(report::body(key, outcome, 1_000 * seconds)),
    }
}

fn started(key: &WorkKey) -> Event {
    Event::Process(ProcessEvent::Started {
        key: key.clone(),
        pid: 42,
    })
}

fn ended(key: &WorkKey, cause: EndCause, code: i32) -> Event {
    let exit = Some(Exit {
        code: Some(code),
        signal: None,
    });
    Event::Process(ProcessEvent::Ended {
        key: key.clone(),
        exit,
        cause,
    })
}

fn exited(code: i32) -> Outcome {
    let exit = Some(Exit {
        code: Some(code),
        signal: None,
    });
    Outcome {
        state: ProcessState::Exited,
        exit,
        message: String::new(),
    }
}

fn stored(sequence: u64) -> Event {
    Event::Stored {
        sequence,
        stored: true,
    }
}

fn d(attempt: u32) -> WorkKey {
    WorkKey::driver("d1", attempt)
}

/// Driver `d1`, attempt 1, of one core, running and acknowledged as such.
fn running() -> WorkerMachine {
    let mut machine = attached();
    assert_eq!(
        machine.handle(frame(launch_driver("d1", 1, 1)), at(1)),
        [start(d(1), 1)]
    );
    let told = report(FIRST, &d(1), Outcome::running(), 1);
    assert_eq!(
        machine.handle(started(&d(1)), at(1)),
        [Action::Report(told)]
    );
    assert_eq!(machine.handle(ack(FIRST), at(1)), []);
    machine
}

#[test]
fn a_result_is_stored_before_it_is_sent_and_kept_until_it_is_acknowledged() {
    let mut machine = running();
    let result = report(FIRST + 1, &d(1), exited(3), 2);
    let actions = machine.handle(ended(&d(1), EndCause::Itself, 3), at(2));
    assert_eq!(actions, [Action::Store(result.clone())]);
    assert_eq!(
        machine.handle(stored(FIRST + 1), at(2)),
        [Action::Report(result.clone())]
    );
    // Nobody answers: it is sent again, and again.
    assert_eq!(machine.handle(Event::Tick, at(6)), [Action::Heartbeat]);
    assert_eq!(machine.handle(Event::Tick, at(7)), [Action::Report(result)]);
    assert!(!machine.has_reported_all());
    assert_eq!(
        machine.handle(ack(FIRST + 1), at(8)),
        [Action::Forget(FIRST + 1)]
    );
    assert!(machine.has_reported_all());
    assert_eq!(machine.handle(ack(FIRST + 1), at(8)), []);
}

#[test]
fn a_result_that_the_disk_refuses_is_sent_all_the_same_and_written_again() {
    let mut machine = running();
    let result = report(FIRST + 1, &d(1), exited(0), 2);
    let _actions = machine.handle(ended(&d(1), EndCause::Itself, 0), at(2));
    let refused = Event::Stored {
        sequence: FIRST + 1,
        stored: false,
    };
    assert_eq!(
        machine.handle(refused, at(2)),
        [Action::Report(result.clone())]
    );
    assert_eq!(
        machine.handle(Event::Tick, at(7)),
        [
            Action::Heartbeat,
            Action::Store(result.clone()),
            Action::Report(result)
        ]
    );
}

#[test]
fn a_result_is_kept_while_there_is_no_master() {
    let mut machine = running();
    let _actions = machine.handle(
        Event::Detached {
            reason: "gone".to_owned(),
        },
        at(2),
    );
    let result = report(FIRST + 1, &d(1), exited(3), 3);
    let _actions = machine.handle(ended(&d(1), EndCause::Itself, 3), at(3));
    assert_eq!(machine.handle(stored(FIRST + 1), at(3)), []);
    assert_eq!(machine.handle(Event::Tick, at(3_600)), []);
    assert_eq!(
        machine.handle(attached_event(6), at(7_200)),
        [Action::PersistEpoch(6), Action::Report(result)]
    );
}

#[test]
fn a_repeated_launch_starts_nothing_and_the_state_is_told_again() {
    let mut machine = running();
    let again = || frame(launch_driver("d1", 1, 1));
    let told = report(FIRST + 1, &d(1), Outcome::running(), 2);
    assert_eq!(
        machine.handle(again(), at(2)),
        [Action::Report(told.clone())]
    );
    assert_eq!(machine.handle(again(), at(3)), [Action::Report(told)]);

    // Ended, not acknowledged.
    let result = report(FIRST + 2, &d(1), exited(0), 4);
    let actions = machine.handle(ended(&d(1), EndCause::Itself, 0), at(4));
    assert_eq!(actions, [Action::Store(result.clone())]);
    let _actions = machine.handle(stored(FIRST + 2), at(4));
    assert_eq!(machine.handle(again(), at(4)), [Action::Report(result)]);

    // Ended and acknowledged.
    assert_eq!(
        machine.handle(ack(FIRST + 2), at(5)),
        [Action::Forget(FIRST + 2)]
    );
    let retold = report(FIRST + 3, &d(1), exited(0), 4);
    assert_eq!(machine.handle(again(), at(5)), [Action::Store(retold)]);
}

#[test]
fn a_higher_attempt_starts_only_when_the_smaller_one_is_gone() {
    let mut machine = running();
    assert_eq!(
        machine.handle(frame(launch_driver("d1", 2, 1)), at(2)),
        [Action::Kill {
            key: d(1),
            grace: GRACE
        }]
    );
    let superseded = Outcome {
        state: ProcessState::Killed,
        exit: Some(Exit {
            code: Some(143),
            signal: None,
        }),
        message: "superseded by a later attempt".to_owned(),
    };
    assert_eq!(
        machine.handle(ended(&d(1), EndCause::Order, 143), at(3)),
        [
            Action::Store(report(FIRST + 1, &d(1), superseded, 3)),
            start(d(2), 1)
        ]
    );
}

#[test]
fn a_smaller_attempt_than_a_known_one_is_never_started() {
    let mut machine = running();
    let _actions = machine.handle(frame(launch_driver("d1", 3, 1)), at(2));
    let outcome = Outcome::killed("superseded: attempt 3 was ordered before");
    assert_eq!(
        machine.handle(frame(launch_driver("d1", 2, 1)), at(2)),
        [Action::Store(report(FIRST + 1, &d(2), outcome, 2))]
    );
}

#[test]
fn a_kill_ends_the_named_attempt_and_says_so_when_it_is_gone() {
    let mut machine = running();
    assert_eq!(
        machine.handle(frame(kill("d1", 1)), at(2)),
        [Action::Kill {
            key: d(1),
            grace: GRACE
        }]
    );
    assert_eq!(machine.handle(frame(kill("d1", 1)), at(2)), []);
    let killed = Outcome {
        state: ProcessState::Killed,
        exit: Some(Exit {
            code: Some(143),
            signal: None,
        }),
        message: "killed by order".to_owned(),
    };
    assert_eq!(
        machine.handle(ended(&d(1), EndCause::Order, 143), at(3)),
        [Action::Store(report(FIRST + 1, &d(1), killed, 3))]
    );
}

#[test]
fn a_program_that_ended_before_the_kill_reached_it_keeps_its_true_outcome() {
    let mut machine = running();
    let _actions = machine.handle(frame(kill("d1", 1)), at(2));
    assert_eq!(
        machine.handle(ended(&d(1), EndCause::Itself, 0), at(2)),
        [Action::Store(report(FIRST + 1, &d(1), exited(0), 2))]
    );
}

#[test]
fn a_kill_of_something_unknown_is_answered() {
    let mut machine = attached();
    let outcome = || Outcome::killed("nothing of it runs on this worker");
    assert_eq!(
        machine.handle(frame(kill("d9", 1)), at(1)),
        [Action::Store(report(
            FIRST,
            &WorkKey::driver("d9", 1),
            outcome(),
            1
        ))]
    );
    let order = KillExecutor {
        app_id: "a1".to_owned(),
        executor_id: 7,
    };
    assert_eq!(
        machine.handle(frame(Body::KillExecutor(order)), at(1)),
        [Action::Store(report(
            FIRST + 1,
            &WorkKey::executor("a1", 7),
            outcome(),
            1
        ))]
    );
}

#[test]
fn a_launch_that_does_not_fit_waits_for_room_and_fails_at_its_deadline() {
    let mut machine = attached();
    let e = |id| WorkKey::executor("a1", id);
    assert_eq!(
        machine.handle(frame(launch_executor("a1", 1, 3)), at(1)),
        [start(e(1), 3)]
    );
    assert_eq!(
        machine.handle(frame(launch_executor("a1", 2, 2)), at(1)),
        []
    );
    assert_eq!(
        machine.handle(frame(launch_executor("a1", 3, 1)), at(1)),
        [start(e(3), 1)]
    );
    let lost = Outcome::failed("no");
    let not_started = ProcessEvent::NotStarted {
        key: e(3),
        message: "no".to_owned(),
    };
    assert_eq!(
        machine.handle(Event::Process(not_started), at(2)),
        [Action::Store(report(FIRST, &e(3), lost, 2))]
    );
    let late = Outcome::failed("not started within 30 s: 5 cores would be in use, 4 are offered");
    assert_eq!(
        machine.handle(Event::Tick, at(31)),
        [
            Action::Heartbeat,
            Action::Store(report(FIRST + 1, &e(2), late, 31))
        ]
    );
}

#[test]
fn room_that_a_killed_process_leaves_is_used_only_when_it_is_gone() {
    let mut machine = attached();
    let e = |id| WorkKey::executor("a1", id);
    let _actions = machine.handle(frame(launch_executor("a1", 1, 4)), at(1));
    let order = KillExecutor {
        app_id: "a1".to_owned(),
        executor_id: 1,
    };
    let _actions = machine.handle(frame(Body::KillExecutor(order)), at(2));
    assert_eq!(
        machine.handle(frame(launch_executor("a1", 2, 4)), at(2)),
        []
    );
    let actions = machine.handle(ended(&e(1), EndCause::Order, 0), at(3));
    assert_eq!(actions.last(), Some(&start(e(2), 4)));
    assert_eq!(machine.usage().cores_used, 4);
}

#[test]
fn what_can_never_run_fails_at_once() {
    let mut machine = attached();
    let cases = [
        (
            launch_driver("d1", 1, 5),
            d(1),
            "it can never fit: 5 cores would be in use, 4 are offered",
        ),
        (
            launch_driver("../d", 1, 1),
            WorkKey::driver("../d", 1),
            "driver id \"../d\" is not usable as a directory name: use 1 to 200 letters, digits, \
             '.', '_' and '-', the first of them a letter or a digit",
        ),
        (
            Body::LaunchDriver(LaunchDriver {
                driver_id: "d2".to_owned(),
                attempt: 1,
                ..LaunchDriver::default()
            }),
            WorkKey::driver("d2", 1),
            "field `spec.command` is missing",
        ),
    ];
    for (sequence, (body, key, message)) in (FIRST..).zip(cases) {
        assert_eq!(
            machine.handle(frame(body), at(1)),
            [Action::Store(report(
                sequence,
                &key,
                Outcome::failed(message),
                1
            ))]
        );
    }
}

#[test]
fn an_address_of_a_resource_is_never_used_twice() {
    let mut machine = attached();
    let with_gpu = |id| {
        let Body::LaunchExecutor(mut order) = launch_executor("a1", id, 1) else {
            panic!("not a launch")
        };
        let addresses = vec!["0".to_owned()];
        order.resources = vec![ResourceAddresses {
            name: "gpu".to_owned(),
            addresses,
        }];
        frame(Body::LaunchExecutor(order))
    };
    assert_eq!(machine.handle(with_gpu(1), at(1)).len(), 1);
    assert_eq!(machine.handle(with_gpu(2), at(1)), []);
    let actions = machine.handle(
        ended(&WorkKey::executor("a1", 1), EndCause::Itself, 0),
        at(2),
    );
    assert!(
        matches!(actions.as_slice(), [Action::Store(_), Action::Start(_)]),
        "{actions:?}"
    );
}

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
        machine.handle(Event::RegistrationWanted { stream }, at(4)),
        [Action::Register {
            stream,
            registration: Box::new(expected)
        }]
    );
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
fn attempts_of_a_former_life_hold_their_cores_until_they_are_gone_and_are_then_reported() {
    let former = |key: WorkKey| AttemptRecord {
        key,
        token: "t".to_owned(),
        cores: 2,
        memory_mib: 512,
        started_at_ms: 7,
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
fn results_of_a_former_life_are_sent_and_their_attempts_not_reported_again() {
    let result = report(7, &d(1), exited(3), 1);
    let record = AttemptRecord {
        key: d(1),
        token: "t".to_owned(),
        cores: 2,
        memory_mib: 512,
        started_at_ms: 7,
    };
    let mut machine = WorkerMachine::new(options(), FIRST, vec![result.clone()], vec![record]);
    assert!(machine.is_idle());
    assert_eq!(
        machine.handle(attached_event(5), at(0)),
        [Action::Report(result)]
    );
}

#[test]
fn a_report_that_the_session_had_no_room_for_is_sent_soon_after() {
    let mut machine = attached();
    let _actions = machine.handle(frame(launch_driver("d1", 1, 1)), at(1));
    let told = report(FIRST, &d(1), Outcome::running(), 1);
    assert_eq!(
        machine.handle(started(&d(1)), at(1)),
        [Action::Report(told.clone())]
    );
    assert_eq!(
        machine.handle(Event::NotSent { sequence: FIRST }, at(1)),
        []
    );
    assert_eq!(machine.next_deadline(), Some(Duration::from_millis(1_200)));
    assert_eq!(machine.handle(Event::Tick, at(2)), [Action::Report(told)]);
}

#[test]
fn an_orderly_stop_ends_everything_and_takes_nothing_new() {
    let mut machine = running();
    assert_eq!(
        machine.handle(Event::Stop, at(2)),
        [Action::Kill {
            key: d(1),
            grace: GRACE
        }]
    );
    let e1 = WorkKey::executor("a1", 1);
    let words = "the agent was stopped";
    assert_eq!(
        machine.handle(frame(launch_executor("a1", 1, 1)), at(2)),
        [Action::Store(report(
            FIRST + 1,
            &e1,
            Outcome::killed(words),
            2
        ))]
    );
    let exit = Some(Exit {
        code: Some(143),
        signal: None,
    });
    let outcome = Outcome {
        exit,
        ..Outcome::failed(words)
    };
    assert_eq!(
        machine.handle(ended(&d(1), EndCause::Order, 143), at(3)),
        [Action::Store(report(FIRST + 2, &d(1), outcome, 3))]
    );
    assert!(machine.is_idle());
}
