//! At most once: leases, and heartbeats that say how the worker stands.

use super::*;
use crate::process::Lease;

const LEASE_GRACE: Duration = Duration::from_secs(1);

fn at_most_once(id: &str, attempt: u32) -> Event {
    let Body::LaunchDriver(mut order) = launch_driver(id, attempt, 1) else {
        panic!("not a launch")
    };
    order.spec.as_mut().expect("a spec").at_most_once = true;
    frame(Body::LaunchDriver(order))
}

fn heard(sequence: u64) -> Event {
    frame(Body::HeartbeatAck(HeartbeatAck { sequence }))
}

/// The lease that an acknowledgement of a heartbeat of this second gives.
fn lease(sent: u64) -> Lease {
    Lease::new(UP + Duration::from_secs(sent + 10), LEASE_GRACE)
}

fn leased(key: WorkKey, lease: Lease) -> Action {
    let Action::Start(mut launch) = start(key, 1) else {
        panic!("not a start")
    };
    launch.lease = Some(lease);
    Action::Start(launch)
}

fn stopped(seconds: u64, sequence: u64) -> WorkReport {
    let exit = Some(Exit {
        code: Some(143),
        signal: None,
    });
    let outcome = Outcome {
        exit,
        ..Outcome::killed("stopped: no leader for the length of its lease; at most once")
    };
    report(sequence, &d(1), outcome, seconds)
}

/// `d1` runs under a lease until second 11, and the leader knows it.
fn running_once() -> WorkerMachine {
    let mut machine = attached();
    // Without a lease the order is not taken, and the heartbeat that gets one does not wait. The leader repeats the order.
    assert_eq!(machine.handle(at_most_once("d1", 1), at(1)), []);
    assert!(machine.is_idle());
    assert_eq!(machine.next_deadline(), Some(Duration::from_secs(1)));
    assert_eq!(machine.handle(Event::Tick, at(1)), [heartbeat(1, &[])]);
    assert_eq!(machine.handle(heard(1), at(2)), []);
    assert_eq!(
        machine.handle(at_most_once("d1", 1), at(2)),
        [leased(d(1), lease(1))]
    );
    let told = report(FIRST, &d(1), Outcome::running(), 2);
    assert_eq!(
        machine.handle(started(&d(1)), at(2)),
        [Action::Report(told)]
    );
    assert_eq!(machine.handle(ack(FIRST), at(2)), []);
    machine
}

#[test]
fn it_goes_on_as_long_as_heartbeats_are_acknowledged() {
    let mut machine = running_once();
    let holds = [d(1)];
    for (sequence, second) in [(2, 6), (3, 11), (4, 16)] {
        assert_eq!(
            machine.handle(Event::Tick, at(second)),
            [heartbeat(sequence, &holds)]
        );
        assert_eq!(
            machine.handle(heard(sequence), at(second)),
            [Action::Renew(lease(second))]
        );
    }
}

#[test]
fn it_is_ended_when_the_lease_is_over_and_said_to_have_been_killed() {
    let mut machine = running_once();
    let gone = Event::Detached {
        reason: "gone".to_owned(),
    };
    assert_eq!(machine.handle(gone, at(3)), []);
    assert_eq!(machine.next_deadline(), Some(Duration::from_secs(11)));
    assert_eq!(
        machine.handle(Event::Tick, at(11)),
        [Action::Kill {
            key: d(1),
            grace: LEASE_GRACE
        }]
    );
    assert_eq!(
        machine.handle(ended(&d(1), EndCause::Order, 143), at(12)),
        [Action::Store(stopped(12, FIRST + 1))]
    );
}

#[test]
fn what_may_run_twice_goes_on_without_a_leader() {
    let mut machine = running();
    let gone = Event::Detached {
        reason: "gone".to_owned(),
    };
    assert_eq!(machine.handle(gone, at(3)), []);
    assert_eq!(machine.next_deadline(), None);
    assert_eq!(machine.handle(Event::Tick, at(36_000)), []);
    assert_eq!(machine.usage().running, 1);
}

#[test]
fn an_acknowledgement_that_was_late_gives_nothing() {
    let mut machine = running_once();
    assert_eq!(machine.handle(Event::Tick, at(6)), [heartbeat(2, &[d(1)])]);
    // The process was stopped, or the machine suspended: nothing was heard until second 17.
    assert_eq!(
        machine.handle(heard(2), at(17)),
        [Action::Kill {
            key: d(1),
            grace: LEASE_GRACE
        }]
    );
}

#[test]
fn an_end_that_the_supervisor_saw_to_is_told_in_the_same_words() {
    let mut machine = running_once();
    // The machine's own look comes first, and changes nothing.
    let actions = machine.handle(ended(&d(1), EndCause::LeaseOver, 143), at(17));
    assert_eq!(actions.last(), Some(&Action::Store(stopped(17, FIRST + 1))));
    // A program that was faster keeps its outcome.
    let mut machine = running_once();
    let actions = machine.handle(ended(&d(1), EndCause::Itself, 0), at(17));
    let true_end = report(FIRST + 1, &d(1), exited(0), 17);
    assert_eq!(actions.last(), Some(&Action::Store(true_end)));
}

