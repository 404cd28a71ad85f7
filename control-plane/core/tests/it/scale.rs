//! Cost follows change. Counted in what a transition holds where possible; times are printed by the ignored ones, and
//! asserted once, with three orders of magnitude to spare.

#![expect(clippy::disallowed_types, reason = "measures the core, from outside")]

use std::time::{Duration, Instant};

use interrex_core::{
    command::{Command, ProcessChange, Report, Subject},
    config::{ClusterConfig, EXECUTORS_PER_APP_MAX},
    ids::{AppId, Attempt, ReportSequence},
    spec::ApplicationSpec,
    state::cluster::{ClusterState, RecoveredEntities},
    time::Timestamp,
    transition::Transition,
};

use crate::{
    specs::{app, driver, needy, register_app, submit, worker},
    support::{Cluster, START, exited},
};

/// Applies without `validate()`, which costs everything.
fn apply(state: &mut ClusterState, command: Command) -> Transition {
    state.apply(Timestamp(START), command)
}

fn state() -> ClusterState {
    ClusterState::recover(
        ClusterConfig::default(),
        Default::default(),
        Timestamp(START),
    )
}

fn register(state: &mut ClusterState, id: &str, cores: u32, memory: u64) -> Transition {
    let command = Command::RegisterWorker {
        worker: id.into(),
        spec: worker(cores, memory).into(),
        report: Default::default(),
    };
    apply(state, command)
}

#[test]
fn one_application_never_has_more_executors_than_one_message_holds() {
    let mut state = state();
    register(&mut state, "w1", 16_000, 1 << 20);
    let id = AppId::from("app-20261129143200-0000");
    apply(&mut state, register_app("a1", app(1, Some(1), None)));
    let most = usize::try_from(EXECUTORS_PER_APP_MAX).expect("few");
    assert_eq!(state.executors_of(&id).count(), most);
    assert_eq!(apply(&mut state, Command::Tick).effects.len(), 0);
    assert_eq!(state.validate(), Ok(()));
}

#[test]
fn one_pass_is_bounded_and_goes_on_with_the_next_command() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    let mut state = state();
    for n in 0..2_500 {
        apply(&mut state, submit(&format!("s{n}"), driver(1, 1)));
    }
    let first = register(&mut state, "w1", 10_000, 1 << 20);
    assert_eq!(first.effects.len(), 1_000);
    assert_eq!(state.validate(), Ok(()));
    let second = apply(&mut state, Command::Tick);
    assert_eq!(second.effects.len(), 1_000);
    let third = apply(&mut state, Command::Tick);
    assert_eq!(third.effects.len(), 500);
    assert_eq!(state.waiting_drivers(), 0);
    assert_eq!(state.validate(), Ok(()));
    // A refused command does not carry the pass on: it changes nothing.
    cluster.apply(Command::Kill {
        request: None,
        id: String::new(),
    });
}

#[test]
fn history_is_cleared_in_bounded_steps() {
    let mut state = ClusterState::recover(
        ClusterConfig {
            retained_drivers: 10_000,
            ..ClusterConfig::default()
        },
        Default::default(),
        Timestamp(START),
    );
    for n in 0..2_500 {
        apply(&mut state, submit(&format!("s{n}"), driver(1, 1)));
    }
    apply(&mut state, Command::KillAllDrivers { request: None });
    let clear = apply(&mut state, Command::ClearCompleted { request: None });
    assert_eq!(clear.mutations.len(), 1_000);
    apply(&mut state, Command::Tick);
    apply(&mut state, Command::Tick);
    assert_eq!(state.drivers().count(), 0);
    assert_eq!(state.validate(), Ok(()));
}

