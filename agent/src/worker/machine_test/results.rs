//! Results: stored, sent, repeated, acknowledged.

use super::*;

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
    assert_eq!(machine.handle(Event::Tick, at(6)), [heartbeat(1, &[d(1)])]);
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
            heartbeat(1, &[d(1)]),
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
fn results_of_a_former_life_are_sent_and_their_attempts_not_reported_again() {
    let result = report(7, &d(1), exited(3), 1);
    let record = AttemptRecord {
        key: d(1),
        token: "t".to_owned(),
        cores: 2,
        memory_mib: 512,
        started_at_ms: 7,
        resources: BTreeMap::new(),
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