#[test]
fn a_start_that_came_too_late_for_its_lease_never_ran() {
    let mut machine = attached();
    let _too_early = machine.handle(at_most_once("d1", 1), at(1));
    let _beats = machine.handle(Event::Tick, at(1));
    let _lease = machine.handle(heard(1), at(1));
    let _starts = machine.handle(at_most_once("d1", 1), at(1));
    let too_late = ProcessEvent::NotStarted {
        key: d(1),
        message: "its lease was over before it could be started".to_owned(),
    };
    let outcome = Outcome::killed("stopped: no leader for the length of its lease; at most once");
    assert_eq!(
        machine.handle(Event::Process(too_late), at(30)).last(),
        Some(&Action::Store(report(FIRST, &d(1), outcome, 30)))
    );
}

#[test]
fn a_leader_that_gives_no_lease_gets_no_such_attempt_started() {
    let mut machine = attached();
    let none = Registered {
        cluster_id: "c1".to_owned(),
        ..Registered::default()
    };
    let attached_again = Event::Attached {
        epoch: 5,
        master: "m:1".to_owned(),
        registered: Box::new(none),
    };
    assert_eq!(machine.handle(attached_again, at(0)), []);
    assert_eq!(machine.handle(at_most_once("d1", 1), at(1)), []);
    let _beats = machine.handle(Event::Tick, at(1));
    assert_eq!(machine.handle(heard(1), at(1)), []);
    assert_eq!(machine.handle(at_most_once("d1", 1), at(2)), []);
    assert!(machine.is_idle());
}

/// The masters may have started it elsewhere while there was no lease; only a repeated order says that they have not.
#[test]
fn an_order_that_was_waiting_when_the_lease_ended_counts_no_more() {
    let mut machine = running_once();
    // It waits for the room that `big` takes.
    let _starts = machine.handle(frame(launch_driver("big", 1, 3)), at(3));
    assert_eq!(machine.handle(at_most_once("d2", 1), at(3)), []);
    let _ended = machine.handle(Event::Tick, at(12));
    let key = WorkKey::driver("d2", 1);
    assert!(
        machine
            .view()
            .processes
            .iter()
            .all(|process| process.work != key)
    );
    let _beats = machine.handle(Event::Tick, at(17));
    assert_eq!(
        machine.handle(heard(3), at(17)),
        [],
        "a new lease starts nothing by itself"
    );
}

#[test]
fn the_digest_holds_an_attempt_from_its_order_until_its_end_is_acknowledged() {
    let mut machine = running();
    let e1 = WorkKey::executor("a1", 1);
    let _starts = machine.handle(frame(launch_executor("a1", 1, 1)), at(2));
    // It waits: taken, though not started.
    let e2 = WorkKey::executor("a1", 2);
    let _waits = machine.handle(frame(launch_executor("a1", 2, 4)), at(2));
    let all = [d(1), e1.clone(), e2.clone()];
    assert_eq!(machine.handle(Event::Tick, at(5)), [heartbeat(1, &all)]);
    let _result = machine.handle(ended(&d(1), EndCause::Itself, 0), at(6));
    let _sent = machine.handle(stored(FIRST + 1), at(6));
    assert_eq!(machine.handle(Event::Tick, at(10))[0], heartbeat(2, &all));
    let _forgets = machine.handle(ack(FIRST + 1), at(11));
    assert_eq!(
        machine.handle(Event::Tick, at(15)),
        [heartbeat(3, &[e1, e2])]
    );
}

#[test]
fn a_worker_without_room_on_its_disk_says_so_and_refuses_launches_in_words() {
    let mut machine = running();
    let full = Event::Disk {
        trouble: Some("disk: 3 MiB are left".to_owned()),
    };
    assert_eq!(machine.handle(full, at(2)), []);
    // At once, not at the next interval.
    assert_eq!(machine.next_deadline(), Some(Duration::from_secs(2)));
    let Some(Action::Heartbeat(told)) = machine.handle(Event::Tick, at(2)).pop() else {
        panic!("no heartbeat")
    };
    assert_eq!(told.not_accepting, "disk: 3 MiB are left");
    let refused = Outcome::killed("not accepting new work: disk: 3 MiB are left");
    assert_eq!(
        machine.handle(frame(launch_driver("d2", 1, 1)), at(3)),
        [Action::Store(report(
            FIRST + 1,
            &WorkKey::driver("d2", 1),
            refused,
            3
        ))]
    );
    // What it runs is told again as before: a repeat is no new work.
    let told = report(FIRST + 2, &d(1), Outcome::running(), 3);
    assert_eq!(
        machine.handle(frame(launch_driver("d1", 1, 1)), at(3)),
        [Action::Report(told)]
    );
    let _better = machine.handle(Event::Disk { trouble: None }, at(4));
    let d3 = WorkKey::driver("d3", 1);
    assert_eq!(
        machine.handle(frame(launch_driver("d3", 1, 1)), at(4)),
        [start(d3, 1)]
    );
}
