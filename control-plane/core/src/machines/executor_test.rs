//! Every event in every state of an executor, and what its end means.

use super::*;
use crate::{
    ids::{ExecutorId, ProfileId},
    resources::{Addresses, Cores, MemoryMib},
};

fn executor(state: ExecutorState) -> Executor {
    Executor {
        app: "a1".into(),
        id: ExecutorId(0),
        worker: "w1".into(),
        profile: ProfileId(0),
        cores: Cores(1),
        memory: MemoryMib(1),
        resources: Addresses::new(),
        state,
        drained: false,
        exit: None,
        message: String::new(),
        launched_at: Timestamp(1),
        started_at: None,
        finished_at: None,
    }
}

fn exit(code: i32) -> Exit {
    Exit {
        code: Some(code),
        signal: None,
    }
}

fn events() -> [ExecutorEvent; 8] {
    let reason = String::new;
    [
        ExecutorEvent::Reported(ProcessChange::Running),
        ExecutorEvent::Reported(ProcessChange::Exited(exit(0))),
        ExecutorEvent::Reported(ProcessChange::Exited(exit(1))),
        ExecutorEvent::Reported(ProcessChange::Killed(exit(0))),
        ExecutorEvent::Reported(ProcessChange::Failed(reason())),
        ExecutorEvent::Lost { reason: reason() },
        ExecutorEvent::KillRequested { reason: reason() },
        ExecutorEvent::Drained { reason: reason() },
    ]
}

#[test]
fn every_event_in_every_state() {
    let step = |state, event| match executor(state).after(event, Timestamp(9)) {
        ExecutorStep::Becomes(next) => next.state.name(),
        ExecutorStep::Repeated => "repeated",
        ExecutorStep::Stale => "stale",
    };
    let gone = "DECOMMISSIONED";
    let over = ["stale"; 8];
    let table = [
        (
            ExecutorState::Launching,
            [
                "RUNNING", "EXITED", "EXITED", "KILLED", "FAILED", "LOST", "KILLING", gone,
            ],
        ),
        (
            ExecutorState::Running,
            [
                "RUNNING", "EXITED", "EXITED", "KILLED", "FAILED", "LOST", "KILLING", gone,
            ],
        ),
        (
            ExecutorState::Killing,
            [
                "KILLING", "EXITED", "KILLED", "KILLED", "KILLED", "LOST", "repeated", "repeated",
            ],
        ),
        (
            ExecutorState::Decommissioned,
            [
                gone, "EXITED", "EXITED", "KILLED", "FAILED", "LOST", "KILLING", "repeated",
            ],
        ),
        (ExecutorState::Killed, over),
        (ExecutorState::Failed, over),
        (ExecutorState::Lost, over),
        (ExecutorState::Exited, over),
    ];
    for (state, outcomes) in table {
        assert_eq!(
            events().map(|event| step(state, event)),
            outcomes,
            "{state:?}"
        );
    }
}

#[test]
fn a_start_is_dated_once() {
    let mut running = executor(ExecutorState::Running);
    running.started_at = Some(Timestamp(5));
    let again = running.after(
        ExecutorEvent::Reported(ProcessChange::Running),
        Timestamp(9),
    );
    assert_eq!(again, ExecutorStep::Repeated);
}

#[test]
fn what_an_end_means_for_the_application() {
    let ending = |before: &Executor, event| match before.after(event, Timestamp(9)) {
        ExecutorStep::Becomes(after) => before.ending(&after),
        step @ (ExecutorStep::Repeated | ExecutorStep::Stale) => panic!("{step:?}"),
    };
    let ends = || {
        let mut events = events().into_iter();
        let _runs = events.next();
        events.take(5)
    };
    let of = |before: &Executor| {
        ends()
            .map(|event| ending(before, event))
            .collect::<Vec<_>>()
    };
    use Ending::{Completed, Failure, Neutral, Unasked};
    // Exited well, exited badly, ended by an order, could not start, lost.
    assert_eq!(
        of(&executor(ExecutorState::Running)),
        [Completed, Failure, Unasked, Failure, Neutral]
    );
    assert_eq!(
        of(&executor(ExecutorState::Killing)),
        [Completed, Neutral, Neutral, Neutral, Neutral]
    );
    // Its worker is being drained: what it does well counts, and what goes wrong is not its application's fault.
    let drained = Executor {
        drained: true,
        ..executor(ExecutorState::Decommissioned)
    };
    assert_eq!(
        of(&drained),
        [Completed, Neutral, Neutral, Neutral, Neutral]
    );
}
