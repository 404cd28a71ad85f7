//! Launches and kills.

use super::*;
use crate::worker::WORK_MAX;

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
            heartbeat(1, &[e(1), e(2), e(3)]),
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
        (
            with_gpu("7"),
            WorkKey::executor("a1", 1),
            "it can never fit: gpu 7 is not offered",
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

fn with_gpu(address: &str) -> Body {
    let Body::LaunchExecutor(order) = launch_executor("a1", 1, 1) else {
        panic!("not a launch")
    };
    let gpu = ResourceAddresses {
        name: "gpu".to_owned(),
        addresses: vec![address.to_owned()],
    };
    Body::LaunchExecutor(LaunchExecutor {
        resources: vec![gpu],
        ..order
    })
}

#[test]
fn an_address_of_a_resource_is_never_used_twice() {
    let mut machine = attached();
    let second = || {
        let Body::LaunchExecutor(order) = with_gpu("0") else {
            panic!("not a launch")
        };
        frame(Body::LaunchExecutor(LaunchExecutor {
            executor_id: 2,
            ..order
        }))
    };
    assert_eq!(machine.handle(frame(with_gpu("0")), at(1)).len(), 1);
    assert_eq!(machine.handle(second(), at(1)), []);
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
fn an_order_beyond_the_most_work_is_left_for_the_master_to_repeat() {
    let mut machine = attached();
    let free = |id: usize| {
        let id = u32::try_from(id).expect("few");
        let Body::LaunchExecutor(order) = launch_executor("a1", id, 0) else {
            panic!("an order")
        };
        frame(Body::LaunchExecutor(LaunchExecutor {
            memory_mib: 0,
            ..order
        }))
    };
    for id in 0..WORK_MAX {
        assert_eq!(machine.handle(free(id), at(1)).len(), 1, "started");
    }
    assert_eq!(machine.handle(free(WORK_MAX), at(1)), []);
    let first = WorkKey::executor("a1", 0);
    let _result = machine.handle(ended(&first, EndCause::Itself, 0), at(2));
    assert_eq!(machine.handle(free(WORK_MAX), at(3)).len(), 1, "started");
}