/// The median of 200 measurements, in microseconds.
fn median(mut measure: impl FnMut(usize) -> Command, state: &mut ClusterState) -> u128 {
    let mut times: Vec<_> = (0..200)
        .map(|n| {
            let command = measure(n);
            let start = Instant::now();
            apply(state, command);
            start.elapsed().as_micros()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// W25. Spark walks over all workers for each queued driver at each submission, and takes 1.4 s for one.
#[test]
fn a_hundred_submissions_behind_2_000_that_fit_nowhere_take_less_than_one_of_sparks() {
    let mut state = state();
    for n in 0..1_000 {
        register(&mut state, &format!("w{n}"), 1, 1_024);
    }
    for n in 0..2_000 {
        apply(&mut state, submit(&format!("q{n}"), driver(2, 1)));
    }
    let began = Instant::now();
    for n in 0..100 {
        apply(&mut state, submit(&format!("late{n}"), driver(2, 1)));
    }
    let took = began.elapsed();
    assert_eq!(state.waiting_drivers(), 2_100);
    assert!(took < Duration::from_millis(1_400), "{took:?}");
}

#[test]
#[ignore = "prints times"]
fn a_submission_behind_50_000_others() {
    let mut state = state();
    register(&mut state, "full", 1, 1024);
    apply(&mut state, submit("first", driver(1, 1)));
    for queued in [0, 1_000, 10_000, 50_000, 100_000] {
        for n in state.waiting_drivers()..queued {
            apply(
                &mut state,
                submit(&format!("q{queued}-{n}"), driver(1, 512)),
            );
        }
        let time = median(
            |n| submit(&format!("m{queued}-{n}"), driver(1, 512)),
            &mut state,
        );
        println!("{queued:>7} queued: {time} us a submission");
    }
    // The same with a core free that fits none of them: the queue must not be walked.
    register(&mut state, "small", 1, 1);
    let time = median(
        |n| submit(&format!("small-{n}"), driver(1, 512)),
        &mut state,
    );
    println!("100,000 queued, a free core without memory: {time} us a submission");
}

#[test]
#[ignore = "prints times"]
fn recovery_of_100_000_queued_drivers() {
    let mut entities = RecoveredEntities::default();
    let mut source = state();
    for n in 0..100_000 {
        apply(&mut source, submit(&format!("s{n}"), driver(1, 512)));
    }
    entities.meta = source.meta().clone();
    entities.drivers = source.drivers().map(|driver| (**driver).clone()).collect();
    entities.requests = source
        .requests()
        .map(|request| (**request).clone())
        .collect();
    let start = Instant::now();
    let state = ClusterState::recover(ClusterConfig::default(), entities, Timestamp(START));
    println!("recovery of 100,000 queued drivers: {:?}", start.elapsed());
    assert_eq!(state.waiting_drivers(), 100_000);
}

#[test]
#[ignore = "prints times"]
fn an_event_among_10_000_workers_and_2_000_applications() {
    let mut state = state();
    for n in 0..10_000 {
        register(&mut state, &format!("w{n:05}"), 16, 65_536);
    }
    let spec = || ApplicationSpec {
        executor_limit: Some(40),
        ..app(512, Some(2), Some(80))
    };
    let start = Instant::now();
    let mut apps: Vec<AppId> = Vec::new();
    for n in 0..2_000 {
        apply(&mut state, register_app(&format!("a{n}"), spec()));
    }
    apps.extend(state.apps().map(|app| app.id.clone()));
    println!(
        "2,000 applications, 80,000 executors placed in {:?}",
        start.elapsed()
    );
    for (round, filled) in [
        (0, "half full"),
        (1, "full, equal"),
        (2, "full, all different"),
    ] {
        for n in 0..if round == 0 { 0 } else { 2_000 } {
            let memory = if round == 2 { 512 + n } else { 512 };
            apply(
                &mut state,
                register_app(&format!("hungry{round}-{n}"), app(memory, Some(2), None)),
            );
        }
        let mut report = |n: usize, change: ProcessChange| {
            let executor = state
                .executors()
                .nth(round * 10_000 + n * 7)
                .expect("placed")
                .clone();
            let subject = Subject::Executor {
                app: executor.app.clone(),
                executor: executor.id,
            };
            let report = Report {
                sequence: ReportSequence(1),
                at: Timestamp(START),
                subject,
                change,
            };
            let command = Command::Report {
                worker: executor.worker.clone(),
                report,
            };
            let start = Instant::now();
            let transition = apply(&mut state, command);
            assert!(!transition.mutations.is_empty());
            start.elapsed().as_micros()
        };
        let mut running: Vec<_> = (0..100)
            .map(|n| report(n, ProcessChange::Running))
            .collect();
        let mut ended: Vec<_> = (100..200).map(|n| report(n, exited(1))).collect();
        running.sort_unstable();
        ended.sort_unstable();
        println!(
            "{filled}: RUNNING {} us, EXITED and replaced {} us",
            running[50], ended[50]
        );
    }
    assert_eq!(apps.len(), 2_000);
}

#[test]
#[ignore = "prints times"]
fn an_event_beside_50_000_held_drivers() {
    let mut state = state();
    register(&mut state, "w1", 64, 1 << 20);
    for n in 0..50_000 {
        apply(&mut state, submit(&format!("s{n}"), needy(1, 512)));
    }
    let placed = |state: &ClusterState| {
        let mut drivers = state.drivers();
        drivers
            .find(|driver| driver.state.is_placed())
            .map(|d| d.id.clone())
    };
    let time = median(|n| submit(&format!("held{n}"), needy(1, 512)), &mut state);
    println!("50,000 held: {time} us a submission of the same");
    let time = median(
        |n| submit(&format!("plain{n}"), driver(99, 512)),
        &mut state,
    );
    println!("50,000 held: {time} us a submission of another");
    let mut times: Vec<_> = (0..200)
        .map(|_| {
            let driver = placed(&state).expect("some are");
            let subject = Subject::Driver {
                driver,
                attempt: Attempt(1),
            };
            let report = Report {
                sequence: ReportSequence(1),
                at: Timestamp(START),
                subject,
                change: exited(0),
            };
            let command = Command::Report {
                worker: "w1".into(),
                report,
            };
            let start = Instant::now();
            let transition = apply(&mut state, command);
            assert_eq!(transition.effects.len(), 2, "{transition:?}");
            start.elapsed().as_micros()
        })
        .collect();
    times.sort_unstable();
    println!(
        "50,000 held: {} us for an end and the next one's start",
        times[100]
    );
}
