//! Every event in every state of a driver.

use std::sync::Arc;

use super::*;
use crate::{
    ids::QueuePosition,
    resources::{Amounts, Cores, MemoryMib},
    spec::{DriverPayload, DriverSpec},
};

const STATES: [DriverState; 8] = [
    DriverState::Submitted,
    DriverState::Launching,
    DriverState::Running,
    DriverState::Relaunching,
    DriverState::Finished,
    DriverState::Killed,
    DriverState::Failed,
    DriverState::Error,
];

fn driver(state: DriverState, supervise: bool) -> Driver {
    let spec = Arc::new(DriverSpec {
        name: String::new(),
        user: String::new(),
        payload: DriverPayload::Command(Default::default()),
        cores: Cores(1),
        memory: MemoryMib(1),
        resources: Amounts::new(),
        supervise,
        priority: 0,
        needs_executors: false,
        at_most_once: false,
    });
    Driver {
        state,
        attempt: Attempt(1),
        worker: Some("w1".into()),
        ..Driver::accepted(
            "d1".into(),
            "s1".into(),
            spec,
            QueuePosition(1),
            Timestamp(1),
        )
    }
}

fn exit(code: i32) -> Exit {
    Exit {
        code: Some(code),
        signal: None,
    }
}

fn events() -> [DriverEvent; 8] {
    let reason = String::new;
    [
        DriverEvent::Reported(ProcessChange::Running),
        DriverEvent::Reported(ProcessChange::Exited(exit(0))),
        DriverEvent::Reported(ProcessChange::Exited(exit(1))),
        DriverEvent::Reported(ProcessChange::Killed(exit(0))),
        DriverEvent::Reported(ProcessChange::Killed(Exit::default())),
        DriverEvent::Reported(ProcessChange::Failed(reason())),
        DriverEvent::Lost { reason: reason() },
        DriverEvent::Evicted { reason: reason() },
    ]
}

/// The state that it has then, or what else the event means.
fn step(driver: &Driver, event: DriverEvent) -> &'static str {
    let now = Timestamp(9);
    match driver.after(event, now, now, &ClusterConfig::default()) {
        DriverStep::Becomes(next) => next.state.name(),
        DriverStep::Repeated => "repeated",
        DriverStep::Stale => "stale",
    }
}

fn table(change: impl Fn(&mut Driver), supervise: bool) -> Vec<(DriverState, [&'static str; 8])> {
    STATES
        .map(|state| {
            let mut driver = driver(state, supervise);
            change(&mut driver);
            (state, events().map(|event| step(&driver, event)))
        })
        .into_iter()
        .filter(|(_, outcomes)| outcomes != &["stale"; 8])
        .collect()
}

// What the columns are: it runs, exited well, exited badly, was ended though it exited well, never started, could not
// start, is lost, its worker's drain is over. What is not in a table is stale in every column.

#[test]
fn an_unsupervised_driver() {
    let early = [
        "stale", "FINISHED", "stale", "stale", "stale", "stale", "stale", "stale",
    ];
    assert_eq!(
        table(|_| (), false),
        [
            (
                DriverState::Launching,
                [
                    "RUNNING",
                    "FINISHED",
                    "FAILED",
                    "ERROR",
                    "RELAUNCHING",
                    "ERROR",
                    "ERROR",
                    "LAUNCHING"
                ]
            ),
            (
                DriverState::Running,
                [
                    "repeated", "FINISHED", "FAILED", "ERROR", "ERROR", "ERROR", "ERROR", "RUNNING"
                ]
            ),
            (DriverState::Relaunching, early),
        ]
    );
}

#[test]
fn a_supervised_driver() {
    let again = "RELAUNCHING";
    let early = [
        "stale", "FINISHED", "stale", "stale", "stale", "stale", "stale", "stale",
    ];
    assert_eq!(
        table(|_| (), true),
        [
            (
                DriverState::Launching,
                [
                    "RUNNING",
                    "FINISHED",
                    again,
                    again,
                    again,
                    again,
                    again,
                    "LAUNCHING"
                ]
            ),
            (
                DriverState::Running,
                [
                    "repeated", "FINISHED", again, again, again, again, again, "RUNNING"
                ]
            ),
            (DriverState::Relaunching, early),
        ]
    );
}

#[test]
fn a_driver_that_is_to_end_by_request_is_started_no_more() {
    for supervise in [false, true] {
        let rows = table(|driver| driver.kill_requested = true, supervise);
        let killed = ["KILLED"; 5];
        for (state, outcomes) in rows.iter().filter(|(state, _)| state.is_placed()) {
            assert_eq!(outcomes[1], "FINISHED", "it was faster: {state:?}");
            assert_eq!(outcomes[2..7], killed, "{state:?}");
            assert_eq!(outcomes[7], "repeated");
        }
    }
}

#[test]
fn a_driver_that_a_drain_ends_has_neither_succeeded_nor_failed() {
    let evicted = |driver: &mut Driver| driver.evicted = true;
    let again = "RELAUNCHING";
    let rows = table(evicted, false);
    assert_eq!(
        rows[0].1,
        [
            "RUNNING", "FINISHED", "FAILED", "KILLED", again, "KILLED", "KILLED", "repeated"
        ]
    );
    assert_eq!(
        rows[1].1,
        [
            "repeated", "FINISHED", "FAILED", "KILLED", "KILLED", "KILLED", "KILLED", "repeated"
        ]
    );
    for (_, outcomes) in &table(evicted, true)[..2] {
        assert_eq!(outcomes[2..7], [again; 5]);
    }
    let mut driver = driver(DriverState::Running, true);
    (driver.evicted, driver.failures) = (true, 3);
    for event in &events()[2..7] {
        let now = Timestamp(9);
        let config = ClusterConfig::default();
        let DriverStep::Becomes(next) = driver.after(event.clone(), now, now, &config) else {
            panic!("{event:?}")
        };
        assert_eq!(
            (next.failures, next.not_before, next.evicted),
            (3, None, false)
        );
    }
}
